"""A prediction taken apart is the same prediction, and its parts are those that are counted."""

import dataclasses

import numpy as np
import pytest
import torch
from tests.model.tiny import TINY, TinyBackbone

from linstereo.checkpoints.summary import summarise
from linstereo.efficiency.pairs import SHIFT, textured_pair
from linstereo.efficiency.parts import COUNTED_AS, MATCHING, counted, part_names, run_parts
from linstereo.model.presets import PRESETS, LinStereoConfig, build
from linstereo.predictor import StereoPredictor
from linstereo.run_plan import RunPlan

COMPACT = LinStereoConfig(
    backbone="compact", start="correlation", feature_width=16, hidden=16, heads=2, levels=2, radius=2, guide=8
)


def predictor_of(config, backbone=None):
    torch.manual_seed(0)
    return StereoPredictor(build(config, backbone=backbone), device="cpu")


@pytest.mark.parametrize(
    ("config", "backbone", "before"),
    [
        (TINY, TinyBackbone(), []),
        (dataclasses.replace(TINY, start="depth_prior"), TinyBackbone(depth=torch.ones(1, 1, 8, 12)), [MATCHING]),
        (COMPACT, None, []),
        (dataclasses.replace(COMPACT, coarse_iterations=2), None, ["coarse passes"]),
    ],
    ids=["zero", "depth prior", "correlation", "coarse passes"],
)
@pytest.mark.parametrize("volume", ["stored", "on_the_fly"])
def test_parts_run_in_order_and_give_the_same_disparity(config, backbone, before, volume):
    predictor = predictor_of(config, backbone)
    left, right = textured_pair(64, 96)
    ended = []
    disparity = run_parts(predictor, left, right, RunPlan(64, 96, volume), 3, ended.append)
    assert ended == ["", *before, "backbone", "cost volumes", "start", *["iterations"] * 3, "upsampling"]
    assert list(dict.fromkeys(ended[1:])) == part_names(predictor)
    expected = predictor.predict(left, right, iters=3, volume=volume, scale=1).disparity
    np.testing.assert_array_equal(disparity[0, 0].clamp(min=0).numpy(), expected)


def test_nothing_listens_afterwards():
    predictor = predictor_of(TINY, TinyBackbone())
    ended = []
    run_parts(predictor, *textured_pair(64, 96), RunPlan(64, 96, "stored"), 1, ended.append)
    ended.clear()
    predictor.predict(*textured_pair(64, 96))
    assert ended == []


@pytest.mark.parametrize("config", [PRESETS["paper"], dataclasses.replace(COMPACT, coarse_iterations=2)])
def test_counts_are_those_of_info(config):
    summary = summarise(config, height=64, width=96)
    counts = counted(summary)
    assert sum(parameters for parameters, _ in counts.values()) == summary.parameters
    assert sum(gflops for _, gflops in counts.values()) == pytest.approx(summary.gflops, rel=1e-12)
    assert {part.name for part in summary.parts} <= COUNTED_AS.keys()


def test_the_pair_is_a_shifted_copy_of_any_size():
    left, right = textured_pair(33, 70)
    assert left.shape == right.shape == (33, 70, 3)
    np.testing.assert_array_equal(left[:, SHIFT:], right[:, :-SHIFT])
    np.testing.assert_array_equal(left, textured_pair(33, 70)[0])
