"""Pairs and features for the tests of ablations."""

from pathlib import Path

import pytest
import torch
from tests.ablation.tiny_ablations import tiny_recipe
from tests.data import layouts

from linstereo.checkpoints.checkpoint import save_checkpoint
from linstereo.model.presets import build


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    layouts.make_folder(folder, pairs=3)
    return folder


@pytest.fixture(scope="module")
def features(tmp_path_factory) -> Path:
    """A checkpoint with a backbone and projections that no variant has by chance."""
    torch.manual_seed(77)
    model = build(tiny_recipe().config())
    return save_checkpoint(model, tmp_path_factory.mktemp("features") / "features.safetensors")
