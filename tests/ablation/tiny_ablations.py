"""What the tests of ablations share: a recipe, pairs and runs that take a second."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from linstereo.ablation.report import write_report
from linstereo.ablation.run import (
    Ablation,
    run_variants,
)
from linstereo.processes import Worker
from linstereo.training.recipe import Recipe, Stage
from linstereo.training.trainer import Session

SMALL = {"feature_width": 16, "hidden": 16, "coarse_hidden": 0, "heads": 2, "levels": 2, "radius": 2}
FEATURES = ("backbone", "cost_volumes")


def tiny_recipe(folder: Path | str = "unused", *, model: dict | None = None, **fields: object) -> Recipe:
    stage = {
        "name": "decoder",
        "steps": 3,
        "learning_rate": 1e-3,
        "batch": 2,
        "crop": (64, 96),
        "iterations": 2,
        "frozen": FEATURES,
        "data": (f"folder={folder}",),
        "validation": (f"folder={folder}",),
        "validation_count": 2,
        "validation_crop": (64, 96),
        "log_every": 1,
        "checkpoint_every": 1,
    }
    return Recipe(preset="compact", model=SMALL | (model or {}), stages=(Stage(**stage | fields),))


class Sessions:
    """Sessions on the CPU that remember for whom they were made; stops after `steps` steps in all."""

    def __init__(self, steps: int = 1000) -> None:
        self.made: list[str] = []
        self.said: list[str] = []
        self.left = steps

    def __call__(self, variant, recipe):
        self.made.append(f"{variant.table}/{variant.name}")
        return Session(
            folder=Path("unused"),
            device=torch.device("cpu"),
            say=self.said.append,
            on_step=self.on_step,
            stopping=lambda: self.left <= 0,
        )

    def on_step(self, *_: object) -> None:
        self.left -= 1


def run(ablation: Ablation, table, rows: list[str], sessions: Sessions | None = None) -> bool:
    return run_variants(
        ablation,
        table,
        table.chosen(rows),
        session=sessions or Sessions(),
        worker=Worker(),
        progress=lambda *_: pytest.fail("no benchmark is measured here"),
        done=lambda: write_report(ablation, table),
    )


def weights(ablation: Ablation, variant: str) -> dict[str, torch.Tensor]:
    return load_file(ablation.out / variant / "linstereo.safetensors")
