"""Render the example pair in air: a furnished room with exact disparity and occlusion.

    python examples/make_room.py examples/room

Shapes and textures are all procedural, so the pair is free of anybody else's rights. The folder is laid out as
`docs/datasets.md` describes for one's own pairs. Needs the extra `synth`.
"""

import sys
from pathlib import Path

import numpy as np

from linstereo.data.formats.calibration_files import write_calibration
from linstereo.data.formats.disparity import write_disparity
from linstereo.data.formats.images import write_image
from linstereo.data.formats.png import write_png_values
from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.furniture import books, chair, table
from linstereo.synthesis.ground_truth import disparity_of, occlusion
from linstereo.synthesis.growth import blades
from linstereo.synthesis.mesh_tools import Floats, joined, moved, pitch, with_uv, yaw
from linstereo.synthesis.raycast import RayCaster
from linstereo.synthesis.render import render_view, textures_of
from linstereo.synthesis.scene import IdealStereoRig, Lighting, Material, Mesh, Scene, SceneObject
from linstereo.synthesis.sensor import CameraFaults, PairFaults, expose_pair
from linstereo.synthesis.shapes import box, cylinder, plane, rod, sphere, torus, turned
from linstereo.synthesis.textures import library_texture

NAME = "room"
HEIGHT, WIDTH = 480, 640
CAMERA = StereoCalibration(focal=560.0, baseline=0.12, cx=319.5, cy=239.5)
TILT = pitch(0.22)  # the cameras look down a little
FLOOR = 1.25  # metres below the camera
WALL = 3.6  # metres ahead
TABLE = 0.52  # metres below the camera


class Room:
    """Things put into place: x right, y down, z ahead, metres from the left camera, as if it looked level."""

    def __init__(self) -> None:
        self.objects: list[SceneObject] = []
        self.rng = np.random.default_rng(7)

    def put(
        self,
        mesh: Mesh,
        texture: tuple[str, int],
        *,
        at: tuple[float, float, float] = (0.0, 0.0, 0.0),
        turn: Floats | None = None,
        repeats: float = 1.0,
        tint: tuple[float, float, float] = (1.0, 1.0, 1.0),
        specular: float = 0.0,
    ) -> None:
        """Add a mesh; `texture` is its kind and number, repeated `repeats` times a metre."""
        placed = moved(moved(mesh, rotation=turn, translation=at), rotation=TILT)
        material = Material(library_texture(*texture, 512), tint=tint, specular=specular, shininess=40.0)
        self.objects.append(SceneObject(with_uv(placed, repeats=repeats), material))

    def build(self) -> None:
        """Walls and floor."""
        self.put(plane(9, 6), ("plaster", 11), at=(0, FLOOR - 3, WALL), repeats=0.5)
        self.put(plane(6, 6), ("bricks", 13), at=(1.85, FLOOR - 3, WALL), turn=yaw(np.pi / 2), repeats=0.9)
        self.put(
            plane(9, 9, rows=12, columns=12), ("wood", 10), at=(0, FLOOR, 2.5), turn=pitch(-np.pi / 2), repeats=0.8
        )
        self.put(box(9, 0.1, 0.03), ("plain", 0), at=(0, FLOOR - 0.05, WALL - 0.015))
        self.put(box(2.0, 0.012, 1.3), ("checks", 2), at=(0.45, FLOOR - 0.006, 2.55), turn=yaw(0.2), repeats=1.2)

    def furnish(self) -> None:
        """A table, a shelf of books, a chair, a lamp, two pictures and a plant."""
        self.put(table(1.25, FLOOR - TABLE, 0.7, leg=0.06), ("wood", 4), at=(-0.75, FLOOR, 1.95), turn=yaw(0.12))
        self.put(chair(self.rng, 0.95), ("wood", 11), at=(0.28, FLOOR, 2.45), turn=yaw(2.5), repeats=1.5)
        self.bookcase(1.2, 3.42)
        for x, size, picture in ((-1.35, 0.62, ("collage", 2)), (-0.45, 0.78, ("marble", 0))):
            self.put(box(size, 0.75 * size, 0.03), ("wood", 5), at=(x, -0.12, WALL - 0.015))
            self.put(plane(0.88 * size, 0.63 * size), picture, at=(x, -0.12, WALL - 0.031), repeats=1.2)
        pole, foot = (-1.5, FLOOR, 2.95), np.array([-1.5, FLOOR, 2.95])
        self.put(rod(foot, foot - (0, 1.55, 0), 0.014), ("plain", 3), specular=0.5)
        self.put(cylinder(0.15, 0.03), ("plain", 3), at=pole)
        self.put(cylinder(0.21, 0.27, top_radius=0.12), ("stripes", 7), at=(-1.5, FLOOR - 1.6, 2.95), repeats=1.5)
        self.put(cylinder(0.11, 0.26, top_radius=0.15), ("bricks", 3), at=(0.92, FLOOR - 0.13, 1.95), repeats=2.0)
        leaves = blades(self.rng, 34, 0.85, spread=0.08, width=0.05, bend=0.7, steps=8)
        self.put(leaves, ("foliage", 12), at=(0.92, FLOOR - 0.25, 1.95), repeats=2.0, tint=(1.5, 1.6, 1.3))

    def bookcase(self, x: float, z: float) -> None:
        """Four shelves, three of them full of books, and a jar on the fourth."""
        wide, tall, board = 0.95, 1.72, 0.03
        parts = [moved(box(board, tall, 0.3), translation=(side * wide / 2, -tall / 2, 0)) for side in (-1, 1)]
        parts.append(moved(plane(wide, tall), translation=(0, -tall / 2, 0.15)))
        levels = np.linspace(0.06, tall - board / 2, 5)
        parts += [moved(box(wide, board, 0.3), translation=(0, -level, 0)) for level in levels]
        self.put(joined(parts), ("wood", 2), at=(x, FLOOR, z), repeats=1.5)
        covers = [("collage", 3), ("stripes", 8), ("writing", 8), ("clouds", 5), ("speckle", 9), ("checks", 12)]
        covers += [("plain", 7), ("plain", 16), ("speckle", 5)]
        for level, first in zip(levels[:3], (0, 3, 6), strict=True):
            for pile, cover in zip(books(self.rng, 0.82, 0.33, 0.24), covers[first : first + 3], strict=True):
                self.put(pile, cover, at=(x, FLOOR - level - board / 2, z), repeats=2.0)
        jar = turned(np.random.default_rng(8), 0.09, 0.26)
        self.put(jar, ("bricks", 5), at=(x - 0.2, FLOOR - levels[3] - board / 2, z - 0.02), repeats=4.0, specular=0.3)

    def clutter(self) -> None:
        """What lies about."""
        vase = turned(np.random.default_rng(5), 0.085, 0.32)
        self.put(vase, ("marble", 17), at=(-0.95, TABLE, 2.0), repeats=3.0, specular=0.4)
        for k, (cover, turn) in enumerate(((("stripes", 3), 0.2), (("collage", 11), -0.1), (("speckle", 12), 0.35))):
            slab = box(0.26, 0.045, 0.19)
            self.put(slab, cover, at=(-0.55, TABLE - 0.023 - 0.046 * k, 1.83), turn=yaw(turn), repeats=2.5)
        self.put(sphere(0.07), ("dots", 14), at=(-0.56, TABLE - 0.21, 1.83), repeats=3.0, specular=0.3)
        self.put(box(0.2, 0.27, 0.16), ("collage", 16), at=(-1.15, TABLE - 0.135, 1.78), turn=yaw(0.5), repeats=3.0)
        self.put(cylinder(0.045, 0.1), ("checks", 13), at=(-0.3, TABLE - 0.05, 1.72), repeats=4.0, specular=0.3)
        handle = torus(0.03, 0.008)
        self.put(handle, ("checks", 13), at=(-0.25, TABLE - 0.05, 1.72), repeats=4.0)
        self.put(sphere(0.15, rings=20), ("stripes", 15), at=(0.75, FLOOR - 0.16, 2.55), repeats=1.5, specular=0.3)
        self.put(box(0.4, 0.3, 0.32), ("writing", 15), at=(-0.35, FLOOR - 0.15, 2.7), turn=yaw(0.6), repeats=1.6)

    def scene(self) -> Scene:
        """The furnished room in the frame of the camera."""
        self.build()
        self.furnish()
        self.clutter()
        sun = TILT @ np.array([-0.48, -0.72, -0.5])
        sun /= np.linalg.norm(sun)
        lighting = Lighting(
            sun_direction=(float(sun[0]), float(sun[1]), float(sun[2])),
            sun_colour=(0.75, 0.7, 0.6),
            ambient_colour=(0.36, 0.38, 0.42),
        )
        return Scene(tuple(self.objects), lighting, IdealStereoRig(HEIGHT, WIDTH, CAMERA), name=NAME)


def main() -> None:
    """Render the pair into the folder named on the command line."""
    root = Path(sys.argv[1])
    for folder in ("left", "right", "disparity", "occlusion"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    scene = Room().scene()
    caster = RayCaster(scene.objects)
    palette, atlas = textures_of(scene)
    left = render_view(scene, caster, palette, atlas, "left")
    right = render_view(scene, caster, palette, atlas, "right")
    lens = CameraFaults(blur=0.4, vignetting=0.15)  # no noise, which would double the size of the files
    images = expose_pair(left.sun, right.sun, PairFaults(lens, lens, brightness=0.25), np.random.default_rng(0))
    for side, image in zip(("left", "right"), images, strict=True):
        write_image(root / side / f"{NAME}.png", image)
    write_disparity(root / "disparity" / f"{NAME}.png", disparity_of(left.depth, CAMERA))
    hidden = occlusion(left, right, "left", scene.rig, caster)
    write_png_values(root / "occlusion" / f"{NAME}.png", np.uint8(255) * hidden)
    write_calibration(root / "calib.json", CAMERA)


if __name__ == "__main__":
    main()
