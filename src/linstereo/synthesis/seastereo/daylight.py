"""Daylight in a layer of water over the sea floor: the equation of radiative transfer, solved in float64.

The layer is the same everywhere on a level, so that only the angle to the vertical matters. Radiance is kept at the
nodes of a quadrature over the cosine of that angle, downwards and upwards. A very thin layer scatters once at most;
two equal layers make one of twice the thickness ("doubling": H. C. van de Hulst, *Multiple Light Scattering*, Academic
Press 1980), so that two dozen steps lead to any thickness, with light scattered any number of times.

Both water modes take from here what Jerlov's tables do not say: how much light the rendered volume lets through, and
how bright the water on the level is near a floor of sand.
"""

import functools
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss, legvander

from linstereo.synthesis.seastereo.terrain import Floats

_NODES = 16  # in each of the two intervals of the cosine
_ORDERS = 56  # of the Legendre series of the phase function
_DOUBLINGS = 24


@dataclass(frozen=True)
class WaterLayer:
    """Water of one colour channel above the sea floor, and the daylight that enters it.

    Args:
        absorption: 1/m.
        scattering: 1/m, greater than 0.
        anisotropy: of the phase function of Henyey and Greenstein, 0 to below 0.9.
        thickness: metres from the floor to the top of the layer.
        albedo: reflectance of the floor, 0 to 1.
        sun: part of the daylight that comes straight from the sun.
        sun_cosine: of the angle from the zenith in which the sun stands, above 0.
        sky_cosine: of the angle from the zenith within which the rest of the daylight comes, evenly; 0 to below 1.
    """

    absorption: float
    scattering: float
    anisotropy: float
    thickness: float
    albedo: float
    sun: float
    sun_cosine: float
    sky_cosine: float

    def at(self, height: float) -> tuple[float, float]:
        """The light at a height in metres above the floor, of daylight in which a white surface has the radiance 1.

        Returns:
            the radiance of a white matt surface that looks up there, and that of endless water seen on the level.
        """
        return _solved(self, height)


@functools.lru_cache(maxsize=4096)
def _solved(layer: WaterLayer, height: float) -> tuple[float, float]:
    streams = _Streams(layer)
    attenuation = layer.absorption + layer.scattering
    above_back, above_through = streams.layer(attenuation * (layer.thickness - height))
    back, through = streams.layer(attenuation * height)
    floor, one = streams.floor(), np.eye(len(streams.cosine))
    below = back + through @ floor @ np.linalg.solve(one - back @ floor, through)
    down: Floats = np.asarray(np.linalg.solve(one - above_back @ below, above_through @ streams.daylight()), np.float64)
    return streams.white(down), streams.level(down, below @ down)


class _Streams:
    """Radiance at the nodes of a quadrature; the last one is the sun, whose value is its irradiance / (2 pi)."""

    def __init__(self, layer: WaterLayer) -> None:
        self.layer_settings = layer
        node, weight = leggauss(_NODES)
        split = layer.sky_cosine if layer.sky_cosine > 0 else 0.5
        parts = [
            (low + (high - low) * (node + 1) / 2, weight * (high - low) / 2) for low, high in ((0, split), (split, 1))
        ]
        self.cosine: Floats = np.concatenate([part[0] for part in parts] + [[layer.sun_cosine]])
        self.weight: Floats = np.concatenate([part[1] for part in parts] + [[1.0]])
        self.share = layer.scattering / (layer.absorption + layer.scattering)
        order = np.arange(_ORDERS)
        self.series = (2 * order + 1) * float(layer.anisotropy) ** order
        same, opposite = self._phase(self.cosine), self._phase(-self.cosine)
        # No light may be lost to the quadrature: what is missing goes straight on.
        rest = 2 - self.weight[:-1] @ (same + opposite)[:-1, :-1]
        same[np.arange(len(rest)), np.arange(len(rest))] += rest / self.weight[:-1]
        self.forth, self.back = same * self.weight, opposite * self.weight

    def _phase(self, cosine: Floats) -> Floats:
        """[N, S] the phase function, averaged over the azimuth, from each of the streams downwards to cosines [N]."""
        return np.asarray((legvander(cosine, _ORDERS - 1) * self.series) @ legvander(self.cosine, _ORDERS - 1).T)

    def layer(self, optical: float) -> tuple[Floats, Floats]:
        """What a layer of an optical thickness throws back and lets through, each [S, S]: from stream to stream."""
        thin = optical / 2**_DOUBLINGS / self.cosine[:, None]
        back, through = thin * self.share / 2 * self.back, thin * self.share / 2 * self.forth
        back[-1], through[-1] = 0.0, 0.0  # nothing is scattered into the sun's beam
        through += np.diag(1 - thin[:, 0])
        one = np.eye(len(self.cosine))
        for _ in range(_DOUBLINGS):
            between = np.linalg.solve(one - back @ back, through)
            back, through = back + through @ back @ between, through @ between
        return back, through

    def floor(self) -> Floats:
        """[S, S] what the matt floor throws back."""
        back = np.broadcast_to(
            2 * self.layer_settings.albedo * self.weight * self.cosine, (len(self.cosine),) * 2
        ).copy()
        back[-1] = 0.0
        return back

    def daylight(self) -> Floats:
        """[S] what comes from above, white 1."""
        layer = self.layer_settings
        light = np.where(self.cosine > layer.sky_cosine, (1 - layer.sun) / (1 - layer.sky_cosine**2), 0.0)
        light[-1] = layer.sun / (2 * layer.sun_cosine)
        return np.asarray(light)

    def white(self, down: Floats) -> float:
        """Radiance of a white matt surface in light [S] from above."""
        return float(2 * (self.weight * self.cosine * down).sum())

    def level(self, down: Floats, up: Floats) -> float:
        """Radiance of endless water on the level, in light [S] from above and [S] from below."""
        aside = self._phase(np.zeros(1))[0]  # the same from above and from below
        return float(self.share / 2 * (self.weight * aside * (down + up)).sum())
