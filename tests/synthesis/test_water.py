"""The water's optics against its own formulas in float64, integrals made by brute force, and the laws of physics."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.synthesis.water import (
    HORIZONTAL_BRIGHTNESS,
    WATER_TYPES,
    Water,
    daylight_veil,
    lamp_veil_table,
    random_water,
    through_water,
    transmission,
    water,
)

WHITE = (1.0, 1.0, 1.0)
BLACK = (0.0, 0.0, 0.0)


def seen(
    kind: Water,
    *,
    distance: NDArray[Any],
    sun: float | NDArray[Any] = 0.5,
    below: float | NDArray[Any] = 0.0,
    depth: float = 0.0,
    sun_colour: tuple[float, float, float] = BLACK,
    lamp: float = 0.0,
    lamp_colour: tuple[float, float, float] = BLACK,
    focal: float = 500.0,
    **more: Any,
) -> NDArray[Any]:
    """What the camera sees; without light in the water (no veil) unless a light's colour is given."""
    shape = (*distance.shape, 3)
    return through_water(
        np.broadcast_to(np.asarray(sun, distance.dtype), shape),
        np.full(shape, lamp, distance.dtype),
        distance,
        distance,
        np.broadcast_to(np.asarray(below, distance.dtype), distance.shape),
        kind,
        camera_depth=depth,
        focal_px=focal,
        sun_colour=sun_colour,
        lamp_colour=lamp_colour,
        **more,
    )


def integral(function: Callable[[NDArray[Any]], NDArray[Any]], end: float) -> float:
    """From 0 to `end`, by the midpoint rule."""
    step = end / 200_000
    return float(function((np.arange(200_000) + 0.5) * step).sum() * step)


def decay(rate: float, metres: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.exp(-rate * metres))


def mirrored_daylight(rate: float, diffuse: float, down: float, metres: NDArray[Any]) -> NDArray[Any]:
    """Daylight along a ray from 2 m below the surface, relative to that at its start, as far as it arrives."""
    return decay(rate, metres) * np.exp(-diffuse * (np.abs(2.0 + down * metres) - 2.0))


def lamp_light(rate: float, metres: NDArray[Any]) -> NDArray[Any]:
    """Of a lamp half a metre beside the camera, relative to that at 1 m."""
    return decay(rate, metres) / (metres**2 + 0.5**2)


def test_coefficients_are_those_of_the_tables() -> None:
    clear, turbid = water("I"), water("3C")
    assert clear.diffuse == pytest.approx((0.235, 0.043 + 0.4 * 0.020, 0.019 - 0.4 * 0.001))
    assert turbid.absorption == pytest.approx((0.268, 0.132 - 0.4 * 0.004, 0.200 - 0.4 * 0.034))
    assert turbid.scattering == pytest.approx((0.627, 0.650, 0.6816), abs=1e-4)
    assert turbid.beam == pytest.approx(np.add(turbid.absorption, turbid.scattering))


def test_clear_to_turbid_is_the_order_of_every_attenuation() -> None:
    for name in ("diffuse", "beam", "spread", "scattering", "backscatter"):
        values = np.array([getattr(water(kind), name) for kind in WATER_TYPES])
        steps = np.diff(values, axis=0)
        assert (steps > 0).all(), (name, steps)
    assert WATER_TYPES == ("I", "IA", "IB", "II", "III", "1C", "3C")


def test_colours_turn_from_blue_to_green() -> None:
    ratios = [water(kind).colour[2] / water(kind).colour[1] for kind in WATER_TYPES]
    assert (np.diff(ratios) < 0).all()
    assert ratios[0] > 3
    assert ratios[-1] < 1
    assert all(water(kind).colour[0] < min(water(kind).colour[1:]) for kind in WATER_TYPES)


@pytest.mark.parametrize("name", WATER_TYPES)
def test_transmission_over_range_is_its_formula(name: str) -> None:
    """A flat wall: what is spread out of a pixel comes back from its neighbours, so exp(-g r) arrives in all."""
    kind = water(name)
    for metres in (0.0, 0.3, 2.0, 11.0):
        distance = np.full((32, 48), metres)
        expected = 0.5 * np.exp(-np.array(kind.spread) * metres)
        assert seen(kind, distance=distance) == pytest.approx(np.broadcast_to(expected, (32, 48, 3)), rel=1e-12)
        for channel in range(3):
            beam = kind.absorption[channel] + kind.scattering[channel]
            assert transmission(distance, kind.beam[channel]) == pytest.approx(np.exp(-beam * metres), rel=1e-14)


@pytest.mark.parametrize("name", WATER_TYPES)
def test_a_point_keeps_the_beam_transmission(name: str) -> None:
    """Of a single bright pixel, exp(-c r) stays in place and the rest of exp(-g r) is spread around it."""
    kind = water(name)
    sun = np.zeros((257, 257, 3))
    sun[128, 128] = 1.0
    image = seen(kind, distance=np.full((257, 257), 3.0), sun=sun, focal=400.0)
    straight, whole = (np.exp(-3.0 * np.array(rate)) for rate in (kind.beam, kind.spread))
    assert image.sum(axis=(0, 1)) == pytest.approx(whole, rel=2e-3)
    halo = image[128, 128] - straight
    assert (halo >= 0).all()
    assert (halo < 0.1 * (whole - straight) + 1e-9).all()


def test_blur_grows_with_range_and_turbidity() -> None:
    sun = np.zeros((200, 200, 3))
    sun[:, 100:] = 1.0

    def edge_width(name: str, metres: float) -> float:
        row = seen(water(name), distance=np.full((200, 200), metres), sun=sun)[100, :, 1]
        row = (row - row[0]) / (row[-1] - row[0])
        return float(np.minimum(row, 1 - row).sum())

    near, far, clear = edge_width("1C", 1.0), edge_width("1C", 4.0), edge_width("I", 4.0)
    assert clear < near < far


def test_daylight_dims_by_the_diffuse_attenuation_on_its_way_down() -> None:
    kind = water("II")
    distance = np.full((8, 8), 1e-9)
    deep, shallow = (seen(kind, distance=distance, below=metres) for metres in (12.0, 2.0))
    assert deep / shallow == pytest.approx(np.broadcast_to(np.exp(-10.0 * np.array(kind.diffuse)), (8, 8, 3)))


@pytest.mark.parametrize("name", WATER_TYPES)
def test_far_range_is_the_colour_of_the_water(name: str) -> None:
    kind = water(name)
    far = seen(kind, distance=np.full((8, 8), 5000.0), below=6.0, depth=6.0, sun_colour=(1.0, 0.9, 0.8))
    expected = np.array([1.0, 0.9, 0.8]) * np.exp(-6.0 * np.array(kind.diffuse)) * np.array(kind.colour)
    assert far == pytest.approx(np.broadcast_to(expected, (8, 8, 3)), rel=1e-9)


@pytest.mark.parametrize("down", [-0.9, -0.3, 0.0, 0.4, 1.0])
def test_veil_of_daylight_is_the_integral_along_the_ray(down: float) -> None:
    """With the surface 2 m above, where rays that go up are mirrored."""
    kind = water("III")
    for channel in range(3):
        rate, diffuse = kind.spread[channel], kind.diffuse[channel]
        expected = rate * integral(functools.partial(mirrored_daylight, rate, diffuse, down), 7.0)
        veil = daylight_veil(
            np.full((1, 1), 7.0), np.full((1, 1), down), spread=rate, diffuse=diffuse, camera_depth=2.0
        )
        assert veil[0, 0] == pytest.approx(expected, rel=1e-9)


def test_veil_saturates_and_brightens_upwards() -> None:
    ranges = np.linspace(0.01, 40.0, 60)[None]
    values = seen(water("II"), distance=ranges, sun=0.0, below=10.0, depth=10.0, sun_colour=WHITE)[0]
    assert (np.diff(values, axis=0) > 0).all()
    assert (np.diff(values, 2, axis=0) < 0).all()
    heights = np.array([[4.0, 10.0, 16.0]])
    up, level, downwards = seen(
        water("II"), distance=np.full((1, 3), 20.0), sun=0.0, below=heights, depth=10.0, sun_colour=WHITE
    )[0]
    assert (up > level).all()
    assert (level > downwards).all()


def test_veil_and_signal_follow_different_coefficients() -> None:
    for name in WATER_TYPES:
        assert (np.array(water(name).spread) < np.array(water(name).beam)).all()
        assert (np.array(water(name).spread) > np.array(water(name).absorption)).all()


def test_lamp_light_is_attenuated_both_ways_and_thrown_back() -> None:
    kind = water("IB")
    distance = np.full((16, 16), 2.5)
    colour = (3.0, 2.0, 1.0)
    lit = seen(kind, distance=distance, sun=0.0, lamp=0.4, lamp_colour=colour)
    rate = np.array(kind.spread)
    veil = []
    for channel in range(3):
        inside = integral(functools.partial(lamp_light, 2 * rate[channel]), 2.5)
        veil.append(0.5 * kind.backscatter[channel] * colour[channel] * inside)
    expected = 0.4 * np.exp(-2 * 2.5 * rate) + np.array(veil)
    assert lit == pytest.approx(np.broadcast_to(expected, (16, 16, 3)), rel=2e-3)
    table = lamp_veil_table(kind, colour, 0.5)
    assert (np.diff(table, axis=0) >= 0).all()


def test_no_light_is_made() -> None:
    """A white ground in white light never gets brighter than it was, whatever the water, range and depth."""
    distance = np.geomspace(60.0, 0.1, 80)[:, None] * np.ones((1, 60))
    for name in WATER_TYPES:
        for slope in (-0.1, 0.0, 0.8):
            below = 7.0 + slope * distance
            image = seen(water(name), distance=distance, sun=1.0, below=below, depth=7.0, sun_colour=WHITE)
            assert image.min() >= 0
            assert image.max() <= 1.0
        assert max(water(name).colour) * HORIZONTAL_BRIGHTNESS < 1.0


def test_the_surface_is_a_bright_mirror() -> None:
    """Looking up a little, the water is brightest, and nothing jumps where the ray meets the surface."""
    slopes = np.linspace(-0.5, 0.5, 401)
    distance = np.full((1, 401), 300.0)
    image = seen(
        water("II"), distance=distance, sun=0.0, below=5.0 + 300.0 * slopes[None], depth=5.0, sun_colour=WHITE
    )[0]
    assert (image[:150] > image[250:].max(axis=0)).all()
    assert np.abs(np.diff(image, axis=0)).max() < 0.02 * image.max()


def test_turbid_pictures_lose_contrast_in_order() -> None:
    sun = np.zeros((60, 60, 3))
    sun[:30] = 1.0
    contrasts = []
    for name in WATER_TYPES:
        image = seen(water(name), distance=np.full((60, 60), 4.0), sun=sun, below=3.0, depth=3.0, sun_colour=WHITE)
        green = image[..., 1]
        contrasts.append(float((green[5].mean() - green[-5].mean()) / (green[5].mean() + green[-5].mean())))
    assert (np.diff(contrasts) < 0).all()


def test_float32_agrees_with_float64() -> None:
    rng = np.random.default_rng(1)
    distance = rng.uniform(0.3, 20.0, (64, 96))
    sun, below = rng.random((64, 96, 3)), rng.uniform(3.0, 9.0, (64, 96))
    exact = seen(water("III"), distance=distance, sun=sun, below=below, depth=5.0, sun_colour=WHITE)
    fast = seen(
        water("III"),
        distance=distance.astype(np.float32),
        sun=sun.astype(np.float32),
        below=below.astype(np.float32),
        depth=5.0,
        sun_colour=WHITE,
    )
    assert fast.dtype == np.float32
    assert fast == pytest.approx(exact, abs=2e-6)


def test_random_water_can_be_seen_through_and_is_not_dark() -> None:
    rng = np.random.default_rng(0)
    drawn = [random_water(rng, scene_distance=3.0) for _ in range(300)]
    assert {kind.name for kind, _ in drawn} == set(WATER_TYPES)
    for kind, depth in drawn:
        assert 1.0 <= depth <= 40.0
        assert np.exp(-min(kind.diffuse) * depth) > 0.04
    assert {kind.name for kind, _ in (random_water(rng, scene_distance=30.0) for _ in range(50))} == {"I", "IA"}
    assert len({random_water(rng, scene_distance=1000.0)[0].name for _ in range(100)}) == len(WATER_TYPES)
    again = [random_water(np.random.default_rng(7), scene_distance=3.0) for _ in range(2)]
    assert again[0] == again[1]


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(InputError, match="no water type 'IV'; choose one of I, IA, IB, II, III, 1C, 3C"):
        water("IV")


def test_wide_lamps_lose_only_what_is_absorbed_or_thrown_back() -> None:
    """An even wall in even light is as bright as if nothing were scattered forwards; a bright spot glows beside it."""
    kind, lamp_colour = water("II"), (3.0, 2.0, 1.0)
    distance = np.full((32, 48), 2.5)
    veil = seen(kind, distance=distance, sun=0.0, lamp=0.0, lamp_colour=lamp_colour, wide_lamps=True)
    wall = seen(kind, distance=distance, sun=0.0, lamp=0.7, lamp_colour=lamp_colour, wide_lamps=True) - veil
    expected = 0.7 * np.exp(-(np.array(kind.absorption) + kind.backscatter) * 5.0)
    np.testing.assert_allclose(wall, np.broadcast_to(expected, wall.shape), rtol=1e-6)
    narrow = seen(kind, distance=distance, sun=0.0, lamp=0.7, lamp_colour=lamp_colour) - veil
    assert (narrow < wall).all()


def test_the_colour_of_the_water_can_be_given() -> None:
    kind, far = water("II"), np.full((8, 8), 1e4)
    image = seen(kind, distance=far, sun=0.0, below=3.0, depth=3.0, sun_colour=WHITE, water_colour=(0.1, 0.2, 0.3))
    expected = np.array((0.1, 0.2, 0.3)) * np.exp(-3.0 * np.array(kind.diffuse))
    np.testing.assert_allclose(image, np.broadcast_to(expected, image.shape), rtol=1e-6)
