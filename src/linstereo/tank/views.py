"""A folder of rendered pairs of a target, to try out the ground truth on pictures whose truth is known.

<out>/left/0000.png, right/0000.png    the pictures
<out>/calib.json                       of the cameras
<out>/true_depth/0000.npy              depth of the renderer, metres, of target and tank
<out>/true_parts/0000.png              1 frame, 2 rope, 0 neither
<out>/views.json                       water and pose of each
<out>/target/                          mesh and layout of the target
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from linstereo.data.formats.calibration_files import write_calibration
from linstereo.data.formats.images import write_image
from linstereo.data.formats.npy import write_npy
from linstereo.data.formats.png import write_png_values
from linstereo.errors import InputError
from linstereo.files import make_parent, write_json
from linstereo.runs import RunFolder
from linstereo.synthesis.engine import MAX_SEED
from linstereo.synthesis.scene import IdealStereoRig
from linstereo.synthesis.water import WATER_TYPES
from linstereo.tank.scene import CAMERA, TankView, photograph_target, random_pose
from linstereo.tank.target import Target, write_target

_VIEWS_FILE = "views.json"


@dataclass(frozen=True)
class ViewSettings:
    """Which pairs are rendered.

    Args:
        count: how many.
        seed: which series; pair `index` of a seed is always the same.
        water: Jerlov type; None takes all types in turn.
        size: height and width of the images, px; None is that of `CAMERA`. The field of view stays the same.
    """

    count: int
    seed: int = 0
    water: str | None = None
    size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.count <= 100_000:
            raise InputError(f"the number of pairs is {self.count}; it must be from 1 to 100,000")
        if not 0 <= self.seed <= MAX_SEED:
            raise InputError(f"the seed is {self.seed}; it must be from 0 to {MAX_SEED}")
        if self.water is not None and self.water not in WATER_TYPES:
            raise InputError(f"there is no water type '{self.water}'; choose one of {', '.join(WATER_TYPES)}")

    def water_of(self, index: int) -> str:
        """The water of pair `index`."""
        return self.water or WATER_TYPES[index % len(WATER_TYPES)]

    @property
    def rig(self) -> IdealStereoRig:
        """The cameras."""
        if self.size is None:
            return CAMERA
        height, width = self.size
        factor = width / CAMERA.width
        scaled = CAMERA.calibration.scaled(factor, factor)
        middle = {"cx": (width - 1) / 2, "cy": (height - 1) / 2}
        return IdealStereoRig(height, width, type(scaled)(focal=scaled.focal, baseline=scaled.baseline, **middle))


def render_pair(target: Target, settings: ViewSettings, index: int, *, right: bool = True) -> TankView:
    """Pair `index` of a series; without the right image if that is not wanted."""
    rng = np.random.default_rng((settings.seed, index))
    pose = random_pose(rng, target, settings.rig)
    return photograph_target(target, pose, rng, water_type=settings.water_of(index), rig=settings.rig, right=right)


def write_views(
    out: str | os.PathLike[str],
    target: Target,
    settings: ViewSettings,
    *,
    on_pair: Callable[[int], None] = lambda done: None,
) -> None:
    """Write the pairs of a series into `out`, but for those that are there; `on_pair` is told how many there are."""
    told = _told(target, settings)
    with RunFolder.open(out, notes=["target", "calib.json"]) as run:
        known = run.settle(told, file=_VIEWS_FILE, part="settings").get("views", {})
        if not isinstance(known, dict):
            raise InputError(f"{run.path / _VIEWS_FILE} is damaged; delete the folder and start again")
        if not known:
            write_target(run.path / "target", target)
            write_calibration(run.path / "calib.json", settings.rig.calibration)
        for index in range(settings.count):
            name = f"{index:04d}"
            if name not in known or not (run.path / "left" / f"{name}.png").is_file():
                known[name] = _write_pair(run.path, name, render_pair(target, settings, index))
                write_json(run.path / _VIEWS_FILE, {"settings": told, "views": known})
            on_pair(index + 1)


def _write_pair(root: Path, name: str, view: TankView) -> dict[str, object]:
    """Write the files of one pair; returns what the file of all views keeps of it."""
    if view.right is None:
        raise RuntimeError("both images are rendered")
    write_npy(make_parent(root / "true_depth" / f"{name}.npy"), view.depth.astype(np.float32))
    write_png_values(make_parent(root / "true_parts" / f"{name}.png"), view.part)
    write_image(make_parent(root / "right" / f"{name}.png"), view.right)
    write_image(make_parent(root / "left" / f"{name}.png"), view.left)
    pose = view.pose
    return {"water": view.water, "rotation": pose.rotation.tolist(), "translation": pose.translation.tolist()}


def _told(target: Target, settings: ViewSettings) -> dict[str, object]:
    """What decides how a pair looks, as plain values."""
    design = {name: float(value) for name, value in vars(target.design).items()}
    return {"seed": settings.seed, "water": settings.water, "size": list(settings.size or ()), "design": design}
