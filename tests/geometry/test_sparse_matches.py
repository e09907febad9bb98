"""Sparse matches: the rules against a brute-force loop, known disparities, and the same result everywhere."""

import functools
import math
import operator
import os
import pickle
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from torch.utils.data import DataLoader

from linstereo.errors import InputError
from linstereo.geometry.sparse_matches import SparseMatches, match_sparse


def texture(height: int, width: int, seed: int) -> np.ndarray:
    """Random texture uint8 [H, W, 3] with detail at several scales."""
    rng = np.random.default_rng(seed)
    layers = [cv2.GaussianBlur(rng.standard_normal((height, width, 3)), (0, 0), s) * s for s in (1.5, 3, 6)]
    image = sum(layers)
    return np.clip(128 + 60 * image / np.std(image), 0, 255).astype(np.uint8)


def two_plane_pair(
    height: int = 160, width: int = 240, *, upper: int = 7, lower: int = 19, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """A pair whose upper half has disparity `upper` px and whose lower half has `lower`."""
    wide = texture(height, width + max(upper, lower), seed)
    half = height // 2
    right = np.concatenate([wide[:half, upper : upper + width], wide[half:, lower : lower + width]])
    return wide[:, :width].copy(), right


def brute_force_matches(
    left: np.ndarray, right: np.ndarray, *, rows: float, ratio: float, max_distance: float
) -> tuple[set[tuple[float, float, float]], int]:
    """The rules of the matching, one keypoint at a time in float64: {(x, y, disparity)}, count of d <= 0."""
    sift = cv2.SIFT.create(nfeatures=3000, contrastThreshold=0.01, enable_precise_upscale=True)
    sides = [sift.detectAndCompute(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), None) for image in (left, right)]
    (left_keys, left_words), (right_keys, right_words) = sides

    def ranked(key: cv2.KeyPoint, word: np.ndarray, keys: list, words: np.ndarray) -> list[tuple[float, int]]:
        distances = [
            (math.dist(word.astype(float), words[j].astype(float)), j)
            for j in range(len(keys))
            if abs(key.pt[1] - keys[j].pt[1]) <= rows
        ]
        return sorted(distances)

    found = set()
    for i, key in enumerate(left_keys):
        order = ranked(key, left_words[i], right_keys, right_words)
        if not order or order[0][0] > max_distance:
            continue
        if len(order) > 1 and not order[0][0] < ratio * order[1][0]:
            continue
        other = right_keys[order[0][1]]
        if ranked(other, right_words[order[0][1]], left_keys, left_words)[0][1] == i:
            found.add((*key.pt, *other.pt))
    positive = {(x, y, x - other_x) for x, y, other_x, _ in found if x > other_x}
    return positive, len(found) - len(positive)


class TestMatching:
    @pytest.mark.parametrize("swap", [False, True])
    def test_equals_brute_force(self, swap: bool) -> None:
        left, right = two_plane_pair(96, 128)
        noise = np.random.default_rng(5).normal(0, 12, right.shape)
        right = np.clip(right + noise, 0, 255).astype(np.uint8)
        left[30:50, 60:120] = np.tile(left[30:50, 60:75], (1, 4, 1))  # repeats, for the ratio to reject
        if swap:
            left, right = right, left
        rules = {"ratio": 0.8, "max_distance": 250.0}
        expected, negative = brute_force_matches(left, right, rows=1.5, **rules)
        found = match_sparse(left, right, max_row_offset=1.5, **rules)
        assert (negative if swap else len(expected)) > 50
        got = sorted(map(tuple, np.column_stack([found.points, found.disparity])))
        np.testing.assert_allclose(got, sorted(expected), atol=1e-4)
        assert found.negative == negative

    def test_keeps_to_the_rows(self) -> None:
        left, right = two_plane_pair()
        shifted = np.roll(right, 2, axis=0)
        loose = match_sparse(left, shifted, max_row_offset=2.5)
        strict = match_sparse(left, shifted, max_row_offset=1.5)
        assert len(loose.disparity) > 200
        assert len(strict.disparity) < 0.1 * len(loose.disparity)

    def test_finds_the_disparity_of_two_planes(self) -> None:
        found = match_sparse(*two_plane_pair())
        truth = np.where(found.points[:, 1] < 80, 7, 19)
        clear = np.abs(found.points[:, 1] - 80) > 20
        assert clear.sum() > 100
        assert np.mean(np.abs(found.disparity - truth)[clear] < 0.2) > 0.98
        assert found.image_size == (160, 240)
        assert found.points.dtype == found.disparity.dtype == np.float32

    def test_points_are_where_the_blobs_are(self) -> None:
        centres = [(40 + 36 * i, 40 + 30 * j) for i in range(5) for j in range(4)]
        x, y = np.meshgrid(np.arange(240), np.arange(160))
        rng = np.random.default_rng(0)
        wide = sum(rng.uniform(60, 200) * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (2 * 4.0**2)) for cx, cy in centres)
        wide = np.repeat(np.clip(wide, 0, 255).astype(np.uint8)[..., None], 3, axis=2)
        found = match_sparse(wide[:, :232], wide[:, 6:238])
        offsets = found.points[:, None] - np.array(centres)
        nearest = np.linalg.norm(offsets, axis=2).argmin(axis=1)
        offset = offsets[np.arange(len(nearest)), nearest]
        offset = offset[np.linalg.norm(offset, axis=1) < 2]
        assert len(offset) >= 10
        assert np.abs(np.median(offset, axis=0)).max() < 0.1

    def test_coordinates_survive_the_reduction_of_large_images(self) -> None:
        left, right = two_plane_pair(480, 645, upper=16, lower=33, seed=3)
        found = match_sparse(left, right, max_pixels=480 * 645 // 3)
        clear = np.abs(found.points[:, 1] - 240) > 40
        truth = np.where(found.points[:, 1] < 240, 16, 33)
        assert clear.sum() > 100
        assert abs(np.median((found.disparity - truth)[clear])) < 0.1
        assert found.points[:, 0].max() > 600
        full = match_sparse(left, right)
        gaps = np.linalg.norm(found.points[:, None] - full.points, axis=2)
        pairs = np.flatnonzero(gaps.min(axis=1) < 1)
        shift = found.points[pairs] - full.points[gaps.argmin(axis=1)[pairs]]
        assert len(pairs) > 30
        assert np.abs(np.median(shift, axis=0)).max() < 0.15

    def test_does_not_depend_on_threads(self) -> None:
        pair = two_plane_pair()
        before = cv2.getNumThreads()
        try:
            results = []
            for threads in (1, 4):
                cv2.setNumThreads(threads)
                results.append(pickle.dumps(match_sparse(*pair)))
        finally:
            cv2.setNumThreads(before)
        assert results[0] == results[1]

    @pytest.mark.parametrize("start_method", ["fork", "spawn"])
    def test_same_result_from_a_data_loading_worker(self, start_method: str) -> None:
        pair = two_plane_pair()
        here = match_sparse(*pair)
        jobs: list[Callable[[], object]] = [functools.partial(match_sparse, *pair), os.getpid]
        loader = DataLoader(
            jobs,
            batch_size=None,
            collate_fn=operator.call,
            num_workers=1,
            multiprocessing_context=start_method,
        )
        there, process = iter(loader)
        assert process != os.getpid()
        np.testing.assert_array_equal(there.points, here.points)
        np.testing.assert_array_equal(there.disparity, here.disparity)
        assert (there.image_size, there.negative) == (here.image_size, here.negative)

    @pytest.mark.parametrize("size", [(64, 96), (32, 32), (3, 5)])
    def test_blank_images_have_no_matches(self, size: tuple[int, int]) -> None:
        blank = np.full((*size, 3), 90, np.uint8)
        found = match_sparse(blank, blank)
        assert found.points.shape == (0, 2)
        assert found.disparity.shape == (0,)
        assert found.negative == 0

    def test_rejects_what_is_not_a_pair(self) -> None:
        image = np.zeros((40, 60, 3), np.uint8)
        with pytest.raises(InputError, match="60x40 and 60x41"):
            match_sparse(image, np.zeros((41, 60, 3), np.uint8))
        with pytest.raises(InputError, match="the left image must be uint8"):
            match_sparse(image.astype(np.float32), image)
        with pytest.raises(InputError, match="the right image must be uint8"):
            match_sparse(image, image[..., 0])
        with pytest.raises(InputError, match="one disparity per point"):
            SparseMatches(np.zeros((3, 2), np.float32), np.zeros(4, np.float32), (10, 10))
