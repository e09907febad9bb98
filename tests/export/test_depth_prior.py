"""The robust fit as a graph against the network's own, on matches good and bad."""

import numpy as np
import pytest
import torch

from linstereo.backends.graph_engine import match_rows
from linstereo.export.depth_prior import MATCHES, PRIOR, depth_prior_start
from linstereo.export.graph import Graph, Value
from linstereo.geometry.sparse_matches import SparseMatches
from linstereo.model.depth_prior import initial_disparity, report_from_values
from tests.export.running import evaluate

HEIGHT, WIDTH = 64, 96


def depth_map() -> torch.Tensor:
    rows, columns = np.mgrid[0:56, 0:84]
    return torch.from_numpy((1 + 0.02 * rows + 0.3 * np.sin(columns / 9)).astype(np.float32))[None, None]


def matches(count: int, *, wrong: float = 0.0, sign: float = 1.0, negative: int = 0) -> SparseMatches:
    """Matches on the line 8 / D + 3, a share of them random."""
    rng = np.random.default_rng(count)
    points = np.stack([rng.uniform(0, WIDTH - 1, count), rng.uniform(0, HEIGHT - 1, count)], axis=1).astype(np.float32)
    depth = depth_map()[0, 0].numpy()
    sampled = depth[
        np.clip((points[:, 1] * 0.875).astype(int), 0, 55), np.clip((points[:, 0] * 0.875).astype(int), 0, 83)
    ]
    disparity = 3 + 20 * (0.5 + sign * (8 / sampled - 4) / 20)
    bad = rng.random(count) < wrong
    disparity = np.where(bad, rng.uniform(1, 90, count), disparity).astype(np.float32)
    return SparseMatches(points, disparity, (HEIGHT, WIDTH), negative)


CASES = {
    "clean": (matches(200), 0.0),
    "a third wrong": (matches(300, wrong=0.33), 0.0),
    "none": (SparseMatches.none((HEIGHT, WIDTH)), 0.0),
    "too few": (matches(19), 0.0),
    "nearly all wrong": (matches(25, wrong=0.9), 0.0),
    "swapped": (matches(5, negative=40), 0.0),
    "share not reached": (matches(200, wrong=0.5, negative=300), 0.5),
    "alpha negative": (matches(150, sign=-1), 0.0),
    "a single place": (
        SparseMatches(np.full((30, 2), 7, np.float32), np.full(30, 5, np.float32), (HEIGHT, WIDTH)),
        0.0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_fit_agrees(name):
    given, share = CASES[name]
    expected, reports = initial_disparity(
        depth_map(), [given], full_size=(HEIGHT, WIDTH), out_size=(HEIGHT // 4, WIDTH // 4), min_inlier_share=share
    )
    g = Graph()
    sides = g.integers(HEIGHT // 4, WIDTH // 4)
    start = depth_prior_start(g, Value("depth"), sides, min_inlier_share=share)
    found, values = evaluate(g, {"depth": depth_map().numpy(), MATCHES: match_rows(given)}, [start, Value(PRIOR)])
    report = report_from_values(
        values.tolist(), given=len(given.disparity), negative=given.negative, min_inlier_share=share
    )
    assert (report.matches, report.inliers, report.reason) == (
        reports[0].matches,
        reports[0].inliers,
        reports[0].reason,
    )
    assert report.alpha == pytest.approx(reports[0].alpha, rel=1e-4)
    assert report.beta == pytest.approx(reports[0].beta, rel=1e-4, abs=1e-4)
    np.testing.assert_allclose(found, expected.numpy() / 4, atol=1e-4)


def test_the_cases_cover_success_and_failure():
    fitted = [
        initial_disparity(depth_map(), [given], full_size=(HEIGHT, WIDTH), out_size=(4, 4), min_inlier_share=share)[1][
            0
        ]
        for given, share in CASES.values()
    ]
    assert len({report.reason for report in fitted}) >= 5


def test_depth_that_cannot_be_used_gives_no_disparity():
    depth = np.full((1, 1, 56, 84), np.nan, np.float32)
    g = Graph()
    start = depth_prior_start(g, Value("depth"), g.integers(16, 24), min_inlier_share=0.0)
    found, values = evaluate(g, {"depth": depth, MATCHES: match_rows(matches(100))}, [start, Value(PRIOR)])
    assert not found.any()
    assert values[0] == 0
