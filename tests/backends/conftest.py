"""A tiny model and its exported file, made once."""

import pytest
import torch

from linstereo.checkpoints.checkpoint import save_checkpoint
from linstereo.cli import main
from linstereo.model.presets import LinStereoConfig, build


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory):
    """The smallest network with trained-like settings, as a checkpoint."""
    torch.manual_seed(0)
    config = LinStereoConfig(
        backbone="compact",
        start="correlation",
        feature_width=8,
        hidden=16,
        heads=2,
        levels=2,
        radius=2,
        scales=1,
        iterations=2,
        working_pixels=96 * 128,
        sharp_steps=True,
        confidence=8,
    )
    return save_checkpoint(build(config), tmp_path_factory.mktemp("tiny") / "tiny.safetensors")


@pytest.fixture(scope="session")
def tiny_file(tiny_checkpoint):
    """Its ONNX file, of one iteration."""
    target = tiny_checkpoint.with_name("tiny.onnx")
    assert main(["export", "--model", str(tiny_checkpoint), "--iters", "1", "--out", str(target)]) == 0
    return target
