"""What lights a scene, and how long it is exposed: daylight from above, caustics when shallow, lamps when deep.

Light is measured by the radiance of a white matt surface that lies in it: 1 for full daylight above the water.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linstereo.synthesis.seastereo.daylight import WaterLayer
from linstereo.synthesis.seastereo.plan import Configuration
from linstereo.synthesis.seastereo.terrain import Floats
from linstereo.synthesis.water import Colour, Water, water

SUN_SHARE = 0.65
"""Part of the daylight that comes straight from the sun when shallow; the rest comes from the sky."""
SNELL_WINDOW = 0.66
"""Cosine of the angle within which all light from above the surface arrives below it: asin(1 / 1.333)."""
DEEP_WINDOW = 0.45
"""The same when deep, where no edge is seen any more: light of such a cone has the mean cosine of daylight there, 0.7
(C. D. Mobley, *Light and Water*, Academic Press 1994)."""
FLOOR_ALBEDO: Colour = (0.24, 0.21, 0.16)
"""Mean reflectance of the sea floor and what lies on it, measured on dry renders."""
EYE_HEIGHT = 1.3
"""Metres above the floor at which the brightness of the water is taken: that of the cameras, more or less."""
LAMP_RADIANCE = 6.0
"""Of a white surface that faces one of the two lamps at 1 m."""
LAMP_COLOUR: Colour = (1.0, 0.96, 0.88)
LAMP_PLACES = ((-0.7, -0.25, 0.0), (0.7, -0.25, 0.0))
"""Of the lamps in the frame of the left camera (x right, y down, z ahead), metres."""
LAMP_CONE, LAMP_EDGE = 60.0, 0.4
"""Degrees across the cone of light, and the outer part of it in which it fades."""
LAMP_TILT = 0.2
"""How far the lamps point down, and towards each other: metres on each metre ahead."""
CAUSTICS_TILE = 2.4
"""Metres after which the pattern of caustics repeats."""
CAUSTICS_CONTRAST, CAUSTICS_BLUR = 0.75, 0.3
"""Strength of caustics in clear water, and how fast scattering on the way down wipes them out."""
EXPOSED_RANGE, EXPOSED_ALBEDO, EXPOSED_VALUE = 3.5, 0.25, 0.28
"""The exposure makes sand at this range (m), of this reflectance, so bright in its brightest channel (of white 1)."""


@dataclass(frozen=True, eq=False)
class Light:
    """The light of a scene.

    Args:
        sun: part of the daylight that the sun gives; 0 when deep.
        to_sun: [3] unit vector towards the sun, as seen under water, z up.
        sky: radiance of the light from above within `window`, so that with the sun a white floor has the radiance 1.
        window: cosine of the angle from the zenith within which that light comes.
        around: radiance of endless water on the level before the camera, relative to a white floor in the same
            daylight. It lights things from outside of the window, and far things sink into it.
        caustics: strength of their pattern, 0 (none, as when deep) to 1.
        lamps: whether the camera's lamps are on.
    """

    sun: float
    to_sun: Floats
    sky: float
    window: float
    around: Colour
    caustics: float
    lamps: bool

    @property
    def lamp_colour(self) -> Colour:
        """Sum over the lamps of the radiance of a white surface facing one at 1 m; 0 without lamps."""
        strength = len(LAMP_PLACES) * LAMP_RADIANCE if self.lamps else 0.0
        red, green, blue = (strength * part for part in LAMP_COLOUR)
        return red, green, blue


def light_of(configuration: Configuration, rng: np.random.Generator) -> Light:
    """The light of a configuration: sun, sky and caustics when shallow; diffuse daylight and lamps when deep."""
    kind = water(configuration.water)
    if configuration.deep:
        upright = np.array([0.0, 0.0, 1.0])
        around = _around(configuration, sun=0.0, sun_cosine=1.0, window=DEEP_WINDOW)
        return Light(0.0, upright, 1 / (1 - DEEP_WINDOW**2), DEEP_WINDOW, around, 0.0, lamps=True)
    zenith, azimuth = math.radians(rng.uniform(8, 32)), rng.uniform(0, 2 * math.pi)
    to_sun = np.array([math.sin(zenith) * math.cos(azimuth), math.sin(zenith) * math.sin(azimuth), math.cos(zenith)])
    sky = (1 - SUN_SHARE) / (1 - SNELL_WINDOW**2)
    contrast = CAUSTICS_CONTRAST * math.exp(-CAUSTICS_BLUR * kind.scattering[1] * configuration.floor_depth)
    around = _around(configuration, sun=SUN_SHARE, sun_cosine=math.cos(zenith), window=SNELL_WINDOW)
    return Light(SUN_SHARE, to_sun, sky, SNELL_WINDOW, around, contrast, lamps=False)


def caustics(
    rng: np.random.Generator, *, size: int = 384, waves: int = 18, contrast: float = CAUSTICS_CONTRAST
) -> NDArray[np.float32]:
    """Light that a wavy surface throws on the floor, float32 [size, size] of mean 1, tiling.

    Rays through an even grid of points of the surface are bent by its slope; where they land more densely, the floor is
    brighter.
    """
    fine = 3 * size
    at = (np.arange(fine) + 0.5) / fine
    slope_x, slope_y = np.zeros((fine, fine)), np.zeros((fine, fine))
    for _ in range(waves):
        number = rng.integers(-7, 8, 2)
        if not number.any():
            continue
        strength = 0.022 / np.hypot(*number) ** 0.6
        phase = np.cos(2 * np.pi * (number[0] * at[None, :] + number[1] * at[:, None]) + rng.uniform(0, 2 * np.pi))
        slope_x += strength * number[0] / np.hypot(*number) * phase
        slope_y += strength * number[1] / np.hypot(*number) * phase
    column = np.floor((at[None, :] + slope_x) * size).astype(np.int64) % size
    row = np.floor((at[:, None] + slope_y) * size).astype(np.int64) % size
    hits = np.bincount((row * size + column).ravel(), minlength=size * size).reshape(size, size).astype(np.float64)
    hits = _tiled_blur(hits / hits.mean())
    return np.asarray(1 - contrast + contrast * np.minimum(hits, 6.0) / np.minimum(hits, 6.0).mean(), np.float32)


def lamp_veil_offset() -> float:
    """Metres beside the camera of a lamp without a cone that lights as much water before the camera as ours do.

    Water before the camera at the range r gets 1 / (r^2 + offset^2) of a lamp's light, if it is in the cone, which it
    is from the range `reach` on.
    """
    offset = math.hypot(*LAMP_PLACES[0][:2])
    reach = offset / math.tan(math.radians(LAMP_CONE / 2))
    return offset * (math.pi / 2) / (math.pi / 2 - math.atan(reach / offset))


def exposure(configuration: Configuration, light: Light) -> float:
    """The factor from radiance to pixel values, the same for all frames of a configuration and both cameras."""
    kind, depth = water(configuration.water), configuration.floor_depth
    r = EXPOSED_RANGE
    brightest = 0.0
    for channel in range(3):
        day = math.exp(-kind.diffuse[channel] * depth)
        lamp = light.lamp_colour[channel] * math.exp(-kind.wide[channel] * r) / r**2
        through = math.exp(-kind.spread[channel] * r)
        veil = light.around[channel] * day * (1 - through)
        brightest = max(brightest, EXPOSED_ALBEDO * (day + lamp) * through + veil)
    return EXPOSED_VALUE / brightest


def describe_light(light: Light, configuration: Configuration) -> dict[str, Any]:
    """What `blender_worker` must know of the light."""
    top = water_top(configuration)
    return {
        "sun": light.sun,
        "to_sun": light.to_sun.tolist(),
        "sun_angle": 1.5,
        "sky": light.sky,
        "sky_window": light.window,
        "around": list(light.around),
        "dimmed": list(_dimmed(configuration, light)),
        "caustics_tile": CAUSTICS_TILE,
        "caustics_height": top - 0.05,
        "lamps": [
            {
                "at": list(at),
                "towards": [-LAMP_TILT * at[0], LAMP_TILT, 1.0],
                "radiance": LAMP_RADIANCE,
                "colour": list(LAMP_COLOUR),
                "cone": LAMP_CONE,
                "blend": LAMP_EDGE,
            }
            for at in (LAMP_PLACES if light.lamps else ())
        ],
    }


def describe_water(configuration: Configuration) -> dict[str, Any]:
    """What `blender_worker` must know of the volume of water; see `volume_coefficients`."""
    kind = water(configuration.water)
    scattering, anisotropy = volume_coefficients(kind)
    return {
        "absorption": list(kind.absorption),
        "scattering": list(scattering),
        "anisotropy": anisotropy,
        "half_extent": 160.0,
        "low": -3.0,
        "high": water_top(configuration),
    }


def volume_coefficients(kind: Water) -> tuple[Colour, float]:
    """Scattering (1/m) and anisotropy (of Henyey and Greenstein) of the volume that Cycles renders.

    The half of the forward scattering that stays in the picture (`water.KEPT_FORWARD`) is taken for light that is not
    scattered at all, as in the delta-Eddington approximation (J. H. Joseph et al., J. Atmos. Sci. 33, 2452, 1976): a
    path tracer would need dozens of bounces for the whole of it. The anisotropy is such that the rest throws as much
    light back as the water does.
    """
    lost = [spread - absorption for spread, absorption in zip(kind.spread, kind.absorption, strict=True)]
    red, green, blue = (max(value, 1e-5) for value in lost)
    back = sum(kind.backscatter) / (red + green + blue)
    low, high = 0.0, 0.99
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if henyey_greenstein_backscatter(middle) > back else (low, middle)
    return (red, green, blue), low


def henyey_greenstein_backscatter(anisotropy: float) -> float:
    """The part of the light that is scattered by more than 90 degrees, for an anisotropy of 0 to below 1."""
    g = anisotropy
    return 0.5 if g < 1e-6 else (1 - g) / (2 * g) * ((1 + g) / math.sqrt(1 + g * g) - 1)


def water_top(configuration: Configuration) -> float:
    """Metres above the floor up to which the volume of water is rendered; what is above dims the light by K_d."""
    kind = water(configuration.water)
    return min(configuration.floor_depth, max(4.5, min(15.0, 1.5 / min(kind.spread))))


def _layers(
    configuration: Configuration, *, sun: float, sun_cosine: float, window: float, albedo: Colour
) -> tuple[WaterLayer, ...]:
    """The water that is rendered in volume mode, and its daylight, by channel."""
    kind = water(configuration.water)
    scattering, anisotropy = volume_coefficients(kind)
    return tuple(
        WaterLayer(
            absorption=kind.absorption[channel],
            scattering=scattering[channel],
            anisotropy=anisotropy,
            thickness=water_top(configuration),
            albedo=albedo[channel],
            sun=sun,
            sun_cosine=sun_cosine,
            sky_cosine=window,
        )
        for channel in range(3)
    )


def _around(configuration: Configuration, *, sun: float, sun_cosine: float, window: float) -> Colour:
    """Radiance of endless water on the level relative to a white surface there, sand below it."""
    layers = _layers(configuration, sun=sun, sun_cosine=sun_cosine, window=window, albedo=FLOOR_ALBEDO)
    lights = [layer.at(EYE_HEIGHT) for layer in layers]
    red, green, blue = (level / white for white, level in lights)
    return red, green, blue


def _dimmed(configuration: Configuration, light: Light) -> Colour:
    """What is left of the daylight where it enters the volume, such that K_d holds for what falls on things.

    Jerlov's K_d and the absorption and scattering measured by others do not fit together in every water: left alone,
    the blue light of 3C would come through the volume 1.6 times as bright.
    """
    layers = _layers(
        configuration, sun=light.sun, sun_cosine=float(light.to_sun[2]), window=light.window, albedo=(0.0, 0.0, 0.0)
    )
    height = EYE_HEIGHT / 2
    below = configuration.floor_depth - height
    rates = water(configuration.water).diffuse
    red, green, blue = (
        math.exp(-rate * below) / layer.at(height)[0] for rate, layer in zip(rates, layers, strict=True)
    )
    return red, green, blue


def _tiled_blur(image: Floats) -> Floats:
    """A small Gaussian blur that wraps around."""
    across = np.minimum(np.arange(len(image)), len(image) - np.arange(len(image)))
    kernel = np.exp(-0.5 * (across / 1.2) ** 2)
    transfer = np.fft.fft(kernel / kernel.sum()).real
    return np.asarray(np.fft.ifft2(np.fft.fft2(image) * transfer[:, None] * transfer[None, :]).real)
