"""The operators that are compared have the sizes that they claim."""

import pytest
import torch

from linstereo.checkpoints.summary import summarise
from linstereo.efficiency.operators import (
    IGEV,
    IGEV_DISPARITIES,
    IGEV_RADIUS,
    PALA,
    PLAIN,
    PUBLISHED,
    RAFT_STEREO,
    SAME_EVIDENCE,
    GeometryVolume,
    build_operators,
)
from linstereo.evaluation.paper_tables import load_table
from linstereo.model.fast_paths import fast
from linstereo.model.presets import preset

PER_ITERATION = ("motion encoders", "updaters", "residual head")


@pytest.fixture(scope="module")
def operators():
    return {op.name: op for op in build_operators(64, 96, torch.device("cpu"))}


@pytest.mark.parametrize(
    ("name", "base"),
    [(PALA, "paper"), (RAFT_STEREO, "components-none"), (SAME_EVIDENCE, "components-hscv")],
)
def test_counts_are_those_of_info(operators, name, base):
    parts = [p for p in summarise(preset(base), height=64, width=96, iterations=1).parts if p.name in PER_ITERATION]
    assert operators[name].parameters == sum(part.parameters for part in parts)
    assert operators[name].gflops == pytest.approx(sum(part.gflops for part in parts), rel=1e-12)


def test_igev_differs_from_raft_stereo_by_the_first_layer_of_its_motion_encoder(operators):
    samples = 2 * 9 * (8 + 1)
    assert GeometryVolume.samples == samples
    more = 64 * (samples - 36)  # its 1x1 convolution reads 162 samples instead of 36
    assert operators[IGEV].parameters - operators[RAFT_STEREO].parameters == more
    flops = 1e9 * (operators[IGEV].gflops - operators[RAFT_STEREO].gflops)
    assert flops == pytest.approx(2 * more * 16 * 24, rel=1e-9)


def test_every_operator_gives_hidden_states_and_a_residual_at_a_quarter(operators):
    for operator in operators.values():
        with torch.inference_mode():
            hidden, residual = operator.step()
        assert residual.shape == (1, 1, 16, 24)
        assert residual.isfinite().all()
        assert [h.shape[-2:] for h in hidden] == [(16, 24), (8, 12), (4, 6)]


def test_the_plain_operator_is_the_same_without_fast_paths(operators, monkeypatch):
    asked = []
    monkeypatch.setattr("linstereo.model.updater.fast", lambda x: asked.append(fast(x)) or asked[-1])
    with torch.inference_mode():
        (_, expected), (_, plain) = (operators[name].step() for name in (RAFT_STEREO, PLAIN))
    torch.testing.assert_close(plain, expected, rtol=1e-4, atol=1e-5)
    half = len(asked) // 2
    assert all(asked[:half])
    assert not any(asked[half:])
    assert half > 0


def test_published_rows_exist():
    assert set(PUBLISHED.values()) == {row.method for row in load_table("iteration_latency").rows}


def test_geometry_lookup_against_loops():
    torch.manual_seed(0)
    volume = GeometryVolume(torch.randn(1, 4, 3, 20), torch.randn(1, 4, 3, 20))
    disparity = torch.rand(1, 1, 3, 20) * (IGEV_DISPARITIES + 6) - 3
    found = volume.lookup(disparity)
    torch.testing.assert_close(found[:, :18], volume.all_pairs.lookup(disparity))
    geometry = volume.pyramid[0]
    for level in range(2):
        if level:
            geometry = 0.5 * (geometry[..., ::2] + geometry[..., 1::2])
        for y, x, group, k in [(0, 0, 0, 0), (1, 7, 3, 4), (2, 19, 7, 8), (0, 11, 5, 2)]:
            position = disparity[0, 0, y, x].item() / 2**level + k - IGEV_RADIUS
            expected = sum(
                max(0.0, 1 - abs(position - d)) * geometry[0, y, x, group, d].item() for d in range(geometry.shape[-1])
            )
            channel = 18 + level * 72 + group * 9 + k
            assert found[0, channel, y, x].item() == pytest.approx(expected, abs=1e-4)
