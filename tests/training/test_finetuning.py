"""Fine-tuning a checkpoint on a folder with sparse ground truth."""

import pytest
import torch
from tests.model.tiny import TinyBackbone
from tests.training.tiny import PLAIN, run_training, tiny_recipe, write_folder

from linstereo.checkpoints.checkpoint import load_checkpoint
from linstereo.data.datasets.catalogue import open_dataset
from linstereo.errors import InputError
from linstereo.predictor import StereoPredictor


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
