"""Draw the pictures of docs/synthesis.md: a sheet of synthetic pairs, and one scene in all types of water.

    python examples/contact_sheet.py docs/images

All textures are procedural, so the pictures are free of anybody else's rights.
"""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.images import write_image
from linstereo.synthesis.engine import EngineSettings, StereoEngine
from linstereo.synthesis.raycast import RayCaster
from linstereo.synthesis.render import View, render_view, textures_of
from linstereo.synthesis.scene import Lamp, Scene, SceneObject
from linstereo.synthesis.scenes import random_scene
from linstereo.synthesis.sensor import CameraFaults, common_gains, expose
from linstereo.synthesis.water import WATER_TYPES, through_water, water
from linstereo.visualize import captioned, colourise

Rgb = npt.NDArray[np.uint8]
PAIRS, COLUMNS, SEED = 24, 4, 2026
REEF = 1  # seed of the scene that is put under water
CAMERA_DEPTH = 4.0  # metres
LAMPS = tuple(Lamp(position=(side, -0.35, 0.0), colour=(2.2, 2.1, 2.0)) for side in (-0.6, 0.7))


def contact_sheet() -> Rgb:
    """Left image above disparity of `PAIRS` pairs, `COLUMNS` in a row."""
    engine = StereoEngine(EngineSettings())
    tiles = []
    for index in range(PAIRS):
        pair = engine.render(SEED, index)
        both = np.vstack([pair.left, colourise(pair.disparity)])
        tiles.append(captioned(both, pair.water or "air", width=320, height=320))
    return np.vstack([np.hstack(tiles[start : start + COLUMNS]) for start in range(0, PAIRS, COLUMNS)])


def water_types() -> Rgb:
    """One reef in air and in every type of water, in daylight (above) and by night with two lamps (below)."""
    scene = random_scene(
        np.random.default_rng(REEF),
        height=320,
        width=640,
        max_disparity=0.15,
        underwater=True,
        kind="reef",
    )
    lighting = dataclasses.replace(
        scene.lighting, sun_colour=(0.9, 0.9, 0.9), ambient_colour=(0.4, 0.4, 0.4), lamps=LAMPS
    )
    scene = dataclasses.replace(scene, objects=tuple(map(dimmed_backdrop, scene.objects)), lighting=lighting)
    palette, atlas = textures_of(scene)
    view = render_view(scene, RayCaster(scene.objects), palette, atlas, "left")
    rows = []
    for lamps in (False, True):
        dry = view.lamp if lamps else view.sun
        tiles = [tile(dry, "dry, lamps" if lamps else "dry, daylight")]
        tiles += [tile(under_water(scene, view, name, lamps=lamps), name) for name in WATER_TYPES]
        rows += [np.hstack(tiles[:4]), np.hstack(tiles[4:])]
    return np.vstack(rows)


def dimmed_backdrop(item: SceneObject) -> SceneObject:
    """The same, but dark if it shines by itself: nothing of it comes through this much water but at soft edges."""
    if item.material.shaded:
        return item
    return dataclasses.replace(item, material=dataclasses.replace(item.material, tint=(0.2, 0.2, 0.2)))


def under_water(scene: Scene, view: View, name: str, *, lamps: bool) -> npt.NDArray[np.float32]:
    """Radiance [H, W, 3] of the reef in one type of water, by lamps or in daylight."""
    sun, ambient = np.array(scene.lighting.sun_colour), np.array(scene.lighting.ambient_colour)
    daylight = sun * max(float(np.dot(scene.lighting.sun_direction, scene.up)), 0.0) + ambient
    colour = np.sum([lamp.colour for lamp in LAMPS], axis=0)
    return through_water(
        np.zeros_like(view.sun) if lamps else view.sun,
        view.lamp,
        view.distance,
        view.lamp_distance,
        np.float32(CAMERA_DEPTH) - view.point @ np.array(scene.up, np.float32),
        water(name),
        camera_depth=CAMERA_DEPTH,
        focal_px=scene.rig.calibration.focal,
        sun_colour=(0.0, 0.0, 0.0) if lamps else tuple(daylight.tolist()),
        lamp_colour=tuple(colour.tolist()) if lamps else (0.0, 0.0, 0.0),
        lamp_offset=0.7,
    )


def tile(radiance: npt.NDArray[np.float32], text: str) -> Rgb:
    """The radiance as a camera with few faults and a weak white balance shows it, with a label."""
    gains = common_gains(radiance, radiance, brightness=0.2, white_balance=0.15)
    image = expose(radiance, CameraFaults(full_well=20000.0, read_noise=3.0), np.random.default_rng(0), gains=gains)
    return captioned(image, text, width=400, height=200)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write_image(folder / "synthesis_contact_sheet.jpg", contact_sheet())
    write_image(folder / "water_types.jpg", water_types())
