"""Procedural textures: uint8 [S, S, 3] RGB pictures, pure functions of the generator handed in."""

import zlib
from collections.abc import Callable
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.synthesis.noise import fractal_noise, value_noise

Texture = NDArray[np.uint8]
Painter = Callable[[np.random.Generator, int], Texture]


def random_texture(rng: np.random.Generator, *, size: int = 256, kind: str | None = None) -> Texture:
    """A procedural texture.

    Args:
        rng: where the randomness comes from.
        size: S, a power of two, at least 32.
        kind: one of `TEXTURES`; None chooses one.

    Returns:
        uint8 [S, S, 3] sRGB; the kinds in `TILING` tile without a seam.
    """
    name = kind if kind is not None else KINDS[rng.integers(len(KINDS))]
    return TEXTURES[name](rng, size)


@lru_cache(maxsize=1024)
def library_texture(kind: str, number: int, size: int) -> Texture:
    """Texture `number`, at least 0, of a kind, read-only: the same for the same arguments, made once and kept."""
    seed = np.random.SeedSequence((zlib.crc32(kind.encode()), number))
    texture = random_texture(np.random.default_rng(seed), size=size, kind=kind)
    texture.flags.writeable = False
    return texture


def random_colour(rng: np.random.Generator, *, saturation: float = 0.6) -> NDArray[np.float32]:
    """A colour, float32 [3] sRGB in 0 to 255, of any hue and brightness; `saturation` bounds how colourful it is."""
    hue, colourful = rng.uniform(0, 6), saturation * rng.beta(0.9, 1.5)
    value = 255 * rng.beta(2.2, 1.4)
    ramp = np.clip(np.abs((hue + np.array([0.0, 4.0, 2.0])) % 6 - 3) - 1, 0, 1)
    return np.asarray(value * (1 - colourful + colourful * ramp), np.float32)


def plain(rng: np.random.Generator, size: int) -> Texture:
    """Nearly textureless: one colour, a faint slow shade and hardly visible grain."""
    slow = fractal_noise(rng, size, cells=2, octaves=2) - 0.5
    grain = rng.standard_normal((size, size), np.float32)
    shade = rng.uniform(0, 10) * slow + rng.uniform(0.0, 1.6) * grain
    return _bytes(random_colour(rng, saturation=0.3)[None, None] * 0.7 + 60 + shade[..., None])


def shaded(rng: np.random.Generator, size: int) -> Texture:
    """One colour under uneven light: soft shadows and falling-off light, next to no grain."""
    slow = fractal_noise(rng, size, cells=int(rng.integers(1, 4)), octaves=2) - 0.5
    grain = rng.standard_normal((size, size), np.float32)
    light = 1 + rng.uniform(0.0, 0.5) * slow + rng.uniform(0.0, 0.004) * grain
    return _bytes((random_colour(rng, saturation=0.25) * 0.5 + 100)[None, None] * light[..., None])


def plaster(rng: np.random.Generator, size: int) -> Texture:
    """A wall with weak grain and stains."""
    grain = fractal_noise(rng, size, cells=int(2 ** rng.integers(4, 7)), octaves=3, roughness=0.8) - 0.5
    stains = fractal_noise(rng, size, cells=2, octaves=4) - 0.5
    base = random_colour(rng, saturation=0.35)[None, None] * 0.6 + 80
    return _bytes(base + (rng.uniform(8, 35) * grain + rng.uniform(5, 40) * stains)[..., None])


def clouds(rng: np.random.Generator, size: int) -> Texture:
    """Fractal noise between several colours, from soft to harsh."""
    grey = fractal_noise(rng, size, cells=int(2 ** rng.integers(1, 5)), octaves=7, roughness=rng.uniform(0.4, 0.85))
    return _coloured(rng, grey, stops=int(rng.integers(2, 6)))


def marble(rng: np.random.Generator, size: int) -> Texture:
    """Veins: a sine of distorted coordinates."""
    warp = fractal_noise(rng, size, cells=4, octaves=5, roughness=0.6)
    ramp = np.arange(size, dtype=np.float32) / size
    waves = int(rng.integers(1, 9))
    phase = waves * (ramp[None, :] + rng.integers(0, 3) * ramp[:, None]) + rng.uniform(1, 5) * warp
    return _coloured(rng, 0.5 + 0.5 * np.sin(np.float32(2 * np.pi) * phase), stops=3)


def wood(rng: np.random.Generator, size: int) -> Texture:
    """Long grain, often cut into planks."""
    grain = fractal_noise(rng, size, cells=2, octaves=3)
    fine = value_noise(rng, size, size, cells_across=max(size // 32, 1))
    rows = np.arange(size, dtype=np.float32)[:, None] / size
    rings = np.sin(2 * np.pi * (rng.integers(3, 14) * rows + 3 * grain)) * 0.5 + 0.5
    grey = 0.5 * rings + 0.3 * fine + 0.2 * grain
    brown = np.array([150, 105, 65], np.float32) * rng.uniform(0.4, 1.5) + rng.uniform(-25, 25, 3).astype(np.float32)
    picture = brown * (0.75 + rng.uniform(0.1, 0.5) * (grey[..., None] - 0.4))
    if rng.random() < 0.6:
        planks = int(2 ** rng.integers(1, 4))
        plank = (np.arange(size) * planks) // size
        picture *= rng.uniform(0.8, 1.15, planks).astype(np.float32)[plank][:, None, None]
        picture[(np.arange(size) * planks) % size < planks * max(size // 200, 1)] *= 0.45
    return _bytes(picture)


def stripes(rng: np.random.Generator, size: int) -> Texture:
    """Strictly repeated stripes of two or three colours."""
    repeats = int(2 ** rng.integers(1, 6))
    ramp = (np.arange(size) * repeats % size) / size
    edges = np.sort(rng.uniform(0.1, 0.9, rng.integers(1, 4)))
    colours = np.stack([random_colour(rng, saturation=0.9) for _ in range(len(edges) + 1)])
    line = colours[np.searchsorted(edges, ramp)]  # [S, 3]
    picture = np.broadcast_to(line[None], (size, size, 3))
    return _bytes(picture if rng.random() < 0.6 else picture.transpose(1, 0, 2))


def barcode(rng: np.random.Generator, size: int) -> Texture:
    """Stripes of random widths."""
    bars = int(rng.integers(8, 60))
    edges = np.sort(rng.uniform(0, 1, bars))
    colours = np.stack([random_colour(rng, saturation=0.8) for _ in range(5)])
    line = colours[rng.integers(0, 5, bars + 1)][np.searchsorted(edges, np.arange(size) / size)]
    picture = np.broadcast_to(line[None], (size, size, 3))
    return _bytes(picture if rng.random() < 0.7 else picture.transpose(1, 0, 2))


def checks(rng: np.random.Generator, size: int) -> Texture:
    """A strictly repeated chequerboard or grid, as of tiles, cloth or paper."""
    repeats = int(2 ** rng.integers(1, 6))
    ramp = (np.arange(size) * repeats % size) / size
    first, second = random_colour(rng, saturation=0.8), random_colour(rng, saturation=0.8)
    share = rng.uniform(0.04, 0.25) if rng.random() < 0.5 else 0.5
    on = ramp < share
    if share == 0.5 and rng.random() < 0.6:
        grey = (on[None, :] ^ on[:, None]).astype(np.float32)
    else:
        grey = 0.5 * on[None, :].astype(np.float32) + 0.5 * on[:, None].astype(
            np.float32
        )  # gingham, or the joints between tiles
    return _bytes(first + grey[..., None] * (second - first))


def dots(rng: np.random.Generator, size: int) -> Texture:
    """Strictly repeated dots or rings."""
    repeats = int(2 ** rng.integers(1, 6))
    ramp = (np.arange(size) * repeats % size) / np.float32(size) - 0.5
    radius = np.sqrt(ramp[None, :] ** 2 + ramp[:, None] ** 2)
    edge = repeats / size * 1.5
    grey = np.clip((rng.uniform(0.15, 0.45) - radius) / edge, 0, 1)
    if rng.random() < 0.3:
        grey = grey - np.clip((rng.uniform(0.05, 0.2) - radius) / edge, 0, 1)
    first, second = random_colour(rng, saturation=0.9), random_colour(rng, saturation=0.9)
    return _bytes(first + grey[..., None].astype(np.float32) * (second - first))


def bricks(rng: np.random.Generator, size: int) -> Texture:
    """Courses of bricks or paving stones; each brick has its own shade."""
    rows = int(2 ** rng.integers(2, 5))
    columns = max(rows // 2, 1) if rng.random() < 0.7 else rows
    at = np.arange(size)
    row = at * rows // size
    offset = (row % 2)[:, None] * (size // (2 * columns)) if rng.random() < 0.8 else 0
    x = (at[None, :] + offset) % size
    column = x * columns // size
    shade = rng.uniform(-1, 1, (rows, columns)).astype(np.float32)[row[:, None], column]
    joint = max(int(size / rows * rng.uniform(0.04, 0.14)), 1)
    mortar = ((at * rows % size) < joint * rows)[:, None] | ((x * columns % size) < joint * columns)
    base = random_colour(rng, saturation=0.5) if rng.random() < 0.5 else np.array([150, 85, 65], np.float32)
    rough = fractal_noise(rng, size, cells=16, octaves=4, roughness=0.8) - 0.5
    picture = base * (1 + rng.uniform(0.05, 0.3) * shade + rng.uniform(0.1, 0.5) * rough)[..., None]
    grout = random_colour(rng, saturation=0.1) * (1 + 0.2 * rough[..., None])
    return _bytes(np.where(mortar[..., None], grout, picture))


def gravel(rng: np.random.Generator, size: int) -> Texture:
    """Pebbles: cells around random points, each in its own shade, dark between them."""
    stones = int(np.exp(rng.uniform(np.log(60), np.log(2500))))
    seeds = np.full((size, size), 255, np.uint8)
    seeds[rng.integers(0, size, stones), rng.integers(0, size, stones)] = 0
    distance, label = cv2.distanceTransformWithLabels(seeds, cv2.DIST_L2, 3, labelType=cv2.DIST_LABEL_PIXEL)
    colours = _palette(rng, 64)[rng.integers(0, 64, stones + 1)]
    round_shade = 1.15 - 0.55 * distance / max(float(np.percentile(distance, 97)), 1.0)
    picture = colours[np.minimum(label, stones)] * np.clip(round_shade, 0.2, 1.2)[..., None]
    return _bytes(picture + 10 * rng.standard_normal((size, size, 1), np.float32))


def speckle(rng: np.random.Generator, size: int) -> Texture:
    """Random dots of one size: sand, asphalt, granite, terrazzo."""
    cells = size // int(2 ** rng.integers(0, 4))
    fine = rng.random((cells, cells), np.float32) ** rng.uniform(0.5, 3)
    mode = cv2.INTER_NEAREST if rng.random() < 0.3 else cv2.INTER_LINEAR
    grey = cv2.resize(fine, (size, size), interpolation=mode)
    grey = 0.75 * grey + 0.25 * fractal_noise(rng, size, cells=4, octaves=4)
    return _coloured(rng, np.clip(grey, 0, 1), stops=int(rng.integers(2, 5)))


def weave(rng: np.random.Generator, size: int) -> Texture:
    """Cloth: threads over and under each other, slightly irregular."""
    threads = int(2 ** rng.integers(3, 7))
    at = np.arange(size, dtype=np.float32) * threads / size
    wave = np.abs(np.sin(np.pi * at))
    over = ((np.floor(at)[:, None] + np.floor(at)[None, :]) % 2).astype(np.float32)
    grey = over * wave[:, None] + (1 - over) * wave[None, :]
    warp, weft = random_colour(rng, saturation=0.8), random_colour(rng, saturation=0.8)
    uneven = 0.85 + 0.3 * fractal_noise(rng, size, cells=8, octaves=4)
    picture = (warp + over[..., None] * (weft - warp)) * (0.5 + 0.5 * grey[..., None]) * uneven[..., None]
    return _bytes(picture)


def writing(rng: np.random.Generator, size: int) -> Texture:
    """Lines of something like print on paper, sometimes with a picture box or a headline."""
    paper, ink = random_colour(rng, saturation=0.15) * 0.3 + 175, random_colour(rng, saturation=0.6) * 0.4
    lines = int(rng.integers(6, 30))
    pitch = size / lines
    letters = int(size / (pitch * rng.uniform(0.35, 0.6)))
    strokes = rng.random((lines * 4, letters * 3), np.float32) < 0.5
    strokes[:, ::3] = False
    strokes[3::4] = False
    words = rng.random((lines, letters)) < 0.84
    words &= (
        np.arange(letters)[None, :] < (letters * np.where(rng.random(lines) < 0.2, rng.random(lines), 0.97))[:, None]
    )
    words[rng.random(lines) < 0.08] = False
    mask = strokes & np.repeat(np.repeat(words, 4, axis=0), 3, axis=1)
    grey = cv2.resize(mask.astype(np.float32), (size, size), interpolation=cv2.INTER_AREA)
    picture = paper + grey[..., None] * (ink - paper)
    if rng.random() < 0.5:
        top, left = rng.integers(0, size // 2, 2)
        tall, wide = rng.integers(size // 8, size // 2, 2)
        block = picture[top : top + tall, left : left + wide]
        block[...] = clouds(rng, 64)[: min(64, tall)].mean(axis=(0, 1)) if rng.random() < 0.5 else ink
    return _bytes(picture)


def collage(rng: np.random.Generator, size: int) -> Texture:
    """Overlapping flat shapes of many colours: posters, packages, toys."""
    picture = np.empty((size, size, 3), np.uint8)
    picture[:] = random_colour(rng, saturation=0.9).astype(np.uint8)
    largest = rng.uniform(0.08, 0.45) * size
    for _ in range(int(rng.integers(12, 70))):
        colour = random_colour(rng, saturation=0.95).tolist()
        centre = rng.uniform(0, size, 2)
        radius = rng.uniform(0.15, 1) * largest
        kind = rng.integers(4)
        if kind == 0:
            cv2.circle(picture, centre.astype(int).tolist(), int(radius), colour, -1, cv2.LINE_AA)
        elif kind == 1:
            axes = [max(int(radius), 1), max(int(radius * rng.uniform(0.2, 1)), 1)]
            cv2.ellipse(
                picture, centre.astype(int).tolist(), axes, rng.uniform(0, 180), 0, 360, colour, -1, cv2.LINE_AA
            )
        elif kind == 2:
            angles = np.sort(rng.uniform(0, 2 * np.pi, rng.integers(3, 7)))
            corners = centre + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
            cv2.fillPoly(picture, [corners.astype(np.int32)], colour, cv2.LINE_AA)
        else:
            end = centre + rng.normal(0, 2 * radius, 2)
            thickness = int(rng.integers(1, max(size // 40, 2)))
            cv2.line(picture, centre.astype(int).tolist(), end.astype(int).tolist(), colour, thickness, cv2.LINE_AA)
    return picture


def foliage(rng: np.random.Generator, size: int) -> Texture:
    """Many small leaves or blades over each other, light ones above dark ones."""
    base = random_colour(rng, saturation=0.5) * 0.5 + np.array([20, 60, 10], np.float32) * rng.uniform(0, 1.3)
    picture = np.empty((size, size, 3), np.uint8)
    picture[:] = np.clip(base * 0.3, 0, 255).astype(np.uint8)
    count = int(rng.integers(150, 420))
    length, slim = size * rng.uniform(0.02, 0.09), rng.uniform(0.15, 0.6)
    for k in range(count):
        shade = 0.35 + 0.9 * k / count
        colour = np.clip(base * shade + rng.normal(0, 14, 3), 0, 255).tolist()
        centre = rng.integers(0, size, 2).tolist()
        axes = [max(int(length * rng.uniform(0.6, 1.3)), 1), max(int(length * slim), 1)]
        cv2.ellipse(picture, centre, axes, rng.uniform(0, 180), 0, 360, colour, -1)
    return picture


def facade(rng: np.random.Generator, size: int) -> Texture:
    """A house front: a strict grid of windows with frames and sills on plaster or brick."""
    wall = (bricks if rng.random() < 0.3 else plaster)(rng, size)
    floors, across = int(rng.integers(2, 6)), int(rng.integers(2, 7))
    tall, wide = size / floors, size / across
    top, bottom = rng.uniform(0.15, 0.3), rng.uniform(0.7, 0.9)
    left, right = rng.uniform(0.15, 0.32), rng.uniform(0.65, 0.85)
    frame, cross = random_colour(rng, saturation=0.2).tolist(), rng.random() < 0.6
    for floor in range(floors):
        for column in range(across):
            a = (int((column + left) * wide), int((floor + top) * tall))
            b = (int((column + right) * wide), int((floor + bottom) * tall))
            glass = (rng.uniform(15, 120) + np.array([0, 4, 10]) + rng.uniform(0, 40)).tolist()
            cv2.rectangle(wall, a, b, glass, -1)
            cv2.rectangle(wall, a, b, frame, max(size // 128, 1))
            if cross:
                middle = (a[0] + b[0]) // 2
                cv2.line(wall, (middle, a[1]), (middle, b[1]), frame, max(size // 170, 1))
    return wall


def asphalt(rng: np.random.Generator, size: int) -> Texture:
    """A road: fine dark grain, patches and cracks."""
    grain = rng.standard_normal((size, size), np.float32)
    patches = fractal_noise(rng, size, cells=2, octaves=5) - 0.5
    grey = rng.uniform(60, 140) + rng.uniform(4, 16) * grain + rng.uniform(10, 50) * patches
    cracks = np.abs(fractal_noise(rng, size, cells=4, octaves=6, roughness=0.6) - 0.5)
    grey = np.where(cracks < 0.006, grey * 0.6, grey)
    return _bytes(grey[..., None] * np.array([1.0, 1.0, rng.uniform(0.9, 1.08)], np.float32))


def sky(rng: np.random.Generator, size: int) -> Texture:
    """For the inside of a far dome: zenith at the top row, nadir at the bottom one, the horizon half-way.

    Blue with clouds, overcast, dusk or a plain bright haze.
    """
    height = np.linspace(1, -1, size, dtype=np.float32)[:, None, None]  # 1 at the zenith
    haze = np.array([225, 230, 235], np.float32) * rng.uniform(0.65, 1.08)
    warm = np.array([1.1, 0.95, 0.8], np.float32) if rng.random() < 0.2 else np.ones(3, np.float32)
    blue = np.array([90, 140, 215], np.float32) * rng.uniform(0.5, 1.1)
    clear = rng.random() < 0.6
    zenith = blue if clear else haze * rng.uniform(0.7, 1.0)
    picture = haze * warm + np.clip(height * 2.2, 0, 1) * (zenith - haze * warm)
    cover = fractal_noise(rng, size, cells=4, octaves=6, roughness=0.6)[..., None]
    amount = np.clip((cover - rng.uniform(0.35, 0.9)) * rng.uniform(1.5, 6), 0, 1) * rng.uniform(0.3, 1)
    picture = picture + amount * (np.float32(rng.uniform(190, 250)) - picture)
    ground = random_colour(rng, saturation=0.4) * 0.5 + 30
    return _bytes(np.where(height < -0.02, ground, picture))


def deep_water(rng: np.random.Generator, size: int) -> Texture:
    """For the inside of a far dome under water: a smooth blue to green, brighter above."""
    height = np.linspace(1, -1, size, dtype=np.float32)[:, None, None]
    colour = np.array([10, rng.uniform(50, 110), rng.uniform(70, 130)], np.float32)
    soft = fractal_noise(rng, size, cells=2, octaves=2)[..., None] - 0.5
    return _bytes(np.broadcast_to(colour * (1 + 0.6 * height) + 6 * soft, (size, size, 3)))


def coral(rng: np.random.Generator, size: int) -> Texture:
    """Encrusted rock: blotches of several colours, pores and a fine relief."""
    blotches = fractal_noise(rng, size, cells=4, octaves=6, roughness=0.65)
    pores = cv2.resize(rng.random((size // 4, size // 4), np.float32), (size, size), interpolation=cv2.INTER_CUBIC)
    relief = fractal_noise(rng, size, cells=16, octaves=4, roughness=0.8)
    picture = _palette(rng, 256)[(blotches * 255).astype(np.uint8)]
    return _bytes(picture * (0.45 + 0.4 * relief + 0.4 * pores)[..., None])


TEXTURES: dict[str, Painter] = {
    painter.__name__: painter
    for painter in (
        *(plain, shaded, plaster, clouds, marble, wood, stripes, barcode, checks, dots, bricks, gravel, speckle, weave),
        *(writing, collage, foliage, facade, asphalt, sky, deep_water, coral),
    )
}
"""Every kind of procedural texture by its name."""
KINDS = tuple(name for name in TEXTURES if name not in ("sky", "deep_water", "facade"))
"""Those that suit any surface."""
TILING = ("plain", "shaded", "plaster", "clouds", "marble", "stripes", "checks", "dots", "bricks", "weave", "asphalt")
"""Those that tile without a seam, but for single pixels of grain."""


def _palette(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    stops = np.stack([random_colour(rng, saturation=0.8) for _ in range(int(rng.integers(3, 6)))])
    at = np.linspace(0, len(stops) - 1, count)
    return np.stack([np.interp(at, np.arange(len(stops)), stops[:, k]) for k in range(3)], axis=1).astype(np.float32)


def _coloured(rng: np.random.Generator, grey: NDArray[np.floating], *, stops: int) -> Texture:
    colours = np.stack([random_colour(rng, saturation=0.8) for _ in range(stops)])
    at = np.linspace(0, stops - 1, 256)
    table = _bytes(np.stack([np.interp(at, np.arange(stops), colours[:, k]) for k in range(3)], axis=1))
    return table[_bytes(255 * grey)]


def _bytes(picture: NDArray[np.floating]) -> Texture:
    clipped: Texture = np.clip(picture, 0, 255).astype(np.uint8)
    return clipped
