"""Two passes over large images: sizes, seams, and what the strips see."""

import dataclasses
import itertools

import pytest
import torch

from linstereo.model import large_images
from linstereo.model.large_images import OVERLAP, Strips, blending_weights, predict_in_strips, strip_bounds
from linstereo.model.presets import build
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return build(dataclasses.replace(TINY, start="correlation"), backbone=TinyBackbone()).eval()


def images(height, width):
    left, right, disparity = synthetic_pairs(1, height=height, width=width)
    return [(255 * image[0].permute(1, 2, 0)).round().byte() for image in (left, right)], disparity[0, 0]


@pytest.mark.parametrize(("height", "rows"), [(640, 192), (700, 160), (500, 512), (321, 192), (2160, 800)])
def test_strips_cover_every_row_and_their_shares_add_up_to_one(height, rows):
    bounds = list(strip_bounds(height, rows))
    total = torch.zeros(height)
    for begin, end in bounds:
        assert begin % 32 == 0
        assert end - begin <= rows
        total[begin:end] += blending_weights(height, begin, end)
    torch.testing.assert_close(total, torch.ones(height))
    for (_, above), (below, _) in itertools.pairwise(bounds):
        assert above - below == OVERLAP


@pytest.mark.parametrize("size", [(192, 256), (203, 270)])
@torch.no_grad()
def test_one_strip_is_the_network_started_from_the_coarse_pass(model, size, monkeypatch):
    """Against the network's own `prepare`, whose start is replaced by what the coarse pass found."""
    (left, right), _ = images(*size)
    strips = Strips(96, 128, 10_000)
    got, sure = predict_in_strips(model, left, right, strips, iterations=3, volume="on_the_fly")
    started = []
    evidence_of = large_images._evidence
    monkeypatch.setattr(
        large_images, "_evidence", lambda *args: started.append(evidence_of(*args).disparity) or evidence_of(*args)
    )
    predict_in_strips(model, left, right, strips, iterations=3, volume="on_the_fly")
    tensors = [image.permute(2, 0, 1).unsqueeze(0).float() / 255 for image in (left, right)]
    whole = model.prepare(*tensors, volume="stored")
    features = model.backbone(large_images.pad_images(torch.cat(tensors))).pyramid
    hidden = model.initial_hidden([f[:1] for f in features], torch.ones(1, 2, *whole.disparity.shape[-2:]))
    told = whole._replace(disparity=started[0], hidden=hidden)
    (state,) = model.iterate(told, 1)
    full = model.upsample(state, told)
    torch.testing.assert_close(got, full[0, 0], rtol=1e-4, atol=1e-4)
    expected = model.confidence(state, told, before=started[0], full=full, tolerance=1.0)
    assert (sure is None) == (expected is None)
    if sure is not None:
        torch.testing.assert_close(sure, expected[0, 0], rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_the_start_of_a_strip_lies_where_the_coarse_pass_says(model):
    """A ramp over rows and columns, told at a third of the size, comes back in px of the 1/4 map."""
    left = torch.zeros(384, 480, 3, dtype=torch.uint8)
    y, x = torch.meshgrid(torch.arange(128) + 0.5, torch.arange(160) + 0.5, indexing="ij")
    ramp = (0.1 * x + 0.2 * y)[None, None]  # px of the coarse images
    sides = [large_images._Side.of(model, left, keep=True) for _ in range(2)]
    strip = large_images._evidence(model, left, sides, ramp, (128, 320), "on_the_fly").disparity[0, 0]
    rows, columns = (128 + 4 * (torch.arange(48) + 0.5)) / 3, 4 * (torch.arange(120) + 0.5) / 3
    expected = (0.1 * columns + 0.2 * rows[:, None]) * 3 / 4
    torch.testing.assert_close(strip[2:-2, 2:-2], expected[2:-2, 2:-2], rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_progress_is_told_once_for_every_iteration(model):
    (left, right), _ = images(256, 128)
    told = []
    predict_in_strips(
        model, left, right, Strips(96, 64, 160), iterations=3, volume="on_the_fly", on_iteration=told.append
    )
    assert told == [1, 2, 3]
