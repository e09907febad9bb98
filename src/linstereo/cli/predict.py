"""`linstereo predict LEFT RIGHT`: disparity, depth, point clouds and pictures from files, folders or globs."""

import argparse
import glob
import os
import re
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from linstereo.cli.options import Subparsers, add_model_options, load_model
from linstereo.data.depth_maps import write_depth
from linstereo.data.disparity import write_disparity
from linstereo.data.folder import CALIBRATION_FILES, CALIBRATION_SUFFIXES, read_calibration
from linstereo.data.images import write_image
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.point_cloud import usable_depth, write_ply
from linstereo.predictor import Prediction, read_pair
from linstereo.visualize import colorize, colorize_depth

IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
FORMATS = ("png", "pfm", "npy")  # png first: the only one that can refuse a value, before anything is written
OUTPUTS = ("disparity", "depth", "cloud", "pictures")


def add_parser(subparsers: Subparsers) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "predict",
        help="disparity, depth and point clouds of one or many rectified pairs",
        description="Write the disparity of rectified pairs, in pixels of the left image, and a colour picture of it; "
        "where a calibration is known, also the depth in metres, a picture of it and a coloured point cloud (.ply).",
    )
    parser.add_argument("left", metavar="LEFT", help="left image, a folder of them, or a quoted glob")
    parser.add_argument("right", metavar="RIGHT", help="right image, folder or glob, in the same order")
    parser.add_argument("--out", default="out", metavar="DIR", help="output folder (default: out)")
    parser.add_argument(
        "--outputs",
        type=output_kinds,
        metavar="LIST",
        help=f"what to write, some of {','.join(OUTPUTS)} (default: all that the calibration allows)",
    )
    parser.add_argument(
        "--format",
        action="append",
        choices=FORMATS,
        help="of disparity and depth: pfm (default), npy, or png of 16 bits (disparity times 256; depth in "
        "millimetres, 0 if beyond 65.535 m); may be given several times",
    )
    group = parser.add_argument_group(
        "calibration",
        "By default calib.json or calib.txt in the folder of the left image; if that folder is named left, also "
        "calib/<name>.json, calib/<name>.txt, calib.json or calib.txt beside it.",
    )
    group.add_argument("--calib", metavar="FILE", help="calib.json, or calib.txt in Middlebury's format, for all pairs")
    group.add_argument("--focal", type=float, metavar="PX", help="focal length, of cameras centred on their images")
    group.add_argument("--baseline", type=float, metavar="M", help="distance between the cameras in metres")
    group.add_argument(
        "--max-depth",
        type=float,
        metavar="M",
        help="leave farther points out of the cloud (default: where the disparity is 1 px; inf keeps all)",
    )
    add_model_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Predict every pair and write the results as they come."""
    pairs = pair_up(find_images(options.left), find_images(options.right))
    names = output_names([left for left, _ in pairs])
    out = Path(options.out)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give a folder for the results")
    if options.max_depth is not None and not options.max_depth > 0:
        raise InputError(f"the largest depth is {options.max_depth}; it must be greater than 0 metres")
    outputs = options.outputs or set(OUTPUTS)
    formats = [f for f in FORMATS if f in (options.format or ["pfm"])]
    camera = partial(calibration_of, file=options.calib, focal=options.focal, baseline=options.baseline)
    # what is wrong with the input is told at once, not after the model has been loaded
    size = read_pair(*pairs[0])[0].shape[:2]
    unknown = [left for left, _ in pairs if outputs != {"disparity"} and camera(left, size) is None]
    hint = f"no calibration is known for {unknown[0]}; give --calib, or --focal and --baseline" if unknown else ""
    if hint and options.outputs and outputs & {"depth", "cloud"}:
        raise InputError(hint)
    predictor = load_model(options)
    if hint:
        print(f"NOTE: {hint} to get depth and a point cloud", file=sys.stderr)
    iterations = predictor.model.config.iterations if options.iters is None else options.iters
    with tqdm(total=len(pairs) * iterations, unit="it", desc="predict", disable=None) as bar:
        for (left, right), name in zip(pairs, names, strict=True):
            bar.set_postfix_str(name)
            images = read_pair(left, right)
            prediction = predictor.predict(
                *images, iters=options.iters, scale=options.scale, on_iteration=lambda _: bar.update()
            )
            _make_folder(out)
            height, width = images[0].shape[:2]
            calibration = None if outputs == {"disparity"} else camera(left, (height, width))
            if calibration and not (0 <= calibration.cx < width and 0 <= calibration.cy < height):
                bar.write(
                    f"WARNING: the calibration's principal point ({calibration.cx:g}, {calibration.cy:g}) is outside "
                    f"of {left}, {width} x {height} px; if the image was resized, scale the calibration too",
                    file=sys.stderr,
                )
            facts, files = write_results(
                out / name,
                prediction,
                images[0],
                calibration,
                outputs=outputs,
                formats=formats,
                max_depth=options.max_depth,
            )
            bar.write(f"{left}: {', '.join(facts)} -> {out}: {', '.join(file.name for file in files)}")


def write_results(
    stem: Path,
    prediction: Prediction,
    left: npt.NDArray[np.uint8],
    calibration: StereoCalibration | None,
    *,
    outputs: Collection[str],
    formats: Sequence[str],
    max_depth: float | None = None,
) -> tuple[list[str], list[Path]]:
    """Write what is asked for, of `OUTPUTS`, and known.

    Args:
        stem: how the paths of all files begin.
        prediction: for the pair.
        left: the left image, uint8 [H, W, 3] RGB.
        calibration: of the pair; without it there is neither depth nor cloud.
        outputs: some of `OUTPUTS`.
        formats: of disparity and depth, some of `FORMATS`.
        max_depth: farther points are left out of the cloud, metres; None stands for `usable_depth`.

    Returns:
        What to tell about the results, and the files.
    """
    disparity = prediction.disparity
    facts, files = [f"disparity {disparity.min():.2f} to {disparity.max():.2f} px"], []

    def file(ending: str) -> Path:
        files.append(stem.with_name(f"{stem.name}_{ending}"))
        return files[-1]

    if "disparity" in outputs:
        for suffix in formats:
            write_disparity(file(f"disparity.{suffix}"), disparity)
    if "pictures" in outputs:
        write_image(file("disparity_color.png"), colorize(disparity))
    if calibration is None:
        return facts, files
    depth = prediction.depth(calibration)
    known = depth[np.isfinite(depth)]
    facts.append(f"depth {known.min():,.2f} to {known.max():,.2f} m" if known.size else "no depth")
    if "depth" in outputs:
        for suffix in formats:
            write_depth(file(f"depth.{suffix}"), depth)
    limit = usable_depth(calibration) if max_depth is None else max_depth
    if "pictures" in outputs:
        write_image(file("depth_color.png"), colorize_depth(depth, max_depth=limit))
    if "cloud" in outputs:
        cloud = prediction.point_cloud(left, calibration, max_depth=limit)
        write_ply(file("cloud.ply"), cloud)
        facts.append(f"{len(cloud):,} points up to {limit:.3g} m")
    return facts, files


def calibration_of(
    left: Path,
    size: Sequence[int],
    *,
    file: str | None = None,
    focal: float | None = None,
    baseline: float | None = None,
) -> StereoCalibration | None:
    """The calibration of a pair, or None if none is known.

    Args:
        left: the left image, beside which files are looked for if nothing else is given.
        size: its height and width, px.
        file: a calibration file.
        focal: focal length in px, of a camera whose axis goes through the centre of the image.
        baseline: its baseline in metres.
    """
    if focal is not None or baseline is not None:
        if focal is None or baseline is None or file is not None:
            raise InputError("--focal and --baseline belong together, without --calib; give both or neither")
        return StereoCalibration(focal=focal, baseline=baseline, cx=(size[1] - 1) / 2, cy=(size[0] - 1) / 2)
    candidates = [left.parent / name for name in CALIBRATION_FILES]
    if left.parent.name == "left":
        root = left.parent.parent
        candidates += [root / "calib" / f"{left.stem}{suffix}" for suffix in CALIBRATION_SUFFIXES]
        candidates += [root / name for name in CALIBRATION_FILES]
    found = next((path for path in candidates if path.is_file()), None) if file is None else Path(file)
    return None if found is None else read_calibration(found)


def output_kinds(text: str) -> set[str]:
    """Parse "disparity,cloud" for argparse."""
    kinds = {kind.strip() for kind in text.split(",")}
    if not kinds <= set(OUTPUTS):
        wrong = ", ".join(sorted(kinds - set(OUTPUTS)))
        raise argparse.ArgumentTypeError(f"{wrong!r} is not one of {', '.join(OUTPUTS)}; write them as a,b,c")
    return kinds


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
