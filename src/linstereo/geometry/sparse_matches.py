"""Sparse correspondences of a rectified pair: SIFT keypoints matched along its rows.

They look at the two images only, so they can be made in data-loading workers; `SparseMatches` is small and picklable.
Disparity is positive and in pixels of the left image. Pixel centres have integer coordinates.
"""

from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError

_BLOCK = 128  # left keypoints compared at once; bounds the memory of the distance matrix
FREE_PIXELS = 200_000
"""To how many pixels `match_anywhere` reduces larger images."""
_CONTRAST_THRESHOLD = 0.01  # a quarter of OpenCV's default: hazy, low-contrast water still gives keypoints


@dataclass(frozen=True, eq=False)
class SparseMatches:
    """Sparse correspondences of one rectified pair, in pixels of the left image.

    Attributes:
        points: float32 [K, 2], (x, y) in the left image.
        disparity: float32 [K], x_left - x_right, > 0.
        image_size: (height, width) of the images that were matched.
        negative: number of further matches whose disparity came out <= 0, which a rectified pair in the right
            order cannot show: more of them than of the positive ones means that left and right are swapped.
    """

    points: NDArray[np.float32]
    disparity: NDArray[np.float32]
    image_size: tuple[int, int]
    negative: int = 0

    def __post_init__(self) -> None:
        if self.disparity.ndim != 1 or self.points.shape != (len(self.disparity), 2):
            raise InputError(
                f"sparse matches need points [K, 2] and disparity [K], but got {list(self.points.shape)} and "
                f"{list(self.disparity.shape)}; pass one disparity per point."
            )

    @classmethod
    def none(cls, image_size: tuple[int, int]) -> "SparseMatches":
        """No matches at all, from which the start is zero disparity."""
        return cls(np.zeros((0, 2), np.float32), np.zeros(0, np.float32), image_size)


def match_sparse(
    left: NDArray[np.uint8],
    right: NDArray[np.uint8],
    *,
    max_keypoints: int = 3000,
    max_row_offset: float = 1.5,
    ratio: float = 0.8,
    max_distance: float = 250.0,
    max_pixels: int = 1_000_000,
) -> SparseMatches:
    """Match SIFT keypoints of a rectified pair along its rows.

    A pair of keypoints is kept if each is the other's nearest neighbour among the keypoints within
    `max_row_offset` rows, its descriptor distance is at most `max_distance` and below `ratio` times that of
    the best rival in those rows, and its disparity is positive. Rivals at negative disparity compete as well:
    where one of them is better, the match is wrong, and without them a swapped pair with repetitive texture
    would yield hundreds of false matches that agree with each other.

    Pure and deterministic: OpenCV's descriptors hold whole numbers below 256, so that float32 products are
    exact and do not depend on the number of threads.

    Args:
        left: uint8 [H, W, 3] RGB.
        right: the same size.
        max_keypoints: strongest keypoints used per image (ties with the last of them included).
        max_row_offset: largest |y_left - y_right| of a match, px (of the reduced images, if reduced).
        ratio: Lowe's ratio, in (0, 1].
        max_distance: largest descriptor distance, where a SIFT descriptor has length 512; it alone decides
            for a keypoint without a rival in its rows.
        max_pixels: larger images are reduced to this many pixels first, since SIFT's scale space takes about
            240 bytes per pixel and a coarse start does not need the last tenth of a pixel.
    """
    keys, size = _keypoints_of_pair(left, right, max_keypoints=max_keypoints, max_pixels=max_pixels)
    height, width = left.shape[:2]
    pairs = _mutual_matches(*keys, max_row_offset=max_row_offset, ratio=ratio, max_distance=max_distance)
    corners = np.concatenate([keys[0].points[pairs[:, 0]], keys[1].points[pairs[:, 1]]], axis=1)  # [M, 4]
    corners = np.unique(corners, axis=0)  # a corner with two orientations is two keypoints, but one match
    scale = np.array([width / size[1], height / size[0]])  # of x and y, back to the images as given
    points = (corners[:, :2] + 0.5) * scale - 0.5
    disparity = (corners[:, 0] - corners[:, 2]) * scale[0]
    positive = disparity > 0
    return SparseMatches(
        points=points[positive].astype(np.float32),
        disparity=disparity[positive].astype(np.float32),
        image_size=(height, width),
        negative=int((~positive).sum()),
    )


class FreeMatches(NamedTuple):
    """Correspondences of two images that need not be rectified, nor belong together."""

    points: NDArray[np.float64]
    """[M, 4], (x, y) in the left image and (x, y) in the right one, px of the images as given."""
    keypoints: tuple[int, int]
    """Keypoints that there were to match, in the left and in the right image."""


def match_anywhere(
    left: NDArray[np.uint8],
    right: NDArray[np.uint8],
    *,
    max_keypoints: int = 1500,
    ratio: float = 0.75,
    max_distance: float = 250.0,
    max_pixels: int = FREE_PIXELS,
) -> FreeMatches:
    """Match SIFT keypoints of two images wherever they are, to see whether and how the images belong together.

    The arguments are those of `match_sparse`, without a limit on the rows; deterministic like it.
    """
    keys, size = _keypoints_of_pair(left, right, max_keypoints=max_keypoints, max_pixels=max_pixels)
    pairs = _mutual_matches(*keys, max_row_offset=float(size[0]), ratio=ratio, max_distance=max_distance)
    corners = np.concatenate([keys[0].points[pairs[:, 0]], keys[1].points[pairs[:, 1]]], axis=1)  # [M, 4]
    scale = np.array([left.shape[1] / size[1], left.shape[0] / size[0]] * 2)
    points = (np.unique(corners, axis=0) + 0.5) * scale - 0.5
    return FreeMatches(np.asarray(points), (len(keys[0].points), len(keys[1].points)))


class _Keypoints(NamedTuple):
    """Places (x, y) [K, 2], by row, and descriptors [K, 128]."""

    points: NDArray[np.float64]
    descriptors: NDArray[np.float32]


def _keypoints_of_pair(
    left: NDArray[np.uint8], right: NDArray[np.uint8], *, max_keypoints: int, max_pixels: int
) -> tuple[list[_Keypoints], tuple[int, int]]:
    """The keypoints of two images reduced to at most `max_pixels`, and the height and width of the reduced images."""
    for name, image in (("left", left), ("right", right)):
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise InputError(
                f"the {name} image must be uint8 [H, W, 3], but is {image.dtype} {list(image.shape)}; "
                "convert it to 8-bit RGB first."
            )
    if left.shape != right.shape:
        raise InputError(
            f"left and right image must have one size, but are {left.shape[1]}x{left.shape[0]} and "
            f"{right.shape[1]}x{right.shape[0]}; pass a rectified pair."
        )
    height, width = left.shape[:2]
    reduction = min(1.0, (max_pixels / (height * width)) ** 0.5)
    size = (max(1, round(height * reduction)), max(1, round(width * reduction)))
    sift = cv2.SIFT.create(nfeatures=max_keypoints, contrastThreshold=_CONTRAST_THRESHOLD, enable_precise_upscale=True)
    return [_keypoints(image, size=size, sift=sift) for image in (left, right)], size


def _keypoints(image: NDArray[np.uint8], *, size: tuple[int, int], sift: cv2.SIFT) -> _Keypoints:
    """SIFT keypoints of an RGB image resized to `size`."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    if grey.shape != size:
        grey = cv2.resize(grey, (size[1], size[0]), interpolation=cv2.INTER_AREA)
    keypoints, descriptors = sift.detectAndCompute(grey, None)
    if not keypoints:
        return _Keypoints(np.zeros((0, 2)), np.zeros((0, 128), np.float32))
    points = np.array([keypoint.pt for keypoint in keypoints], np.float64)
    order = np.lexsort((points[:, 0], points[:, 1]))
    return _Keypoints(points[order], np.asarray(descriptors, np.float32)[order])


def _mutual_matches(
    left: _Keypoints, right: _Keypoints, *, max_row_offset: float, ratio: float, max_distance: float
) -> NDArray[np.intp]:
    """Index pairs (left, right) [M, 2] of the matches of keypoints sorted by row, found band by band."""
    (left_points, left_descriptors), (right_points, right_descriptors) = left, right
    n_left, n_right = len(left_points), len(right_points)
    if min(n_left, n_right) == 0:
        return np.zeros((0, 2), np.intp)
    left_squares = np.square(left_descriptors).sum(axis=1)
    right_squares = np.square(right_descriptors).sum(axis=1)
    nearest_right = np.zeros(n_left, np.intp)
    accepted = np.zeros(n_left, bool)
    nearest_left = np.full(n_right, -1, np.intp)
    nearest_left_square = np.full(n_right, np.inf, np.float32)
    for start in range(0, n_left, _BLOCK):
        block = slice(start, min(start + _BLOCK, n_left))
        rows = left_points[block, 1]
        low = int(np.searchsorted(right_points[:, 1], rows[0] - max_row_offset, side="left"))
        high = int(np.searchsorted(right_points[:, 1], rows[-1] + max_row_offset, side="right"))
        if low == high:
            continue
        band = slice(low, high)
        products = left_descriptors[block] @ right_descriptors[band].T  # [block, band]
        squares = left_squares[block, None] + right_squares[band] - 2 * products
        same_row = np.abs(rows[:, None] - right_points[band, 1]) <= max_row_offset
        squares = np.where(same_row, squares, np.float32(np.inf))

        column = np.argmin(squares, axis=0)  # for every right keypoint its best left one in this block
        column_square = squares[column, np.arange(high - low)]
        closer = column_square < nearest_left_square[band]
        nearest_left_square[band] = np.where(closer, column_square, nearest_left_square[band])
        nearest_left[band] = np.where(closer, column + start, nearest_left[band])

        best = np.argmin(squares, axis=1)
        index = np.arange(len(rows))
        best_square = squares[index, best]
        squares[index, best] = np.inf
        rival_square = squares.min(axis=1)
        nearest_right[block] = best + low
        accepted[block] = (best_square <= max_distance**2) & (best_square < ratio**2 * rival_square)
    accepted &= nearest_left[nearest_right] == np.arange(n_left)
    chosen = np.flatnonzero(accepted)
    return np.stack([chosen, nearest_right[chosen]], axis=1)
