"""The bundled background: rocks, corals, seaweed, fish and a shipwreck, all procedural and varied by seed.

Each thing stands on z = 0 about the origin (fish and wreck: see there), in metres.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from linstereo.synthesis.growth import blades, brain, branches, fish, sea_fan, tube_sponge
from linstereo.synthesis.mesh_tools import joined, moved
from linstereo.synthesis.scene import Mesh
from linstereo.synthesis.seastereo.objects import Thing
from linstereo.synthesis.seastereo.parts import Colour, Look, Part, upright
from linstereo.synthesis.seastereo.terrain import Floats
from linstereo.synthesis.shapes import boulder, tubes

_CORALS: tuple[Colour, ...] = (
    (0.62, 0.22, 0.16),
    (0.66, 0.42, 0.14),
    (0.48, 0.18, 0.38),
    (0.55, 0.46, 0.30),
    (0.22, 0.32, 0.16),
    (0.70, 0.60, 0.45),
)
_WEEDS: tuple[Colour, ...] = ((0.10, 0.22, 0.04), (0.20, 0.22, 0.04), (0.24, 0.15, 0.04), (0.06, 0.17, 0.07))
_FISHES: tuple[Colour, ...] = ((0.32, 0.34, 0.36), (0.60, 0.48, 0.08), (0.12, 0.20, 0.38), (0.45, 0.28, 0.15))


def _vary(rng: np.random.Generator, palette: tuple[Colour, ...]) -> Colour:
    red, green, blue = np.clip(np.array(palette[rng.integers(len(palette))]) * rng.uniform(0.75, 1.25, 3), 0.01, 0.9)
    return float(red), float(green), float(blue)


def rock(rng: np.random.Generator, size: float) -> Thing:
    """A boulder `size` metres across, a quarter of it in the floor."""
    stone = boulder(rng, size / 2, jagged=rng.uniform(0.25, 0.8), rings=40)
    grey = float(rng.uniform(0.06, 0.20))
    look = Look("rock", (grey * 1.08, grey, grey * 0.88), float(rng.uniform(0, 100)))
    return [upright(moved(stone, translation=(0, -0.25 * size * rng.uniform(0.4, 1.0), 0)), look)]


def coral(rng: np.random.Generator, size: float) -> Thing:
    """A coral or sponge `size` metres high, one of several growth forms, often on a foot of rock."""
    look = Look("coral", _vary(rng, _CORALS), float(rng.uniform(0, 100)))
    kind = int(rng.integers(5))
    if kind == 0:
        stems = [
            moved(
                branches(rng, size, thickness=0.05 * size, generations=4, spread=0.55, sides=7),
                translation=tuple(rng.normal(0, 0.15 * size, 3) * (1, 0, 1)),
            )
            for _ in range(int(rng.integers(2, 5)))
        ]
        thing = [upright(stems, look)]
    elif kind == 1:
        thing = [upright(brain(rng, 0.6 * size), look)]
    elif kind == 2:
        thing = [upright(tube_sponge(rng, size), look)]
    elif kind == 3:
        thing = [upright(sea_fan(rng, 1.2 * size), look)]
    else:
        thing = [upright(_plates(rng, size), look)]
    return [*thing, *rock(rng, size * rng.uniform(0.5, 0.9))] if rng.random() < 0.5 else thing


def seaweed(rng: np.random.Generator, size: float) -> Thing:
    """A tuft of sea grass or kelp, up to `size` metres high."""
    broad = rng.random() < 0.4
    count = int(rng.integers(10, 22)) if broad else int(rng.integers(35, 90))
    width = size * (rng.uniform(0.07, 0.12) if broad else rng.uniform(0.015, 0.03))
    tuft = blades(
        rng, count, size, spread=0.2 * size, width=width, bend=rng.uniform(0.3, 0.8), steps=10 if broad else 7
    )
    return [upright(tuft, Look("weed", _vary(rng, _WEEDS), float(rng.uniform(0, 100))))]


def school(rng: np.random.Generator, size: float) -> tuple[Thing, Floats]:
    """Fish about the origin in a cloud of about `size` metres, all swimming one way at a velocity [3], m per frame."""
    count = int(rng.integers(5, 22))
    length = rng.uniform(0.12, 0.3)
    heading = rng.uniform(0, 2 * np.pi)
    kind = fish(rng, length)
    look = Look("fish", _vary(rng, _FISHES), float(rng.uniform(0, 100)))
    swarm = []
    for _ in range(count):
        turn = heading + rng.normal(0, 0.18)
        cosine, sine = np.cos(turn), np.sin(turn)
        rotation = np.array([[cosine, 0, sine], [0, 1, 0], [-sine, 0, cosine]])
        at = rng.normal(0, 1, 3) * size * (0.35, 0.16, 0.35)
        swarm.append(moved(kind, rotation=rotation, scale=rng.uniform(0.75, 1.2), translation=at))
    # A fish of `growth` looks along -x; turned by `heading` about y, that is (-cos, 0, sin) there, (-cos, sin, 0) here.
    speed = rng.uniform(0.004, 0.015)
    return [upright(swarm, look)], speed * np.array([-np.cos(heading), np.sin(heading), 0.0])


def wreck(rng: np.random.Generator, length: float) -> Thing:
    """A wooden ship `length` metres long along x, some of its planks gone, ribs and masts standing; keel on z = 0."""
    beam, tall = length * rng.uniform(0.22, 0.28), length * rng.uniform(0.16, 0.21)
    t, s = np.linspace(-1, 1, 61), np.linspace(-1, 1, 33)
    along, across = np.meshgrid(t, s, indexing="ij")
    planks = _hull(along, across, length, beam, tall)
    rows, columns = along.shape
    index = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    a, b, c, d = index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]
    quads = np.stack([a, b, d, c], axis=-1)  # [R, C, 4]
    gone = _holes(rng, rows - 1, columns - 1)
    kept = quads[~gone]
    faces = np.concatenate([kept[:, [0, 1, 2]], kept[:, [0, 2, 3]]]).astype(np.int32)
    dark = float(rng.uniform(0.05, 0.10))
    wood = Look("wood", (1.5 * dark, dark, 0.6 * dark), float(rng.uniform(0, 100)))
    hull = Part(planks.reshape(-1, 3), faces, wood)
    stations = np.linspace(-0.85, 0.85, 15)
    ribs = np.stack([_hull(np.full(25, at), np.linspace(-1.05, 1.05, 25), length, beam, tall) for at in stations])
    deck = [_beam(at, length, beam, tall) for at in stations[rng.random(len(stations)) < 0.55]]
    masts = []
    for at in (-0.3, 0.25):
        high = tall * rng.uniform(0.8, 3.2)
        foot = np.array([at * length / 2, 0.0, 0.1 * tall])
        masts.append(np.stack([foot, foot + np.array([rng.normal(0, 0.1) * high, rng.normal(0, 0.1) * high, high])]))
    spars = [tubes(path[None], np.array([0.011 * length]), sides=10) for path in masts]
    timber = joined([tubes(ribs, np.array([0.008 * length]), sides=6), *(_tube(path, 0.007 * length) for path in deck)])
    timbers = [Part(m.vertices, m.faces[:, ::-1].copy(), wood) for m in (timber, *spars)]
    return [hull, *timbers]


def _hull(along: Floats, across: Floats, length: float, beam: float, tall: float) -> Floats:
    """Points [..., 3] of the hull: `along` from stern to bow and `across` from gunwale to gunwale, each -1 to 1."""
    taper = np.clip(1 - np.abs(along) ** 2.6, 0.0, 1.0) ** 0.8
    round_ = np.abs(across) ** 2.4
    rise = 1 + 0.35 * np.abs(along) ** 2.5
    keel = 0.45 * np.abs(along) ** 5 * tall
    x = along * length / 2 * (0.9 + 0.1 * round_)
    y = np.sign(across) * beam / 2 * taper * np.abs(across) ** 0.75
    return np.stack([x, y, keel + (tall * rise - keel) * round_], axis=-1)


def _holes(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """bool [rows, columns]: planks that are gone, in long gashes."""
    gone = np.zeros((rows, columns), np.bool_)
    for _ in range(int(rng.integers(8, 18))):
        row, column = int(rng.integers(rows)), int(rng.integers(columns))
        gone[row : row + int(rng.integers(2, 14)), column : column + int(rng.integers(1, 3))] = True
    return gone


def _beam(at: float, length: float, beam: float, tall: float) -> Floats:
    ends = _hull(np.full(2, at), np.array([-0.9, 0.9]), length, beam, tall)
    return ends


def _tube(path: Floats, radius: float) -> Mesh:
    return tubes(path[None], np.array([radius]), sides=6)


def _plates(rng: np.random.Generator, size: float) -> Mesh:
    """Table coral: a few thin, wavy discs above each other."""
    discs = []
    for k in range(int(rng.integers(2, 5))):
        disc = boulder(rng, size * rng.uniform(0.35, 0.6), jagged=0.35, rings=18)
        flat = Mesh(disc.vertices * (1, 0.12, 1), disc.faces, disc.uv, None)
        at = (*(rng.normal(0, 0.12 * size, 2)), 0.0)
        discs.append(moved(flat, translation=(at[0], -size * (0.25 + 0.2 * k), at[1])))
    stem = tubes(np.array([[[0.0, 0.1, 0.0], [0.0, -0.5 * size, 0.0]]]), np.array([0.07 * size]), sides=8)
    return joined([stem, *discs])


SCENERY: Mapping[str, Callable[[np.random.Generator, float], Thing]] = MappingProxyType(
    {"rock": rock, "coral": coral, "seaweed": seaweed}
)
"""What stands about on the floor, by the name that a folder of the user's own assets has for it."""
