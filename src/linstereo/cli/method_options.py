"""Options that say whose disparities to measure or submit: the network's, SGBM's, or another tool's files."""

import argparse
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from linstereo.cli.options import add_model_options, load_model
from linstereo.errors import InputError

if TYPE_CHECKING:
    from linstereo.evaluation.methods import Method

_FOLDER = "folder:"
_MODEL_OPTIONS = ("model", "backbone", "iters", "scale", "device", "precision", "backend")


def add_method_options(parser: argparse.ArgumentParser) -> None:
    """Declare the method, and the options of the network."""
    parser.add_argument(
        "--method",
        default="model",
        metavar="METHOD",
        help="model (the network, default), sgbm (OpenCV's StereoSGBM), or folder:DIR (predictions of another tool, "
        "DIR/<name of the sample>.pfm, .npy, .exr or 16-bit .png)",
    )
    add_model_options(parser)


def build_method(options: argparse.Namespace, *, title: str | None, device: str | None = None) -> "Method":
    """The method that the options describe; `device` is where the network runs unless the user says otherwise."""
    from linstereo.evaluation.baselines import FolderMethod, SgbmMethod
    from linstereo.evaluation.methods import ModelMethod

    chosen: str = options.method
    if chosen == "model":
        options.device = device if options.device is None else options.device
        return ModelMethod(
            load_model(options),
            iters=options.iters,
            scale=options.scale,
            title=title,
            zero_start=getattr(options, "zero_start", False),
        )
    given = [name for name in _MODEL_OPTIONS if getattr(options, name) is not None]
    given += ["zero-start"] if getattr(options, "zero_start", False) else []
    if given:
        raise InputError(f"--{given[0]} is for the network, not for --method {chosen}; leave one of the two out")
    if chosen == "sgbm":
        return SgbmMethod(title=title)
    if chosen.startswith(_FOLDER) and chosen != _FOLDER:
        return FolderMethod(Path(chosen.removeprefix(_FOLDER)), title=title)
    raise InputError(f"there is no method {chosen!r}; choose among model, sgbm and folder:DIR")


@contextlib.contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Let PyTorch use `count` threads on the CPU for as long as the context lasts."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[str], None]]:
    """A bar on the terminal, see `linstereo.evaluation.runner.ProgressBar`."""
    from tqdm import tqdm

    with tqdm(total=total, desc=title, unit="img", disable=None) as bar:

        def on_image(name: str) -> None:
            bar.set_postfix_str(name, refresh=False)
            bar.update()

        yield on_image


@contextlib.contextmanager
def no_progress(title: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show nothing, for all but one of several processes."""
    yield lambda name: None
