"""The solution of the equation of radiative transfer against photons followed one by one, and against what is exact."""

import dataclasses

import numpy as np
import pytest

from linstereo.synthesis.seastereo.daylight import WaterLayer

TURBID = WaterLayer(
    absorption=0.19,
    scattering=0.35,
    anisotropy=0.84,
    thickness=4.5,
    albedo=0.35,
    sun=0.65,
    sun_cosine=0.95,
    sky_cosine=0.66,
)


def followed(layer, height, *, photons=60_000, seed=0):
    """What `WaterLayer.at` gives, from the ways of photons: (white, level), and the standard error of each."""
    rng = np.random.default_rng(seed)
    groups = [_followed(layer, height, photons // 20, rng) for _ in range(20)]
    return np.mean(groups, axis=0), np.std(groups, axis=0) / np.sqrt(20)


def _followed(layer, height, count, rng):
    sunny = rng.random(count) < layer.sun
    # Light from an even sky falls on a level surface as the cosine does.
    sky = np.sqrt(rng.uniform(layer.sky_cosine**2, 1, count))
    z, down, weight = np.full(count, layer.thickness), np.where(sunny, layer.sun_cosine, sky), np.ones(count)
    thin = 0.02
    white = level = 0.0
    attenuation = layer.absorption + layer.scattering
    for _ in range(200):
        if not len(z):
            break
        step = rng.exponential(1 / attenuation, len(z))
        goal = z - step * down
        end = np.clip(goal, 0.0, layer.thickness)
        white += weight[(z > height) & (end <= height)].sum()
        inside = np.clip(np.maximum(z, end), height - thin, height + thin) - np.clip(
            np.minimum(z, end), height - thin, height + thin
        )
        near = inside > 0
        level += (weight * inside / np.maximum(np.abs(down), 1e-9))[near] @ _aside(layer.anisotropy, down[near])
        weight = weight * np.where(goal <= 0, layer.albedo, layer.scattering / attenuation)
        turned = _turned(down, _scattering_cosine(layer.anisotropy, rng.random(len(z))), rng)
        down = np.where(goal <= 0, -np.sqrt(rng.random(len(z))), turned)
        going = (goal < layer.thickness) & (weight > 1e-4)
        z, down, weight = end[going], down[going], weight[going]
    # In units of the white radiance of daylight, irradiance / pi; `level` is the light scattered in a metre, by the
    # attenuation that balances it on an endless way.
    return white / count, level * layer.scattering / attenuation * np.pi / count / (2 * thin)


def _aside(g, down):
    """The phase function (1/sr), averaged over the azimuth, from a direction to the level."""
    azimuth = (np.arange(256) + 0.5) / 256 * np.pi
    cosine = np.sqrt(np.maximum(1 - down**2, 0))[:, None] * np.cos(azimuth)
    return ((1 - g * g) / (4 * np.pi) / (1 + g * g - 2 * g * cosine) ** 1.5).mean(axis=1)


def _scattering_cosine(g, u):
    return (1 + g * g - ((1 - g * g) / (1 - g + 2 * g * u)) ** 2) / (2 * g)


def _turned(down, cosine, rng):
    azimuth = rng.uniform(0, 2 * np.pi, len(down))
    sines = np.sqrt(np.maximum(1 - down**2, 0) * np.maximum(1 - cosine**2, 0))
    return np.clip(down * cosine + sines * np.cos(azimuth), -1, 1)


@pytest.mark.parametrize(
    ("change", "height"),
    [({}, 1.3), ({"albedo": 0.0}, 0.5), ({"anisotropy": 0.1, "scattering": 0.1, "sun": 0.0, "sky_cosine": 0.0}, 2.0)],
    ids=["turbid", "black floor", "sky alone"],
)
def test_photons_agree(change, height):
    layer = dataclasses.replace(TURBID, **change)
    mean, error = followed(layer, height)
    expected = np.array(layer.at(height))
    assert (error < 0.04 * expected).all()
    assert (np.abs(mean - expected) < 4 * error + 0.005 * expected).all(), (mean, expected, error)


def test_without_scattering_light_dims_exponentially():
    layer = dataclasses.replace(TURBID, scattering=1e-9, sun=1.0)
    assert layer.at(0.0)[0] == pytest.approx(np.exp(-0.19 * 4.5 / 0.95), rel=1e-5)


def test_no_light_is_lost_without_absorption():
    """What enters a layer over a white floor comes out again, so that as much falls on the floor as it throws back."""
    layer = dataclasses.replace(TURBID, absorption=0.0, albedo=1.0, sky_cosine=0.0, sun=0.0)
    assert layer.at(layer.thickness)[0] == pytest.approx(1, rel=1e-6)
    dark = dataclasses.replace(layer, albedo=0.0)
    thrown_back = 1 - dark.at(0.0)[0]
    assert 0 < thrown_back < 0.3
    # With a white floor all of the even light comes back: everywhere is as bright as the sky.
    np.testing.assert_allclose(layer.at(2.0), (1, 1), rtol=1e-4)


def test_a_bright_floor_brightens_the_water_above_it():
    dark = dataclasses.replace(TURBID, albedo=0.0)
    assert TURBID.at(1.3)[1] > 1.3 * dark.at(1.3)[1]
