import cv2
import numpy as np
import pytest

from linstereo.errors import InputError
from linstereo.geometry.motion import motion_since


def texture(seed, height=160, width=240):
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (height // 5, width // 5, 3), dtype=np.uint8)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)


def turned(image, angle=2.0, shift=(4.0, -3.0)):
    """The image after a motion of the camera, and the [2, 3] matrix from its pixels to those before."""
    height, width = image.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), angle, 1.02)
    matrix[:, 2] += shift
    return cv2.warpAffine(image, matrix, (width, height), flags=cv2.INTER_CUBIC), cv2.invertAffineTransform(matrix)


@pytest.mark.parametrize("factor", [1, 4])
def test_places_are_those_of_a_known_motion(factor):
    before = cv2.resize(texture(0), None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC)
    now, back = turned(before, shift=(4.0 * factor, -3.0 * factor))
    motion = motion_since(before, now)
    height, width = now.shape[:2]
    rows, columns = np.mgrid[:height, :width]
    true = np.stack([columns, rows, np.ones_like(rows)], axis=-1) @ back.T
    off = np.linalg.norm(motion.places - true, axis=-1)[motion.found]
    assert motion.share > 0.75
    assert motion.same_scene
    assert np.median(off) < 0.25 * factor
    outside = (true < 0).any(axis=-1) | (true[..., 0] > width - 1) | (true[..., 1] > height - 1)
    assert motion.found[outside].mean() < 0.1
    carried = motion.carried(columns.astype(np.float32))  # a map of columns says where each pixel was
    assert np.median(np.abs(carried - true[..., 0])[motion.found]) < 0.25 * factor


def test_a_still_camera_with_noise_is_followed():
    before = texture(1)
    noise = np.random.default_rng(2).normal(0, 8, before.shape)
    motion = motion_since(before, np.clip(before + noise, 0, 255).astype(np.uint8))
    assert motion.share > 0.9


def test_a_change_of_exposure_is_no_cut():
    before = texture(1)
    assert motion_since(before, (0.6 * before + 20).astype(np.uint8)).share > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_another_scene_is_a_cut(seed):
    motion = motion_since(texture(seed), texture(seed + 100))
    assert not motion.same_scene
    assert motion.share < 0.3


def test_a_black_frame_is_a_cut():
    assert not motion_since(np.zeros((160, 240, 3), np.uint8), texture(3)).same_scene


def test_small_images_are_followed_and_sizes_must_agree():
    small = texture(4, 40, 50)
    assert motion_since(small, small).share > 0.9
    with pytest.raises(InputError, match="one size"):
        motion_since(small, texture(4))
