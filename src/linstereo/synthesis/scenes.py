"""Random scenes for a stereo camera, closed and with a wanted range of disparities."""

from collections.abc import Callable

import numpy as np

from linstereo.errors import InputError
from linstereo.synthesis.indoor_scenes import fill_posters, fill_room, fill_tabletop, fill_workshop
from linstereo.synthesis.materials import VARIANTS, MaterialStock
from linstereo.synthesis.mesh_files import MeshFolder
from linstereo.synthesis.mesh_tools import Floats, pitch, roll
from linstereo.synthesis.outdoor_scenes import fill_country, fill_flying, fill_road
from linstereo.synthesis.photos import PhotoFolder
from linstereo.synthesis.plain_scenes import fill_plain_room
from linstereo.synthesis.scene import Lamp, Lighting, Material, Scene
from linstereo.synthesis.scene_builder import SceneBuilder, Shot
from linstereo.synthesis.textures import library_texture
from linstereo.synthesis.underwater_scenes import fill_harbour, fill_reef

Filler = Callable[[SceneBuilder, MeshFolder | None], None]
FILLERS: dict[str, Filler] = {
    "flying": fill_flying,
    "room": fill_room,
    "plain_room": fill_plain_room,
    "tabletop": fill_tabletop,
    "workshop": fill_workshop,
    "posters": fill_posters,
    "road": fill_road,
    "country": fill_country,
    "reef": fill_reef,
    "harbour": fill_harbour,
}
"""Every kind of scene by its name."""
IN_AIR = {"flying": 0.19, "room": 0.17, "tabletop": 0.15, "workshop": 0.18} | {
    "posters": 0.08, "road": 0.16, "country": 0.07
}  # fmt: skip
UNDER_WATER = {"reef": 0.62, "harbour": 0.2, "flying": 0.1, "country": 0.04, "tabletop": 0.04}
_TILTS = {"flying": (0.0, 0.15), "room": (0.2, 0.12), "tabletop": (0.35, 0.15), "posters": (0.0, 0.1)} | {
    "plain_room": (0.1, 0.15), "workshop": (0.12, 0.12),
    "road": (0.02, 0.04), "country": (0.12, 0.1), "reef": (0.25, 0.18), "harbour": (0.1, 0.15)
}  # fmt: skip
_NEAR = {"flying": (0.5, 8.0), "room": (0.5, 2.5), "tabletop": (0.25, 1.2), "posters": (0.4, 2.5)} | {
    "plain_room": (0.5, 3.0), "workshop": (0.4, 3.0),
    "road": (1.5, 8.0), "country": (0.8, 6.0), "reef": (0.5, 3.0), "harbour": (0.5, 3.5)
}  # fmt: skip
LEAST_DISPARITY = 0.02
"""Least greatest disparity of a scene, as a share of the width."""
PLAIN = 0.25
"""Usual share of plain rooms among the scenes in air."""
_INDOORS = ("room", "plain_room", "tabletop", "workshop", "posters")


def random_scene(
    rng: np.random.Generator,
    *,
    height: int,
    width: int,
    max_disparity: float = 1 / 3,
    photos: PhotoFolder | None = None,
    meshes: MeshFolder | None = None,
    underwater: bool = False,
    plain: float = PLAIN,
    kind: str | None = None,
) -> Scene:
    """A random scene; a pure function of the generator's state and the arguments.

    The largest disparity of the scene, over all that either camera sees, is drawn log-uniformly between 2 % of the
    width (or `max_disparity`, if that is less) and `max_disparity`; the backdrop's is below a pixel, or a little less
    than that of the farthest surface.

    Args:
        rng: where all randomness comes from.
        height: of the images, px.
        width: of the images, px.
        max_disparity: the largest disparity allowed, as a share of the width.
        photos: photographs for textures; None uses procedural textures only.
        meshes: meshes to place among the procedural ones.
        underwater: whether the scene is one to be seen through water.
        plain: chance, 0 to 1, of a plain room, if the scene is in air and `kind` is None.
        kind: one of `FILLERS`; None chooses one that suits air or water.
    """
    if kind is None:
        kinds = UNDER_WATER if underwater else IN_AIR
        kind = str(rng.choice(list(kinds), p=np.array(list(kinds.values())) / sum(kinds.values())))
        if not underwater and rng.random() < plain:
            kind = "plain_room"
    check_kind(kind)
    shot = _shot(rng, kind, height, width, max_disparity)
    (mirrors,) = rng.spawn(1)  # so that scenes are otherwise as they would be without
    stock = MaterialStock(
        photos,
        photo_factor=float(rng.choice([0.5, 1.0, 1.5, 2.5])),
        plainness=_plainness(rng, kind),
        painted=0.06,
        mirrors=None if underwater or mirrors.random() < 0.3 else mirrors,
    )
    builder = SceneBuilder(rng, shot, stock, kind)
    FILLERS[kind](builder, meshes)
    backdrop = _backdrop_material(rng, photos, kind, underwater)
    far = float(np.exp(rng.uniform(np.log(0.05), np.log(0.7))))
    return builder.finished(_lighting(rng, shot, kind, underwater), backdrop, far=far)


def check_kind(kind: str) -> None:
    """An `InputError` unless `kind` is one of `FILLERS`."""
    if kind not in FILLERS:
        raise InputError(f"there is no scene kind {kind!r}; choose one of {', '.join(FILLERS)}")


def _shot(rng: np.random.Generator, kind: str, height: int, width: int, max_disparity: float) -> Shot:
    focal = width * float(np.exp(rng.uniform(np.log(0.6), np.log(1.6))))
    least = min(LEAST_DISPARITY, max_disparity)
    largest = width * float(np.exp(rng.uniform(np.log(least), np.log(max_disparity))))
    low, high = _NEAR[kind]
    near = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    near = float(np.clip(near, 0.06 * focal / largest, 0.55 * focal / largest))
    mean, spread = _TILTS[kind]
    tilt = pitch(rng.normal(mean, spread)) @ roll(rng.normal(0, 0.12 if kind == "flying" else 0.025))
    return Shot(
        height=height,
        width=width,
        focal=focal,
        cx=(width - 1) / 2 + width * rng.normal(0, 0.015),
        cy=(height - 1) / 2 + height * rng.normal(0, 0.03),
        max_disparity=largest,
        near=near,
        tilt=tilt,
    )


def _plainness(rng: np.random.Generator, kind: str) -> float:
    if kind == "plain_room":
        return float(rng.uniform(0.3, 0.9))
    return float(rng.choice([0.02, 0.08, 0.2, 0.4], p=[0.35, 0.3, 0.22, 0.13]))


def _backdrop_material(rng: np.random.Generator, photos: PhotoFolder | None, kind: str, underwater: bool) -> Material:
    if underwater:
        return Material(library_texture("deep_water", int(rng.integers(VARIANTS)), 128), shaded=False)
    if photos is not None and rng.random() < (0.4 if kind == "road" else 0.7):
        texture = photos.texture(rng, size=512, whole=True)
        return Material(texture, tint=_triple(np.full(3, rng.uniform(0.6, 1.2))), shaded=False)
    return Material(
        library_texture("sky", int(rng.integers(VARIANTS)), 256),
        tint=_triple(np.full(3, rng.uniform(0.7, 1.3))),
        shaded=False,
    )


def _lighting(rng: np.random.Generator, shot: Shot, kind: str, underwater: bool) -> Lighting:
    warmth = rng.normal(0, 0.12)
    white = np.array([1 + warmth, 1.0, 1 - warmth])
    indoors = kind in _INDOORS
    sun = white * rng.uniform(0.1, 0.9) if indoors else white * rng.uniform(0.2, 1.3)
    ambient = (white * (1, 1, 1.1)) * rng.uniform(0.25, 0.7)
    lamps: tuple[Lamp, ...] = ()
    plain_room = kind == "plain_room"
    if rng.random() < (0.35 if underwater else 0.7 if plain_room else 0.3 if indoors else 0.1):
        dark = rng.random() < (0.6 if plain_room else 0.35)
        if dark:
            sun, ambient = sun * rng.uniform(0.0, 0.25), ambient * rng.uniform(0.03, 0.3)
        lamps = _lamps(rng, shot, underwater)
    return Lighting(
        sun_direction=_triple(_sun_direction(rng, shot)),
        sun_colour=_triple(np.clip(sun, 0.0, None)),
        ambient_colour=_triple(np.clip(ambient, 0.01, None)),
        lamps=lamps,
        shadows=bool(rng.random() < 0.8),
    )


def _lamps(rng: np.random.Generator, shot: Shot, underwater: bool) -> tuple[Lamp, ...]:
    reach = 1.5 * shot.near
    lamps = []
    for _ in range(int(rng.integers(1, 3))):
        if underwater:
            position = rng.normal(0, 0.25, 3) * (1.5, 0.6, 0.0) * shot.near + (0, -0.1 * shot.near, 0)
        else:
            position = rng.normal(0, 1.0, 3) * shot.near + (0, -1.5 * shot.near, shot.near)
        colour = rng.uniform(0.4, 1.6) * reach**2 * np.array([1.0, 1.0, 1.0 + rng.normal(0, 0.15)])
        lamps.append(Lamp(_triple(position), _triple(np.clip(colour, 0.0, None))))
    return tuple(lamps)


def _sun_direction(rng: np.random.Generator, shot: Shot) -> Floats:
    """Towards the sun in the level frame: above the horizon and out of the picture, as the backdrop shuts it out."""
    left, right, top, bottom = shot.bounds
    while True:
        azimuth, height = rng.uniform(0, 2 * np.pi), rng.uniform(0.35, 1.5)
        level = np.array([np.cos(height) * np.sin(azimuth), -np.sin(height), np.cos(height) * np.cos(azimuth)])
        x, y, z = shot.tilt @ level
        if z <= 0 or not (1.3 * left * z < x < 1.3 * right * z and 1.3 * top * z < y < 1.3 * bottom * z):
            return level


def _triple(vector: Floats) -> tuple[float, float, float]:
    return float(vector[0]), float(vector[1]), float(vector[2])
