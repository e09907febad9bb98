"""Whole networks: the graph gives what PyTorch gives, in every variant and at sizes that it was not made for."""

import dataclasses

import numpy as np
import pytest
import torch

from linstereo.backends.engine import EngineRequest
from linstereo.backends.graph_engine import GraphEngine
from linstereo.backends.torch_engine import TorchEngine
from linstereo.export import correlation_start as exported_start
from linstereo.export.da3 import PatchGrid, position_embedding
from linstereo.export.graph import Graph
from linstereo.geometry.sparse_matches import match_sparse
from linstereo.model import correlation_start
from linstereo.model.backbone import DepthAnything3
from linstereo.model.backbone.da3 import DA3Config
from linstereo.model.backbone.positions import resize_position_embedding
from linstereo.model.presets import LinStereoConfig, build
from tests.export.running import evaluate

TINY = LinStereoConfig(
    backbone="compact", start="correlation", feature_width=8, hidden=16, heads=2, levels=3, radius=2, guide=4
)
VARIANTS = {
    "one pass": {},
    "two passes": {"coarse_iterations": 1},
    "a level at 1/32": {"context": 12, "coarse_iterations": 1},
    "more convolutions at 1/4": {"fine": 12},
    "three passes": {"coarse_iterations": 1, "coarse_passes": 2},
    "wider coarse states, two blocks": {"coarse_hidden": 24, "blocks": 2, "levels": 4, "guide": 0},
    "single volume and ConvGRU": {"cost_volume": "single", "update": "convgru", "start": "zero"},
    "pooled volume, plain attention": {
        "cost_volume": "pooled",
        "position_encoding": False,
        "local_encoding": False,
        "context_gate": False,
    },
    "symmetric RoPE, two scales": {"symmetric_rope": True, "scales": 2},
}
TINY_DA3 = DA3Config(name="tiny", dim=32, heads=2, stage_channels=(8, 16, 24, 32), fusion_channels=8)
SIZES = [(64, 96), (45, 131)]


def textured(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(height)
    wide = rng.integers(0, 256, (height, width + 6, 3), dtype=np.uint8)
    return np.ascontiguousarray(wide[:, :-6]), np.ascontiguousarray(wide[:, 6:])


def both(model, height, width, iterations=2, tolerance=1.0):
    model = model.eval()
    pair = textured(height, width)
    matches = match_sparse(*pair) if model.start.needs_depth else None
    engines = [TorchEngine(model, device=torch.device("cpu")), GraphEngine(model, backend="onnx", threads=1)]
    request = EngineRequest(*pair, iterations=iterations, matches=matches, tolerance=tolerance)
    return [engine.run(request) for engine in engines]


def scattered_weights(model):
    """Random weights that are not small, so that nothing is hidden by a residual close to zero."""
    torch.manual_seed(1)
    with torch.no_grad():
        model.residual_head.out.weight.mul_(20)
        for level in (getattr(model.backbone, name, None) for name in ("context", "fine")):
            if level is not None:
                level.out.weight.normal_(std=0.2)
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_agrees(variant):
    torch.manual_seed(0)
    model = scattered_weights(build(dataclasses.replace(TINY, **VARIANTS[variant])))
    for height, width in SIZES:
        expected, found = both(model, height, width)
        assert found.disparity.shape == (height, width)
        assert expected.disparity.std() > 0.1
        np.testing.assert_allclose(found.disparity, expected.disparity, atol=2e-3)


@pytest.mark.parametrize("cues", [False, True])
def test_confidence_agrees(cues):
    torch.manual_seed(0)
    config = dataclasses.replace(TINY, coarse_iterations=1, confidence=8, confidence_cues=cues)
    model = scattered_weights(build(config))
    with torch.no_grad():
        model.confidence_head.out.weight.normal_()
    for height, width in SIZES:  # the second one is padded
        for tolerance in (0.5, 3.0):
            expected, found = both(model, height, width, tolerance=tolerance)
            assert found.confidence.shape == (height, width)
            assert expected.confidence.std() > 0.05
            np.testing.assert_allclose(found.confidence, expected.confidence, atol=2e-3)


@pytest.mark.parametrize("most_cells", [4000, 400])
def test_large_images_start_from_a_coarser_volume(most_cells, monkeypatch):
    monkeypatch.setattr(correlation_start, "MOST_CELLS", most_cells)
    monkeypatch.setattr(exported_start, "MOST_CELLS", most_cells)
    torch.manual_seed(0)
    model = scattered_weights(build(TINY))
    expected, found = both(model, 96, 128, iterations=1)
    np.testing.assert_allclose(found.disparity, expected.disparity, atol=2e-3)
    monkeypatch.setattr(correlation_start, "MOST_CELLS", 1 << 24)
    finest, _ = both(model, 96, 128, iterations=1)
    assert np.abs(finest.disparity - expected.disparity).max() > 0.1  # the start was another one


def test_numbers_and_vectors_of_one_number_are_different_constants():
    g = Graph()
    number, vector = g.constant(1, np.int64), g.integers(1)
    assert [list(g.initializers[name].dims) for name in (number, vector)] == [[], [1]]
    assert (g.constant(1, np.int64), g.integers(1)) == (number, vector)


def test_depth_anything_with_its_depth_prior_agrees():
    torch.manual_seed(0)
    config = dataclasses.replace(TINY, backbone="vits", start="depth_prior", guide=0)
    model = build(config, backbone=DepthAnything3(TINY_DA3))
    for height, width in [(96, 160), (75, 128)]:
        expected, found = both(model, height, width)
        assert found.prior is not None
        assert expected.prior is not None
        assert (found.prior.matches, found.prior.inliers) == (expected.prior.matches, expected.prior.inliers)
        assert found.prior.reason == expected.prior.reason
        np.testing.assert_allclose(found.prior.alpha, expected.prior.alpha, rtol=1e-3)
        np.testing.assert_allclose(found.disparity, expected.disparity, atol=2e-3)


@pytest.mark.parametrize(("rows", "columns"), [(37, 37), (37, 20), (5, 50)])
def test_learned_positions_are_resampled_as_the_official_code_does(rows, columns):
    torch.manual_seed(0)
    vit = DepthAnything3(TINY_DA3).vit
    g = Graph()
    patches = PatchGrid(g.integers(rows), g.integers(columns), g.constant([columns / rows]))
    found = evaluate(g, {}, [position_embedding(g, vit, patches)])[0]
    expected = resize_position_embedding(vit.pos_embed, rows, columns).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6 if rows != columns else 0)
