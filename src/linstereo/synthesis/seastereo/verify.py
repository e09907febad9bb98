"""Checking a rendered dataset, finished or not: is every frame there once and undamaged, and is its geometry right?"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linstereo.data.formats.disparity import read_disparity
from linstereo.data.formats.exr import read_exr
from linstereo.data.formats.images import read_image
from linstereo.data.formats.png import read_png_values
from linstereo.errors import InputError
from linstereo.files import read_json
from linstereo.runs import SETTINGS_FILE
from linstereo.synthesis.seastereo import files
from linstereo.synthesis.seastereo.parts import Box

DISPARITY_TOLERANCE = 1e-3
"""px by which disparity may differ from focal * baseline / depth."""
AGREEMENT_TOLERANCE = 0.5
"""px by which the disparities of both views may differ on a point that both see, but for `OUTLIERS` of the pixels."""
OUTLIERS = 0.01
PHOTOMETRIC_TOLERANCE = 6.0
"""Grey values by which the right image, moved by the disparity, may differ from the left, in the median of pixels that
both see; noise and highlights account for a few."""
POSE_TOLERANCE = 1e-6


@dataclass
class Findings:
    """What a check found.

    Args:
        expected: frames that were asked for.
        present: of those, the ones that are there.
        checked: of those, the ones whose geometry was checked.
        problems: one sentence for each thing that is wrong.
    """

    expected: int = 0
    present: int = 0
    checked: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)

    @property
    def missing(self) -> int:
        """Frames that are not there yet."""
        return self.expected - self.present


def verify(
    root: str | Path, *, samples: int = 20, on_frame: Callable[[int, int], None] = lambda done, total: None
) -> Findings:
    """Check a dataset.

    Args:
        root: its folder.
        samples: frames, spread over the dataset, whose geometry is checked; all are checked for damage.
        on_frame: told how many of how many frames are checked.
    """
    folder = Path(root)
    if not (folder / SETTINGS_FILE).is_file():
        raise InputError(f"{folder} holds no {SETTINGS_FILE}; name the folder of a rendered SeaStereo dataset")
    if samples < 0:
        raise InputError(f"the number of samples is {samples}; it must be at least 0")
    plan = files.read_plan(folder)
    pieces = [(name, frame) for name, frames in plan.items() for frame in frames]
    findings = Findings(expected=len(pieces))
    there = [(name, frame) for name, frame in pieces if files.info_file(folder / name, frame).is_file()]
    findings.present = len(there)
    findings.problems += _unasked(folder, plan)
    chosen = set(there[:: max(len(there) // max(samples, 1), 1)][:samples]) if samples else set()
    for done, (name, frame) in enumerate(there, start=1):
        problems, info = _damage(folder / name, frame)
        if not problems and (name, frame) in chosen:
            try:
                problems = _geometry(folder / name, frame, info)
            except InputError as error:
                problems = [str(error)]
            except (KeyError, IndexError, TypeError, ValueError):
                problems = ["its metadata or scene.json lack something; remove both and render again"]
            findings.checked += 1
        findings.problems += [f"{name}, frame {frame}: {problem}" for problem in problems]
        on_frame(done, len(there))
    return findings


def _unasked(root: Path, plan: Mapping[str, Sequence[int]]) -> list[str]:
    """Frames that are there though nobody asked for them."""
    problems = []
    for folder in sorted(entry for entry in root.iterdir() if (entry / files.INFO).is_dir()):
        extra = {path.stem for path in (folder / files.INFO).glob("*.json")}
        extra -= {f"{frame:06d}" for frame in plan.get(folder.name, [])}
        problems += [f"{folder.name}, frame {stem}: not in {files.PLAN}" for stem in sorted(extra)]
    return problems


def _damage(folder: Path, frame: int) -> tuple[list[str], dict[str, Any]]:
    """What is wrong with the files of a frame, and its metadata."""
    try:
        info = read_json(files.info_file(folder, frame), remedy="remove it and render again")
    except InputError as error:
        return [str(error)], {}
    digests = info.get("sha256")
    if not isinstance(digests, dict) or set(digests) != set(files.KINDS):
        return [f"{files.info_file(folder, frame)} has no checksum of every file"], info
    problems = []
    for kind, path in files.frame_files(folder, frame).items():
        if not path.is_file():
            problems.append(f"{path} is missing")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != digests[kind]:
            problems.append(f"{path} is not what was written")
    return problems, info


def _geometry(folder: Path, frame: int, info: Mapping[str, Any]) -> list[str]:
    """What is wrong with the geometry of a frame."""
    paths = files.frame_files(folder, frame)
    left, right = (read_disparity(paths[kind]).astype(np.float64) for kind in ("disparity", "disparity_right"))
    problems = []
    scale = float(info["intrinsics"][0][0]) * float(info["baseline"])
    for kind, disparity in (("depth", left), ("depth_right", right)):
        depth = read_exr(paths[kind]).astype(np.float64)
        known = depth > 0
        if (known != (disparity > 0)).any():
            problems.append(f"{kind} and disparity are not known in the same places")
        elif known.any() and np.abs(scale / depth[known] - disparity[known]).max() > DISPARITY_TOLERANCE:
            problems.append(f"{kind} times disparity is not focal length times baseline")
    occluded = read_png_values(paths["occlusion"]) > 0
    if (occluded & (left == 0)).any():
        problems.append("something is occluded where there is nothing")
    seen = (left > 0) & ~occluded
    off = disagreement(left, right)[seen]
    if off.size and float((off > AGREEMENT_TOLERANCE).mean()) > OUTLIERS:
        problems.append(
            f"left and right disparity differ on {100 * (off > AGREEMENT_TOLERANCE).mean():.1f} % of pixels"
        )
    images = [read_image(paths[kind]).astype(np.float64).mean(axis=-1) for kind in ("left", "right")]
    moved = moved_to_left(images[1], left)
    if seen.any() and float(np.median(np.abs(moved - images[0])[seen])) > PHOTOMETRIC_TOLERANCE:
        problems.append("the right image moved by the disparity is not the left image")
    return problems + _placing(folder, frame, info)


def disagreement(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """px [H, W] by which the disparity of each left pixel differs from the right view's at its match.

    The better one of the two columns around the match counts, since between the two there may be an edge.
    """
    height, width = left.shape
    column = np.clip(np.arange(width) - left, 0, width - 1)
    rows = np.arange(height)[:, None]
    around = [right[rows, side(column).astype(np.int64)] for side in (np.floor, np.ceil)]
    return np.asarray(np.minimum(*(np.abs(value - left) for value in around)))


def moved_to_left(right: NDArray[np.float64], disparity: NDArray[np.float64]) -> NDArray[np.float64]:
    """The right image [H, W] as the left camera would see it: at the match of each left pixel, interpolated."""
    height, width = right.shape
    column = np.clip(np.arange(width) - disparity, 0, width - 1)
    first = np.minimum(np.floor(column).astype(np.int64), width - 2)
    rows = np.arange(height)[:, None]
    share = column - first
    return np.asarray((1 - share) * right[rows, first] + share * right[rows, first + 1])


def _placing(folder: Path, frame: int, info: Mapping[str, Any]) -> list[str]:
    """Whether the cameras stand where they should: a baseline apart, and in nothing; and whether objects overlap."""
    problems = []
    left, right = np.array(info["left_to_scene"]), np.array(info["right_to_scene"])
    apart = left[:3, :3].T @ (right[:3, 3] - left[:3, 3])
    if np.abs(apart - [float(info["baseline"]), 0, 0]).max() > POSE_TOLERANCE:
        problems.append("the cameras are not a baseline apart")
    things = read_json(folder / "scene.json", needed=["things"], remedy="remove it and render again")["things"]
    boxes = [
        (thing, Box(np.array(thing["low"]), np.array(thing["high"])).moved(frame * np.array(thing["velocity"])))
        for thing in things
    ]
    places = np.stack([left[:3, 3], right[:3, 3]])
    problems += [f"a camera is in the {t['name']}" for t, box in boxes if float(box.distances(places).min()) <= 0]
    objects = [(thing["name"], box) for thing, box in boxes if thing["role"] == "object"]
    for number, (name, box) in enumerate(objects):
        problems += [f"{name} and {other} overlap" for other, b in objects[number + 1 :] if box.overlaps(b)]
    return problems
