"""Where training pairs come from, and in which order.

A source is written as text:

    folder=/my/pairs                  a dataset of `linstereo.data.datasets.catalogue` and its root
    sceneflow:train=/data/sceneflow   with a split, see `linstereo.data.datasets.naming`
    synth                             pairs rendered on the fly, each one new
    synth:height=288,underwater=0.5   with settings of the engine, and seed=N; count=N repeats the same N pairs
    folder=/my/pairs[:80%]            the first 80 % of its pairs, in the order of their names; [80%:] for the rest
    2*folder=/my/pairs                drawn twice as often as a source without a factor

The order is a pure function of the recipe and of the number of a draw, so that neither worker processes nor an
interruption change it: draws come in blocks that hold the sources in the proportion of their factors, and each source
goes through all its pairs in a new random order before it repeats one.
"""

import dataclasses
import functools
import re
import typing
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linstereo.data.datasets.catalogue import open_dataset
from linstereo.data.datasets.naming import parse_dataset
from linstereo.data.sample import DatasetPart, StereoDataset
from linstereo.errors import InputError

if TYPE_CHECKING:
    from linstereo.training.recipe import Recipe

ENDLESS = 1 << 40
"""Length of a source whose pairs are all different."""
_BLOCK = 100  # draws in which the proportions of the sources hold


class Source(NamedTuple):
    """A dataset, how it was written, and how often to draw from it."""

    text: str
    dataset: StereoDataset
    weight: float
    endless: bool


class WrittenSource(NamedTuple):
    """The text of a source taken apart: its factor, where the pairs are, and the part of them, such as "[:80%]"."""

    weight: float
    origin: str
    part: str


@dataclasses.dataclass(frozen=True)
class Draw:
    """Which pair a draw is: `index` in source `source`, seen for the `epoch`-th time (from 0)."""

    source: int
    index: int
    epoch: int


def open_source(text: str, *, seed: int) -> Source:
    """Open what `text` describes; `seed` is used for rendered pairs unless the text has its own."""
    weight, origin, part = split_source(text)
    if is_rendered(text):
        dataset, endless = _open_synth(origin.removeprefix("synth").removeprefix(":"), seed=seed)
    else:
        named = parse_dataset(origin, what="the data source", otherwise=", or synth")
        dataset, endless = open_dataset(named.name, named.root, named.split), False
    if part:
        if endless:
            raise InputError(f"the data source {text!r} is a part of pairs without end; give their number with count=N")
        dataset = _part_of(dataset, part, text=text)
    if len(dataset) == 0:
        raise InputError(f"the data source {text!r} holds no pairs; check its folder")
    return Source(text, dataset, weight, endless)


def split_source(text: str) -> WrittenSource:
    """Take the text of a source apart."""
    match = re.fullmatch(r"(?:(\d+(?:\.\d+)?)\*)?(.+?)(\[(?:\d+%)?:(?:\d+%)?\])?", text.strip())
    if match is None:
        raise InputError(f"the data source {text!r} is empty; write NAME=ROOT or synth")
    weight = float(match[1] or 1)
    if weight <= 0:
        raise InputError(f"the data source {text!r} is drawn {weight} times; use a factor above 0")
    return WrittenSource(weight, match[2], match[3] or "")


def is_rendered(text: str) -> bool:
    """Whether a source is of rendered pairs, which need no files."""
    return split_source(text).origin.partition(":")[0] == "synth"


def require_rendering(texts: Iterable[str]) -> None:
    """Raise `MissingExtraError` if one of the sources is rendered, but the packages for that are not installed."""
    if any(is_rendered(text) for text in texts):
        import_module("linstereo.synthesis.engine")


def _part_of(dataset: StereoDataset, part: str, *, text: str) -> StereoDataset:
    first, last = part[1:-1].replace("%", "").split(":")
    start, stop = int(first or 0), int(last or 100)
    if not start < stop <= 100:
        raise InputError(f"the data source {text!r} is no part of its pairs; write [:80%], [80%:] or [20%:40%]")
    count = len(dataset)
    return DatasetPart(dataset, count * start // 100, count * stop // 100)


def open_sources(texts: Sequence[str], *, seed: int, what: str) -> list[Source]:
    """Open all of them; `what` is said if there is none."""
    if not texts:
        raise InputError(f"there is no {what}; add --data NAME=ROOT (or data = [...] to the recipe)")
    return [open_source(text, seed=seed) for text in texts]


def check_sources(recipe: "Recipe") -> None:
    """Open everything that the stages of a recipe train and are measured on, to refuse at once what is not there."""
    for stage in recipe.stages:
        for text in (*stage.data, *stage.validation):
            open_source(text, seed=recipe.seed)


def _open_synth(options: str, *, seed: int) -> tuple[StereoDataset, bool]:
    from linstereo.synthesis.engine import EngineSettings, SyntheticPairs  # needs an extra, unlike the rest of training
    from linstereo.training.recipe import convert

    hints: dict[str, Any] = {**typing.get_type_hints(EngineSettings), "seed": int, "count": int}
    known = {field.name for field in dataclasses.fields(EngineSettings)} | {"seed", "count"}
    values: dict[str, Any] = {"seed": seed, "count": 0}
    for option in filter(None, options.split(",")):
        name, equals, text = option.partition("=")
        if not equals or name not in known:
            raise InputError(f"rendered pairs have no setting {option!r}; choose among {', '.join(sorted(known))}")
        values[name] = convert(_number(text), hints[name], name=name)
    own_seed, count = values.pop("seed"), values.pop("count")
    if own_seed < 0 or count < 0:
        raise InputError(f"seed={own_seed} and count={count} of rendered pairs must not be negative")
    pairs = SyntheticPairs(EngineSettings(**values), seed=own_seed, count=count or ENDLESS)
    return pairs, count == 0


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class DrawOrder:
    """The pair of every draw 0, 1, 2, ...; a pure function of seed, sources and the number of the draw."""

    def __init__(self, sources: Sequence[Source], *, seed: int) -> None:
        self._seed = seed
        self._lengths = [len(source.dataset) for source in sources]
        self._endless = [source.endless for source in sources]
        self._shares = _block_shares([source.weight for source in sources])
        self._block = tuple(np.repeat(np.arange(len(sources)), self._shares).tolist())

    def __getitem__(self, number: int) -> Draw:
        """The pair of draw `number`."""
        block, place = divmod(number, len(self._block))
        order = _shuffled((self._seed, 1, block), self._block)
        source = int(order[place])
        earlier = block * int(self._shares[source]) + int(np.count_nonzero(order[:place] == source))
        if self._endless[source]:
            return Draw(source, earlier, 0)
        epoch, position = divmod(earlier, self._lengths[source])
        order = _shuffled((self._seed, 2, source, epoch), self._lengths[source])
        return Draw(source, int(order[position]), epoch)


@functools.lru_cache(maxsize=64)
def _shuffled(seed: tuple[int, ...], things: int | tuple[int, ...]) -> NDArray[np.int64]:
    """Numbers, or all below a number, in random order."""
    order: NDArray[np.int64] = np.random.default_rng(seed).permutation(things)
    return order


def _block_shares(weights: Sequence[float]) -> NDArray[np.int64]:
    """Draws of each source in a block: at least one, else in proportion to the weights."""
    if len(weights) == 1:
        return np.ones(1, np.int64)
    exact = np.asarray(weights) / np.sum(weights) * _BLOCK
    shares: NDArray[np.int64] = np.maximum(np.rint(exact), 1).astype(np.int64)
    return shares
