"""Coarse passes: the result at half the size starts the pass at full size."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from linstereo.errors import InputError
from linstereo.model.presets import LinStereoConfig, build
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs

TWO_PASSES = dataclasses.replace(TINY, start="correlation", coarse_iterations=2)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return build(TWO_PASSES, backbone=TinyBackbone()).eval()


@torch.no_grad()
def test_the_coarse_pass_is_the_network_at_half_the_size(model):
    left, right, _ = synthetic_pairs(2, height=64, width=128)
    coarse = model.start.coarse_disparity(torch.cat([left, right]), model.single_pass)
    single = build(TWO_PASSES, backbone=TinyBackbone()).eval()
    single.load_state_dict(model.state_dict())
    single.start.coarse_disparity = lambda *_: None  # what the coarse pass itself starts from
    half = single(F.avg_pool2d(left, 2), F.avg_pool2d(right, 2), iters=2)
    assert coarse.shape == (2, 1, 16, 32)
    torch.testing.assert_close(coarse, F.avg_pool2d(half, 2) / 2)


@torch.no_grad()
def test_each_pass_starts_from_one_at_half_its_size(model):
    three = build(dataclasses.replace(TWO_PASSES, coarse_passes=2), backbone=TinyBackbone()).eval()
    three.load_state_dict(model.state_dict())
    left, right, _ = synthetic_pairs(2, height=64, width=192)
    coarse = three.start.coarse_disparity(torch.cat([left, right]), three.single_pass)
    half = [F.avg_pool2d(image, 2) for image in (left, right)]
    torch.testing.assert_close(coarse, F.avg_pool2d(model(*half, iters=2), 2) / 2)  # two passes at half the size
    alone = model.start.coarse_disparity(torch.cat([left, right]), model.single_pass)
    assert (coarse - alone).abs().max() > 0.01


@torch.no_grad()
def test_it_starts_the_pass_at_full_size(model):
    """Images without texture have no evidence of their own: the start is what the coarse pass, or the caller, says."""
    grey = torch.full((1, 3, 64, 640), 0.5)
    given = torch.linspace(1, 6, 160).expand(1, 1, 16, 160)
    evidence = model.prepare(grey, grey, coarse=given)
    textured, moved, _ = synthetic_pairs(1)
    torch.testing.assert_close(evidence.disparity, given)
    own = model.prepare(textured, moved)
    coarse = model.start.coarse_disparity(torch.cat([textured, moved]), model.single_pass)
    told = model.prepare(textured, moved, coarse=coarse)
    torch.testing.assert_close(own.disparity, told.disparity)
    for a, b in zip(own.hidden, told.hidden, strict=True):
        torch.testing.assert_close(a, b)


def test_no_gradient_passes_through_the_coarse_pass(model):
    left, right, _ = synthetic_pairs(1)
    assert not model.start.coarse_disparity(torch.cat([left, right]), model.single_pass).requires_grad
    assert model(left, right, iters=1).requires_grad


@pytest.mark.parametrize("passes", [1, 2, 8])
@pytest.mark.parametrize("size", [(32, 32), (33, 65), (50, 94)])
@torch.no_grad()
def test_any_size_works(passes, size):
    model = build(dataclasses.replace(TWO_PASSES, coarse_passes=passes), backbone=TinyBackbone()).eval()
    left = torch.rand(1, 3, *size, generator=torch.Generator().manual_seed(0))
    out = model(left, left, iters=2)
    assert out.shape == (1, 1, *size)
    assert out.isfinite().all()


@torch.no_grad()
def test_both_kinds_of_volumes_agree(model):
    left, right, _ = synthetic_pairs(1)
    torch.testing.assert_close(
        model(left, right, iters=2), model(left, right, iters=2, volume="on_the_fly"), rtol=1e-3, atol=1e-3
    )


def test_it_needs_the_start_from_correlations():
    with pytest.raises(InputError, match="coarse_iterations"):
        LinStereoConfig(coarse_iterations=2)
