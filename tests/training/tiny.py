"""Training runs that take a second: a tiny network, and folders of tiny pairs."""

import dataclasses
from pathlib import Path

import numpy as np
import torch
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs

from linstereo.data.augmentation import AugmentationSettings
from linstereo.data.formats.images import write_image
from linstereo.data.formats.pfm import write_pfm
from linstereo.training.recipe_files import recipe_from
from linstereo.training.run import train
from linstereo.training.state import FILE_NAME, load_state
from linstereo.training.trainer import Session

NETWORK = {
    name: value
    for name, value in dataclasses.asdict(dataclasses.replace(TINY, hidden=16, feature_width=16, scales=2)).items()
    if name in ("start", "hidden", "heads", "feature_width", "levels", "radius", "scales")
}
PLAIN = {
    "log2_scale": [0.0, 0.0],
    "stretch_probability": 0.0,
    "vertical_jitter": 0,
    "asymmetric_probability": 0.0,
    "brightness": 0.0,
    "contrast": 0.0,
    "saturation": [1.0, 1.0],
    "hue": 0.0,
    "gamma": [1.0, 1.0],
    "eraser_probability": 0.0,
}
"""Augmentation that only crops."""
assert set(PLAIN) <= {field.name for field in dataclasses.fields(AugmentationSettings)}


def write_folder(root, *, count=6, height=64, width=96, seed=0, known=1.0):
    """Stereo pairs in the folder layout; ground truth for a share `known` of the pixels, another one in every pair."""
    for name in ("left", "right", "disparity"):
        (root / name).mkdir(parents=True)
    left, right, disparity = synthetic_pairs(count, height=height, width=width, seed=seed)
    rng = np.random.default_rng(seed)
    for i in range(count):
        for side, images in (("left", left), ("right", right)):
            pixels = (images[i].permute(1, 2, 0) * 255).round().numpy().astype(np.uint8)
            write_image(root / side / f"{i:03d}.png", pixels)
        truth = disparity[i, 0].numpy().copy()
        truth[rng.random(truth.shape) >= known * (i + 1) / count if known < 1 else np.zeros(truth.shape, bool)] = np.inf
        write_pfm(root / "disparity" / f"{i:03d}.pfm", truth)
    return root


def tiny_recipe(folder, *, stages=({},), **fields):
    """A recipe for the tiny network on a folder of pairs; `fields` hold for all stages."""
    content = {
        "model": NETWORK,
        "data": [f"folder={folder}"],
        "steps": 4,
        "batch": 4,
        "crop": [32, 64],
        "iterations": 2,
        "learning_rate": 1e-3,
        "log_every": 1,
        **fields,
        "stage": [{"name": f"stage{i}", **stage} for i, stage in enumerate(stages)],
    }
    return recipe_from(content)


def run_training(recipe, folder, *, backbone=None, start=None, allow_changes=False, **session):
    """Train on the CPU; returns whether the recipe is done, and all that was said."""
    said = []
    options = {"device": torch.device("cpu"), "say": said.append, **session}
    session = Session(folder=Path(folder), **options)
    done = train(recipe, session, backbone=backbone or TinyBackbone(), start=start, allow_changes=allow_changes)
    return done, said


def final_weights(folder):
    """The weights that a run ended with, by name."""
    return load_state(Path(folder) / FILE_NAME).weights
