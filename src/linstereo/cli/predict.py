"""`linstereo predict LEFT RIGHT`: disparity maps and their pictures from files, folders or globs."""

import argparse
import glob
import os
import re
from collections import Counter
from pathlib import Path

from tqdm import tqdm

from linstereo.cli.options import Subparsers, add_model_options, load_model
from linstereo.data.disparity import write_disparity
from linstereo.data.images import write_image
from linstereo.errors import InputError
from linstereo.predictor import read_pair
from linstereo.visualize import colorize

IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
FORMATS = ("png", "pfm", "npy")  # png first: the only one that can refuse a value, before anything is written


def add_parser(subparsers: Subparsers) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "predict",
        help="disparity of one or many rectified pairs",
        description="Write the disparity of rectified pairs, in pixels of the left image, and a colour picture of it.",
    )
    parser.add_argument("left", metavar="LEFT", help="left image, a folder of them, or a quoted glob")
    parser.add_argument("right", metavar="RIGHT", help="right image, folder or glob, in the same order")
    parser.add_argument("--out", default="out", metavar="DIR", help="output folder (default: out)")
    parser.add_argument(
        "--format",
        action="append",
        choices=FORMATS,
        help="pfm (default), png (16 bit, value / 256) or npy; may be given several times",
    )
    parser.add_argument("--no-picture", action="store_true", help="do not write the colour picture")
    add_model_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Predict every pair and write the results as they come."""
    pairs = pair_up(find_images(options.left), find_images(options.right))
    names = output_names([left for left, _ in pairs])
    out = Path(options.out)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give a folder for the results")
    formats = [f for f in FORMATS if f in (options.format or ["pfm"])]
    read_pair(*pairs[0])  # a bad pair is told at once, not after the model has been loaded
    predictor = load_model(options)
    iterations = predictor.model.config.iterations if options.iters is None else options.iters
    with tqdm(total=len(pairs) * iterations, unit="it", desc="predict", disable=None) as bar:
        for (left, right), name in zip(pairs, names, strict=True):
            bar.set_postfix_str(name)
            prediction = predictor.predict(
                left, right, iters=options.iters, scale=options.scale, on_iteration=lambda _: bar.update()
            )
            _make_folder(out)
            written = []
            for suffix in formats:
                written.append(out / f"{name}_disparity.{suffix}")
                write_disparity(written[-1], prediction.disparity)
            if not options.no_picture:
                written.append(out / f"{name}_disparity_color.png")
                write_image(written[-1], colorize(prediction.disparity))
            low, high = prediction.disparity.min(), prediction.disparity.max()
            bar.write(f"{left}: disparity {low:.2f} to {high:.2f} px -> {', '.join(map(str, written))}")


def find_images(pattern: str) -> list[Path]:
    """The images that a path, a folder or a glob stands for, in natural order (2 before 10)."""
    path = Path(pattern)
    if path.is_dir():
        found = [p for p in path.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES]
        missing = f"the folder {path} holds no image; give one with {', '.join(sorted(IMAGE_SUFFIXES))} files"
    elif path.exists() or not glob.has_magic(pattern):
        return [path]
    else:
        found = [Path(p) for p in glob.glob(pattern, recursive=True) if Path(p).is_file()]  # noqa: PTH207 (Path.glob takes no absolute patterns)
        missing = f"nothing matches {pattern!r}; check the pattern"
    if not found:
        raise InputError(missing)
    return sorted(found, key=_natural_order)


def pair_up(left: list[Path], right: list[Path]) -> list[tuple[Path, Path]]:
    """Pair images by name where both sides have the same names, else by order; both must have as many."""
    if len(left) != len(right):
        raise InputError(
            f"there are {len(left)} left images ({left[0]} ...) but {len(right)} right ones ({right[0]} ...); "
            "give as many of each"
        )
    by_name = {path.stem: path for path in right}
    if len(by_name) == len(right) and {path.stem for path in left} == set(by_name):
        return [(path, by_name[path.stem]) for path in left]
    return list(zip(left, right, strict=True))


def output_names(paths: list[Path]) -> list[str]:
    """A file name for each input: its stem, or as much of its path as tells it from the others."""
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["_".join(path.with_suffix("").parts[-depth:]).replace(os.sep, "") for path in paths]
        if max(Counter(names).values()) == 1:
            return names
    raise InputError(f"{paths[0]} and another input have the same name; give each image once")


def _natural_order(path: Path) -> list[tuple[int, int | str]]:
    pieces = re.split(r"(\d+)", str(path))
    return [(0, int(piece)) if piece.isdigit() else (1, piece) for piece in pieces]


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder {folder}: {error.strerror}; choose another with --out") from error
