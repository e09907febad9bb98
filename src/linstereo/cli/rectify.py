"""`linstereo rectify LEFT RIGHT --calib FILE`: rectified pairs, their calibration, and pictures to check."""

import argparse
from typing import TYPE_CHECKING

from linstereo.cli.options import add_calibration_options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from linstereo.cli.pairs import Pair
    from linstereo.geometry.rectification import Rectification


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Rectify raw pairs with the calibration of their cameras, so that corresponding points lie on the same row. "
        "Writes DIR/left, DIR/right, DIR/calib.json for the rectified pairs, which `linstereo predict` finds by "
        "itself, and DIR/rows: both images side by side with lines along the rows, on which the same points must lie."
    )
    parser.add_argument("left", nargs="?", metavar="LEFT", help="left image, a folder of them, or a quoted glob")
    parser.add_argument("right", nargs="?", metavar="RIGHT", help="right image, folder or glob; paired as by predict")
    parser.add_argument("--list", metavar="FILE", help="read the pairs from a text file instead, as predict does")
    parser.add_argument("--out", default="rectified", metavar="DIR", help="output folder (default: rectified)")
    group = parser.add_argument_group("calibration")
    add_calibration_options(group, required=True)
    group.add_argument(
        "--alpha",
        type=float,
        default=0.0,
        metavar="A",
        help="0 crops to what both images fill (default), 1 keeps all pixels, with black around them",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Rectify every pair."""
    from tqdm import tqdm

    from linstereo.cli.pairs import check_complete, output_names
    from linstereo.cli.prediction_jobs import given_pairs
    from linstereo.data.formats.calibration_files import write_calibration
    from linstereo.data.formats.images import write_image
    from linstereo.files import make_parent
    from linstereo.geometry.pair_checks import measure_pair
    from linstereo.image_pairs import read_pair
    from linstereo.memory_limits import memory_errors_told
    from linstereo.runs import output_folder
    from linstereo.visualize import row_picture

    pairing = given_pairs(options)
    check_complete(pairing)
    if pairing.note:
        _note(pairing.note)
    names = output_names([left for left, _ in pairing.pairs])
    size, rectification = _rectification(pairing.pairs, options)
    with output_folder(options.out) as out:
        write_calibration(out / "calib.json", rectification.calibration, size=size)
        for (left, right), name in zip(tqdm(pairing.pairs, unit="pair", disable=None), names, strict=True):
            with memory_errors_told(str(left), "use smaller images"):
                images = read_pair(left, right, on_note=_note)
                made = rectification.left(images[0]), rectification.right(images[1])
                before, after = measure_pair(*images), measure_pair(*made)
                pictures = {"left": made[0], "right": made[1], "rows": row_picture(*made)}
            for folder, picture in pictures.items():
                write_image(make_parent(out / folder / f"{name}.png"), picture)
            offsets = f"rows off by {before.row_offset:.2f} px before, {after.row_offset:.2f} px after"
            told = (
                f"{offsets} (median of {after.agreeing} matches)" if after.agreeing else "no matches to check the rows"
            )
            tqdm.write(f"{left}: {told} -> {out}/left, right, rows: {name}.png")


def _note(text: str) -> None:
    import sys

    from tqdm import tqdm

    tqdm.write(f"NOTE: {text}", file=sys.stderr)


def _rectification(pairs: "Sequence[Pair]", options: argparse.Namespace) -> tuple[tuple[int, int], "Rectification"]:
    """Width and height of all pairs, and their rectification; everything is checked before anything is written."""
    import sys

    from linstereo.cli.cameras import calibration_of, doubts
    from linstereo.data.formats.calibration_fields import naming_calibration
    from linstereo.errors import InputError
    from linstereo.geometry.rectification import Rectification
    from linstereo.geometry.stereo_rig import StereoRig
    from linstereo.image_pairs import pair_size

    sizes: dict[tuple[int, int], Path] = {}
    for left, right in pairs:
        sizes.setdefault(pair_size(left, right), left)
    (size, first), *others = sizes.items()
    if others:
        (height, width), other = others[0]
        raise InputError(
            f"{first} is {size[1]} x {size[0]} px, but {other} is {width} x {height} px; rectify one size at a time"
        )
    rig = calibration_of(
        first,
        size,
        file=options.calib,
        resize=options.scale_calib,
        unit=options.calib_unit,
        fisheye=options.fisheye,
    )
    if not isinstance(rig, StereoRig):
        raise InputError(
            f"{options.calib} is for rectified images, so there is nothing to do; predict them as they are"
        )
    for doubt in doubts(rig, first, size, water=options.water):
        print(f"WARNING: {doubt}", file=sys.stderr)
    with naming_calibration(options.calib):
        return (size[1], size[0]), Rectification(rig, alpha=options.alpha)
