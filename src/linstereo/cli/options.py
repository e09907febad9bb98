"""Option types and groups that several subcommands share."""

import argparse
import math
import re
from typing import TYPE_CHECKING

from linstereo.errors import InputError
from linstereo.files import MAX_SIDE

if TYPE_CHECKING:
    from linstereo.predictor import StereoPredictor

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Subparsers = argparse._SubParsersAction

MAX_WORKERS = 256
MAX_THREADS = 1024


def check_count(option: str, value: int | None, *, least: int, most: int) -> None:
    """Refuse a number that is out of range; None stands for an option that was not given."""
    if value is not None and not least <= value <= most:
        raise InputError(f"{option} is {value}; give {least} to {most}")


def check_threads(count: int | None) -> None:
    """Refuse a number of CPU threads that the operating system would not give."""
    check_count("--threads", count, least=1, most=MAX_THREADS)


def image_size(text: str) -> tuple[int, int]:
    """Parse "480x640" (height x width) for argparse."""
    match = re.fullmatch(r"([0-9]{1,6})x([0-9]{1,6})", text)
    sides = (int(match[1]), int(match[2])) if match else (0, 0)
    if min(sides) < 32 or max(sides) > MAX_SIDE:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size; write HEIGHTxWIDTH such as 480x640, each from 32 to {MAX_SIDE}"
        )
    return sides


def thread_count(text: str) -> int:
    """Parse a number of CPU threads for argparse."""
    if re.fullmatch(r"\d{1,4}", text) is None or not 1 <= int(text) <= MAX_THREADS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of threads; give one from 1 to {MAX_THREADS}")
    return int(text)


def share(text: str) -> float:
    """Parse a number from 0 to 1 for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value


def pixels(text: str) -> float:
    """Parse a number of pixels from 0 for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of pixels from 0")
    return value


def memory_size(text: str) -> int:
    """Parse a number of bytes such as "2GB" or "800MB" for argparse."""
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ?(MB|GB)", text, re.IGNORECASE)
    size = round(float(match[1]) * {"MB": 1e6, "GB": 1e9}[match[2].upper()]) if match else 0
    if not 100_000_000 <= size <= 1e15:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of memory; write it as 2GB or 800MB, from 100MB")
    return size


def add_depth_limit(group: "argparse._ArgumentGroup") -> None:
    """Add `--max-depth`, of point clouds."""
    group.add_argument(
        "--max-depth",
        type=float,
        metavar="M",
        help="leave farther points out of clouds, metres (default: where the disparity is 1 px; inf keeps all)",
    )


def add_camera_options(group: "argparse._ArgumentGroup", *, raw: str) -> None:
    """Add the options of a calibration that may be given by numbers, and of images that are raw unless told otherwise.

    Args:
        group: where.
        raw: when images are taken to be raw, for the help.
    """
    add_calibration_options(group)
    group.add_argument(
        "--rectified",
        action="store_true",
        help=f"the images were rectified as a file of OpenCV or ROS describes; {raw}",
    )
    group.add_argument("--focal", type=float, metavar="PX", help="focal length, of cameras centred on their images")
    group.add_argument("--baseline", type=float, metavar="M", help="distance between the cameras in metres")


def add_calibration_options(group: "argparse._ArgumentGroup", *, required: bool = False) -> None:
    """Declare the calibration file and how it is to be read."""
    group.add_argument(
        "--calib",
        metavar="FILE",
        required=required,
        help="calibration for all pairs: of OpenCV (.yml, .yaml, .xml), Kalibr (camchain.yaml) or ROS (left.yaml with "
        "right.yaml beside it), calib.json, or calib.txt in Middlebury's or KITTI's format",
    )
    group.add_argument(
        "--scale-calib",
        action="store_true",
        help="if the calibration says that it is for images of another size, scale it to theirs instead of stopping",
    )
    group.add_argument(
        "--calib-unit",
        choices=("m", "cm", "mm"),
        help="of the lengths in a file of OpenCV, which are those of the calibration pattern (default: m)",
    )
    group.add_argument(
        "--fisheye",
        action="store_true",
        help="the distortion in a file of OpenCV is that of cv2.fisheye, for files that do not say so themselves",
    )
    group.add_argument(
        "--water",
        action="store_true",
        help="the pairs were taken under water through flat ports: warn of a calibration that was made in air",
    )


def add_farm_options(parser: argparse.ArgumentParser) -> None:
    """Declare how work is shared among machines."""
    group = parser.add_argument_group("several machines", "they must see the same folder")
    group.add_argument(
        "--shard", metavar="I/N", help="do only the I-th of N parts, as the tasks of a job array do (1/N to N/N)"
    )
    group.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="work on a Ray cluster: auto for one that runs here, HOST:PORT or ray://HOST:PORT",
    )


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Declare which model to run and how."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        metavar="NAME",
        help="checkpoint file or folder, hub repository, file of linstereo export (.onnx), or preset; by default "
        "compact, the bundled model (all other presets have random weights)",
    )
    group.add_argument("--backbone", metavar="PATH", help="official DA3 model.safetensors, or its hub name")
    group.add_argument("--iters", type=int, metavar="T", help="refinement iterations (default: the model's)")
    group.add_argument(
        "--scale",
        type=float,
        metavar="F",
        help="resize images by F, at most 4, before they are run (default: 1; the bundled model enlarges small ones)",
    )
    group.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1, ... (default: CUDA if there is one)")
    group.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "float16"),
        help="of the arithmetic (default: float32); half precision is faster on GPUs, and on CPUs that support it",
    )
    group.add_argument(
        "--backend",
        choices=("torch", "onnx", "openvino"),
        help="what runs the network: PyTorch, ONNX Runtime or OpenVINO (default: torch, and onnx for a .onnx file)",
    )


def load_model(options: argparse.Namespace) -> "StereoPredictor":
    """The predictor that `add_model_options` describes; says so plainly if it was never trained."""
    import sys

    from linstereo.loading import load

    predictor = load(
        options.model,
        device=options.device,
        backbone_weights=options.backbone,
        precision=options.precision or "float32",
        backend=options.backend,
    )
    if not predictor.trained:
        print(
            f"WARNING: the weights of {predictor.name!r} are random, not trained: its disparities mean nothing.",
            file=sys.stderr,
        )
    return predictor
