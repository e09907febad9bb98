"""`linstereo train`: from data to a checkpoint with one command."""

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from linstereo.cli.training_session import (
    TrainingDisplay,
    add_session_options,
    check_session_options,
    chosen_recipe,
    chosen_threads,
    default_workers,
    interruptible,
)
from linstereo.errors import InputError

if TYPE_CHECKING:
    from linstereo.training.recipe import Recipe


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Train by a recipe. The same command again resumes the run in --out where it stopped, for whatever "
        "reason. torchrun --nproc-per-node=N -m linstereo train ... shares each batch among N GPUs or processes."
    )
    parser.add_argument(
        "--config",
        metavar="RECIPE",
        help="paper (the paper's recipe), compact (small, for a CPU), finetune, or a TOML file (default: finetune with "
        "--from)",
    )
    parser.add_argument("--out", required=True, metavar="RUN", help="folder of the run: checkpoints, log, pictures")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="CHECKPOINT",
        help="fine-tune: start from the network and weights of this checkpoint (file, folder or hub "
        "repository; compact is the bundled model)",
    )
    parser.add_argument("--list-fields", action="store_true", help="print the recipe with all its fields, then stop")
    parser.add_argument("--stop-after", type=int, metavar="N", help="stop after N steps, to resume another time")
    parser.add_argument(
        "--allow-changes", action="store_true", help="resume a run although its recipe has been changed"
    )
    add_session_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Train; returns the exit code, which is not 0 if a signal ended the training before it was done."""
    from linstereo.backends.devices import pick_device
    from linstereo.processes import joined_workers
    from linstereo.training.run import train
    from linstereo.training.sources import require_rendering
    from linstereo.training.trainer import Session

    recipe, notes = _recipe(options)
    if options.list_fields:
        _print_fields(recipe)
        return 0
    require_rendering(source for stage in recipe.stages for source in (*stage.data, *stage.validation))
    check_session_options(options)
    if options.stop_after is not None and options.stop_after < 1:
        raise InputError(f"--stop-after is {options.stop_after}; give at least 1")
    with joined_workers(gpu=True) as worker, chosen_threads(options.threads), interruptible() as interrupted:
        show = TrainingDisplay(recipe, leads=worker.leads, notes=notes)
        session = Session(
            folder=Path(options.out),
            device=pick_device(worker.device() if options.device is None else options.device),
            worker=worker,
            loaders=default_workers() if options.workers is None else options.workers,
            skip_bad=options.skip_bad,
            stop_after=options.stop_after,
            cache=None if options.cache_features is None else Path(options.cache_features),
            say=show.say,
            on_step=show.on_step,
            stopping=interrupted,
        )
        try:
            done = train(
                recipe,
                session,
                start=options.start,
                backbone_weights=options.backbone,
                allow_changes=options.allow_changes,
            )
        finally:
            show.close()
        if done:
            show.say(f"done: {Path(options.out) / 'linstereo.safetensors'}")
            return 0
        show.say("stopped; the same command resumes from here")
        return 0 if options.stop_after is not None and not interrupted() else interrupted.exit_code


def _recipe(options: argparse.Namespace) -> "tuple[Recipe, list[str]]":
    from linstereo.training.recipe_files import recipe_names

    name = options.config or ("finetune" if options.start else None)
    if name is None:
        raise InputError(f"no recipe is given; add --config with one of {', '.join(recipe_names())}, or a TOML file")
    return chosen_recipe(name, options)


def _print_fields(recipe: "Recipe") -> None:
    print(f"preset = {recipe.preset!r}\nseed = {recipe.seed}\nmodel = {dict(recipe.model)}")
    for stage in recipe.stages:
        print(f"\n[{stage.name}]")
        for name, value in dataclasses.asdict(stage).items():
            print(f"{name} = {value!r}")
