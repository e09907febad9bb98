"""What commands that train have in common: options, threads, workers, interruption, and showing how far they are."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from linstereo.cli.method_options import cpu_threads

if TYPE_CHECKING:
    from linstereo.training.recipe import Recipe, Stage
    from linstereo.training.state import Progress


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Declare what a recipe is trained and measured on, how it is changed, and how it is run."""
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="SOURCE",
        help="where pairs come from instead of the recipe's choice: synth, or NAME=ROOT[:SPLIT] such as "
        "sceneflow=/data/sceneflow or folder=/my/pairs; may be given several times, with factors (2*folder=/my/pairs) "
        "and parts (folder=/my/pairs[:80%%])",
    )
    parser.add_argument(
        "--validation",
        action="append",
        default=[],
        metavar="SOURCE",
        help="the same for the pairs to measure (default: the recipe's; if these are rendered and --data is given, the "
        "last 5 %% of the data, which are then not trained on)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="changes",
        metavar="FIELD=VALUE",
        help="change a field of the recipe in all stages, or as STAGE.FIELD=VALUE in one, or model.FIELD=VALUE of the "
        "network; may be given several times",
    )
    parser.add_argument(
        "--skip-bad", action="store_true", help="replace pairs that cannot be read by others instead of stopping"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes that load data (default: 2, or the cores)")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads of the network (default: PyTorch's)")
    parser.add_argument(
        "--cache-features",
        metavar="DIR",
        help="keep the features of frozen backbones in this folder; the recipe's field variants must be 1 or more",
    )
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1, ... (default: CUDA if there is one)")
    parser.add_argument("--backbone", metavar="PATH", help="official DA3 model.safetensors, or its hub name")


def chosen_recipe(name: str, options: argparse.Namespace) -> "tuple[Recipe, list[str]]":
    """The recipe `name` with the changes that the options ask for, and what the user should be told about it."""
    from linstereo.training.held_out import hold_out
    from linstereo.training.recipe_files import load_recipe

    changes = list(options.changes)
    for field in ("data", "validation"):
        if getattr(options, field):
            changes.append(f"{field}={json.dumps(getattr(options, field))}")
    recipe = load_recipe(name, changes=changes)
    chosen = any(change.partition("=")[0].rpartition(".")[2] == "validation" for change in changes)
    return hold_out(recipe) if options.data and not chosen else (recipe, [])


class TrainingDisplay:
    """A bar on a terminal, a line now and then in a file.

    Args:
        recipe: what is trained, for the number of steps.
        leads: whether this process speaks to the user.
    """

    def __init__(self, recipe: "Recipe", *, leads: bool) -> None:
        self._total = sum(stage.steps for stage in recipe.stages)
        self._leads = leads
        self._bar: Any = None

    def say(self, text: str) -> None:
        """Print a line without disturbing the bar."""
        from tqdm import tqdm

        if self._leads:
            tqdm.write(text, file=sys.stderr)

    def on_step(self, stage: "Stage", progress: "Progress", figures: dict[str, float]) -> None:
        """Show a step, see `linstereo.training.trainer.Session`."""
        from tqdm import tqdm

        if not self._leads:
            return
        if self._bar is None:
            self._bar = tqdm(total=self._total, initial=progress.total_steps - 1, unit="step", disable=None)
        self._bar.update()
        text = f"loss {figures['total']:.3f}"
        if "epe" in figures:
            text += f", EPE {figures['epe']:.2f}"
        if self._bar.disable:
            if progress.step % stage.log_every == 0:
                self.say(f"step {progress.total_steps} ({stage.name} {progress.step}/{stage.steps}): {text}")
        else:
            self._bar.set_description(stage.name, refresh=False)
            self._bar.set_postfix_str(text, refresh=False)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


def default_workers() -> int:
    """Processes that load data unless the user says otherwise."""
    return min(2, os.cpu_count() or 1)


@contextmanager
def chosen_threads(count: int | None) -> Iterator[None]:
    """Let PyTorch use `count` threads as long as the context lasts; None leaves the choice to it."""
    if count is None:
        yield
    else:
        with cpu_threads(count):
            yield


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C or SIGTERM lets the step end and the checkpoint be written; a second one stops at once."""
    asked = False

    def on_signal(number: int, _frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
