"""The start from a known disparity holds where the images agree with it, and nowhere else."""

import numpy as np
import pytest
import torch

from linstereo import StereoPredictor
from linstereo.geometry.known_disparity import KnownDisparity
from linstereo.model.cost_volume import StoredVolume
from linstereo.model.linstereo import Evidence
from linstereo.model.presets import build
from linstereo.model.warm_start import REMEMBERED, WarmStart, warmed
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs

TRUE = 3  # cells


def evidence(own):
    """Features of a scene at a disparity of 3 cells, and a start of the network's own, 16 x 24 cells."""
    generator = torch.Generator().manual_seed(0)
    right = torch.randn(1, 32, 16, 24 + TRUE, generator=generator)
    left = right[..., :24]
    volume = StoredVolume(left, right[..., TRUE:], levels=2, radius=2)
    start = torch.full((1, 1, 16, 24), float(own))
    nothing = start[:, :0]
    return Evidence([volume], tables=[], hidden=[], disparity=start, cues=nothing, prior=[], guide=None, size=(60, 90))


def known(value, *, where=slice(None)):
    disparity = torch.full((1, 1, 60, 90), float(4 * value))  # px
    mask = torch.zeros(1, 1, 60, 90, dtype=torch.bool)
    mask[..., where] = True
    return WarmStart(disparity, mask)


INNER = (..., slice(4, 12), slice(8, 18))  # cells whose matches and windows are inside of the images


def test_a_right_disparity_replaces_a_wrong_start():
    start = warmed(evidence(own=6), known(TRUE)).disparity
    assert start.shape == (1, 1, 16, 24)
    assert torch.all(start[INNER] == TRUE)


def test_a_wrong_disparity_does_not_replace_a_right_start():
    assert torch.all(warmed(evidence(own=TRUE), known(7)).disparity[INNER] == TRUE)


def test_what_is_unknown_keeps_the_networks_own_start():
    start = warmed(evidence(own=6), known(TRUE, where=slice(48, None))).disparity
    assert torch.all(start[..., :12] == 6)
    assert torch.all(start[..., 4:12, 13:18] == TRUE)


def test_a_disparity_whose_match_is_outside_of_the_right_image_does_not_count():
    start = warmed(evidence(own=1), known(TRUE)).disparity
    assert torch.all(start[..., :TRUE] == 1)
    assert torch.all(warmed(evidence(own=23), known(20)).disparity[..., :20] == 23)


def test_hidden_states_move_along_where_the_start_holds():
    """Everything was 8 px farther left in the frame before: two cells of the finest scale and one of the next."""
    old = [torch.arange(columns).float().expand(1, 2, rows, columns) for rows, columns in ((16, 24), (8, 12))]
    new = [torch.full_like(states, 100.0) for states in old]
    rows, columns = torch.meshgrid(torch.arange(60.0), torch.arange(90.0), indexing="ij")
    places = torch.stack([columns - 8, rows])[None]
    start = known(TRUE)._replace(places=places, hidden=old)
    share = REMEMBERED
    for own in (6, TRUE):
        mixed = warmed(evidence(own=own)._replace(hidden=new), start).hidden
        for column in range(8, 18):
            expected = share * (column - 2) + (1 - share) * 100
            torch.testing.assert_close(mixed[0][0, :, 4:12, column], torch.full((2, 8), expected))
        torch.testing.assert_close(mixed[1][0, :, 3:5, 6], torch.full((2, 2), share * 5 + (1 - share) * 100))
    wrong = known(7)._replace(places=places, hidden=old)
    assert torch.all(warmed(evidence(own=TRUE)._replace(hidden=new), wrong).hidden[0][INNER] == 100)
    nowhere = start._replace(known=torch.zeros_like(start.known))
    assert torch.all(warmed(evidence(own=6)._replace(hidden=new), nowhere).hidden[0] == 100)
    other_size = start._replace(hidden=[states[..., 1:] for states in old])
    assert torch.all(warmed(evidence(own=6)._replace(hidden=new), other_size).hidden[0] == 100)


@pytest.mark.parametrize("start", ["zero", "correlation", "depth_prior"])
@pytest.mark.parametrize("scale", [1.0, 0.75])
def test_every_start_can_be_warmed(start, scale):
    config = TINY.__class__(**{**vars(TINY), "start": start})
    depth = torch.rand(1, 1, 16, 24) + 1
    torch.manual_seed(0)
    predictor = StereoPredictor(build(config, backbone=TinyBackbone(depth)), device="cpu")
    left, right, truth = synthetic_pairs(1)
    pair = [(image[0].permute(1, 2, 0).numpy() * 255).astype(np.uint8) for image in (left, right)]
    true = truth[0, 0].numpy()
    everywhere = KnownDisparity(true, np.ones_like(true, bool))
    nowhere = KnownDisparity(true, np.zeros_like(true, bool))
    cold = predictor.predict(*pair, iters=1, scale=scale).disparity
    np.testing.assert_array_equal(predictor.predict(*pair, iters=1, scale=scale, start=nowhere).disparity, cold)
    warm = predictor.predict(*pair, iters=1, scale=scale, start=everywhere).disparity
    assert warm.shape == true.shape
    assert np.isfinite(warm).all()
    if start == "zero":  # the other starts are right already where the texture is
        assert np.abs(warm - true).mean() < 0.5 * np.abs(cold - true).mean()
