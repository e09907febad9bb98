"""`linstereo track SOURCE [RIGHT]`: depth of every frame of a video, a camera, two folders or a ROS bag."""

import argparse

from linstereo.cli.options import add_camera_options, add_depth_limit, add_model_options, thread_count

OUTPUTS = ("disparity", "depth", "cloud", "video")
FORMATS = ("png", "pfm", "npy")
VIEWER = "viewer"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Follow a rectified stereo sequence: the disparity of every frame, in pixels of the left image, started from "
        "the frame before where that still holds; a video of it in one range of colours; and where a calibration is "
        "known, the depth. Raw sequences are rectified with the calibration of their cameras. The stamps of all frames "
        "are in frames.csv. A run that was stopped is resumed by the same command."
    )
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a video that shows both images; with RIGHT the left video, folder or quoted glob; a ROS bag (.bag, "
        ".mcap, .db3, or the folder of a ROS 2 bag); the number of a camera, or the URL of a stream",
    )
    parser.add_argument(
        "right", nargs="?", metavar="RIGHT", help="right video, folder, glob, camera or stream; none for a bag"
    )
    parser.add_argument(
        "--layout",
        choices=("side-by-side", "top-bottom"),
        help="of a video that shows both images: left and right, or left above right (default: side-by-side)",
    )
    parser.add_argument(
        "--fps",
        type=float,
        metavar="F",
        help="frames per second of a source that does not say it, from 0.001 to 100000 (default: 30)",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="stop after N frames")
    group = parser.add_argument_group("ROS bags")
    group.add_argument(
        "--left-topic", metavar="TOPIC", help="of the left images (default: the only pair of left and right topics)"
    )
    group.add_argument("--right-topic", metavar="TOPIC", help="of the right images")
    group.add_argument(
        "--sync-tolerance",
        type=float,
        metavar="S",
        help="seconds by which the stamps of a left and a right image may differ, at most 3600 (default: 0.01)",
    )
    group = parser.add_argument_group("results")
    group.add_argument("--out", default="sequence", metavar="DIR", help="output folder (default: sequence)")
    group.add_argument(
        "--outputs",
        type=output_kinds,
        metavar="LIST",
        help=f"what to write, some of {','.join(OUTPUTS)} (default: disparity,video, and depth if a calibration is "
        "known); a cloud is a coloured .ply in metres, and the video is made from the disparities",
    )
    group.add_argument(
        "--format",
        choices=FORMATS,
        default="png",
        help="of disparity and depth: png of 16 bits (default; disparity times 256; depth in millimetres, 0 if "
        "beyond 65.535 m), or pfm or npy, with pixels and metres as 32-bit floats",
    )
    group.add_argument(
        "--keep-all",
        action="store_true",
        help="keep points in the clouds that are unsure, or at edges where they would fly",
    )
    group.add_argument(
        "--rerun",
        metavar="FILE",
        help=f"stream images, disparity, depth and points into FILE.rrd for the Rerun viewer, or, with the word "
        f"{VIEWER}, to a viewer that is opened now",
    )
    group = parser.add_argument_group("calibration", "By default what the bag says, or calib.json beside the source.")
    add_camera_options(group, raw="by default they are raw, unless the topics in the bag are named image_rect")
    add_depth_limit(group)
    group.add_argument(
        "--strict",
        action="store_true",
        help="treat warnings about the first frame or its calibration as errors",
    )
    add_model_options(parser)
    parser.add_argument(
        "--warm-iters",
        type=int,
        metavar="T",
        help="iterations of frames that start from the one before (default: half of --iters)",
    )
    parser.add_argument(
        "--no-steady",
        action="store_true",
        help="leave the disparities as the network gives them, without the filter that steadies what did not change",
    )
    parser.add_argument("--threads", type=thread_count, metavar="N", help="CPU threads (default: PyTorch's choice)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Follow the sequence."""
    from linstereo.cli.sequence_run import follow_sequence

    follow_sequence(options)


def output_kinds(text: str) -> set[str]:
    """Parse "video,cloud" for argparse."""
    kinds = {kind.strip() for kind in text.split(",")}
    if not kinds <= set(OUTPUTS):
        wrong = ", ".join(sorted(kinds - set(OUTPUTS)))
        raise argparse.ArgumentTypeError(f"{wrong!r} is not one of {', '.join(OUTPUTS)}; write them as a,b,c")
    return kinds
