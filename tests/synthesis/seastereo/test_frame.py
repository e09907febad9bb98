import numpy as np
import pytest

from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.seastereo.assets import AssetLibrary
from linstereo.synthesis.seastereo.frame import Radiance, compose, developed, disparity_of, occlusion
from linstereo.synthesis.seastereo.plan import all_configurations
from linstereo.synthesis.seastereo.scene import build_scene
from linstereo.synthesis.water import water

SHALLOW = next(c for c in all_configurations(0) if c.water == "II" and not c.deep)


@pytest.fixture(scope="module")
def scene():
    return build_scene(SHALLOW, AssetLibrary())


def test_disparity_is_focal_length_times_baseline_over_depth():
    camera = StereoCalibration(focal=500.0, baseline=0.12, cx=0.0, cy=0.0)
    depth = np.array([[2.0, 0.0, 30.0]], np.float32)
    np.testing.assert_allclose(disparity_of(depth, camera), [[30.0, 0.0, 2.0]], rtol=1e-6)


def test_occlusion_beside_a_near_box():
    """A box of disparity 8 before a wall of disparity 2: 6 px of the wall left of the box only the left camera sees."""
    left, right = np.full((4, 60), 2.0, np.float32), np.full((4, 60), 2.0, np.float32)
    left[:, 30:40] = 8
    right[:, 22:32] = 8
    hidden = occlusion(left, right, "left")
    np.testing.assert_array_equal(np.flatnonzero(hidden[0]), [0, 1, *range(24, 30)])
    hidden = occlusion(right, left, "right")
    np.testing.assert_array_equal(np.flatnonzero(hidden[0]), [*range(32, 38), 58, 59])


def test_nothing_is_occluded_where_there_is_nothing():
    nothing = np.zeros((2, 8), np.float32)
    assert not occlusion(nothing, np.full((2, 8), 3, np.float32), "left").any()


def test_developing_is_monotonic_and_reaches_white():
    values = developed(np.linspace(0, 6, 500, dtype=np.float32)[:, None, None].repeat(3, axis=2))
    assert (np.diff(values[:, 0, 0].astype(int)) >= 0).all()
    assert values[0, 0, 0] == 0
    assert values[-1, 0, 0] >= 254


def flat(depth, *, shape=(24, 32), radiance=0.4, opacity=1.0):
    return Radiance(
        light={"sun": np.full((*shape, 3), radiance, np.float32)},
        opacity=np.full(shape, opacity, np.float32),
        depth=np.full(shape, depth, np.float32),
    )


def test_farther_things_sink_into_the_colour_of_the_water(scene):
    means = []
    for depth in (1.0, 4.0, 16.0, 0.0):
        views = compose(scene, 0, {"left": flat(depth), "right": flat(depth)}, "analytic")
        means.append(views["left"].image.reshape(-1, 3).mean(axis=0))
    red = [mean[0] for mean in means]
    assert red[0] > red[1] > red[2]
    assert means[0][0] / means[0][2] > means[2][0] / means[2][2]
    assert not compose(scene, 0, {"left": flat(0.0), "right": flat(0.0)}, "analytic")["left"].valid.any()
    np.testing.assert_allclose(means[2], means[3], atol=25)


def test_a_pixel_that_something_covers_in_part_is_a_mixture(scene):
    def middle(left):
        return compose(scene, 0, {"left": left, "right": left}, "analytic")["left"].image.mean()

    full, empty = flat(2.0), flat(0.0, radiance=0.0, opacity=0.0)
    half = flat(2.0, radiance=0.2, opacity=0.5)
    assert middle(empty) < middle(half) < middle(full)


def test_volume_mode_takes_the_radiance_as_it_is(scene):
    seen = Radiance(
        light={"volume": np.full((8, 8, 3), 0.1, np.float32)},
        opacity=np.zeros((8, 8), np.float32),
        depth=np.full((8, 8), 3, np.float32),
    )
    image = compose(scene, 0, {"left": seen, "right": seen}, "volume")["left"].image
    assert len(np.unique(image)) == 1


def test_red_goes_first_in_every_water():
    for name in ("I", "II", "3C"):
        assert water(name).absorption[0] > water(name).absorption[1]
