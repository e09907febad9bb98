import cv2
import numpy as np
import pytest

from linstereo.errors import InputError
from linstereo.geometry.depth import disparity_to_depth
from linstereo.geometry.rectification import Rectification, StereoRig, points_at_distance

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
