"""What commands that train have in common: options, threads, workers, interruption, and showing how far they are."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from linstereo.cli.method_options import cpu_threads
from linstereo.cli.options import MAX_WORKERS, check_count, check_threads
from linstereo.cli.process import SignalledError

if TYPE_CHECKING:
    from linstereo.training.recipe import Recipe, Stage
    from linstereo.training.state import TrainingProgress


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Declare what a recipe is trained and measured on, how it is changed, and how it is run."""
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="SOURCE",
        help="where pairs come from instead of the recipe's choice: synth, or NAME[:SPLIT]=ROOT such as "
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


def check_session_options(options: argparse.Namespace) -> None:
    """Refuse numbers of threads and processes that cannot be had, and a folder that cannot be written to."""
    from linstereo.runs import check_output_folder

    check_threads(options.threads)
    check_count("--workers", options.workers, least=0, most=MAX_WORKERS)
    if options.cache_features is not None:
        check_output_folder(options.cache_features)


class TrainingDisplay:
    """A bar on a terminal, a line now and then in a file.

    Args:
        recipe: what is trained, for the number of steps.
        leads: whether this process speaks to the user.
        notes: to be told when the training begins; not if it is refused, when only the reason matters.
    """

    def __init__(self, recipe: "Recipe", *, leads: bool, notes: Sequence[str] = ()) -> None:
        self._total = sum(stage.steps for stage in recipe.stages)
        self._leads = leads
        self._notes = list(notes)
        self._bar: Any = None

    def say(self, text: str) -> None:
        """Print a line without disturbing the bar."""
        from tqdm import tqdm

        if self._leads:
            for line in (*self._notes, text):
                tqdm.write(line, file=sys.stderr)
            self._notes.clear()

    def on_step(self, stage: "Stage", progress: "TrainingProgress", figures: dict[str, float]) -> None:
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


class Interruption:
    """Whether the user has asked to stop: True when called after Ctrl-C or SIGTERM."""

    def __init__(self) -> None:
        self._number: int | None = None

    def __call__(self) -> bool:
        """Whether a signal has come."""
        return self._number is not None

    def on_signal(self, number: int, _frame: object) -> None:
        """Remember the first signal; the second one ends the command at once."""
        if self._number is not None:
            raise SignalledError(number)
        self._number = number

    @property
    def exit_code(self) -> int:
        """Of a command that stopped before it was done; as of Ctrl-C if the signal went to another process of it."""
        return 128 + (signal.SIGINT if self._number is None else self._number)


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Ctrl-C or SIGTERM lets the step end and the checkpoint be written; a second one stops at once."""
    interruption = Interruption()
    before = {number: signal.signal(number, interruption.on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
