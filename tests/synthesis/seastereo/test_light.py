import numpy as np
import pytest

from linstereo.synthesis.seastereo.daylight import WaterLayer
from linstereo.synthesis.seastereo.light import (
    EYE_HEIGHT,
    caustics,
    describe_light,
    exposure,
    henyey_greenstein_backscatter,
    lamp_veil_offset,
    light_of,
    volume_coefficients,
    water_top,
)
from linstereo.synthesis.seastereo.plan import all_configurations
from linstereo.synthesis.water import WATER_TYPES, water

ALL = all_configurations(0)


def test_caustics_keep_the_light_and_tile():
    pattern = caustics(np.random.default_rng(0), size=128)
    assert pattern.mean() == pytest.approx(1, abs=1e-5)
    assert pattern.min() > 0
    assert pattern.std() > 0.2
    seam = np.abs(pattern[:, 0] - pattern[:, -1]).mean()
    assert seam < 3 * np.abs(np.diff(pattern, axis=1)).mean()


def test_lamps_are_on_when_deep_and_caustics_there_when_shallow():
    for configuration in ALL[:36]:
        light = light_of(configuration, np.random.default_rng(0))
        assert light.lamps == configuration.deep
        assert (light.caustics == 0) == configuration.deep
        assert len(describe_light(light, configuration)["lamps"]) == (2 if configuration.deep else 0)


def test_a_white_floor_in_daylight_has_the_radiance_one():
    shallow = light_of(ALL[0], np.random.default_rng(0))
    assert shallow.sun + shallow.sky * (1 - shallow.window**2) == pytest.approx(1)
    deep = light_of(next(c for c in ALL if c.deep), np.random.default_rng(0))
    assert deep.sun + deep.sky * (1 - deep.window**2) == pytest.approx(1)


def test_darker_water_is_exposed_longer():
    factors = {(c.water, c.depth): exposure(c, light_of(c, np.random.default_rng(0))) for c in ALL[:36]}
    assert factors["I", "shallow"] < factors["II", "deep"]
    assert factors["I", "shallow"] < factors["3C", "shallow"]
    assert all(factor > 0 for factor in factors.values())


@pytest.mark.parametrize("name", WATER_TYPES)
def test_the_volume_loses_what_the_analytic_water_loses(name):
    kind = water(name)
    scattering, anisotropy = volume_coefficients(kind)
    np.testing.assert_allclose(np.add(scattering, kind.absorption), kind.spread, atol=2e-5)
    back = henyey_greenstein_backscatter(anisotropy) * sum(scattering)
    assert back == pytest.approx(min(sum(kind.backscatter), sum(scattering) / 2), rel=1e-3)


@pytest.mark.parametrize("configuration", ALL[:36:5], ids=lambda c: c.name)
def test_things_get_the_daylight_that_jerlov_says_in_volume_mode(configuration):
    """What enters the rendered volume, times what the volume lets through, is exp(-K_d depth)."""
    light = light_of(configuration, np.random.default_rng(0))
    kind, top = water(configuration.water), water_top(configuration)
    scattering, anisotropy = volume_coefficients(kind)
    for channel, entering in enumerate(describe_light(light, configuration)["dimmed"]):
        layer = WaterLayer(
            absorption=kind.absorption[channel],
            scattering=scattering[channel],
            anisotropy=anisotropy,
            thickness=top,
            albedo=0.0,
            sun=light.sun,
            sun_cosine=float(light.to_sun[2]),
            sky_cosine=light.window,
        )
        below = configuration.floor_depth - EYE_HEIGHT / 2
        assert entering * layer.at(EYE_HEIGHT / 2)[0] == pytest.approx(np.exp(-kind.diffuse[channel] * below), rel=1e-9)


def test_water_near_sand_is_brighter_than_open_water():
    for configuration in ALL[:36:3]:
        light = light_of(configuration, np.random.default_rng(0))
        ratio = np.array(light.around) / water(configuration.water).colour
        assert (ratio > 0.5).all()
        assert (ratio < 3.2).all()
        if configuration.water in ("II", "1C", "III", "3C"):
            assert (ratio > 1.2).all()


def test_backscatter_of_the_phase_function_is_its_integral():
    cosine = np.linspace(-1, 1, 200001)
    for g in (0.1, 0.5, 0.85):
        density = (1 - g * g) / (1 + g * g - 2 * g * cosine) ** 1.5 / 2
        assert henyey_greenstein_backscatter(g) == pytest.approx(np.trapezoid(density * (cosine < 0), cosine), abs=1e-4)
    assert henyey_greenstein_backscatter(0.0) == 0.5


def test_the_volume_of_water_ends_at_the_surface_or_below():
    for configuration in ALL[:36]:
        assert 4.5 <= water_top(configuration) <= configuration.floor_depth


def test_cones_of_light_leave_the_water_before_the_lens_dark():
    assert lamp_veil_offset() > 0.75
