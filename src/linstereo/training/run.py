"""Starting a run, or going on with one: which network, from which weights, in which folder."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import torch

from linstereo.checkpoints.checkpoint import OFFICIAL_BACKBONES, check_shapes, load_checkpoint, parse_config
from linstereo.checkpoints.da3_weights import load_da3_weights
from linstereo.errors import InputError
from linstereo.files import remove_temporaries
from linstereo.model.backbone import Backbone, DepthAnything3
from linstereo.model.linstereo import LinStereo
from linstereo.model.presets import LinStereoConfig, build
from linstereo.runs import RunFolder, differences
from linstereo.training.recipe import Recipe, Stage, convert_fields
from linstereo.training.recipe_files import recipe_from_json
from linstereo.training.state import FILE_NAME, TrainingState, load_state
from linstereo.training.trainer import Session, Trainer

# Fields that may change between sessions, because no weight depends on them.
_FREE_FIELDS = (
    "validation",
    "validation_count",
    "validation_crop",
    "validate_every",
    "picture_every",
    "checkpoint_every",
)
_FREE = frozenset((*_FREE_FIELDS, "log_every", "accumulate"))
GROWING = frozenset(("context", "fine"))
"""Settings of a network by which one that starts from a checkpoint may differ from it, if it has none there."""


def train(
    recipe: Recipe,
    session: Session,
    *,
    start: str | os.PathLike[str] | None = None,
    backbone_weights: str | os.PathLike[str] | None = None,
    backbone: Backbone | None = None,
    allow_changes: bool = False,
) -> bool:
    """Train in `session.folder`, going on from the state there if there is one.

    Args:
        recipe: what to do; on going on it must be the one the run was started with.
        session: how to do it.
        start: checkpoint whose network and weights a new run starts from, with the levels of `GROWING` that the recipe
            adds; by default random weights.
        backbone_weights: official DA3 weights, a path or hub name; by default from the hub.
        backbone: features to use instead of those that the network's settings name.
        allow_changes: resume although the recipe is not the one of the earlier sessions.

    Returns:
        True if the recipe is done, False if the session stopped before.
    """
    folder, leads = session.folder, session.worker.leads
    with RunFolder.open(folder, leads=leads):
        file = folder / FILE_NAME
        resume = load_state(file) if file.exists() else None
        if resume is not None:
            config = parse_config(resume.config, file=file)
            check_shapes(
                {name: tuple(tensor.shape) for name, tensor in resume.weights.items()},
                config,
                backbone=backbone,
                file=file,
                wanted="another folder, because this run was started with another network or backbone",
            )
            recipe = recipe.with_iterations(config.iterations)
            _check_recipe(recipe, resume, folder=folder, allow_changes=allow_changes)
            model = _build(config, recipe, backbone=backbone, backbone_weights=backbone_weights)
            session.say(f"going on with {folder} after step {resume.progress.total_steps}")
        elif start is not None:
            if not set(recipe.model) <= GROWING:
                raise InputError(
                    "the network comes with the checkpoint to start from; leave out model settings other than "
                    f"{' and '.join(sorted(GROWING))}"
                )
            model = load_checkpoint(start, backbone=backbone, backbone_weights=backbone_weights)
            if model.confidence_head is not None:
                drop_confidence(model)
                session.say("the confidence is left out, since it holds for the old weights only; train it again with")
                session.say(f"  linstereo confidence --from {folder} --out ...")
            model = _grown(model, recipe)
        else:
            model = _build(recipe.config(), recipe, backbone=backbone, backbone_weights=backbone_weights)
        if backbone is None:
            check_backbone_weights(model.config, backbone_weights)
        if leads:
            remove_temporaries(folder)
        recipe = recipe.with_iterations(model.config.iterations)
        return Trainer(model, recipe, session, resume=resume).run()


def _grown(model: LinStereo, recipe: Recipe) -> LinStereo:
    """The network with the further levels that the recipe asks for, which add nothing before they are trained."""
    wanted = convert_fields(LinStereoConfig, recipe.model, where="model")
    added = {name: value for name, value in wanted.items() if value != getattr(model.config, name)}
    for name in added:
        if before := getattr(model.config, name):
            raise InputError(
                f"{name} of the checkpoint to start from is {before}, so it cannot become {added[name]}; leave "
                f"model.{name} out"
            )
    if not added:
        return model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        grown = build(dataclasses.replace(model.config, **added))
    grown.load_state_dict(model.state_dict(), strict=False)
    return grown


def drop_confidence(model: LinStereo) -> None:
    """Take the confidence head from a network whose other weights are about to change."""
    model.confidence_head = None
    model.config = dataclasses.replace(model.config, confidence=0, confidence_cues=False)


def check_backbone_weights(config: LinStereoConfig, weights: str | os.PathLike[str] | None) -> None:
    """Refuse official DA3 weights for a network with a backbone of its own, which has no use for them."""
    if weights is not None and config.backbone not in OFFICIAL_BACKBONES:
        raise InputError(f"the backbone {config.backbone!r} takes no weights of DA3; leave out {os.fspath(weights)!r}")


def _build(
    config: LinStereoConfig,
    recipe: Recipe,
    *,
    backbone: Backbone | None,
    backbone_weights: str | os.PathLike[str] | None,
) -> LinStereo:
    if config.confidence:
        raise InputError(
            "the confidence is trained after all else, by linstereo confidence; leave out model.confidence"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = build(config, backbone=backbone)
    if backbone is None and isinstance(model.backbone, DepthAnything3):
        load_da3_weights(model.backbone, backbone_weights or OFFICIAL_BACKBONES[config.backbone])
    return model


def _check_recipe(recipe: Recipe, resume: TrainingState, *, folder: Path, allow_changes: bool) -> None:
    """Refuse a recipe that would make the run something else than what it began as."""
    before = recipe_from_json(resume.recipe)
    if (recipe.preset, dict(recipe.model)) != (before.preset, dict(before.model)):
        raise InputError(
            f"the run in {folder} was started with another network ({before.preset!r} with changes "
            f"{dict(before.model)}); use another folder"
        )
    begun = before.stages[: resume.progress.stage + 1]
    if len(recipe.stages) < len(begun):
        raise InputError(
            f"the run in {folder} is in stage {len(begun)}, which the recipe does not have; use another folder"
        )
    pairs = list(zip(begun, recipe.stages, strict=False))
    changes = differences(
        {"seed": before.seed, **{f"stage {old.name}": _decisive(old) for old, _ in pairs}},
        {"seed": recipe.seed, **{f"stage {old.name}": _decisive(new) for old, new in pairs}},
    )
    if changes and not allow_changes:
        raise InputError(
            f"the run in {folder} was started with another recipe ({changes}); use another folder, or resume it all "
            "the same with --allow-changes"
        )


def _decisive(stage: Stage) -> dict[str, Any]:
    """The fields of a stage that weights depend on."""
    return {name: value for name, value in dataclasses.asdict(stage).items() if name not in _FREE}
