"""Disparity and occlusion against formulas and a brute-force test."""

import numpy as np
import pytest
from tests.synthesis.small_scenes import (
    WHITE,
    cluttered,
    nearest_hits,
    pixel_rays,
    quad,
    scene,
    sphere,
    triangles,
    wall,
    warped,
)

from linstereo.geometry.depth import disparity_to_depth
from linstereo.synthesis.ground_truth import disparity_of, occlusion
from linstereo.synthesis.raycast import RayCaster
from linstereo.synthesis.render import render_view, textures_of
from linstereo.synthesis.scene import Lighting, Material, SceneObject

EVEN = Lighting((0.48, -0.8, -0.36), (0.7, 0.6, 0.5), (0.2, 0.25, 0.3), shadows=False)


class Truth:
    """Both views of a scene with everything derived from them."""

    def __init__(self, item, antialias=False):
        self.item = item
        caster = RayCaster(item.objects)
        palette, atlas = textures_of(item)
        self.left, self.right = (
            render_view(item, caster, palette, atlas, side, antialias=antialias) for side in ("left", "right")
        )
        self.disparity = disparity_of(self.left.depth, item.rig.calibration)
        self.right_disparity = disparity_of(self.right.depth, item.rig.calibration)
        self.occluded = occlusion(self.left, self.right, "left", item.rig, caster)
        self.right_occluded = occlusion(self.right, self.left, "right", item.rig, caster)


def test_a_slanted_plane_comes_out():
    normal, offset = np.array([0.3, -0.8, -0.5]), -1.2  # normal . p = offset
    along = np.cross(normal, (0, 0, 1))
    across = np.cross(normal, along)
    middle = normal * offset / (normal @ normal)
    plane = quad(middle - 200 * along - 200 * across, 400 * along, 400 * across, cells=3)
    item = scene(SceneObject(plane, Material(WHITE)), SceneObject(wall(50), Material(WHITE)), height=120, width=200)
    truth = Truth(item)
    rays = pixel_rays(item)
    with np.errstate(divide="ignore"):
        depth = offset / (rays @ normal)
    on_plane = (depth > 0) & (depth < 30)
    assert on_plane.mean() > 0.3
    calibration = item.rig.calibration
    expected = calibration.focal * calibration.baseline / depth[on_plane]
    assert np.abs(truth.disparity.ravel()[on_plane] - expected).max() < 1e-9


def test_a_finely_divided_ball_comes_out():
    centre, radius = np.array([0.2, -0.1, 2.5]), 0.6
    ball = SceneObject(sphere(centre, radius, 560), Material(WHITE))
    item = scene(ball, SceneObject(wall(9), Material(WHITE)), height=240, width=400, focal=350.0)
    truth = Truth(item)
    rays = pixel_rays(item)
    a, b, c = (rays**2).sum(1), rays @ centre, centre @ centre - radius**2
    square = b * b - a * c
    inside = square > 0.2 * a * radius**2  # not the rim, where a hair's breadth sideways is a long way in depth
    depth = (b[inside] - np.sqrt(square[inside])) / a[inside]
    calibration = item.rig.calibration
    expected = calibration.focal * calibration.baseline / depth
    assert inside.sum() > 10_000
    assert expected.max() > 40
    assert np.abs(truth.disparity.ravel()[inside] - expected).max() < 1e-3


@pytest.mark.parametrize("doffs", [0.0, 1.5])
def test_depth_is_focal_times_baseline_over_disparity(doffs):
    truth = Truth(cluttered(doffs=doffs))
    calibration = truth.item.rig.calibration
    found = calibration.focal * calibration.baseline / (truth.disparity + doffs)
    np.testing.assert_allclose(found, truth.left.depth, rtol=1e-12)
    np.testing.assert_allclose(disparity_to_depth(truth.disparity, calibration), truth.left.depth, rtol=1e-6)
    assert (truth.disparity > 0).all()


def brute_force_hidden(item, side):
    """The points that one camera sees and the other does not, by trying all triangles."""
    corners, _ = triangles(item)
    calibration = item.rig.calibration
    cameras = np.array([[0, 0, 0], [calibration.baseline, 0, 0]])
    own, other = cameras if side == "left" else cameras[::-1]
    rays = pixel_rays(item)
    if side == "right":
        rays = rays - (calibration.doffs / calibration.focal, 0, 0)
    depth, _ = nearest_hits(corners, own, rays)
    points = own + rays * depth[:, None]
    seen, _ = nearest_hits(corners, other, points - other)  # 1 where the point itself is met first
    cx = calibration.cx + (calibration.doffs if side == "left" else 0)
    column = (points - other)[:, 0] / points[:, 2] * calibration.focal + cx
    outside = (column < -0.5) | (column > item.rig.width - 0.5)
    return (outside | (seen < 1 - 1e-7)).reshape(item.rig.height, item.rig.width)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("side", ["left", "right"])
def test_occlusion_is_that_of_a_brute_force_test(seed, side):
    item = cluttered(seed, height=90, width=150, focal=130.0, doffs=2.0 * (seed % 2))
    truth = Truth(item)
    found = truth.occluded if side == "left" else truth.right_occluded
    expected = brute_force_hidden(item, side)
    assert 0.05 < expected.mean() < 0.7
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("nearer", [0.004, 0.02, 0.3])
@pytest.mark.parametrize("side", ["left", "right"])
def test_occlusion_by_something_just_before_a_wall(nearer, side):
    """Mostly decided without rays, and by a step too small to count as an edge."""
    plate = quad((-0.3, -0.4, 2 * (1 - nearer)), (0.8, 0, 0), (0, 0.8, 0))
    item = scene(
        SceneObject(wall(2.0), Material(WHITE)),
        SceneObject(plate, Material(WHITE)),
        height=120,
        width=500,
        focal=500.0,
        baseline=0.6,
    )
    truth = Truth(item)
    found = truth.occluded if side == "left" else truth.right_occluded
    expected = brute_force_hidden(item, side)
    inside = expected[20:100, 155:345]  # not what is outside of the other image
    assert 0 < inside.sum() < 0.5 * inside.size
    np.testing.assert_array_equal(found, expected)


def test_left_and_right_disparity_are_consistent():
    truth = Truth(cluttered(height=120, width=200, focal=180.0))
    rows, columns = np.mgrid[: truth.disparity.shape[0], : truth.disparity.shape[1]]
    target = columns - truth.disparity
    first = np.clip(np.floor(target).astype(int), 0, truth.disparity.shape[1] - 2)
    share = target - first
    one, two = truth.right_disparity[rows, first], truth.right_disparity[rows, first + 1]
    found = one + share * (two - one)
    face_one, face_two = truth.right.face[rows, first], truth.right.face[rows, first + 1]
    flat = (face_one == truth.left.face) & (face_two == truth.left.face) & (target >= 0)  # exact only within a face
    assert flat.mean() > 0.4
    assert not truth.occluded[flat].any()
    np.testing.assert_allclose(found[flat], truth.disparity[flat], atol=1e-9)


def test_right_view_warped_by_the_disparity_is_the_left_view():
    truth = Truth(cluttered(lighting=EVEN, height=240, width=400, focal=360.0))
    result = warped(truth.right.sun, truth.disparity)
    # interpolation is only right where all four columns it takes show the same face
    columns = np.arange(truth.disparity.shape[1]) - truth.disparity
    first = np.floor(columns).astype(int)
    rows = np.arange(len(first))[:, None]
    inside = (first >= 1) & (first + 2 < truth.disparity.shape[1])
    same = [
        truth.right.face[rows, np.clip(first + k, 0, truth.disparity.shape[1] - 1)] == truth.left.face
        for k in (-1, 0, 1, 2)
    ]
    whole = inside & np.logical_and.reduce(same) & ~truth.occluded
    assert whole.mean() > 0.5
    error = np.abs(result - truth.left.sun).max(axis=2)
    contrast = truth.left.sun[whole].std()
    assert np.quantile(error[whole], 0.999) < 0.05 * contrast  # the rest: rims of balls, where textures are squeezed
    assert np.median(error[whole]) < 0.002 * contrast
    # and a twentieth of a pixel more is clearly worse, although the texture is smooth
    shifted = np.abs(warped(truth.right.sun, truth.disparity + 0.05) - truth.left.sun).max(axis=2)
    assert np.median(shifted[whole]) > 3 * np.median(error[whole])
    # all unoccluded pixels, object borders included
    free = inside & ~truth.occluded
    assert (error[free] < 0.1 * contrast).mean() > 0.97
