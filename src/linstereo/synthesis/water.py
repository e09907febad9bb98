"""What water does to light: from the radiance of a dry scene to that of the same scene under water.

All of it is per colour channel, in the range r from the camera and the depth below the surface. The coefficients are
those of `water_tables` (Jerlov's types I to 3C); the model is

    L = E * [ J exp(-c r)                                   what comes straight
              + spread(J (exp(-g r) - exp(-c r))) ]         what is scattered by small angles: a blur of the picture
        + veil(r)                                           what never was at the surface seen

with J the radiance of the dry scene and

* c = a + b, the beam attenuation: everything that is absorbed or scattered at all;
* g = a + b_b + (b - b_b) / 2, what is lost if light scattered by less than about 5 degrees stays in the picture: half
  of it does (T. J. Petzold, *Volume scattering functions for selected ocean waters*, Scripps Institution of
  Oceanography 1972: median angles of 2 to 6 degrees);
* E, what the way to the surface leaves of the light that falls on it: exp(-K_d z) of daylight at the depth z,
  exp(-g s) of a lamp at the distance s;
* b_b = 0.5 b_water + 0.0183 (b - b_water), backscatter: molecules scatter as much back as forth, particles 1.83 %
  (C. D. Mobley, *Light and Water*, Academic Press 1994, Petzold's average particle);
* the veil of daylight, the integral along the ray of source(z(s)) exp(-g s): it saturates at the water's own colour,
  and brightens upwards; the surface is a mirror, as it is for all but steep rays. Its source is such that endless water
  on the level is three times as bright as water seen from above by the radiance reflectance 0.0949 u + 0.0794 u^2,
  u = b_b / (a + b_b), of H. R. Gordon et al., J. Geophys. Res. 93, 10909 (1988); the factor is near what J. E. Tyler,
  Bull. Scripps Inst. Oceanogr. 7, 363 (1960), saw in a lake;
* the veil of lamps, the integral of b_b / (2 pi) * irradiance(s) * exp(-2 g s) for lamps beside the camera.

So the direct light and the veil follow different coefficients, as D. Akkaynak and T. Treibitz, *A revised underwater
image formation model*, CVPR 2018, found in real pictures.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.synthesis.water_tables import SPECTRA, at_channels, pure_water_scattering

Colour = tuple[float, float, float]
Floats = NDArray[np.floating[Any]]

WATER_TYPES = tuple(SPECTRA)
"""Names of Jerlov's types, from clear to turbid."""

PARTICLE_BACKSCATTER = 0.0183
KEPT_FORWARD = 0.5
"""Part of the light scattered forwards that stays in the picture as a blur."""
HORIZONTAL_BRIGHTNESS = 3.0
"""Radiance of the water on the level, relative to straight down."""
NARROW_BLUR, WIDE_BLUR = math.radians(0.25), math.radians(1.5)
"""Standard deviations of the two blurs that small-angle scattering is mixed of, the wide one taking over with range."""
GLOW = math.radians(12.0)
"""Standard deviation of the glow that light scattered by more than small angles makes of what lamps light."""
VISIBLE_DEPTH = 3.0
"""How many times the light may drop to 1 / e on its way from a scene that is to be seen."""
LAMP_VEIL_STEPS = 4096


@dataclass(frozen=True)
class Water:
    """One type of water; red, green and blue coefficients in 1/m.

    Args:
        name: one of `WATER_TYPES`.
        absorption: a.
        scattering: b.
        diffuse: K_d, by which daylight dims on its way down.
    """

    name: str
    absorption: Colour
    scattering: Colour
    diffuse: Colour

    @property
    def beam(self) -> Colour:
        """The beam attenuation c = a + b: the direct signal is exp(-c r) of the radiance of the surface."""
        return _colour(np.add(self.absorption, self.scattering))

    @property
    def backscatter(self) -> Colour:
        """b_b, what is scattered by more than 90 degrees."""
        molecules = np.minimum(pure_water_scattering(), self.scattering)
        return _colour(0.5 * molecules + PARTICLE_BACKSCATTER * (np.array(self.scattering) - molecules))

    @property
    def wide(self) -> Colour:
        """a + b_b, by which wide light dims: what is scattered forwards out of it is scattered into it from beside."""
        return _colour(np.add(self.absorption, self.backscatter))

    @property
    def spread(self) -> Colour:
        """g: with light scattered by small angles, exp(-g r) arrives; also the rate at which the veil saturates."""
        scattering, backscatter = np.array(self.scattering), np.array(self.backscatter)
        lost = backscatter + (1.0 - KEPT_FORWARD) * (scattering - backscatter)
        return _colour(np.array(self.absorption) + lost)

    @property
    def colour(self) -> Colour:
        """Radiance of endless water on the level, relative to a white surface in the same daylight."""
        share = np.array(self.backscatter) / (np.array(self.absorption) + np.array(self.backscatter))
        return _colour(HORIZONTAL_BRIGHTNESS * math.pi * (0.0949 * share + 0.0794 * share**2))


@functools.cache
def water(name: str) -> Water:
    """The water of a Jerlov type: I, IA, IB, II, III (oceanic), 1C or 3C (coastal)."""
    if name not in SPECTRA:
        raise InputError(f"there is no water type '{name}'; choose one of {', '.join(WATER_TYPES)}")
    spectrum = SPECTRA[name]
    return Water(
        name=name,
        absorption=at_channels(spectrum.absorption),
        scattering=at_channels(spectrum.scattering),
        diffuse=at_channels(spectrum.diffuse),
    )


def random_water(rng: np.random.Generator, *, scene_distance: float) -> tuple[Water, float]:
    """A type of water, and the depth of the camera below the surface in metres.

    The water is clear enough for something to be seen at `scene_distance` (metres, typical for the scene; so far away
    that no water would do, it is taken for that of a backdrop, and any water does). The camera is not so deep that all
    daylight has gone: turbid types come in shallow water only.
    """
    clear = [name for name in WATER_TYPES if min(water(name).beam) * scene_distance < VISIBLE_DEPTH] or WATER_TYPES
    chosen = water(clear[rng.integers(len(clear))])
    deepest = min(3.0 / min(chosen.diffuse), 40.0)
    return chosen, float(rng.uniform(1.0, deepest))


def transmission(distance: Floats, coefficient: float) -> Floats:
    """exp(-coefficient * distance) of [H, W] metres, at least 0, and 1/m: [H, W], 0 to 1, of the type of `distance`."""
    result = distance * -coefficient
    np.exp(result, out=result)
    return result


def through_water(
    sun: Floats,
    lamp: Floats,
    distance: Floats,
    lamp_distance: Floats,
    below_surface: Floats,
    water: Water,
    *,
    camera_depth: float,
    focal_px: float,
    sun_colour: Colour,
    lamp_colour: Colour = (0.0, 0.0, 0.0),
    lamp_offset: float = 0.5,
    wide_lamps: bool = False,
    water_colour: Colour | None = None,
) -> Floats:
    """The linear radiance that the camera sees under water. All arrays are float32, or all are float64.

    Args:
        sun: [H, W, 3] radiance of the dry scene in the light of sun and sky, as if that light were not dimmed.
        lamp: [H, W, 3] the same in the light of lamps; ignored without lamps.
        distance: [H, W] metres from the camera to the surface, along the ray.
        lamp_distance: [H, W] metres from the lamp to the surface; ignored without lamps.
        below_surface: [H, W] metres of each seen point below the water's surface. Where it is negative, the point is
            seen at its distance all the same, as if the water reached up there, in the daylight at the surface.
        water: the type of water.
        camera_depth: metres of the camera below the water's surface, at least 0.
        focal_px: focal length in px, to which the blur is proportional.
        sun_colour: radiance of a white matt surface in the full daylight above the water (sun and sky).
        lamp_colour: sum over all lamps of the radiance of a white matt surface facing one at 1 m; 0 without lamps.
        lamp_offset: metres between the lamps and the camera.
        wide_lamps: whether the light of the lamps is so wide that what is scattered forwards out of it, by more than
            small angles, falls on the scene beside, and from there as a glow over the picture. Else it is lost.
        water_colour: radiance of endless water on the level, relative to a white surface in the same daylight; None
            for that of the water far from any floor.

    Returns:
        [H, W, 3] radiance, at least 0, in the units of `sun`.
    """
    lit = any(value > 0 for value in lamp_colour)
    veil_colour = water.colour if water_colour is None else water_colour
    lamp_rates = water.wide if wide_lamps else water.spread
    depth = np.maximum(below_surface, 0)
    down = np.clip((below_surface - camera_depth) / np.maximum(distance, 1e-6), -1, 1)
    narrow_share = transmission(distance, water.scattering[1])
    if lit:
        table = lamp_veil_table(water, lamp_colour, lamp_offset).astype(distance.dtype)  # [LAMP_VEIL_STEPS, 3]
        row = (distance / (distance + lamp_offset) * (LAMP_VEIL_STEPS - 1)).astype(np.int32)
    channels = []
    for channel in range(3):
        spread, beam, diffuse = water.spread[channel], water.beam[channel], water.diffuse[channel]
        source = transmission(depth, diffuse)
        source *= sun[..., channel]
        if lit:
            lamplight = lamp[..., channel] * transmission(lamp_distance, lamp_rates[channel])
            source += lamplight
        straight = transmission(distance, beam)
        forward = transmission(distance, spread)
        forward -= straight
        forward *= source
        radiance = _scattered_forward(forward, narrow_share, focal_px)
        straight *= source
        radiance += straight
        if lit and wide_lamps:
            lamplight *= transmission(distance, water.wide[channel]) - transmission(distance, spread)
            radiance += _blur(lamplight, GLOW * focal_px)
        here = sun_colour[channel] * math.exp(-diffuse * camera_depth) * veil_colour[channel]
        radiance += here * daylight_veil(distance, down, spread=spread, diffuse=diffuse, camera_depth=camera_depth)
        if lit:
            radiance += table[:, channel][row]
        channels.append(radiance)
    return np.asarray(cv2.merge(channels))  # [H, W, 3]


def daylight_veil(distance: Floats, down: Floats, *, spread: float, diffuse: float, camera_depth: float) -> Floats:
    """How far the veil of daylight has saturated: the integral over the ray of g exp(-g s) E(s) / E(0) ds.

    E(s) / E(0) is the daylight at s metres relative to that at the camera, exp(-K_d down s); a ray that meets the
    surface is mirrored by it.

    Args:
        distance: [H, W] metres, the length of the ray.
        down: [H, W] metres that the ray goes down on each metre, -1 to 1.
        spread: g, 1/m.
        diffuse: K_d, 1/m.
        camera_depth: metres below the surface, at least 0.

    Returns:
        [H, W], at least 0; on the level 1 - exp(-g distance).
    """
    height = -down * distance
    if float(height.max()) <= camera_depth:
        return _veil_on_one_way(distance, down, spread=spread, diffuse=diffuse)
    to_surface = np.minimum(camera_depth / np.maximum(-down, 1e-6), distance)
    veil = _veil_on_one_way(to_surface, down, spread=spread, diffuse=diffuse)
    mirrored = height > camera_depth
    length, fall = to_surface[mirrored], -down[mirrored]
    beyond = _veil_on_one_way(distance[mirrored] - length, fall, spread=spread, diffuse=diffuse)
    veil[mirrored] += np.exp(diffuse * camera_depth - spread * length) * beyond
    return veil


def _veil_on_one_way(length: Floats, down: Floats, *, spread: float, diffuse: float) -> Floats:
    """The integral over 0..length of g exp(-(g + K_d down) s) ds, elementwise."""
    rate = down * diffuse
    rate += spread
    rate[np.abs(rate) < 1e-6 * spread] = 1e-6 * spread
    veil = length * -rate
    np.exp(veil, out=veil)
    np.subtract(1, veil, out=veil)
    veil /= rate
    veil *= spread
    return veil


@functools.lru_cache(maxsize=64)
def lamp_veil_table(water: Water, lamp_colour: Colour, lamp_offset: float) -> NDArray[np.float64]:
    """Light of lamps beside the camera that the water throws back within the range r, per channel.

    A white matt surface of radiance L gets the irradiance pi L, of which a metre of water throws b_b / (2 pi) into each
    direction backwards: b_b L / 2 at 1 m from the lamp.

    Returns:
        [LAMP_VEIL_STEPS, 3] at even steps of r / (r + lamp_offset) from 0 to 1, that is r from 0 to infinity.
    """
    share = np.linspace(0.0, 1.0, LAMP_VEIL_STEPS)[:-1]
    ranges = lamp_offset * share / (1.0 - share)
    light = np.exp(-2.0 * ranges[:, None] * np.array(water.spread)) / (ranges[:, None] ** 2 + lamp_offset**2)
    pieces = 0.5 * (light[1:] + light[:-1]) * np.diff(ranges)[:, None]
    sums = np.cumsum(pieces, axis=0)
    sums = np.concatenate([np.zeros((1, 3)), sums, sums[-1:]])  # [LAMP_VEIL_STEPS, 3]
    return np.asarray(0.5 * np.array(water.backscatter) * np.array(lamp_colour) * sums)


def _scattered_forward(light: Floats, narrow_share: Floats, focal_px: float) -> Floats:
    """[H, W] light scattered by small angles, spread over the picture, all but `narrow_share` [H, W] of it widely.

    The sum over the picture stays the same.
    """
    narrow = light * narrow_share
    light -= narrow
    spread = _blur(narrow, NARROW_BLUR * focal_px)
    spread += _blur(light, WIDE_BLUR * focal_px)
    return spread


def _blur(image: Floats, sigma: float) -> Floats:
    """Gaussian blur of [H, W]; a wide one is made on a smaller image."""
    height, width = image.shape
    scale = 2 ** max(0, int(math.log2(max(sigma / 2.0, 1.0))))
    if scale == 1:
        return cast(Floats, cv2.GaussianBlur(image, (0, 0), sigma, borderType=cv2.BORDER_REFLECT))
    small = cv2.resize(image, (-(-width // scale), -(-height // scale)), interpolation=cv2.INTER_AREA)
    small = cv2.GaussianBlur(small, (0, 0), sigma / scale, borderType=cv2.BORDER_REFLECT)
    return cast(Floats, cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR))


def _colour(values: NDArray[np.float64]) -> Colour:
    red, green, blue = (float(value) for value in values)
    return red, green, blue
