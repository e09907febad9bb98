"""What stands in the scene of a configuration, and where; a function of the configuration and the user's meshes alone.

Foreground objects lie about the middle of the scene, none of whose boxes overlap with each other or with the box of
anything else. No box comes nearer to either camera, in any frame, than `CAMERA_DISTANCE`.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from linstereo.synthesis.seastereo.assets import Asset, AssetLibrary
from linstereo.synthesis.seastereo.objects import Thing, bundled_object
from linstereo.synthesis.seastereo.parts import (
    Box,
    Look,
    Part,
    about_right,
    about_vertical,
    box_of,
    placement,
    transformed,
)
from linstereo.synthesis.seastereo.plan import FRAMES, Configuration
from linstereo.synthesis.seastereo.scenery import SCENERY, school, wreck
from linstereo.synthesis.seastereo.terrain import Floats, Terrain, random_terrain
from linstereo.synthesis.seastereo.trajectories import CameraPath, camera_path

CAMERA_DISTANCE = 0.8
"""Metres that boxes keep from the cameras."""
OBJECT_MARGIN = 0.05
"""Metres that boxes of foreground objects keep from each other."""
OBJECT_COUNTS = (3, 5)
_OBJECT_REACH = 2.3  # metres from the middle within which foreground objects lie
_OBJECT_SIZES = (0.75, 1.5)
_STATIC = np.zeros(3)
_TERRAIN, _PATH, _FOREGROUND, _BACKGROUND, _WRECK, _FISH, _LIGHT = range(1, 8)  # purposes of random numbers


@dataclass(frozen=True, eq=False)
class Placed:
    """A thing in its place.

    Args:
        name: what it is, such as `armchair` or the name of the user's file.
        role: `object` for the foreground, else the kind of scenery.
        box: its axis-aligned bounding box in the first frame.
        velocity: [3] metres per frame; 0 but for fish.
        parts: its meshes in the frame of the scene; none if it is a file.
        file: the user's mesh, else None.
        matrix: [4, 4] from the coordinates of the file to the scene.
    """

    name: str
    role: str
    box: Box
    velocity: Floats
    parts: tuple[Part, ...] = ()
    file: Path | None = None
    matrix: Floats | None = None

    @property
    def swept(self) -> Box:
        """The box of all places in which it ever is."""
        return self.box.joined(self.box.moved((FRAMES - 1) * self.velocity))


@dataclass(frozen=True, eq=False)
class Scene:
    """The scene of a configuration: floor, things, cameras in each frame, and the seed of light and caustics."""

    configuration: Configuration
    terrain: Terrain
    path: CameraPath
    things: tuple[Placed, ...]

    @property
    def floor(self) -> Part:
        """The sea floor as a mesh."""
        vertices, faces = self.terrain.grid()
        rng = self.configuration.rng(_TERRAIN + 100)
        shade = float(rng.uniform(0.85, 1.1))
        return Part(
            vertices, faces, Look("sand", (0.50 * shade, 0.44 * shade, 0.33 * shade), float(rng.uniform(0, 50)))
        )

    def light_rng(self) -> np.random.Generator:
        """Random numbers for sun and caustics."""
        return self.configuration.rng(_LIGHT)


def build_scene(configuration: Configuration, library: AssetLibrary) -> Scene:
    """The scene of a configuration: the same for the same configuration and the same files of the user."""
    terrain = random_terrain(configuration.rng(_TERRAIN))
    path = camera_path(
        configuration.trajectory,
        terrain,
        baseline=configuration.baseline,
        frames=FRAMES,
        rng=configuration.rng(_PATH),
    )
    objects = _foreground(configuration.rng(_FOREGROUND), terrain, path, library)
    builder = _Builder(terrain, path, objects, library, surface=configuration.floor_depth)
    builder.wreck(configuration.rng(_WRECK))
    builder.scatter(configuration.rng(_BACKGROUND))
    builder.fish(configuration.rng(_FISH))
    return Scene(configuration, terrain, path, tuple(builder.things))


def is_free(box: Box, path: CameraPath) -> bool:
    """Whether a box leaves the cameras their distance in every frame."""
    return float(box.distances(path.places).min()) >= CAMERA_DISTANCE


def _foreground(rng: np.random.Generator, terrain: Terrain, path: CameraPath, library: AssetLibrary) -> list[Placed]:
    """3 to 5 foreground objects on the floor, upright or fallen over, whose boxes do not overlap."""
    placed: list[Placed] = []
    low, high = OBJECT_COUNTS
    for _ in range(int(rng.integers(low, high + 1))):
        size = float(np.exp(rng.uniform(*np.log(_OBJECT_SIZES))))
        asset = None if library.foreground is None else library.foreground.draw(rng)
        name, thing = bundled_object(rng) if asset is None else (asset.name, [])
        fallen = rng.random() < 0.4
        while True:
            for _ in range(40):
                lean = rng.choice((-0.5, 0.5)) * np.pi if fallen else 0.0
                side = rng.integers(4) * np.pi / 2 if fallen else rng.uniform(0, 2 * np.pi)
                tip = about_right(lean + rng.normal(0, 0.05)) @ about_vertical(side)
                turn = about_vertical(rng.uniform(0, 2 * np.pi)) @ tip
                reach, angle = _OBJECT_REACH * np.sqrt(rng.random()), rng.uniform(0, 2 * np.pi)
                at = (reach * np.cos(angle), reach * np.sin(angle))
                candidate = _stand(name, "object", thing, asset, turn=turn, size=size, at=at, terrain=terrain)
                clear = not any(candidate.box.overlaps(other.box, margin=OBJECT_MARGIN) for other in placed)
                if clear and is_free(candidate.box, path):
                    placed.append(candidate)
                    break
            else:
                size *= 0.8  # in the end everything fits
                continue
            break
    return placed


@dataclass(eq=False)
class _Builder:
    """Puts scenery around the foreground objects."""

    terrain: Terrain
    path: CameraPath
    objects: list[Placed]
    library: AssetLibrary
    surface: float

    def __post_init__(self) -> None:
        self.things = list(self.objects)
        mean = self.path.left[:, :2, 3].mean(axis=0)
        self.ahead = -mean / np.linalg.norm(mean)  # from the cameras towards the middle of the scene

    def keep(self, candidate: Placed) -> bool:
        """Add a thing if it hides no object's place and leaves the cameras free."""
        if not is_free(candidate.swept, self.path):
            return False
        if any(candidate.swept.overlaps(other.box, margin=OBJECT_MARGIN) for other in self.objects):
            return False
        self.things.append(candidate)
        return True

    def spot(self, rng: np.random.Generator, distance: float, spread: float) -> tuple[float, float]:
        """A point `distance` metres from the middle, on the far side within about `spread` radians."""
        angle = np.arctan2(self.ahead[1], self.ahead[0]) + spread * rng.uniform(-1, 1)
        return float(distance * np.cos(angle)), float(distance * np.sin(angle))

    def stand(self, rng: np.random.Generator, kind: str, size: float, at: tuple[float, float]) -> None:
        """A piece of scenery at a point of the floor, if there is room for it."""
        asset = self.library.draw(kind, rng)
        thing = SCENERY[kind](rng, size) if asset is None else []
        turn = about_vertical(rng.uniform(0, 2 * np.pi))
        name = kind if asset is None else asset.name
        self.keep(_stand(name, kind, thing, asset, turn=turn, size=size, at=at, terrain=self.terrain, scaled=False))

    def scatter(self, rng: np.random.Generator) -> None:
        """Reefs of corals and rocks, single rocks, and tufts of seaweed."""
        for _ in range(int(rng.integers(4, 8))):
            middle = self.spot(rng, rng.uniform(2.2, 11.0), 1.5)
            reach = rng.uniform(0.6, 1.6)
            for _ in range(int(rng.integers(6, 16))):
                kind = str(rng.choice(["coral", "coral", "rock", "seaweed"]))
                size = float(np.exp(rng.uniform(np.log(0.18), np.log(0.75))))
                at = rng.normal(0, reach, 2) + middle
                self.stand(rng, kind, size, (float(at[0]), float(at[1])))
        for kind, count, sizes in (("rock", 34, (0.12, 1.1)), ("seaweed", 16, (0.3, 0.9)), ("coral", 10, (0.15, 0.6))):
            for _ in range(count):
                size = float(np.exp(rng.uniform(*np.log(sizes))))
                self.stand(rng, kind, size, self.spot(rng, rng.uniform(0.4, 1.0) ** 2 * 15.0, np.pi))

    def wreck(self, rng: np.random.Generator) -> None:
        """A shipwreck on the far side, listing and half sunk in."""
        length = rng.uniform(8.0, 13.0)
        asset = self.library.draw("wreck", rng)
        thing = wreck(rng, length) if asset is None else []
        heel = about_right(rng.choice((-1.0, 1.0)) * rng.uniform(0.2, 0.6))
        for _ in range(20):
            turn = about_vertical(rng.uniform(0, 2 * np.pi)) @ heel
            at = self.spot(rng, rng.uniform(8.0, 12.0), 0.5)
            scaled = asset is not None
            if self.keep(
                _stand(
                    "wreck",
                    "wreck",
                    thing,
                    asset,
                    turn=turn,
                    size=length,
                    at=at,
                    terrain=self.terrain,
                    sink=0.5,
                    scaled=scaled,
                )
            ):
                return

    def fish(self, rng: np.random.Generator) -> None:
        """A few schools of fish between the floor and the surface."""
        for _ in range(int(rng.integers(3, 7))):
            asset = self.library.draw("fish", rng)
            parts, velocity = school(rng, rng.uniform(0.6, 1.6))
            x, y = self.spot(rng, rng.uniform(0.5, 9.0), 1.1)
            height = min(float(self.terrain.height(x, y)) + rng.uniform(1.3, 3.6), self.surface - 0.9)
            if asset is None:
                moved = tuple(transformed(part, placement(place=(x, y, height))) for part in parts)
                box = box_of(np.concatenate([part.vertices for part in moved]))
                self.keep(Placed("fish", "fish", box, velocity, parts=moved))
                continue
            turn = about_vertical(float(np.arctan2(velocity[1], velocity[0])))
            matrix = placement(turn=turn, scale=float(rng.uniform(0.15, 0.4)), place=(x, y, height))
            box = box_of(asset.corners @ matrix[:3, :3].T + matrix[:3, 3])
            name = asset.name
            self.keep(Placed(name, "fish", box, velocity, file=asset.path, matrix=matrix @ asset.matrix))


def _stand(
    name: str,
    role: str,
    thing: Thing,
    asset: Asset | None,
    *,
    turn: Floats,
    size: float,
    at: tuple[float, float],
    terrain: Terrain,
    sink: float = 0.03,
    scaled: bool = True,
) -> Placed:
    """A thing, or a file of the user, turned and set on the floor, `sink` metres deep in it.

    size: metres of its longest side; a bundled thing keeps its own size unless `scaled`.
    """
    corners = asset.corners if asset is not None else np.concatenate([part.vertices for part in thing])
    scale = size / float(np.ptp(corners, axis=0).max()) if scaled or asset is not None else 1.0
    turned = scale * corners @ turn.T
    low, high = turned.min(axis=0), turned.max(axis=0)
    across = np.linspace(0, 1, 5)
    x, y = at[0] + low[0] + across * (high[0] - low[0]), at[1] + low[1] + across * (high[1] - low[1])
    ground = float(terrain.height(x[None, :], y[:, None]).mean())
    lowest = float(low[2]) if role in ("object", "wreck") or asset is not None else 0.0
    matrix = placement(turn=turn, scale=scale, place=(*at, ground - lowest - sink))
    box = box_of(corners @ matrix[:3, :3].T + matrix[:3, 3])
    if asset is not None:
        return Placed(name, role, box, _STATIC, file=asset.path, matrix=matrix @ asset.matrix)
    return Placed(name, role, box, _STATIC, parts=tuple(transformed(part, matrix) for part in thing))
