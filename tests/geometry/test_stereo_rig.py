import cv2
import numpy as np
import pytest
from tests.geometry.raw_pairs import DISTORTIONS, FISHEYE, HEIGHT, RADTAN, WIDTH, raw_rig, rays

from linstereo.errors import InputError
from linstereo.geometry.stereo_rig import Distortion


@pytest.mark.parametrize("name", DISTORTIONS)
def test_rays_invert_the_distortion(name: str) -> None:
    rig = raw_rig(DISTORTIONS[name])
    expected = rays(rig.left_matrix, rig.left_distortion)[::40, ::40].reshape(-1, 3)
    y, x = np.mgrid[0:HEIGHT:40, 0:WIDTH:40]
    found, known = rig.left_distortion.rays(np.stack([x.ravel(), y.ravel()], axis=1), rig.left_matrix)
    assert known.all()
    assert np.linalg.norm(found, axis=1) == pytest.approx(1)
    error = found[:, :2] / found[:, 2:] - expected[:, :2]
    assert np.abs(error).max() < 1e-5


def test_beyond_the_edge_of_a_fisheye_lens_there_is_nothing() -> None:
    falling = Distortion("equidistant", (-0.2, 0.0, 0.0, 0.0))  # rises up to an angle of 1.29
    _, known = falling.rays(np.array([[0.0, 0.0], [60.0, 0.0], [100.0, 0.0]]), np.diag([100.0, 100.0, 1.0]))
    assert known.tolist() == [True, True, False]


def test_resized_cameras_project_to_resized_images() -> None:
    rig = raw_rig()
    half = rig.resized(WIDTH // 2, HEIGHT // 2)
    points = np.random.default_rng(0).uniform([-1, -1, 2], [1, 1, 4], (50, 3))
    for side in ("left", "right"):
        distortion = getattr(rig, f"{side}_distortion").array
        full, small = (
            cv2.projectPoints(points, np.zeros(3), np.zeros(3), getattr(r, f"{side}_matrix"), distortion)[0]
            for r in (rig, half)
        )
        np.testing.assert_allclose(small, (full + 0.5) / 2 - 0.5, atol=1e-9)
    assert (half.width, half.height, half.baseline) == (WIDTH // 2, HEIGHT // 2, rig.baseline)


def test_rectified_rigs_are_known_as_such() -> None:
    matrix = np.array([[500.0, 0, 320], [0, 505, 240], [0, 0, 1]])
    shifted = matrix + np.array([[0, 0, 7.5], [0, 0, 0], [0, 0, 0]])
    aligned = {
        "left_matrix": matrix,
        "right_matrix": shifted,
        "rotation": np.eye(3),
        "translation": np.array([-0.2, 0, 0]),
    }
    plain = Distortion("radial-tangential", (0.0,) * 5)
    calibration = raw_rig(plain, **aligned).rectified()
    assert calibration is not None
    assert (calibration.focal, calibration.focal_y, calibration.cx, calibration.cy) == (500, 505, 320, 240)
    assert (calibration.baseline, calibration.doffs) == (0.2, 7.5)
    for change in (
        {"right_matrix": shifted + np.array([[0, 0, 0], [0, 0, 0.1], [0, 0, 0]])},
        {"right_matrix": shifted * [[1.001, 1, 1], [1, 1, 1], [1, 1, 1]]},
        {"rotation": cv2.Rodrigues(np.array([1e-4, 0, 0]))[0]},
        {"translation": np.array([-0.2, 1e-4, 0])},
        {"left_distortion": RADTAN},
        {"right_distortion": Distortion("equidistant", (0.0,) * 4)},
    ):
        assert raw_rig(plain, **{**aligned, **change}).rectified() is None


@pytest.mark.parametrize(
    ("kind", "coefficients", "message"),
    [
        ("radial-tangential", (0.1,), "there are 1 radial-tangential distortion coefficients"),
        ("equidistant", (0.1,) * 5, "there must be 4"),
        ("equidistant", (0.1, 0.1, 0.1, float("nan")), "finite"),
        ("thin-plate", (), "one of radial-tangential, equidistant"),
    ],
)
def test_impossible_distortions(kind, coefficients, message) -> None:
    with pytest.raises(InputError, match=message):
        Distortion(kind, coefficients)


def test_cameras_above_each_other_are_refused() -> None:
    with pytest.raises(InputError, match="one camera stands above the other"):
        raw_rig(FISHEYE, translation=np.array([-0.01, 0.1, 0.0]))
