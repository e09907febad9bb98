"""Depth prior initialisation: the fit and the map."""

import math

import numpy as np
import pytest
import torch

from linstereo.errors import InputError
from linstereo.geometry.sparse_matches import SparseMatches, match_sparse
from linstereo.model.depth_prior import MIN_INLIERS, fit_scale_shift, initial_disparity


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
