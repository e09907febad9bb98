"""The files of a rendered dataset: where each is, how a frame is written, and what is there already.

    <root>/settings.json                          what it is made of
    <root>/plan.json                              frames asked for, by configuration
    <root>/splits/{train,val,test}.txt            the frames that are there, by configuration
    <root>/<configuration>/calib.json             the rectified camera
    <root>/<configuration>/scene.json             what stands where
    <root>/<configuration>/<kind>/<frame>.<suffix>    see `KINDS`

A frame is there once its file in info/ is, which is written last and has the SHA-256 of all others.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from linstereo.data.formats.disparity import write_disparity
from linstereo.data.formats.exr import write_exr
from linstereo.data.formats.images import write_image
from linstereo.data.formats.png import write_png_values
from linstereo.errors import InputError
from linstereo.files import make_parent, read_json, write_file, write_json
from linstereo.synthesis.seastereo.description import summary
from linstereo.synthesis.seastereo.frame import Side, View
from linstereo.synthesis.seastereo.plan import Configuration
from linstereo.synthesis.seastereo.scene import Scene

PLAN, INFO = "plan.json", "info"
SPLITS = ("train", "val", "test")
Views = Mapping[Side, View]

_FILES: Mapping[str, tuple[str, Callable[[Path, Views], None]]] = MappingProxyType(
    {
        "disparity": (".pfm", lambda path, views: write_disparity(path, views["left"].disparity)),
        "disparity_right": (".pfm", lambda path, views: write_disparity(path, views["right"].disparity)),
        "depth": (".exr", lambda path, views: write_exr(path, views["left"].depth)),
        "depth_right": (".exr", lambda path, views: write_exr(path, views["right"].depth)),
        "valid": (".png", lambda path, views: write_png_values(path, np.uint8(255) * views["left"].valid)),
        "valid_right": (".png", lambda path, views: write_png_values(path, np.uint8(255) * views["right"].valid)),
        "occlusion": (".png", lambda path, views: write_png_values(path, np.uint8(255) * views["left"].occluded)),
        "occlusion_right": (
            ".png",
            lambda path, views: write_png_values(path, np.uint8(255) * views["right"].occluded),
        ),
        "right": (".png", lambda path, views: write_image(path, views["right"].image)),
        "left": (".png", lambda path, views: write_image(path, views["left"].image)),
    }
)
"""Folder, suffix, and how a file is written, in the order in which they are."""
KINDS = tuple(_FILES)


def frame_files(folder: Path, frame: int) -> dict[str, Path]:
    """Paths of the files of a frame in the folder of its configuration, by kind, without that in info/."""
    return {kind: folder / kind / f"{frame:06d}{suffix}" for kind, (suffix, _) in _FILES.items()}


def info_file(folder: Path, frame: int) -> Path:
    """Path of the metadata of a frame."""
    return folder / INFO / f"{frame:06d}.json"


def is_there(root: Path, configuration: Configuration, frame: int) -> bool:
    """Whether a frame is there, whole."""
    return info_file(root / configuration.name, frame).is_file()


def write_frame(root: Path, scene: Scene, frame: int, views: Views, *, mode: str, samples: int, seconds: float) -> None:
    """Write a frame; each file is whole or not there, and the one in info/ comes last."""
    configuration = scene.configuration
    folder = root / configuration.name
    height, width = views["left"].depth.shape
    calibration = configuration.calibration(height=height, width=width)
    digests = {}
    for kind, path in frame_files(folder, frame).items():
        _FILES[kind][1](make_parent(path), views)
        digests[kind] = hashlib.sha256(path.read_bytes()).hexdigest()
    info = {
        **dataclasses.asdict(configuration),
        "name": configuration.name,
        "frame": frame,
        "intrinsics": [[calibration.focal, 0, calibration.cx], [0, calibration.focal_y, calibration.cy], [0, 0, 1]],
        "baseline": calibration.baseline,
        "left_to_scene": scene.path.left[frame].tolist(),
        "right_to_scene": scene.path.right[frame].tolist(),
        "camera_depth": configuration.floor_depth - float(scene.path.left[frame][2, 3]),
        "mode": mode,
        "samples": samples,
        "seconds": round(seconds, 3),
        "sha256": digests,
    }
    write_json(make_parent(info_file(folder, frame)), info)


def write_configuration(root: Path, scene: Scene, *, height: int, width: int) -> None:
    """Write what all frames of a configuration share, unless it is there."""
    folder = root / scene.configuration.name
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "scene.json").is_file():
        write_json(folder / "scene.json", summary(scene))
    if not (folder / "calib.json").is_file():
        calibration = scene.configuration.calibration(height=height, width=width)
        fields = {name: getattr(calibration, name) for name in ("focal", "baseline", "cx", "cy")}
        write_json(folder / "calib.json", {**fields, "width": width, "height": height})


def write_splits(root: Path, plan: Mapping[str, Sequence[int]], configurations: Mapping[str, Configuration]) -> None:
    """List the frames that are there: of every 20 configurations one for validation, one for the test."""
    lines: dict[str, list[str]] = {split: [] for split in SPLITS}
    for name, frames in plan.items():
        split = {7: "val", 17: "test"}.get(_scrambled(configurations[name].index) % 20, "train")
        lines[split] += [f"{name}/{k:06d}" for k in sorted(frames) if is_there(root, configurations[name], k)]
    (root / "splits").mkdir(exist_ok=True)
    for split, names in lines.items():
        write_file(root / "splits" / f"{split}.txt", "".join(f"{name}\n" for name in names))


def read_plan(root: Path) -> dict[str, list[int]]:
    """Which frames were asked for, by configuration; nothing if there is no plan yet."""
    path = root / PLAN
    if not path.is_file():
        return {}
    content = read_json(path, remedy="remove it and render again")
    numbers = all(isinstance(frames, list) and all(type(k) is int for k in frames) for frames in content.values())
    if not numbers:
        raise InputError(f"{path} does not hold frames by configuration; remove it and render again")
    return {str(name): sorted(frames) for name, frames in content.items()}


def _scrambled(index: int) -> int:
    """Takes neighbours apart, so that each split has every kind of water and camera."""
    return (index * 389 + index // 36 * 7) % 1009
