"""What the tests of `linstereo predict` share."""

import numpy as np
import pytest
import torch

from linstereo import StereoPredictor
from linstereo.data.formats.images import write_image
from linstereo.model.presets import build
from tests.model.tiny import TINY, TinyBackbone


@pytest.fixture
def quick_model(monkeypatch):
    """A tiny network in place of the default one; everything else is the real command."""
    torch.manual_seed(0)
    predictor = StereoPredictor(build(TINY, backbone=TinyBackbone()), device="cpu")
    monkeypatch.setattr("linstereo.loading.load", lambda *args, **kwargs: predictor)
    return predictor


@pytest.fixture
def images(tmp_path):
    """A folder with three pairs of noise, 40 x 50 px: left/ and right/ with 1.png, 2.png and 10.png."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "in"
    for side in ("left", "right"):
        (folder / side).mkdir(parents=True)
        for name in ("1", "2", "10"):
            write_image(folder / side / f"{name}.png", rng.integers(0, 256, (40, 50, 3), dtype=np.uint8))
    return folder
