"""The starts behind their one interface, and a network that knows nothing but its parts."""

import dataclasses
import subprocess
import sys

import pytest
import torch

from linstereo.model.correlation_start import CorrelationStart, with_coarse_pass
from linstereo.model.cost_volume import build_volume
from linstereo.model.depth_prior import DepthPriorStart
from linstereo.model.presets import build
from linstereo.model.starts import StartingPoint, StartInputs, ZeroStart
from linstereo.model.strides import PAD_TO, STRIDES, pad_images, padded
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs

STARTS = {
    "zero": ZeroStart(),
    "correlation": CorrelationStart(),
    "two passes": CorrelationStart(coarse_iterations=2),
    "three passes": CorrelationStart(coarse_iterations=2, coarse_passes=2),
    "passes of no iteration": CorrelationStart(coarse_passes=2),
    "depth prior": DepthPriorStart(),
}


@pytest.mark.parametrize("name", STARTS)
def test_every_start_gives_what_it_says(name):
    left, right, disparity = synthetic_pairs(2, height=64, width=128)
    features = [torch.nn.functional.avg_pool2d(image, 4) for image in (left, right)]
    start = STARTS[name]
    inputs = StartInputs(
        images=torch.cat([left, right]),
        size=(60, 120),
        depth=50.0 / (disparity + 6.0) if start.needs_depth else None,
        volumes=[build_volume(*features, levels=1, radius=1)],
        matches=None,
        coarse=None,
    )
    point = start(inputs)
    assert point.disparity.shape == (2, 1, 16, 32)
    assert point.cues.shape == (2, start.cues, 16, 32)
    assert (point.disparity >= 0).all()
    assert [report.fell_back for report in point.reports] == [False] * 2 * start.needs_depth
    assert start.state_dict() == {}


@pytest.mark.parametrize("name", STARTS)
def test_only_coarse_passes_run_the_network_before(name):
    calls = []

    def predict(images, iterations, coarse):
        calls.append((tuple(images.shape), iterations, None if coarse is None else tuple(coarse.shape)))
        return torch.full((1, 1, *images.shape[-2:]), 8.0)

    coarse = STARTS[name].coarse_disparity(torch.rand(2, 3, 50, 90), predict)
    if name in ("two passes", "three passes"):
        # Half of the padded images; that at a quarter comes first, padded to 32 x 64 px before it is halved.
        quarter = [((2, 3, 16, 32), 2, None)] if name == "three passes" else []
        assert calls == [*quarter, ((2, 3, 32, 48), 2, (1, 1, 8, 16) if quarter else None)]
        assert torch.equal(coarse, torch.full((1, 1, 16, 24), 4.0))  # 8 px at half size are 4 cells of 4 px
    else:
        assert (coarse, calls) == (None, [])


def test_trust_in_another_start_looks_like_certainty():
    """As if all correlations had been sure, and a coarse pass had found the same as they."""
    disparity = torch.rand(2, 1, 5, 7)
    certain = StartingPoint(disparity, torch.ones(2, 2, 5, 7))
    assert torch.equal(CorrelationStart().trusting_cues(disparity), certain.cues)
    expected = with_coarse_pass(certain, disparity).cues
    assert torch.equal(CorrelationStart(coarse_iterations=2).trusting_cues(disparity), expected)
    assert ZeroStart().trusting_cues(disparity).shape == (2, 0, 5, 7)


@pytest.mark.parametrize(
    "settings", [{}, {"start": "correlation"}, {"start": "correlation", "coarse_iterations": 1}, {"update": "convgru"}]
)
@torch.no_grad()
def test_a_network_does_not_read_its_settings(settings):
    model = build(dataclasses.replace(TINY, **settings), backbone=TinyBackbone()).eval()
    left, right, _ = synthetic_pairs(1)
    expected = model(left, right, iters=2)
    model.config = None
    assert torch.equal(model(left, right, iters=2), expected)


def test_networks_are_built_without_opencv():
    code = "import sys, linstereo.model.presets; sys.exit('cv2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("side", [1, 31, 32, 33, 64, 65])
def test_padding_is_the_next_multiple_and_repeats_the_edge(side):
    assert padded(side) % PAD_TO == 0
    assert 0 <= padded(side) - side < PAD_TO
    assert all(padded(side) % stride == 0 for stride in STRIDES)
    images = pad_images(torch.rand(1, 3, 32, side))
    assert images.shape == (1, 3, 32, padded(side))
    assert (images[..., side:] == images[..., side - 1 : side]).all()
