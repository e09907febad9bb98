"""The sea floor: dunes and ripples of sand as a sum of waves, so that its height is known everywhere exactly.

The frame of a scene: x right, y ahead, z up, metres; the origin lies on the mean sea floor, in the middle of the scene.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HALF_EXTENT = 90.0
"""Metres from the middle to the edge of the floor."""
_CELLS = 440
_FINE_REACH = 3.0  # metres from the middle within which the grid is nearly even
_RIPPLE_REACH = 7.0  # metres beyond which the grid is too coarse for ripples


@dataclass(frozen=True, eq=False)
class Terrain:
    """A floor of waves, each a row of (amplitude m, x and y wave number rad/m, phase rad).

    Args:
        dunes: [D, 4] long waves, everywhere.
        ripples: [R, 4] short waves, fading out with the distance from the middle.
    """

    dunes: Floats
    ripples: Floats

    def height(self, x: Floats | float, y: Floats | float) -> Floats:
        """Metres above the mean floor at the points (x, y), of their common shape."""
        x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
        fade = np.exp(-(((x**2 + y**2) / _RIPPLE_REACH**2) ** 2))
        return _waves(self.dunes, x, y) + fade * _waves(self.ripples, x, y)

    def highest(self, x: float, y: float, *, within: float) -> float:
        """The highest point of the floor within a square of 2 * `within` metres around (x, y), to a few mm."""
        steps = np.linspace(-within, within, 17)
        return float(self.height(x + steps[None, :], y + steps[:, None]).max())

    def grid(self) -> tuple[Floats, NDArray[np.int32]]:
        """Vertices [V, 3] and triangles [F, 3] of the floor, turned upwards, fine in the middle and coarse far out."""
        rate = np.arcsinh(HALF_EXTENT / _FINE_REACH)
        line = _FINE_REACH * np.sinh(rate * np.linspace(-1, 1, _CELLS + 1))
        x, y = np.meshgrid(line, line)  # [R, C]
        vertices = np.stack([x, y, self.height(x, y)], axis=-1).reshape(-1, 3)
        index = np.arange(len(vertices), dtype=np.int32).reshape(x.shape)
        a, b, c, d = index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]
        faces = np.stack([np.stack([a, b, c], axis=-1), np.stack([b, d, c], axis=-1)], axis=2)
        return vertices, faces.reshape(-1, 3)


def random_terrain(rng: np.random.Generator) -> Terrain:
    """Dunes of a few decimetres and ripples of a few centimetres, all running about one way, as with a current."""
    current = rng.uniform(0, 2 * np.pi)
    dunes = _random_waves(
        rng, 14, lengths=(2.5, 24.0), steepness=rng.uniform(0.006, 0.018), direction=current, spread=0.9
    )
    ripples = _random_waves(
        rng, 10, lengths=(0.3, 1.1), steepness=rng.uniform(0.006, 0.016), direction=current, spread=0.35
    )
    return Terrain(dunes, ripples)


def _random_waves(
    rng: np.random.Generator,
    count: int,
    *,
    lengths: tuple[float, float],
    steepness: float,
    direction: float,
    spread: float,
) -> Floats:
    """Waves [count, 4]; `steepness` is the mean amplitude relative to the wave length, at most 0.3 m high."""
    length = np.exp(rng.uniform(np.log(lengths[0]), np.log(lengths[1]), count))
    angle = rng.normal(direction, spread, count)
    number = 2 * np.pi / length
    amplitude = np.minimum(length * steepness * rng.uniform(0.3, 1.0, count), 0.12)
    return np.stack(
        [amplitude, number * np.cos(angle), number * np.sin(angle), rng.uniform(0, 2 * np.pi, count)], axis=1
    )


def _waves(waves: Floats, x: Floats, y: Floats) -> Floats:
    total = np.zeros(x.shape)
    for amplitude, number_x, number_y, phase in waves:
        total += amplitude * np.sin(number_x * x + number_y * y + phase)
    return total
