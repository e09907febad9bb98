"""Two passes over large images: what the strips see, and that nobody can tell how many there were."""

import dataclasses
import itertools

import pytest
import torch

from linstereo.model import large_images
from linstereo.model.fast_paths import plain_paths
from linstereo.model.large_images import Strips, parts, predict_in_strips
from linstereo.model.pala import PALABlock, rotary_table
from linstereo.model.presets import build
from linstereo.model.starts import StartingPoint
from linstereo.model.strides import pad_images
from linstereo.model.updater import MultiScaleUpdater
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs

TOLERANCE = 5e-5
"""Above rounding, and below what one row too few around a strip costs, px."""
VARIANTS = {
    "plain": {},
    "two blocks": {"blocks": 2},
    "guide": {"guide": 8, "coarse_hidden": 16},
    "one scale": {"scales": 1},
    "pooled": {"cost_volume": "pooled"},
    "symmetric": {"symmetric_rope": True},
}


def network(**settings):
    """With weights that make every part of the network matter, a confidence head included."""
    torch.manual_seed(0)
    config = dataclasses.replace(TINY, start="correlation", confidence=8, confidence_cues=True, **settings)
    model = build(config, backbone=TinyBackbone()).eval()
    torch.nn.init.normal_(model.residual_head.out.weight, std=0.3)
    torch.nn.init.normal_(model.confidence_head.out.weight)
    return model


@pytest.fixture(scope="module")
def model():
    return network()


def images(height, width):
    left, right, disparity = synthetic_pairs(1, height=height, width=width)
    return [(255 * image[0].permute(1, 2, 0)).round().byte() for image in (left, right)], disparity[0, 0]


@torch.no_grad()
def run(model, size, rows):
    (left, right), _ = images(*size)
    return predict_in_strips(model, left, right, Strips(96, 128, rows), iterations=2)


@pytest.mark.parametrize(("height", "rows", "reach"), [(160, 48, 5), (175, 40, 0), (40, 128, 6), (80, 8, 13)])
def test_parts_hold_every_row_once_and_see_the_rows_around(height, rows, reach):
    found = list(parts(height, rows, reach=reach))
    assert [row for part in found for row in range(height)[part.kept]] == list(range(height))
    for part in found:
        assert part.kept.stop - part.kept.start <= rows
        assert range(height)[part.seen][part.inner] == range(height)[part.kept]
        assert part.seen == slice(max(part.kept.start - reach, 0), min(part.kept.stop + reach, height))
    for above, below in itertools.pairwise(found):
        assert above.kept.stop == below.kept.start


@pytest.mark.parametrize("rows", [32, 64, 96, 160])
@pytest.mark.parametrize("size", [(192, 256), (203, 270)])
def test_strips_equal_one_piece(model, size, rows):
    whole, whole_confidence = run(model, size, 10_000)
    got, confidence = run(model, size, rows)
    assert got.shape == confidence.shape == size
    assert (got - whole).abs().max() < TOLERANCE
    assert (confidence - whole_confidence).abs().max() < TOLERANCE
    assert whole_confidence.std() > 0.01


@pytest.mark.parametrize("variant", VARIANTS)
def test_strips_equal_one_piece_in_every_variant(variant):
    model = network(**VARIANTS[variant])
    for got, whole in zip(run(model, (203, 130), 32), run(model, (203, 130), 10_000), strict=True):
        assert (got - whole).abs().max() < TOLERANCE


def test_strips_equal_one_piece_without_fast_paths(model):
    whole, _ = run(model, (160, 128), 10_000)
    with plain_paths():
        got, _ = run(model, (160, 128), 64)
    assert (got - whole).abs().max() < TOLERANCE


def test_strips_know_where_they_are(model, monkeypatch):
    """Attention of a strip whose rows are counted from 0 is another one."""
    whole, _ = run(model, (192, 256), 10_000)
    table = MultiScaleUpdater.table
    monkeypatch.setattr(MultiScaleUpdater, "table", lambda self, hidden, *, first_row=0: table(self, hidden))
    got, _ = run(model, (192, 256), 64)
    assert (got[:64] - whole[:64]).abs().max() > 1e-2
    assert (got[64:] - whole[64:]).abs().max() > 1e-2


@pytest.mark.parametrize(
    ("holder", "name", "too_few"),
    [
        (large_images, "_MOTION_REACH", 4),
        (large_images, "_GATE_REACH", 0),
        (large_images, "_RESIDUAL_REACH", 2),
        (large_images, "_UPSAMPLING_REACH", 1),
        (large_images, "_CONFIDENCE_REACH", 3),
        (PALABlock, "reach", 3),
        (PALABlock, "summary_reach", 1),
    ],
)
def test_strips_see_no_fewer_rows_than_they_need(holder, name, too_few, monkeypatch):
    model = network(guide=8)
    whole = run(model, (128, 96), 10_000)
    monkeypatch.setattr(holder, name, too_few)
    got = run(model, (128, 96), 32)
    assert max((a - b).abs().max() for a, b in zip(got, whole, strict=True)) > TOLERANCE


@torch.no_grad()
def test_positions_of_rows_are_those_in_the_map(model):
    hidden = torch.zeros(1, 32, 12, 5)
    whole = model.updater.table(hidden)
    assert torch.equal(model.updater.table(hidden[:, :, 4:9], first_row=4), whole[20:45])
    with plain_paths():
        assert torch.equal(model.updater.table(hidden), rotary_table(12, 5, 16))


@pytest.mark.parametrize("size", [(192, 256), (203, 270)])
@torch.no_grad()
def test_one_strip_is_the_network_started_from_the_coarse_pass(model, size, monkeypatch):
    """Against the network's own `prepare`, whose start is replaced by what the coarse pass found."""
    (left, right), _ = images(*size)
    started = []
    outcome = large_images._LargePair.outcome
    monkeypatch.setattr(
        large_images._LargePair, "outcome", lambda self, *given: started.append(given[0]) or outcome(self, *given)
    )
    got, sure = predict_in_strips(model, left, right, Strips(96, 128, 10_000), iterations=3)
    tensors = [image.permute(2, 0, 1).unsqueeze(0).float() / 255 for image in (left, right)]
    whole = model.prepare(*tensors, volume="stored")
    features = model.backbone(pad_images(torch.cat(tensors))).pyramid
    hidden = model.initial_hidden([f[:1] for f in features], torch.ones(1, 2, *whole.disparity.shape[-2:]))
    (start,) = started
    coarse = model.prepare(*[large_images._reduced(tensor, (96, 128)) for tensor in tensors])
    expected = large_images._start(StartingPoint(coarse.disparity, coarse.cues), size).cues
    torch.testing.assert_close(start.cues, expected, rtol=1e-4, atol=1e-4)
    assert start.cues.std() > 0.05
    told = whole._replace(disparity=start.disparity, hidden=hidden, cues=start.cues)
    (state,) = model.iterate(told, 1)
    full = model.upsample(state, told)
    torch.testing.assert_close(got, full[0, 0], rtol=1e-4, atol=1e-4)
    expected = model.confidence(state, told, before=start.disparity, full=full, tolerance=1.0)
    torch.testing.assert_close(sure, expected[0, 0], rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_a_network_without_a_confidence_head():
    torch.manual_seed(0)
    model = build(dataclasses.replace(TINY, start="correlation"), backbone=TinyBackbone()).eval()
    disparity, confidence = run(model, (128, 96), 64)
    assert disparity.shape == (128, 96)
    assert confidence is None


def test_the_start_lies_where_the_coarse_pass_says():
    """A ramp over rows and columns, told at a third of the size, comes back in px of the 1/4 map."""
    y, x = torch.meshgrid(torch.arange(128) + 0.5, torch.arange(160) + 0.5, indexing="ij")
    ramp = (0.1 * x + 0.2 * y)[None, None]  # px of the coarse images
    cues = torch.nn.functional.avg_pool2d(torch.cat([ramp, -ramp], dim=1), 4)
    start, found, _ = large_images._start(StartingPoint(ramp, cues), (384, 480))
    rows, columns = 4 * (torch.arange(96) + 0.5) / 3, 4 * (torch.arange(120) + 0.5) / 3
    expected = (0.1 * columns + 0.2 * rows[:, None]) * 3 / 4
    torch.testing.assert_close(start[0, 0, 2:-2, 2:-2], expected[2:-2, 2:-2], rtol=1e-4, atol=1e-4)
    inner = slice(8, -8)  # the cues are told in cells of the coarse images, which say nothing beyond their centres
    expected = torch.stack([expected, -expected]) * 4 / 3  # as they are, not in px
    torch.testing.assert_close(found[0, :, inner, inner], expected[:, inner, inner], rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_progress_is_told_once_for_every_iteration(model):
    (left, right), _ = images(256, 128)
    told = []
    predict_in_strips(model, left, right, Strips(96, 64, 160), iterations=3, on_iteration=told.append)
    assert told == [1, 2, 3]
