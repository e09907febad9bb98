"""Fine-tuning a checkpoint on a folder with sparse ground truth."""

from dataclasses import replace

import pytest
import torch
from tests.model.tiny import TinyBackbone
from tests.training.tiny import PLAIN, run_training, tiny_recipe, write_folder

from linstereo.checkpoints.checkpoint import load_checkpoint
from linstereo.data.datasets.catalogue import open_dataset
from linstereo.errors import InputError
from linstereo.model.presets import LinStereoConfig, build
from linstereo.predictor import StereoPredictor
from linstereo.training.run import train
from linstereo.training.trainer import Session


def mean_error(checkpoint, folder):
    predictor = StereoPredictor(load_checkpoint(checkpoint, backbone=TinyBackbone()), device="cpu")
    errors = []
    for sample in open_dataset("folder", folder):
        prediction = predictor.predict(sample.left, sample.right, iters=3).disparity
        errors.append(abs(prediction - sample.disparity)[sample.valid].mean())
    return float(sum(errors) / len(errors))


def test_sparse_ground_truth_lowers_the_error(tmp_path):
    """A twentieth of the pixels at most is known; the error is measured in all of them, on the same pairs."""
    sparse = write_folder(tmp_path / "sparse", count=6, seed=4, known=0.05)
    dense = write_folder(tmp_path / "dense", count=6, seed=4)
    fields = {"augmentation": PLAIN, "crop": [64, 96], "batch": 3, "iterations": 3}
    run_training(tiny_recipe(dense, steps=5, learning_rate=1e-3, **fields), tmp_path / "base")
    before = mean_error(tmp_path / "base", dense)
    recipe = tiny_recipe(sparse, steps=80, learning_rate=3e-3, ema_decay=0.9, model={}, **fields)
    done, _ = run_training(recipe, tmp_path / "tuned", start=tmp_path / "base")
    assert done
    assert mean_error(tmp_path / "tuned", dense) < 0.5 * before


def test_the_first_weights_are_those_of_the_checkpoint(tmp_path):
    folder = write_folder(tmp_path / "pairs")
    run_training(tiny_recipe(folder, steps=2), tmp_path / "base")
    base = load_checkpoint(tmp_path / "base", backbone=TinyBackbone())
    recipe = tiny_recipe(folder, steps=2, learning_rate=1e-12, model={})
    run_training(recipe, tmp_path / "tuned", start=tmp_path / "base")
    tuned = load_checkpoint(tmp_path / "tuned", backbone=TinyBackbone())
    assert tuned.config == base.config
    for one, two in zip(base.parameters(), tuned.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-9)
    # going on does not start over
    done, said = run_training(recipe, tmp_path / "tuned", start=tmp_path / "base")
    assert done
    assert any("after step 2" in text for text in said)


def test_the_network_comes_from_the_checkpoint_alone(tmp_path):
    folder = write_folder(tmp_path / "pairs")
    run_training(tiny_recipe(folder, steps=1), tmp_path / "base")
    with pytest.raises(InputError, match="comes with the checkpoint"):
        run_training(tiny_recipe(folder, steps=1), tmp_path / "tuned", start=tmp_path / "base")


def compact_checkpoint(folder, **settings):
    config = LinStereoConfig(backbone="compact", start="correlation", hidden=16, feature_width=16, **settings)
    torch.manual_seed(0)
    model = build(config)
    folder.mkdir()
    model.save_pretrained(folder)
    return load_checkpoint(folder)


def grow(folder, out, *, start, model, **fields):
    """Train a compact network from a checkpoint, with levels that it may lack there."""
    recipe = replace(tiny_recipe(folder, model={}, **fields), preset="compact", model=model)
    assert train(recipe, Session(folder=out, device=torch.device("cpu"), say=lambda text: None), start=start)
    return load_checkpoint(out)


def test_levels_are_added_to_the_network_of_the_checkpoint(tmp_path):
    """They change nothing before they are trained, and are trained then."""
    folder = write_folder(tmp_path / "pairs")
    base = compact_checkpoint(tmp_path / "base")
    settings = {"context": 8, "fine": 12}
    start = {"start": tmp_path / "base", "model": settings}
    grown = grow(folder, tmp_path / "grown", steps=1, learning_rate=1e-12, **start)
    assert grown.config == replace(base.config, **settings)
    left, right = torch.rand(2, 1, 3, 64, 96, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(grown(left, right, iters=2), base(left, right, iters=2), rtol=0, atol=1e-3)
    trained = grow(folder, tmp_path / "trained", steps=3, learning_rate=1e-3, ema_decay=0.0, **start).backbone
    assert trained.context.out.weight.abs().max() > 0
    assert trained.fine.out.weight.abs().max() > 0


def test_levels_that_are_there_keep_their_size(tmp_path):
    folder = write_folder(tmp_path / "pairs")
    compact_checkpoint(tmp_path / "base", context=8)
    with pytest.raises(InputError, match=r"context of the checkpoint to start from is 8, so it cannot become 16"):
        grow(folder, tmp_path / "out", start=tmp_path / "base", model={"context": 16}, steps=1)
    same = grow(folder, tmp_path / "same", start=tmp_path / "base", model={"context": 8}, steps=1)
    assert same.config.context == 8
