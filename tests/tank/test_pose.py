"""Poses: exact without noise, robust against what is no tag, and as uncertain as they say."""

import cv2
import numpy as np
import pytest
from tests.tank.pictures import CALIBRATION, TARGET

from linstereo.geometry.calibration import StereoCalibration
from linstereo.tank.detection import Detection
from linstereo.tank.layout import TagLayout
from linstereo.tank.pose import Pose, Rejected, camera_matrix, project, solve_pose

LAYOUT = TARGET.layout
FLAT = TagLayout(LAYOUT.ids[:10], LAYOUT.corners[:10])


def pose(rng, distance=(0.5, 1.8)):
    turn = cv2.Rodrigues(rng.normal(0, 0.3, 3))[0]
    return Pose(turn, np.array([*rng.uniform(-0.1, 0.1, 2), rng.uniform(*distance)]))


def detections(place, layout=LAYOUT, *, rng=None, noise=0.0):
    seen = project(place.apply(layout.corners), CALIBRATION)
    if rng is not None:
        seen = seen + rng.normal(0, noise, seen.shape)
    return [Detection(tag, corners, max(noise, 0.01)) for tag, corners in zip(layout.ids, seen, strict=True)]


def error(one, two):
    turn = cv2.Rodrigues(one.rotation @ two.rotation.T)[0].ravel()
    return np.concatenate([turn, one.translation - two.translation])


def test_projection_is_that_of_opencv():
    rng = np.random.default_rng(0)
    calibration = StereoCalibration(focal=700.0, baseline=0.1, cx=311.2, cy=245.7, aspect=1.03)
    place = pose(rng)
    points = rng.uniform(-0.2, 0.2, (50, 3))
    theirs = cv2.projectPoints(
        points, cv2.Rodrigues(place.rotation)[0], place.translation, camera_matrix(calibration), None
    )[0]
    np.testing.assert_allclose(project(place.apply(points), calibration), theirs[:, 0], atol=1e-9)


@pytest.mark.parametrize("layout", [LAYOUT, FLAT], ids=["two depths", "one plane"])
def test_exact_corners_give_the_exact_pose(layout):
    rng = np.random.default_rng(1)
    for _ in range(4):
        place = pose(rng)
        fit = solve_pose(detections(place, layout), layout, CALIBRATION)
        assert np.abs(error(fit.pose, place)).max() < 1e-8
        assert fit.rms < 1e-6
        assert fit.tags == layout.ids
        assert fit.odd == ()


def test_it_agrees_with_opencvs_refinement():
    """With equal weights and no shift of edges, the minimum is that of OpenCV's Levenberg-Marquardt."""
    rng = np.random.default_rng(2)
    place = pose(rng)
    found = detections(place, rng=rng, noise=0.02)
    fit = solve_pose(found, LAYOUT, CALIBRATION)
    points = LAYOUT.corners.reshape(-1, 3)
    image = np.concatenate([item.corners for item in found])
    start = cv2.Rodrigues(place.rotation)[0], place.translation.reshape(3, 1).copy()
    turn, move = cv2.solvePnPRefineLM(points, image, camera_matrix(CALIBRATION), None, *start)
    theirs = Pose(cv2.Rodrigues(turn)[0], move.ravel())
    own, other = error(fit.pose, place), error(theirs, place)
    assert np.abs(own - other).max() < 2e-4  # the one more number adjusted makes a small difference
    assert abs(own[5]) < 1e-3


def test_false_detections_are_set_aside():
    rng = np.random.default_rng(3)
    for _ in range(4):
        place = pose(rng)
        found = detections(place, rng=rng, noise=0.1)
        square = np.array([(0, 0), (20, 0), (20, 20), (0, 20)], float)
        false = [Detection(int(tag), square + rng.uniform(0, 400, 2), 0.1) for tag in rng.integers(0, 30, 8)]
        kept = found[:5]  # fewer true ones than false ones
        fit = solve_pose([*false, *kept], LAYOUT, CALIBRATION)
        assert fit.tags == LAYOUT.ids[:5]
        assert {id(item) for item in fit.odd} == {id(item) for item in false}
        assert np.abs(error(fit.pose, place)[3:]).max() < 0.02


def test_one_bad_corner_hardly_matters():
    rng = np.random.default_rng(4)
    place = pose(rng, distance=(0.8, 0.9))
    found = detections(place, rng=rng, noise=0.05)
    bent = found[6].corners.copy()
    bent[2] += (1.5, -1.0)
    spoilt = [*found[:6], Detection(found[6].tag, bent, 0.05), *found[7:]]
    straight, crooked = (solve_pose(items, LAYOUT, CALIBRATION) for items in (found, spoilt))
    off = np.abs(error(straight.pose, crooked.pose))
    assert off[:3].max() < 1.5e-4  # plain least squares: 6e-4
    assert off[3:].max() < 6e-5


def test_errors_are_as_large_as_they_are_said_to_be():
    rng = np.random.default_rng(5)
    ratios = []
    for _ in range(40):
        place = pose(rng)
        found = [found for found in detections(place, rng=rng, noise=0.1) if found.tag % 2]
        fit = solve_pose(found, LAYOUT, CALIBRATION)
        off = error(fit.pose, place)
        ratios.append(off @ np.linalg.solve(fit.covariance, off))
    assert 4 < np.mean(ratios) < 9  # 6 are expected, with a standard deviation of 0.55


def test_edges_that_are_all_too_far_out_do_not_change_the_distance():
    place = pose(np.random.default_rng(6), distance=(1.0, 1.01))
    fit = None
    for shift in (0.0, 0.25):
        found = []
        for item in detections(place):
            outwards = item.corners - item.corners.mean(axis=0)
            outwards *= np.sqrt(2) / np.linalg.norm(outwards, axis=1, keepdims=True)
            found.append(Detection(item.tag, item.corners + shift * outwards, 0.05))
        fit = solve_pose(found, LAYOUT, CALIBRATION)
        assert abs(fit.pose.translation[2] - place.translation[2]) < 2e-4
    assert fit.edge_shift == pytest.approx(0.25, abs=0.01)


def test_tags_in_one_plane_far_away_may_lean_either_way():
    """Far from the camera a small plane looks alike from both sides of the line of sight."""
    rng = np.random.default_rng(7)
    place = Pose(cv2.Rodrigues(np.array([0.0, 0.25, 0.0]))[0], np.array([0, 0, 4.0]))
    small = TagLayout(FLAT.ids[:2], FLAT.corners[:2])
    doubtful = solve_pose(detections(place, small, rng=rng, noise=0.15), small, CALIBRATION)
    sure = solve_pose(detections(place, LAYOUT, rng=rng, noise=0.15), LAYOUT, CALIBRATION)
    assert doubtful.rivalry < 12 < sure.rivalry


def test_one_tag_is_not_enough():
    found = detections(pose(np.random.default_rng(8)))[:1]
    with pytest.raises(Rejected, match="no two of the 1 tags"):
        solve_pose(found, LAYOUT, CALIBRATION)
