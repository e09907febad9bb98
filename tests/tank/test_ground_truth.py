"""Ground truth of rendered views against the renderer's own depth, which comes from rays and not from this code."""

import cv2
import numpy as np
import pytest
from tests.tank.pictures import CALIBRATION, CLEAN, RIG, TARGET, random_view, straight_view

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.scene import IdealStereoRig
from linstereo.tank.ground_truth import GroundTruth, Thresholds, make_ground_truth, overlay
from linstereo.tank.mesh import FRAME, ROPE
from linstereo.tank.pose import Pose, Rejected
from linstereo.tank.scene import photograph_target
from linstereo.tank.zbuffer import render_depth


def truth_of(view, right=None, **limits) -> GroundTruth:
    return make_ground_truth(view.left, right, CALIBRATION, TARGET.layout, TARGET.mesh, Thresholds(**limits))


@pytest.mark.parametrize("index", range(6))
def test_depth_of_random_views(index):
    """Six of the hundred views of benchmarks/tank.py, smaller: noise, blur, six types of water, 0.4 to 1.2 m."""
    view = random_view(index)
    truth = truth_of(view)
    rigid = (truth.part == FRAME) & (view.part == FRAME) & ~truth.thin
    off = np.abs(truth.depth - view.depth)[rigid]
    assert np.median(off) < 1e-3
    assert np.percentile(off, 95) < 3e-3
    assert truth.quality.depth_error < 2e-3
    assert np.median(off) < 4 * truth.quality.depth_error + 2e-5  # the estimate is honest
    outline = cv2.morphologyEx(view.part, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > 0
    away = ~outline & ~truth.thin
    assert np.count_nonzero((truth.part != view.part) & away) <= 0.002 * np.count_nonzero(view.part)


def test_all_of_a_clear_view():
    view = straight_view()
    truth = truth_of(view, view.right)
    assert truth.quality.tags == TARGET.layout.ids
    assert truth.quality.reprojection < 0.3
    assert abs(truth.quality.disparity_difference) < 0.2
    assert abs(truth.quality.row_difference) < 0.2
    assert truth.quality.pixels == truth.valid.sum() == (truth.depth > 0).sum() == (truth.disparity > 0).sum()
    assert truth.quality.rope_pixels == (truth.part == ROPE).sum() > 1000
    assert truth.quality.distance == pytest.approx(truth.depth[truth.valid].min(), abs=1e-6)
    expected = CALIBRATION.focal * CALIBRATION.baseline / truth.depth[truth.valid]
    np.testing.assert_allclose(truth.disparity[truth.valid], expected, rtol=1e-5)
    turn = cv2.Rodrigues(truth.pose.rotation @ view.pose.rotation.T)[0]
    assert np.abs(turn).max() < 2e-3
    assert np.abs(truth.pose.translation - view.pose.translation).max() < 5e-4
    assert set(truth.quality.to_json()) >= {"tags", "reprojection", "depth_error", "disparity_difference"}


def test_the_right_image_agrees_with_the_disparity():
    """Warped by the ground truth, the right image is the left one on the target: the disparity is the pair's own."""
    view = straight_view()
    truth = truth_of(view)
    row, column = np.indices(truth.depth.shape).astype(np.float32)
    grey = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32) for image in (view.left, view.right)]
    errors = []
    for wrong in (0.0, 1.0, -1.0):
        warped = cv2.remap(grey[1], column - truth.disparity - np.float32(wrong), row, cv2.INTER_LINEAR)
        inside = cv2.erode((truth.part == FRAME).astype(np.uint8), np.ones((3, 3))) > 0
        errors.append(np.abs(warped - grey[0])[inside].mean())
    assert errors[0] < 0.6 * min(errors[1:])


def components(mask):
    return cv2.connectedComponents(mask.astype(np.uint8), connectivity=8)[0] - 1


@pytest.mark.parametrize("distance", [1.0, 2.0])
def test_ropes_of_3_mm_are_continuous(distance):
    """One rope after the other, seen alone, is one piece; at 2 m it is 0.8 px wide here."""
    turn = cv2.Rodrigues(np.array([0.1, 0.2, 0.07]))[0]
    pose = Pose(turn, np.array([0.013, 0.007, distance]))
    mesh = TARGET.mesh
    for number, name in enumerate(TARGET.names):
        if not name.startswith("rope"):
            continue
        faces = mesh.faces[mesh.body == number]
        seen = render_depth(pose.apply(mesh.vertices), faces, CALIBRATION, height=RIG.height, width=RIG.width)
        assert components(seen.depth > 0) == 1
        width = (seen.depth > 0).sum(axis=1)
        assert np.count_nonzero(width) > 0.2 / distance * CALIBRATION.focal


def test_ropes_are_there_in_the_ground_truth_at_one_metre():
    """All ropes together with the rails they hang from are one piece, and nearly all pixels that show rope have it."""
    pose = Pose(cv2.Rodrigues(np.array([0.05, -0.15, 0.05]))[0], np.array([0.01, 0.02, 1.0]))
    view = photograph_target(
        TARGET, pose, np.random.default_rng(5), water_type="II", rig=RIG, faults=CLEAN, right=False
    )
    truth = truth_of(view)
    assert components(truth.part > 0) == 1
    ropes = view.part == ROPE
    assert np.count_nonzero(truth.part[ropes] == ROPE) > 0.93 * np.count_nonzero(ropes)
    both = ropes & (truth.part == ROPE)
    assert np.median(np.abs(truth.depth - view.depth)[both]) < 1e-3


def test_overlay_shows_the_picture_and_the_outline():
    view = straight_view()
    truth = truth_of(view)
    picture = overlay(view.left, truth)
    assert picture.shape == view.left.shape
    far = cv2.dilate(truth.valid.astype(np.uint8), np.ones((41, 41))) == 0
    np.testing.assert_array_equal(picture[far], view.left[far])
    assert ((picture == (255, 255, 0)).all(axis=2)).sum() > 1000


def test_thresholds_reject():
    view = straight_view()
    with pytest.raises(Rejected, match="only 15 tags agree on the pose, fewer than 16"):
        truth_of(view, tags=16)
    with pytest.raises(Rejected, match=r"the depth is uncertain by 0\.\d mm, more than 0\.0 mm"):
        truth_of(view, depth_error=1e-6)
    with pytest.raises(
        Rejected, match=r"the corners of the 15 tags that agree are off by 0\.\d\d px, more than 0\.001 px"
    ):
        truth_of(view, reprojection=0.001)
    with pytest.raises(Rejected, match="the two images have the tags at"):
        truth_of(view, view.right, disparity_error=1e-6)


@pytest.mark.parametrize("field", ["reprojection", "depth_error", "disparity_error"])
def test_thresholds_must_be_positive(field):
    with pytest.raises(InputError, match=f"threshold {field} is 0"):
        Thresholds(**{field: 0.0})
    with pytest.raises(InputError, match="at least 1 tags"):
        Thresholds(tags=1)


def test_unequal_focal_lengths_and_shifted_principal_points():
    calibration = StereoCalibration(focal=560.0, baseline=0.08, cx=300.2, cy=260.7, doffs=5.0, aspect=1.05)
    rig = IdealStereoRig(480, 640, calibration)
    pose = straight_view().pose
    view = photograph_target(TARGET, pose, np.random.default_rng(2), water_type="I", rig=rig, faults=CLEAN)
    truth = make_ground_truth(view.left, view.right, calibration, TARGET.layout, TARGET.mesh)
    rigid = (truth.part == FRAME) & (view.part == FRAME) & ~truth.thin
    assert np.median(np.abs(truth.depth - view.depth)[rigid]) < 1e-3
    assert abs(truth.quality.disparity_difference) < 0.2
