"""From what Blender rendered to one frame of the dataset: depth, disparity, masks, and images as a camera takes them.

Blender gives planar depth through the middle of every pixel and linear radiance. In volume mode that radiance has the
water in it already; in analytic mode it is that of the dry scene in sunlight and in the light of the lamps, and
`linstereo.synthesis.water` adds the water.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.data.formats.exr import read_exr_channels
from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.seastereo.light import LAMP_PLACES, Light, exposure, lamp_veil_offset, light_of
from linstereo.synthesis.seastereo.scene import Scene
from linstereo.synthesis.sensor import TONE_STEPS, tone_curve
from linstereo.synthesis.water import through_water, water

Mode = Literal["analytic", "volume"]
Side = Literal["left", "right"]
Map = NDArray[np.float32]
Mask = NDArray[np.bool_]

SIDES: tuple[Side, Side] = ("left", "right")
NOTHING = 1e9
"""Metres from which on Blender's depth means that there is nothing."""
MODE_TOLERANCE = 0.2
"""Relative difference that the mean colours of the two modes at the same range stay below, up to 10 m; measured in
benchmarks/seastereo.md and tested with Blender."""
OPEN_WATER = 1e4
"""Metres that a ray runs through open water where there is nothing; the veil is saturated long before."""
SHOULDER = 0.8
"""Value of white 1 from which on highlights are compressed instead of cut off."""
NEARER = 0.5
"""px by which the disparity of what the other camera sees must exceed that of a point to hide it."""


@dataclass(frozen=True, eq=False)
class View:
    """What one camera sees.

    Args:
        image: uint8 [H, W, 3], sRGB.
        depth: metres along the optical axis, 0 where there is nothing.
        disparity: px, greater than 0, or 0 where there is nothing.
        occluded: seen by this camera only, though there is something.
    """

    image: NDArray[np.uint8]
    depth: Map
    disparity: Map
    occluded: Mask

    @property
    def valid(self) -> Mask:
        """Where there is something."""
        return self.depth > 0


@dataclass(frozen=True, eq=False)
class Radiance:
    """What Blender rendered for one camera: linear RGB [H, W, 3] and opacity [H, W] by light, and depth [H, W]."""

    light: Mapping[str, Map]
    opacity: Map
    depth: Map


def lights_of(light: Light, mode: Mode) -> tuple[str, ...]:
    """Which images Blender renders: one with everything in volume mode, else one for the sun and one for the lamps."""
    if mode == "volume":
        return ("volume",)
    return ("sun", "lamp") if light.lamps else ("sun",)


def read_radiance(folder: Path, side: Side, lights: tuple[str, ...]) -> Radiance:
    """Read what `blender_worker` wrote for one camera."""
    images: dict[str, Map] = {}
    opacity: Map | None = None
    for light in lights:
        channels = read_exr_channels(folder / f"{side}_{light}.exr")
        images[light] = np.stack([_layer(channels, f"Combined.{name}") for name in "RGB"], axis=-1)
        opacity = _layer(channels, "Combined.A")
    depth = _layer(read_exr_channels(folder / f"{side}_depth.exr"), "Depth.Z")
    depth = np.where(depth < NOTHING, depth, 0).astype(np.float32)
    return Radiance(images, np.ones_like(depth) if opacity is None else np.clip(opacity, 0, 1), depth)


def compose(scene: Scene, frame: int, radiance: Mapping[Side, Radiance], mode: Mode) -> dict[Side, View]:
    """Both views of a frame."""
    height, width = radiance["left"].depth.shape
    calibration = scene.configuration.calibration(height=height, width=width)
    disparity = {side: disparity_of(radiance[side].depth, calibration) for side in SIDES}
    views: dict[Side, View] = {}
    for side, other in zip(SIDES, SIDES[::-1], strict=True):
        views[side] = View(
            image=developed(exposed_radiance(scene, frame, side, radiance[side], mode)),
            depth=radiance[side].depth,
            disparity=disparity[side],
            occluded=occlusion(disparity[side], disparity[other], side),
        )
    return views


def exposed_radiance(scene: Scene, frame: int, side: Side, seen: Radiance, mode: Mode) -> Map:
    """Linear RGB [H, W, 3] that the camera takes, white 1, with all the water."""
    height, width = seen.depth.shape
    calibration = scene.configuration.calibration(height=height, width=width)
    light = light_of(scene.configuration, scene.light_rng())
    linear = seen.light["volume"] if mode == "volume" else _under_water(scene, frame, side, seen, light, calibration)
    return np.asarray(exposure(scene.configuration, light) * linear, np.float32)


def disparity_of(depth: Map, calibration: StereoCalibration) -> Map:
    """Disparity in px of depth in metres; 0 where the depth is 0."""
    known = depth > 0
    scale = calibration.focal * calibration.baseline
    return np.where(known, scale / np.where(known, depth, 1), 0).astype(np.float32)


def occlusion(disparity: Map, other: Map, side: Side) -> Mask:
    """Pixels of one view whose point is outside of the other image, or hidden there behind something nearer.

    Args:
        disparity: [H, W] px of this view, 0 where there is nothing.
        other: [H, W] px of the other view.
        side: which view this is.
    """
    height, width = disparity.shape
    column = np.arange(width) + (disparity if side == "right" else -disparity)
    outside = (column < -0.5) | (column > width - 0.5)
    column = np.clip(np.round(column, 3), 0, width - 1)
    rows = np.arange(height)[:, None]
    around = (other[rows, np.floor(column).astype(np.int64)], other[rows, np.ceil(column).astype(np.int64)])
    shown = np.minimum(*around)
    return np.asarray((disparity > 0) & (outside | (shown > disparity + NEARER)), np.bool_)


def developed(linear: Map) -> NDArray[np.uint8]:
    """uint8 sRGB of exposed linear values, white 1; what is above `SHOULDER` is compressed smoothly."""
    values = np.maximum(linear, 0)
    over = np.maximum(values - SHOULDER, 0)
    values = np.minimum(values, SHOULDER) + (1 - SHOULDER) * (1 - np.exp(-over / (1 - SHOULDER)))
    return np.asarray(tone_curve(1.0)[np.rint(values * (TONE_STEPS - 1)).astype(np.int32)], np.uint8)


def _under_water(
    scene: Scene, frame: int, side: Side, seen: Radiance, light: Light, calibration: StereoCalibration
) -> Map:
    """Linear radiance [H, W, 3] under water, from that of the dry scene."""
    kind = water(scene.configuration.water)
    pose = (scene.path.left if side == "left" else scene.path.right)[frame]
    height, width = seen.depth.shape
    x = ((np.arange(width) - calibration.cx) / calibration.focal).astype(np.float32)[None, :]
    y = ((np.arange(height) - calibration.cy) / calibration.focal_y).astype(np.float32)[:, None]
    stretch = np.sqrt(1 + x * x + y * y)
    edge_depth = _filled(seen.depth, seen.opacity)
    distance = np.where(edge_depth > 0, edge_depth * stretch, OPEN_WATER).astype(np.float32)
    depth = distance / stretch
    rise = (pose[2, 0] * x + pose[2, 1] * y + pose[2, 2]).astype(np.float32)
    below = np.float32(scene.configuration.floor_depth - pose[2, 3]) - depth * rise
    shift = 0.0 if side == "left" else scene.path.baseline
    lamp_distance = np.zeros_like(depth)
    for at in LAMP_PLACES:
        away = (x * depth + np.float32(shift - at[0]), y * depth - np.float32(at[1]), depth - np.float32(at[2]))
        lamp_distance += np.sqrt(sum(part * part for part in away)) / np.float32(len(LAMP_PLACES))

    def seen_through(sun: Map, lamp: Map, reach: Map, under: Map) -> Map:
        return np.asarray(
            through_water(
                sun,
                lamp,
                reach,
                lamp_distance,
                under,
                kind,
                camera_depth=max(float(scene.configuration.floor_depth - pose[2, 3]), 0.0),
                focal_px=calibration.focal,
                sun_colour=(1.0, 1.0, 1.0),
                lamp_colour=light.lamp_colour,
                lamp_offset=lamp_veil_offset(),
                wide_lamps=True,
                water_colour=light.around,
            ),
            np.float32,
        )

    sun = seen.light["sun"]
    lamp = seen.light.get("lamp", np.zeros_like(sun))
    result = seen_through(sun, lamp, distance, below)
    partly = (seen.opacity < 1) & (edge_depth > 0)
    if partly.any():  # the rest of such a pixel is open water
        nothing = np.zeros_like(sun)
        far = np.full_like(distance, OPEN_WATER)
        far_below = np.float32(scene.configuration.floor_depth - pose[2, 3]) - far / stretch * rise
        rest = (1 - seen.opacity)[..., None] * np.asarray(partly, np.float32)[..., None]
        result += rest * (
            seen_through(nothing, nothing, far, far_below) - seen_through(nothing, nothing, distance, below)
        )
    return result


def _filled(depth: Map, opacity: Map) -> Map:
    """Depth that is also known where something covers a pixel in part, though not its middle: the nearest around."""
    far = np.where(depth > 0, depth, np.float32(NOTHING))
    around = np.asarray(cv2.erode(far, np.ones((3, 3), np.uint8)), np.float32)
    return np.where(depth > 0, depth, np.where((opacity > 0) & (around < NOTHING), around, 0)).astype(np.float32)


def _layer(channels: Mapping[str, Map], ending: str) -> Map:
    return next(values for name, values in channels.items() if name.endswith(ending))
