"""`linstereo predict LEFT RIGHT`: disparity, depth, point clouds and pictures from files, folders or globs."""

import argparse

from linstereo.cli.options import (
    add_camera_options,
    add_depth_limit,
    add_model_options,
    memory_size,
    pixels,
    share,
    thread_count,
)

FORMATS = ("pfm", "npy", "png", "exr")
OUTPUTS = ("disparity", "depth", "confidence", "masks", "cloud", "pictures")
"""As in `linstereo.prediction_files`, which would load OpenCV."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Write the disparity of pairs, in pixels of the left image, and a colour picture of it; "
        "pairs must be rectified, or have a calibration of the raw cameras with which they are rectified first; "
        "where a calibration is known, also the depth in metres, a picture of it and a coloured point cloud in metres "
        "(.ply); if the model has learned it, the confidence: the probability that the disparity is off by less than "
        "1 px or 5 %. "
        "All pairs are checked before the first one is computed."
    )
    parser.epilog = "Exit code: 0 if all pairs were predicted, 1 if --skip-bad skipped some, 2 if the input is bad."
    parser.add_argument("left", nargs="?", metavar="LEFT", help="left image, a folder of them, or a quoted glob")
    parser.add_argument(
        "right",
        nargs="?",
        metavar="RIGHT",
        help="right image, folder or glob; several images are paired by their names (0001 with 0001, a_left with "
        "a_right, im0 with im1), never by order alone",
    )
    parser.add_argument(
        "--list",
        metavar="FILE",
        help="read the pairs from a text file instead: LEFT RIGHT in each line, relative to the current folder, names "
        "with blanks in quotes; lines that start with # are skipped",
    )
    parser.add_argument(
        "--skip-bad",
        action="store_true",
        help="skip pairs that cannot be predicted, and images without a partner, instead of stopping; each is "
        "named on stderr",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="treat warnings about a pair or its calibration as errors: rows that are not aligned, left and right "
        "swapped, identical or unrelated images, a calibration of another size or unit",
    )
    parser.add_argument("--out", default="out", metavar="DIR", help="output folder (default: out)")
    parser.add_argument(
        "--outputs",
        type=output_kinds,
        metavar="LIST",
        help=f"what to write, some of {','.join(OUTPUTS)} (default: all that is known); masks are of edges where "
        "points would fly and, with --occlusion, of occluded pixels",
    )
    parser.add_argument(
        "--format",
        action="append",
        choices=FORMATS,
        help="of maps: pfm (default), npy or exr with float32 values (disparity in px, depth in metres, confidence "
        "from 0 to 1), or png of 16 bits (disparity times 256; depth in millimetres, 0 if beyond 65.535 m; confidence "
        "times 65535); may be given several times",
    )
    parser.add_argument(
        "--occlusion",
        action="store_true",
        help="predict the right view too, which takes twice the time, to find pixels that only the left camera sees",
    )
    group = parser.add_argument_group(
        "point cloud",
        "Points in metres. By default those of low confidence, at edges between near and far, and occluded ones (with "
        "--occlusion) are left out.",
    )
    group.add_argument("--keep-all", action="store_true", help="keep them")
    group.add_argument(
        "--min-confidence",
        type=share,
        metavar="P",
        help="lowest probability that a point's depth is off by less than 5 %%, from 0 to 1 (default: 0.895)",
    )
    group.add_argument("--normals", action="store_true", help="write the surface normals too")
    add_depth_limit(group)
    group = parser.add_argument_group(
        "calibration",
        "By default calib.json or calib.txt in the folder of the left image; if that folder is named left, also "
        "calib/<name>.json, calib/<name>.txt, calib.json or calib.txt beside it.",
    )
    add_camera_options(group, raw="by default its pairs are raw, and rectified before they are predicted")
    add_model_options(parser)
    parser.add_argument(
        "--volume",
        choices=("stored", "on_the_fly"),
        help="hold all correlations, which is faster, or compute them as they are needed (default: stored while they "
        "take at most 1 GiB and fit into memory)",
    )
    parser.add_argument(
        "--memory",
        type=memory_size,
        metavar="SIZE",
        help="run large pairs so that the process takes at most about this much, such as 2GB (CPU; default: what is "
        "free)",
    )
    parser.add_argument(
        "--stop-below",
        type=pixels,
        metavar="PX",
        help="run no further iteration after one that changed the disparity by less than this on average, in pixels of "
        "the left image, such as 0.05 (default: run all)",
    )
    parser.add_argument("--threads", type=thread_count, metavar="N", help="CPU threads (default: PyTorch's choice)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Predict every pair; returns the exit code."""
    from linstereo.cli.prediction_jobs import predict_given_pairs

    return predict_given_pairs(options)


def output_kinds(text: str) -> set[str]:
    """Parse "disparity,cloud" for argparse."""
    kinds = {kind.strip() for kind in text.split(",")}
    if not kinds <= set(OUTPUTS):
        wrong = ", ".join(sorted(kinds - set(OUTPUTS)))
        raise argparse.ArgumentTypeError(f"{wrong!r} is not one of {', '.join(OUTPUTS)}; write them as a,b,c")
    return kinds
