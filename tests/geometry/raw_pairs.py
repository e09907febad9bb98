"""Pairs of pictures of a slanted plane as real lenses would take them, rendered without any of the code under test."""

import functools

import cv2
import numpy as np

from linstereo.geometry.sparse_matches import match_sparse
from linstereo.geometry.stereo_rig import Distortion, StereoRig

WIDTH, HEIGHT = 640, 480
NORMAL = np.array([0.15, 0.1, 1.0]) / np.linalg.norm([0.15, 0.1, 1.0])
DISTANCE = 2.0  # metres, of the plane NORMAL @ X = DISTANCE from the left camera
RADTAN = Distortion("radial-tangential", (-0.28, 0.09, 0.0012, -0.0008, -0.01))
FISHEYE = Distortion("equidistant", (0.03, -0.012, 0.004, -0.0015))
DISTORTIONS = {
    "radtan 4": Distortion("radial-tangential", (-0.28, 0.08, 0.0012, -0.0008)),
    "radtan 5": RADTAN,
    "radtan 8": Distortion("radial-tangential", (0.2, 0.05, 0.001, -0.0005, 0.01, 0.48, 0.1, 0.02)),
    "fisheye": FISHEYE,
}


def raw_rig(distortion: Distortion = RADTAN, **changes) -> StereoRig:
    """Two cameras that are not aligned and not alike, 12 cm apart."""
    focal = 330.0 if distortion.kind == "equidistant" else 460.0
    rotation = cv2.Rodrigues(np.array([0.012, -0.03, 0.02]))[0]
    second = tuple(0.97 * value for value in distortion.coefficients)
    values = {
        "left_matrix": np.array([[focal, 0, 325.0], [0, focal + 1.5, 236.0], [0, 0, 1]]),
        "right_matrix": np.array([[focal + 4, 0, 314.0], [0, focal + 3, 243.0], [0, 0, 1]]),
        "rotation": rotation,
        "translation": -rotation @ np.array([0.12, 0.004, -0.003]),
        "width": WIDTH,
        "height": HEIGHT,
        "left_distortion": distortion,
        "right_distortion": Distortion(distortion.kind, second),
    }
    return StereoRig(**{**values, **changes})


def distort(normal: np.ndarray, distortion: Distortion) -> np.ndarray:
    """The models as OpenCV's documentation writes them; `normal` is [..., 2], x / z and y / z."""
    x, y = normal[..., 0], normal[..., 1]
    square = x * x + y * y
    if distortion.kind == "equidistant":
        radius = np.sqrt(square)
        angle = np.arctan(radius)
        k1, k2, k3, k4 = distortion.coefficients
        bent = angle * (1 + k1 * angle**2 + k2 * angle**4 + k3 * angle**6 + k4 * angle**8)
        return normal * np.where(radius > 1e-9, bent / np.maximum(radius, 1e-9), 1.0)[..., None]
    k1, k2, p1, p2, k3, k4, k5, k6 = (*distortion.coefficients, *[0.0] * 8)[:8]
    radial = (1 + k1 * square + k2 * square**2 + k3 * square**3) / (1 + k4 * square + k5 * square**2 + k6 * square**3)
    return np.stack(
        [
            x * radial + 2 * p1 * x * y + p2 * (square + 2 * x * x),
            y * radial + p1 * (square + 2 * y * y) + 2 * p2 * x * y,
        ],
        axis=-1,
    )


def rays(matrix: np.ndarray, distortion: Distortion) -> np.ndarray:
    """[H, W, 3]: where each pixel of a raw image looks, with z = 1; Newton's method inverts the distortion."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float64)
    target = np.stack([(x - matrix[0, 2]) / matrix[0, 0], (y - matrix[1, 2]) / matrix[1, 1]], axis=-1)
    normal = target.copy()
    if distortion.kind == "equidistant":
        angle = np.minimum(np.linalg.norm(target, axis=-1, keepdims=True), 1.3)
        normal *= np.tan(angle) / np.maximum(angle, 1e-9)
    step = 1e-6
    for _ in range(30):
        error = distort(normal, distortion) - target
        if np.abs(error).max() < 1e-9:
            break
        (a, c), (b, d) = (
            np.moveaxis(distort(normal + step * axis, distortion) - distort(normal - step * axis, distortion), -1, 0)
            for axis in np.eye(2)
        )
        x, y = np.moveaxis(error, -1, 0)
        normal = normal - 2 * step * np.stack([d * x - b * y, a * y - c * x], axis=-1) / (a * d - b * c)[..., None]
    else:
        raise AssertionError("the distortion could not be inverted")
    return np.concatenate([normal, np.ones((HEIGHT, WIDTH, 1))], axis=-1)


@functools.cache
def texture() -> np.ndarray:
    """Blobs of several sizes, uint8 [2048, 2048]."""
    rng = np.random.default_rng(5)
    total = sum(size * cv2.GaussianBlur(rng.standard_normal((2048, 2048)), (0, 0), size) for size in (3, 6, 12))
    return np.clip(127 + 45 * total / total.std(), 0, 255).astype(np.uint8)


@functools.cache
def render_of(distortion: Distortion) -> tuple[np.ndarray, np.ndarray]:
    """The raw images of `raw_rig(distortion)`."""
    return render(raw_rig(distortion))


def render(rig: StereoRig) -> tuple[np.ndarray, np.ndarray]:
    """Left and right raw image, uint8 [H, W, 3]."""
    pattern = texture()
    cameras = (
        (rig.left_matrix, rig.left_distortion, np.eye(3), np.zeros(3)),
        (rig.right_matrix, rig.right_distortion, rig.rotation, rig.translation),
    )
    images = []
    for matrix, distortion, rotation, translation in cameras:
        directions = rays(matrix, distortion) @ rotation  # turned back into the left camera's coordinates
        centre = -rotation.T @ translation
        points = centre + directions * ((DISTANCE - NORMAL @ centre) / (directions @ NORMAL))[..., None]
        place = (points[..., :2] * 330 + 1024).astype(np.float32)  # about one texel a pixel
        grey = cv2.remap(pattern, place[..., 0], place[..., 1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
        images.append(np.repeat(grey[..., None], 3, axis=2))
    return images[0], images[1]


def plane_depth(points: np.ndarray, calibration, rotation: np.ndarray) -> np.ndarray:
    """Depth [K] of the plane at pixels [K, 2] of the rectified left camera, which `rotation` turns to."""
    x = (points[:, 0] - calibration.cx) / calibration.focal
    y = (points[:, 1] - calibration.cy) / calibration.focal_y
    return DISTANCE / (np.stack([x, y, np.ones_like(x)], axis=1) @ rotation @ NORMAL)


def depth_error(left: np.ndarray, right: np.ndarray, calibration, rotation: np.ndarray) -> float:
    """Median of the absolute relative errors of `depth_errors`."""
    return float(np.median(np.abs(depth_errors(left, right, calibration, rotation))))


def depth_errors(left: np.ndarray, right: np.ndarray, calibration, rotation: np.ndarray) -> np.ndarray:
    """Relative errors of the depth of sparse matches, of at least 200, in a rectified pair of the plane."""
    matches = match_sparse(left, right)
    assert len(matches.disparity) > 200
    depth = calibration.focal * calibration.baseline / (matches.disparity + calibration.doffs)
    return depth / plane_depth(matches.points, calibration, rotation) - 1
