import cv2
import numpy as np
import pytest
from tests.geometry import raw_pairs
from tests.geometry.raw_pairs import DISTORTIONS, FISHEYE, RADTAN, depth_error, depth_errors, raw_rig, render_of

from linstereo.errors import InputError
from linstereo.geometry.depth import disparity_to_depth
from linstereo.geometry.rectification import Rectification, points_at_distance
from linstereo.geometry.sparse_matches import match_anywhere
from linstereo.geometry.stereo_rig import Distortion, StereoRig

WIDTH, HEIGHT = 320, 240
K_LEFT = np.array([[300.0, 0, 158.0], [0, 302.0, 121.0], [0, 0, 1]])
K_RIGHT = np.array([[305.0, 0, 163.0], [0, 304.0, 117.0], [0, 0, 1]])
ROTATION = cv2.Rodrigues(np.array([0.02, -0.05, 0.03]))[0]
TRANSLATION = -ROTATION @ np.array([0.2, 0.01, -0.005])  # the right camera stands 20 cm to the right
PLANE_NORMAL = np.array([0.2, 0.1, 1.0])
PLANE_OFFSET = 3.0


def rig(**changes: object) -> StereoRig:
    values = {
        "left_matrix": K_LEFT,
        "right_matrix": K_RIGHT,
        "rotation": ROTATION,
        "translation": TRANSLATION,
        "width": WIDTH,
        "height": HEIGHT,
    }
    return StereoRig(**{**values, **changes})  # type: ignore[arg-type]


def plane_seen_by(matrix: np.ndarray, rotation: np.ndarray, translation: np.ndarray) -> np.ndarray:
    """Where each pixel of a camera sees the plane, in the left camera's coordinates, by intersecting rays."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    rays = np.stack([x, y, np.ones_like(x)], axis=-1) @ np.linalg.inv(matrix).T @ rotation  # turned back to the left
    centre = -rotation.T @ translation
    factor = (PLANE_OFFSET - PLANE_NORMAL @ centre) / (rays @ PLANE_NORMAL)
    return centre + rays * factor[..., None]


def texture(points: np.ndarray) -> np.ndarray:
    """A smooth pattern fixed to the scene."""
    waves = np.sin(points @ np.array([[9.0, 3.0, 5.0], [2.0, 11.0, 4.0], [7.0, 5.0, 13.0]]))
    return (127.5 + 120 * waves).astype(np.uint8)


def test_rectified_pair_of_a_known_plane() -> None:
    left_points = plane_seen_by(K_LEFT, np.eye(3), np.zeros(3))
    right_points = plane_seen_by(K_RIGHT, ROTATION, TRANSLATION)
    rectification = Rectification(rig())
    left, right = rectification.left(texture(left_points)), rectification.right(texture(right_points))
    depth = rectification.left_depth(left_points.astype(np.float32))
    calibration = rectification.calibration
    assert calibration.baseline == pytest.approx(np.linalg.norm(TRANSLATION))
    known = depth > 0
    disparity = np.where(
        known, calibration.focal * calibration.baseline / np.maximum(depth, 0.1) - calibration.doffs, 0
    )
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    warped = cv2.remap(right, (x - disparity).astype(np.float32), y, cv2.INTER_LINEAR, borderValue=(0, 0, 0))
    inside = known & (x - disparity > 1) & (x - disparity < WIDTH - 2)
    assert inside.mean() > 0.5
    error = np.abs(warped.astype(float) - left)[inside].mean()
    without = np.abs(right.astype(float) - left)[inside].mean()
    assert error < 3.0
    assert without > 30.0
    np.testing.assert_allclose(disparity_to_depth(disparity, calibration)[inside], depth[inside], rtol=1e-5)


def test_depth_is_along_the_axis_of_the_rectified_camera() -> None:
    rectification = Rectification(rig())
    depth = rectification.left_depth(plane_seen_by(K_LEFT, np.eye(3), np.zeros(3)).astype(np.float32))
    none = np.zeros(5)
    turned, _, projection, *_ = cv2.stereoRectify(
        K_LEFT, none, K_RIGHT, none, (WIDTH, HEIGHT), ROTATION, TRANSLATION[:, None], alpha=0
    )
    assert np.rad2deg(np.linalg.norm(cv2.Rodrigues(turned)[0])) > 2, "a turn too small to matter"
    exact = plane_seen_by(projection[:, :3], turned, np.zeros(3)) @ turned[2]
    np.testing.assert_allclose(depth[depth > 0], exact[depth > 0], rtol=2e-3)
    assert (depth > 0).mean() > 0.95


def test_points_from_distances_are_on_their_rays() -> None:
    points = plane_seen_by(K_LEFT, np.eye(3), np.zeros(3))
    distance = np.linalg.norm(points, axis=-1).astype(np.float32)
    distance[5, 7] = 0
    rebuilt = points_at_distance(distance, K_LEFT)
    assert np.isnan(rebuilt[5, 7]).all()
    rebuilt[5, 7] = points[5, 7]
    np.testing.assert_allclose(rebuilt, points, rtol=1e-5, atol=1e-5)


def test_unknown_points_have_no_depth() -> None:
    points = np.full((HEIGHT, WIDTH, 3), np.nan, dtype=np.float32)
    assert not Rectification(rig()).left_depth(points).any()


def test_wrong_image_size_is_refused() -> None:
    with pytest.raises(InputError, match="10 x 20 pixels, the calibration is for 320 x 240"):
        Rectification(rig()).left(np.zeros((20, 10, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rotation": 2 * np.eye(3)}, "rotation matrix"),
        ({"rotation": np.diag([1.0, 1.0, -1.0])}, "rotation matrix"),
        ({"translation": -TRANSLATION}, "swap the two images"),
        ({"left_matrix": np.zeros((3, 3))}, "left_matrix"),
        ({"right_matrix": K_RIGHT.T}, "right_matrix"),
        ({"translation": np.full(3, np.nan)}, "translation"),
        ({"width": 0}, "0 x 240"),
    ],
)
def test_impossible_rigs_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        rig(**changes)


def row_offsets(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    matches = match_anywhere(left, right, max_pixels=10**6).points
    assert len(matches) > 200
    return np.abs(matches[:, 1] - matches[:, 3])


@pytest.mark.parametrize("name", DISTORTIONS)
def test_raw_pairs_come_out_with_aligned_rows(name: str) -> None:
    raw = render_of(DISTORTIONS[name])
    rectification = Rectification(raw_rig(DISTORTIONS[name]))
    left, right = rectification.left(raw[0]), rectification.right(raw[1])
    assert np.median(row_offsets(*raw)) > 2
    assert np.median(row_offsets(left, right)) < 0.2
    assert depth_error(left, right, rectification.calibration, rectification.rotation) < 0.005
    assert (left == 0).mean() < 0.01, "black borders"


@pytest.mark.parametrize("name", ["radtan 5", "fisheye"])
def test_half_the_size_gives_the_same_depth(name: str) -> None:
    rig, raw = raw_rig(DISTORTIONS[name]), render_of(DISTORTIONS[name])
    size = (raw_pairs.WIDTH // 2, raw_pairs.HEIGHT // 2)
    small = [cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in raw]
    rectification = Rectification(rig.resized(*size))
    left, right = rectification.left(small[0]), rectification.right(small[1])
    assert np.median(row_offsets(left, right)) < 0.2
    change = np.median(depth_errors(left, right, rectification.calibration, rectification.rotation))
    assert abs(change) < 0.005


def test_opencv_as_a_twin_for_radial_tangential_lenses() -> None:
    rig = raw_rig(RADTAN)
    arguments = (rig.left_matrix, rig.left_distortion.array, rig.right_matrix, rig.right_distortion.array)
    size = (rig.width, rig.height)
    rotation, _, projection, *_ = cv2.stereoRectify(
        *arguments, size, rig.rotation, rig.translation[:, None], flags=cv2.CALIB_ZERO_DISPARITY, alpha=0.4
    )
    maps = cv2.initUndistortRectifyMap(*arguments[:2], rotation, projection, size, cv2.CV_32FC1)
    image = render_of(RADTAN)[0]
    rectification = Rectification(rig, alpha=0.4)
    np.testing.assert_array_equal(rectification.left(image), cv2.remap(image, *maps, cv2.INTER_LINEAR))
    assert rectification.calibration.focal == projection[0, 0]


def test_opencv_as_a_twin_for_fisheye_lenses() -> None:
    rig = raw_rig(FISHEYE)
    rotation, _, projection, right_projection, _ = cv2.fisheye.stereoRectify(
        rig.left_matrix,
        rig.left_distortion.array,
        rig.right_matrix,
        rig.right_distortion.array,
        (rig.width, rig.height),
        rig.rotation,
        rig.translation[:, None],
        flags=cv2.CALIB_ZERO_DISPARITY,
    )
    rectification = Rectification(rig)
    np.testing.assert_allclose(rectification.rotation, rotation, atol=1e-6)
    baseline = -right_projection[0, 3] / right_projection[0, 0]
    assert rectification.calibration.baseline == pytest.approx(baseline, rel=1e-6)
    assert 0.5 < rectification.calibration.focal / projection[0, 0] < 2  # it has a focal length of its own choice


def test_alpha_keeps_what_cropping_loses() -> None:
    for distortion in (RADTAN, FISHEYE):
        rig = raw_rig(distortion)
        white = np.full((rig.height, rig.width, 3), 255, np.uint8)
        cropped, half, whole = (Rectification(rig, alpha=alpha) for alpha in (0.0, 0.5, 1.0))
        assert cropped.calibration.focal > half.calibration.focal > whole.calibration.focal
        assert (cropped.left(white) == 0).mean() < 0.005
        assert (whole.left(white) == 0).mean() > 0.02
    with pytest.raises(InputError, match="alpha is 2"):
        Rectification(rig, alpha=2)


def test_coefficients_in_the_wrong_order_are_noticed() -> None:
    folding = Distortion("radial-tangential", (-0.28, 0.09, 0.3, -0.25, 0.0))
    with pytest.raises(InputError, match="camera's distortion folds the image over"):
        Rectification(raw_rig(folding))
    magnifying = Distortion("radial-tangential", (-0.28, 0.0012, 0.09, 0.3, 4.0))
    with pytest.raises(InputError, match="would be magnified 19 times; check the rotation"):
        Rectification(raw_rig(magnifying))
