"""Training and measuring the variants of ablation tables, each in a folder of its own.

    OUT/<table>/<variant>/variant.json            what it is, written before it is trained
    OUT/<table>/<variant>/linstereo.safetensors   the network, and beside it all that `linstereo train` writes
    OUT/<table>/<variant>/result.json             its figures, written when it is done

Variants of different tables that are the same network trained in the same way are trained once.
"""

import dataclasses
import hashlib
import json
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from linstereo import __version__
from linstereo.ablation.tables import AblationTable, Variant
from linstereo.checkpoints.checkpoint import FILE_NAME as MODEL_FILE
from linstereo.checkpoints.checkpoint import find_model, load_checkpoint, save_checkpoint, stored_weights
from linstereo.data.sample import StereoSample
from linstereo.errors import InputError
from linstereo.evaluation.methods import ModelMethod
from linstereo.evaluation.runner import Benchmark, ProgressBar, evaluate
from linstereo.evaluation.scores import column_key
from linstereo.files import read_file, read_json, write_json
from linstereo.model.backbone import Backbone
from linstereo.model.linstereo import LinStereo
from linstereo.model.presets import LinStereoConfig, build
from linstereo.predictor import StereoPredictor
from linstereo.processes import Worker
from linstereo.runs import check_settings, output_folder
from linstereo.training.metrics_log import FILE_NAME as LOG_FILE
from linstereo.training.metrics_log import read_metrics
from linstereo.training.recipe import Recipe, Stage
from linstereo.training.run import check_backbone_weights, train
from linstereo.training.stage_run import freeze, is_frozen
from linstereo.training.state import keep_last_good
from linstereo.training.trainer import Session
from linstereo.training.validation import ValidationPairs

FORMAT = "linstereo-ablation/1"
VARIANT_FILE, RESULT_FILE = "variant.json", "result.json"
_START_FILE = "start.safetensors"  # the first weights, until the variant is done
_TAKEN = ("backbone", "cost_volumes.project.0", "cost_volumes.project.1", "cost_volumes.project.2")
_FIGURES = ("EPE", "bad3", "occ/EPE")
# Fields of a stage that no figure depends on, so that they may change between sessions.
_FREE = ("validate_every", "picture_every", "checkpoint_every", "log_every", "accumulate")

MakeSession = Callable[[Variant, Recipe], Session]
"""How to train a variant; the folder is filled in."""


@dataclasses.dataclass(frozen=True)
class SharedStart:
    """A trained network whose backbone and projections all variants start from.

    name: where it came from, for the reader.
    sha256: of its file.
    model: the network.
    """

    name: str
    sha256: str
    model: LinStereo


@dataclasses.dataclass(frozen=True)
class Ablation:
    """What all variants have in common.

    out: folder of the results.
    start: trained weights to start from; None for random ones.
    benchmarks: to measure on besides the recipe's validation pairs.
    backbone_weights: official DA3 weights, a path or hub name; by default from the hub.
    backbone: features to use instead of those that the settings name.
    """

    out: Path
    start: SharedStart | None = None
    benchmarks: tuple[Benchmark, ...] = ()
    backbone_weights: str | os.PathLike[str] | None = None
    backbone: Backbone | None = None


def load_start(
    name_or_path: str | os.PathLike[str],
    *,
    backbone_weights: str | os.PathLike[str] | None = None,
    backbone: Backbone | None = None,
) -> SharedStart:
    """Read the checkpoint that all variants start from; `name_or_path` as for `LinStereo.from_pretrained`."""
    file = find_model(name_or_path)
    model = load_checkpoint(file, backbone=backbone, backbone_weights=backbone_weights)
    return SharedStart(str(name_or_path), hashlib.sha256(read_file(file)).hexdigest(), model)


def run_variants(
    ablation: Ablation,
    table: AblationTable,
    variants: Sequence[Variant],
    *,
    session: MakeSession,
    worker: Worker,
    progress: ProgressBar,
    done: Callable[[], object],
) -> bool:
    """Train and measure those `variants` of a table that are not done yet; False if the user stopped it before.

    Every process of a shared run calls this; `done` is called by the leading one after each variant. `progress` shows
    how far a benchmark is.
    """
    _check_folder(ablation, table)
    if ablation.backbone is None:
        check_backbone_weights(table.base.config(), ablation.backbone_weights)
    for variant in variants:
        if variant.config is None:
            continue
        home = find_home(ablation, table, variant)
        finished = (home / RESULT_FILE).exists()
        worker.wait_for_all()
        if not finished and not _train(ablation, table, variant, home, session=session, worker=worker):
            return False
        if ablation.benchmarks:
            how = session(variant, Recipe(stages=variant.stages))
            _measure_benchmarks(ablation, variant, home, how=how, worker=worker, progress=progress)
        if worker.leads:
            done()
        worker.wait_for_all()
    return True


def find_home(ablation: Ablation, table: AblationTable, variant: Variant) -> Path:
    """The folder of a variant: its own, or that of another row with the same network and training."""
    own = ablation.out / variant.table / variant.name
    if (own / VARIANT_FILE).exists():
        return own
    wanted = _comparable(describe(ablation, table, variant))
    for file in sorted(ablation.out.glob(f"*/*/{VARIANT_FILE}")):
        if _comparable(_read(file)) == wanted:
            return file.parent
    return own


def read_result(home: Path) -> dict[str, Any] | None:
    """The figures of the variant in a folder, None if it is not done."""
    file = home / RESULT_FILE
    return _read(file) if file.exists() else None


def describe(ablation: Ablation, table: AblationTable, variant: Variant) -> dict[str, Any]:
    """Everything that decides the figures of a variant, as plain JSON values."""
    assert variant.config is not None
    start = ablation.start
    description = {
        "format": FORMAT,
        "linstereo": __version__,
        "table": variant.table,
        "variant": variant.name,
        "config": dataclasses.asdict(variant.config),
        "seed": table.base.seed,
        "stages": [dataclasses.asdict(stage) for stage in variant.stages],
        "start": None if start is None else {"checkpoint": start.name, "sha256": start.sha256},
    }
    plain: dict[str, Any] = json.loads(json.dumps(description))
    return plain


def first_weights(ablation: Ablation, config: LinStereoConfig, *, seed: int) -> tuple[LinStereo, list[str]]:
    """A new network with random weights, and those of the shared start that fit; returns the parts taken as well."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build(config, backbone=ablation.backbone)
    return model, [] if ablation.start is None else take_weights(model, ablation.start)


@torch.no_grad()
def take_weights(model: LinStereo, start: SharedStart) -> list[str]:
    """Copy backbone and projections from the shared start, each one whole or not at all; returns what was taken."""
    if model.config.backbone != start.model.config.backbone:
        raise InputError(
            f"{start.name} has the backbone {start.model.config.backbone!r}, but the recipe {model.config.backbone!r}; "
            "give a checkpoint of the same backbone"
        )
    target, source = stored_weights(model), stored_weights(start.model)
    taken = []
    for part in _TAKEN:
        names = [name for name in target if name.startswith(f"{part}.")]
        if names and all(name in source and source[name].shape == target[name].shape for name in names):
            for name in names:
                target[name].copy_(source[name])
            taken.append(part)
    return taken


def thawed(
    stages: Sequence[Stage], model: LinStereo, *, taken: Sequence[str], start: SharedStart | None
) -> list[Stage]:
    """The stages without freezing what nothing has trained yet.

    Projections that were trained for volumes of their own have to learn to be pooled, and the other way round, so they
    count as untrained there. Without a shared start it is an error to freeze what is untrained.
    """
    pooled = model.config.cost_volume == "pooled"
    fits = start is not None and (start.model.config.cost_volume == "pooled") == pooled
    known = tuple(part for part in taken if fits or part == "backbone")
    trainable = set(model.trained_parameters())
    trained = {name for name in trainable if is_frozen(name, known)}
    changed = []
    for stage in stages:
        untrained = [p for p in stage.frozen if any(is_frozen(name, (p,)) for name in trainable - trained)]
        if untrained and start is None:
            raise InputError(
                f"stage {stage.name!r} freezes {untrained[0]!r}, which nothing has trained; give --from CHECKPOINT, or "
                "also run the stage that trains it"
            )
        kept = tuple(prefix for prefix in stage.frozen if prefix not in untrained)
        changed.append(dataclasses.replace(stage, frozen=kept))
        trained |= {name for name in trainable if not is_frozen(name, kept)}
    return changed


def _train(
    ablation: Ablation, table: AblationTable, variant: Variant, home: Path, *, session: MakeSession, worker: Worker
) -> bool:
    """Train one variant, from wherever it stands, and measure it; False if it was stopped before it was done."""
    assert variant.config is not None
    seed = table.base.seed
    model, taken = first_weights(ablation, variant.config, seed=seed)
    stages = thawed(variant.stages, model, taken=taken, start=ablation.start)
    recipe = Recipe(preset=table.base.preset, seed=seed, stages=tuple(stages))
    counted = _count_parameters(model, stages)
    how = dataclasses.replace(session(variant, recipe), folder=home)
    with output_folder(home, notes=[VARIANT_FILE, _START_FILE], leads=worker.leads):
        if worker.leads:
            with keep_last_good(home):
                _prepare(home, describe(ablation, table, variant), model)
        worker.wait_for_all()
        how.say(f"{variant.table}/{variant.name}: {_told(taken, variant, stages, start=ablation.start)}")
        if not train(
            recipe,
            how,
            start=home / _START_FILE,
            backbone_weights=ablation.backbone_weights,
            backbone=ablation.backbone,
        ):
            return False
    if worker.leads:
        figures = {}
        if stages[-1].validation:
            figures = measure(_predictor(ablation, home, how), stages[-1], seed=seed)
        result = {
            "figures": figures,
            **counted,
            "seconds_per_step": _seconds_per_step(home, stages[-1]),
            "taken": taken,
            "frozen": {stage.name: list(stage.frozen) for stage in stages},
        }
        write_json(home / RESULT_FILE, result)
        (home / _START_FILE).unlink(missing_ok=True)
    worker.wait_for_all()
    return True


def measure(predictor: StereoPredictor, stage: Stage, *, seed: int) -> dict[str, Any]:
    """Figures of a network on the validation pairs of a stage, with the stage's T.

    Returns:
        "EPE" (px), "bad3" (per cent) and "occ/EPE" (px, occluded pixels only; None if no pair has labels), means over
        pairs; "pairs", their number; and "EPE of pairs", the EPE of each.
    """

    def predict(sample: StereoSample) -> NDArray[np.float32]:
        return predictor.predict(sample.left, sample.right, iters=stage.iterations, scale=1.0).disparity

    pairs = [measured.figures for measured in ValidationPairs(stage, seed=seed).measure(predict)]
    values = {name: [value for pair in pairs if (value := pair.get(name)) is not None] for name in _FIGURES}
    if not values["EPE"]:
        raise InputError(f"no pair of {', '.join(stage.validation)} has a pixel with ground truth; give other pairs")
    means = {name: statistics.fmean(found) if found else None for name, found in values.items()}
    return {**means, "pairs": len(values["EPE"]), "EPE of pairs": values["EPE"]}


def _measure_benchmarks(
    ablation: Ablation, variant: Variant, home: Path, *, how: Session, worker: Worker, progress: ProgressBar
) -> None:
    """Measure on the benchmarks; images that were measured before are not measured again."""
    method = ModelMethod(_predictor(ablation, home, how), iters=variant.iterations, title=variant.name)
    results = evaluate(
        ablation.benchmarks,
        method,
        out=home / "evaluation",
        worker=worker,
        pictures=0,
        again=False,
        say=how.say,
        progress=progress,
    )
    if results is None:
        return
    content = _read(home / RESULT_FILE)
    content.setdefault("benchmarks", {})
    for result in results:
        protocol = result.benchmark.protocol
        content["benchmarks"][result.benchmark.key] = {
            "images": result.benchmark.count,
            **{column_key("all", metric): result.headline("all", metric) for metric in protocol.metrics},
        }
    write_json(home / RESULT_FILE, content)


def _predictor(ablation: Ablation, home: Path, session: Session) -> StereoPredictor:
    model = load_checkpoint(home / MODEL_FILE, backbone=ablation.backbone, backbone_weights=ablation.backbone_weights)
    return StereoPredictor(model, device=session.device, name=home.name)


def _prepare(home: Path, description: dict[str, Any], model: LinStereo) -> None:
    if not (home / VARIANT_FILE).exists():
        write_json(home / VARIANT_FILE, description)
    save_checkpoint(model, home / _START_FILE)


def _check_folder(ablation: Ablation, table: AblationTable) -> None:
    """Refuse to mix variants of different settings in one table."""
    for variant in table.variants:
        file = ablation.out / variant.table / variant.name / VARIANT_FILE
        if variant.config is None or not file.exists():
            continue
        check_settings(file.parent, _comparable(_read(file)), _comparable(describe(ablation, table, variant)))


def _comparable(description: Mapping[str, Any]) -> dict[str, Any]:
    stages = [{k: v for k, v in stage.items() if k not in _FREE} for stage in description["stages"]]
    start = description["start"]
    return {
        "model": description["config"],
        "seed": description["seed"],
        **{f"stage {stage['name']}": stage for stage in stages},
        "--from": start and start["sha256"][:12],
    }


def _told(taken: Sequence[str], variant: Variant, stages: Sequence[Stage], *, start: SharedStart | None) -> str:
    """What the user reads when a variant begins."""
    if start is None:
        return "starts from random weights"
    text = f"takes {', '.join(taken) or 'nothing'} from {start.name}"
    for before, after in zip(variant.stages, stages, strict=True):
        freed = [prefix for prefix in before.frozen if prefix not in after.frozen]
        if freed:
            text += f"; {', '.join(freed)} cannot be taken as trained, so stage {after.name!r} trains it"
    return text


def _count_parameters(model: LinStereo, stages: Sequence[Stage]) -> dict[str, int]:
    """Parameters of the network, and of what any of the stages changes."""
    trainable = frozenset(model.trained_parameters())
    changed: dict[str, int] = {}
    for stage in stages:
        changed |= {name: p.numel() for name, p in freeze(model, stage, trainable=trainable).items()}
    return {"parameters": sum(p.numel() for p in model.parameters()), "trained": sum(changed.values())}


def _seconds_per_step(home: Path, stage: Stage) -> float:
    """Median over the log of the last stage; without its first entry, in which the loaders start, if there are more."""
    entries = [e for e in read_metrics(home / LOG_FILE) if e.get("kind") == "train" and e.get("stage") == stage.name]
    return float(statistics.median(e["seconds_per_step"] for e in entries[1:] or entries))


def _read(file: Path) -> dict[str, Any]:
    needed = {VARIANT_FILE: ["config", "seed", "stages", "start"], RESULT_FILE: ["figures"]}[file.name]
    return read_json(file, needed=needed, remedy=f"delete the folder {file.parent} to train this variant again")
