"""Depth prior initialisation: the matching, the fit and the map."""

import functools
import math
import operator
import os
import pickle
from collections.abc import Callable

import cv2
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from linstereo.errors import InputError
from linstereo.model.depth_prior import MIN_INLIERS, SparseMatches, fit_scale_shift, initial_disparity, match_sparse


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


def ramp(size: tuple[int, int], full_size: tuple[int, int]) -> torch.Tensor:
    """Inverse depth 0.2 + 0.004 x + 0.002 y [1, 1, h, w] with (x, y) in px of the full image."""
    x = (torch.arange(size[1], dtype=torch.float64) + 0.5) * full_size[1] / size[1] - 0.5
    y = (torch.arange(size[0], dtype=torch.float64) + 0.5) * full_size[0] / size[0] - 0.5
    return (0.2 + 0.004 * x[None, :] + 0.002 * y[:, None])[None, None]


def ramp_matches(count: int, full_size: tuple[int, int], *, alpha: float = 30.0, beta: float = 2.0) -> SparseMatches:
    """Exact matches on the ramp at random places inside the image."""
    rng = np.random.default_rng(count)
    points = rng.uniform(8, np.array([full_size[1], full_size[0]]) - 8, (count, 2))
    disparity = alpha * (0.2 + 0.004 * points[:, 0] + 0.002 * points[:, 1]) + beta
    return SparseMatches(points.astype(np.float32), disparity.astype(np.float32), full_size)


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


class TestFit:
    @pytest.mark.parametrize("seed", range(12))
    def test_recovers_alpha_and_beta_among_60_percent_outliers(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        alpha, beta = rng.uniform(5, 400), rng.uniform(-10, 20)
        inverse = rng.uniform(12, 90, 250) / alpha
        clean = alpha * inverse + beta
        disparity = clean + rng.normal(0, 0.4, 250)
        disparity[:150] = rng.uniform(1, 300, 150)
        report = fit_scale_shift(inverse, disparity)
        assert not report.fell_back
        assert (report.matches, report.reason) == (250, "")
        assert 100 <= report.inliers <= 130
        assert report.alpha == pytest.approx(alpha, rel=0.05)
        assert np.abs(report.alpha * inverse + report.beta - clean).max() < 1.0

    def test_is_least_squares_over_the_inliers(self) -> None:
        rng = np.random.default_rng(3)
        inverse = rng.uniform(0.5, 3, 200)
        disparity = 20 * inverse + 6 + rng.normal(0, 0.3, 200)
        disparity[::4] += 150
        good = np.arange(200) % 4 != 0
        design = np.stack([inverse[good], np.ones(good.sum())], axis=1)
        expected = np.linalg.lstsq(design, disparity[good])[0]
        report = fit_scale_shift(inverse, disparity)
        assert report.inliers == 150
        np.testing.assert_allclose([report.alpha, report.beta], expected, rtol=1e-10)

    @pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
    def test_does_not_depend_on_the_unit_of_depth(self, unit: float) -> None:
        rng = np.random.default_rng(3)
        inverse = rng.uniform(0.5, 3, 60)
        disparity = 20 * inverse + 6
        disparity[:20] = rng.uniform(0, 200, 20)
        report = fit_scale_shift(inverse * unit, disparity)
        assert report.alpha * unit == pytest.approx(20, rel=0.02)
        assert report == fit_scale_shift(inverse * unit, disparity)

    def test_is_the_same_every_time(self) -> None:
        rng = np.random.default_rng(0)
        inverse, disparity = rng.uniform(1, 2, 100), rng.uniform(5, 20, 100)
        reports = {fit_scale_shift(inverse, disparity, hypotheses=5, seed=7) for _ in range(5)}
        assert len(reports) == 1
        assert len({fit_scale_shift(inverse, disparity, hypotheses=5, seed=seed) for seed in range(5)}) > 1

    @pytest.mark.parametrize("count", [25, 80, 400, 3000])
    def test_random_matches_do_not_have_a_quarter_of_inliers(self, count: int) -> None:
        for seed in range(25):
            rng = np.random.default_rng(seed)
            disparity = rng.uniform(0, rng.uniform(0, 640, count))
            report = fit_scale_shift(rng.gamma(2.0, 1.0, count), disparity, min_inlier_share=0.25)
            assert report.fell_back
            assert f"of {count} matches agree" in report.reason

    @pytest.mark.parametrize("good", [19, 20, 30])
    def test_the_papers_rule_counts_inliers_and_nothing_else(self, good: int) -> None:
        inverse = np.linspace(0.5, 3, 300)
        disparity = 20 * inverse + 6
        wrong = np.sort(np.random.default_rng(0).permutation(300)[good:])
        disparity[wrong] = 1e3 * 1.3 ** np.arange(len(wrong))[::-1]  # falling, so that no rising line holds two of them
        report = fit_scale_shift(inverse, disparity, hypotheses=5000)
        assert report.inliers == good
        assert report.fell_back == (good < 20)
        if good == 30:
            at_a_tenth = fit_scale_shift(inverse, disparity, hypotheses=5000, min_inlier_share=0.1)
            assert at_a_tenth == report
            above = fit_scale_shift(inverse, disparity, hypotheses=5000, min_inlier_share=0.1, rejected=1)
            assert above.fell_back
            assert "only 30 of 301 matches agree on one fit, 31 needed" in above.reason

    def test_without_a_share_only_the_number_of_inliers_decides(self) -> None:
        outcomes = set()
        for seed in range(60):
            rng = np.random.default_rng(seed)
            count = int(rng.integers(0, 300))
            report = fit_scale_shift(rng.gamma(2.0, 1.0, count), rng.uniform(0, rng.uniform(1, 640), count))
            assert report.fell_back == (report.inliers < MIN_INLIERS)
            outcomes.add(report.fell_back)
        assert outcomes == {False, True}

    @pytest.mark.parametrize("slope", [-20.0, -0.5])
    def test_negative_alpha_falls_back(self, slope: float) -> None:
        rng = np.random.default_rng(0)
        inverse = rng.uniform(0.5, 3, 100)
        report = fit_scale_shift(inverse, 80 + slope * inverse + rng.normal(0, 0.2, 100))
        assert report.fell_back
        assert (report.alpha, report.beta) == (0, 0)
        assert report.reason

    def test_exactly_negative_line_falls_back(self) -> None:
        inverse = np.linspace(0.5, 3, 50)
        report = fit_scale_shift(inverse, 80 - 20 * inverse)
        assert report.fell_back
        assert "positive alpha" in report.reason

    @pytest.mark.parametrize("value", [0.0, 2.5])
    def test_constant_depth_falls_back(self, value: float) -> None:
        report = fit_scale_shift(np.full(50, value), np.linspace(5, 6, 50))
        assert report.fell_back
        assert "the same at all matches" in report.reason

    def test_values_that_are_not_finite_are_ignored(self) -> None:
        inverse = np.linspace(0.5, 3, 40)
        disparity = 10 * inverse + 1
        inverse[[1, 5]], inverse[9], disparity[12] = np.nan, np.inf, np.nan
        report = fit_scale_shift(inverse, disparity)
        assert (report.matches, report.inliers) == (36, 36)
        assert (report.alpha, report.beta) == (pytest.approx(10), pytest.approx(1))


class TestInitialDisparity:
    full_size = (160, 224)
    depth_size = (140, 196)

    @pytest.mark.parametrize("depth_size", [(140, 196), (40, 56), (33, 61)])
    def test_samples_at_pixel_centres(self, depth_size: tuple[int, int]) -> None:
        depth = 1 / ramp(depth_size, self.full_size)
        matches = ramp_matches(60, self.full_size)
        disparity, (report,) = initial_disparity(depth, [matches], full_size=self.full_size, out_size=(40, 56))
        assert report.inliers == report.matches == 60
        assert report.alpha == pytest.approx(30, abs=1e-4)
        assert report.beta == pytest.approx(2, abs=1e-4)
        expected = 30 * ramp((40, 56), self.full_size) + 2
        assert disparity.shape == (1, 1, 40, 56)
        torch.testing.assert_close(disparity[..., 2:-2, 2:-2], expected[..., 2:-2, 2:-2], atol=1e-4, rtol=0)

    def test_19_matches_fall_back_and_20_fit(self) -> None:
        depth = (1 / ramp(self.depth_size, self.full_size)).repeat(2, 1, 1, 1)
        matches = [ramp_matches(19, self.full_size), ramp_matches(20, self.full_size)]
        disparity, reports = initial_disparity(depth, matches, full_size=self.full_size, out_size=(40, 56))
        assert reports[0].fell_back
        assert reports[0].matches == 19
        assert "19 usable matches" in reports[0].reason
        assert "20 needed" in reports[0].reason
        assert torch.all(disparity[0] == 0)
        assert not reports[1].fell_back
        assert reports[1].inliers == 20
        assert torch.all(disparity[1] > 0)

    def test_19_inliers_among_more_matches_fall_back(self) -> None:
        good = ramp_matches(19, self.full_size)
        bad = SparseMatches(np.full((2, 2), 50, np.float32), np.array([150, 200], np.float32), self.full_size)
        both = SparseMatches(
            np.concatenate([good.points, bad.points]),
            np.concatenate([good.disparity, bad.disparity]),
            self.full_size,
        )
        depth = 1 / ramp(self.depth_size, self.full_size)
        disparity, (report,) = initial_disparity(depth, [both], full_size=self.full_size, out_size=(40, 56))
        assert (report.matches, report.inliers, report.fell_back) == (21, 19, True)
        assert "19 of 21" in report.reason
        assert torch.all(disparity == 0)

    def test_blank_pair_starts_at_zero(self) -> None:
        blank = np.full((*self.full_size, 3), 255, np.uint8)
        depth = 1 / ramp(self.depth_size, self.full_size)
        disparity, (report,) = initial_disparity(
            depth, [match_sparse(blank, blank)], full_size=self.full_size, out_size=(40, 56)
        )
        assert report.fell_back
        assert report.matches == 0
        assert "0 usable matches" in report.reason
        assert torch.all(disparity == 0)

    def test_unusable_pixels_do_no_harm(self) -> None:
        depth = 1 / ramp(self.depth_size, self.full_size)
        rng = np.random.default_rng(0)
        holes = torch.from_numpy(rng.integers(0, depth.numel(), (4, 150)))
        for where, value in zip(holes, (0.0, -1.0, math.inf, math.nan), strict=True):
            depth.view(-1)[where] = value
        matches = ramp_matches(200, self.full_size)
        disparity, (report,) = initial_disparity(depth, [matches], full_size=self.full_size, out_size=(40, 56))
        assert not report.fell_back
        assert report.matches < 200
        assert report.alpha == pytest.approx(30, rel=0.02)
        assert torch.isfinite(disparity).all()
        assert disparity.min() >= 0
        assert disparity.max() <= self.full_size[1]
        expected = 30 * ramp((40, 56), self.full_size) + 2
        assert (disparity - expected).abs().median() < 0.3

    def test_map_is_clamped_to_what_a_pair_can_show(self) -> None:
        depth = 1 / ramp(self.depth_size, self.full_size)
        matches = ramp_matches(60, self.full_size, alpha=60, beta=-18)  # beta makes the far corner negative
        depth[..., -8:, -8:] = 1e-30
        disparity, _ = initial_disparity(depth, [matches], full_size=self.full_size, out_size=(40, 56))
        assert disparity[0, 0, 0, 0] == 0
        assert disparity[0, 0, -1, -1] == self.full_size[1]

    def test_depth_is_clamped_at_a_thousandth_of_its_median(self) -> None:
        depth = 1 / ramp(self.depth_size, self.full_size)
        depth[..., -10:, -10:] = 0
        matches = ramp_matches(60, self.full_size, alpha=0.2, beta=5)
        disparity, _ = initial_disparity(depth, [matches], full_size=self.full_size, out_size=(40, 56))
        expected = 0.2 / (1e-3 * float(depth[depth > 0].median())) + 5
        assert expected < self.full_size[1]
        assert float(disparity[0, 0, -1, -1]) == pytest.approx(expected, rel=1e-3)

    @pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan, 3.0])
    def test_depth_without_information_falls_back(self, value: float) -> None:
        depth = torch.full((1, 1, *self.depth_size), value)
        disparity, (report,) = initial_disparity(
            depth, [ramp_matches(60, self.full_size)], full_size=self.full_size, out_size=(40, 56)
        )
        assert report.fell_back
        assert report.reason
        assert torch.all(disparity == 0)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_any_precision_and_no_gradient(self, dtype: torch.dtype) -> None:
        depth = (1 / ramp(self.depth_size, self.full_size)).to(dtype).requires_grad_()
        disparity, (report,) = initial_disparity(
            depth, [ramp_matches(60, self.full_size)], full_size=self.full_size, out_size=(40, 56)
        )
        assert not disparity.requires_grad
        assert disparity.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert report.alpha == pytest.approx(30, rel=0.01)

    def test_rejects_what_does_not_belong_together(self) -> None:
        depth = torch.ones(2, 1, *self.depth_size)
        one = ramp_matches(30, self.full_size)
        with pytest.raises(InputError, match="one set of matches per image"):
            initial_disparity(depth, [one], full_size=self.full_size, out_size=(40, 56))
        with pytest.raises(InputError, match="224x160 image do not fit the padded size 192x160"):
            initial_disparity(depth, [one, one], full_size=(160, 192), out_size=(40, 48))
