"""The paper's ablation tables as lists of training runs, derived from any base recipe.

A variant is a row of a table: the base's network and stages with the row's change, at a budget of steps that is the
same for all. Where the paper varies a number of the training, the base's own is varied by the same factor.
`linstereo.ablation.run` trains the variants, `linstereo.ablation.report` writes the tables.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from linstereo.errors import InputError
from linstereo.evaluation.paper_tables import PaperRow, PaperTable, load_table
from linstereo.model.presets import PAPER, LinStereoConfig, ablations, scaled_widths
from linstereo.training.recipe import Recipe, Stage

TABLES = {
    "components": "ablation_components",
    "pala": "ablation_pala",
    "training": "ablation_training",
    "hscv": "hyperparameters_hscv",
    "updater-size": "hyperparameters_pala",
}
"""Names of the tables, and of the paper's figures in `linstereo.evaluation.paper_tables`."""

_PAPER_RECIPE = Stage()  # its defaults are the paper's
_SWEEPS = {
    "correlation levels": "levels",
    "update scales": "scales",
    "blocks per updater": "blocks",
    "heads": "heads",
    "hidden width": "hidden",
}


@dataclasses.dataclass(frozen=True)
class Variant:
    """One row of a table.

    table: name of its table.
    name: unique in the table, usable as the name of a folder.
    settings: what describes the row, by the table's columns.
    paper: the paper's row.
    config: settings of the network; None if the base does not allow this row.
    stages: how it is trained.
    obstacle: why the base does not allow it; empty if it does.
    """

    table: str
    name: str
    settings: Mapping[str, str]
    paper: PaperRow
    config: LinStereoConfig | None
    stages: tuple[Stage, ...]
    obstacle: str = ""

    @property
    def iterations(self) -> int:
        """T of the last stage, with which the variant is measured."""
        return self.stages[-1].iterations


@dataclasses.dataclass(frozen=True)
class AblationTable:
    """A table of the paper with our variants of its rows.

    name: see `TABLES`.
    paper: the paper's table.
    base: the recipe that all variants are derived from, at the budget they are trained with.
    columns: what describes a row.
    variants: the rows, in the paper's order.
    notes: what a reader must know of how the rows were derived from this base, in whole sentences.
    """

    name: str
    paper: PaperTable
    base: Recipe
    columns: tuple[str, ...]
    variants: tuple[Variant, ...]
    notes: tuple[str, ...]

    def chosen(self, rows: Sequence[str]) -> tuple[Variant, ...]:
        """The variants called `rows`; all of them if there is no name."""
        return tuple(variant for variant in self.variants if not rows or variant.name in rows)

    def is_base(self, variant: Variant) -> bool:
        """Whether the row's change is none for this base."""
        return variant.config == self.base.config() and variant.stages == self.base.stages


class _Row(NamedTuple):
    name: str
    settings: dict[str, str]
    changes: Mapping[str, Any]
    """of the network"""
    stages: tuple[Stage, ...]


def budgeted(recipe: Recipe, *, steps: int | None, stages: Sequence[str]) -> Recipe:
    """The recipe with only the stages called `stages`, in its own order, and `steps` steps in all.

    The stages share the steps as they do in the recipe; None leaves their numbers as they are.
    """
    names = [stage.name for stage in recipe.stages]
    for name in stages:
        if name not in names:
            raise InputError(f"the recipe has no stage {name!r}; choose among {', '.join(names)}")
    kept = [stage for stage in recipe.stages if not stages or stage.name in stages]
    if kept[-1].objective != "sequence":
        raise InputError(
            f"the last stage, {kept[-1].name!r}, trains no decoder, which all tables vary; add one that does"
        )
    if steps is not None:
        if steps < len(kept):
            raise InputError(f"{steps} steps are too few for {len(kept)} stages; give at least one for each")
        total = sum(stage.steps for stage in kept)
        ends = [round(steps * sum(s.steps for s in kept[: i + 1]) / total) for i in range(len(kept))]
        ends = [max(end, i + 1) for i, end in enumerate(ends)]
        ends = [min(end, steps - (len(kept) - 1 - i)) for i, end in enumerate(ends)]
        starts = [0, *ends[:-1]]
        kept = [
            dataclasses.replace(stage, steps=end - start) for stage, start, end in zip(kept, starts, ends, strict=True)
        ]
    return dataclasses.replace(recipe, stages=tuple(kept))


def ablation_table(name: str, base: Recipe) -> AblationTable:
    """The table called `name`, one of `TABLES`, with every row derived from the recipe `base`."""
    if name not in TABLES:
        raise InputError(f"there is no ablation table {name!r}; choose among {', '.join(TABLES)}")
    paper = load_table(TABLES[name])
    config = base.config()
    describe = _DESCRIPTIONS[name]
    rows = [describe(row, base) for row in paper.rows]
    return AblationTable(
        name=name,
        paper=paper,
        base=base,
        columns=tuple(rows[0].settings),
        variants=tuple(_variant(name, row, config, paper=p) for row, p in zip(rows, paper.rows, strict=True)),
        notes=_notes(name, config),
    )


def check_rows(tables: Sequence[AblationTable], rows: Sequence[str]) -> None:
    """Refuse a name that is no row of any of the tables."""
    known = [variant.name for table in tables for variant in table.variants]
    for row in rows:
        if row not in known:
            raise InputError(f"there is no row {row!r}; choose among {', '.join(dict.fromkeys(known))}")


def _variant(table: str, row: _Row, base: LinStereoConfig, *, paper: PaperRow) -> Variant:
    config, obstacle = None, ""
    try:
        config = dataclasses.replace(base, **row.changes)
        if not row.stages:
            obstacle = "the base's batch cannot be halved"
    except InputError as error:
        obstacle = str(error)
    return Variant(table, row.name, row.settings, paper, None if obstacle else config, row.stages, obstacle)


def _component_row(row: PaperRow, base: Recipe) -> _Row:
    config = base.config()
    used = row.settings
    first = "pooled" if used["HSCV"] == "pooled" else "hscv" if used["HSCV"] == "yes" else ""
    parts = [first, "dpi" if used["DPI"] == "yes" else "", "pala" if used["PALA"] == "yes" else ""]
    name = "-".join(filter(None, parts)) or "none"
    start = "start from correlations" if _stands_in(config) else "DPI"
    return _Row(
        name,
        {"HSCV": used["HSCV"], start: used["DPI"], "PALA": used["PALA"]},
        ablations(config)[f"components-{name}"],
        base.stages,
    )


def _pala_row(row: PaperRow, base: Recipe) -> _Row:
    name = row.settings["step"].lower() or "symmetric-rope"
    settings = {"step": row.settings["step"], "PALA block": row.method}
    return _Row(name, settings, ablations(base.config())[f"pala-{name}"], base.stages)


def _sweep_row(row: PaperRow, base: Recipe) -> _Row:
    config = base.config()
    field, value = _SWEEPS[row.settings["sweep"]], int(row.settings["value"])
    if field == "hidden":
        value = scaled_widths(config, value / PAPER.hidden)["hidden"]
    name = f"{field}-{value}"
    return _Row(name, {"varied": row.settings["sweep"], "value": str(value)}, ablations(config)[name], base.stages)


def _training_row(row: PaperRow, base: Recipe) -> _Row:
    """Learning rate, batch or T times the factor by which the paper's row differs from the paper's recipe."""
    rate = float(row.settings["learning_rate"]) / _PAPER_RECIPE.learning_rate
    batch = float(row.settings["batch_size"]) / _PAPER_RECIPE.batch
    iterations = float(row.settings["iterations"]) / _PAPER_RECIPE.iterations
    factors = {"lr": rate, "batch": batch, "iterations": iterations}
    varied = [f"{name}-{factor:g}x" for name, factor in factors.items() if factor != 1]
    whole = all((stage.batch * batch).is_integer() for stage in base.stages)
    stages = (
        tuple(_scaled_stage(s, rate=rate, batch=batch, iterations=iterations) for s in base.stages) if whole else ()
    )
    last = (stages or base.stages)[-1]
    settings = {
        "learning rate": f"{last.learning_rate:g}",
        "batch": f"{last.batch if whole else base.stages[-1].batch * batch:g}",
        "T": str(last.iterations),
    }
    changes = {"iterations": _times(base.config().iterations, iterations)} if iterations != 1 else {}
    return _Row("-".join(varied) or "base", settings, changes, stages)


def _scaled_stage(stage: Stage, *, rate: float, batch: float, iterations: float) -> Stage:
    pairs = int(stage.batch * batch)
    return dataclasses.replace(
        stage,
        learning_rate=stage.learning_rate * rate,
        batch=pairs,
        accumulate=stage.accumulate if pairs % stage.accumulate == 0 else 1,
        iterations=_times(stage.iterations, iterations),
    )


def _times(count: int, factor: float) -> int:
    """A whole number, at least 1; halves are rounded up."""
    return max(1, int(count * factor + 0.5))


def _stands_in(config: LinStereoConfig) -> bool:
    """Whether the complete network starts from correlations instead of DPI."""
    return bool(ablations(config)["components-hscv-dpi-pala"]["start"] == "correlation")


def _notes(table: str, config: LinStereoConfig) -> tuple[str, ...]:
    notes = []
    if _stands_in(config):
        notes.append(
            "This base has no monocular depth: DPI needs the weights of Depth Anything 3. Where the paper starts from "
            "DPI, these networks start from the best matches of their own correlations, which stands in for it; where "
            "the paper starts without DPI, they start from zero as the paper's do."
        )
    if table == "training":
        notes.append(
            "Learning rate, batch and T are the base's times the factors of the paper's rows (T rounded, at least 1); "
            "the table shows those of the last stage. Every row has the same number of steps, so a larger batch sees "
            "more pairs."
        )
    if table == "updater-size" and config.hidden != PAPER.hidden:
        notes.append(
            f"The hidden width is the base's {config.hidden} times the factors of the paper's rows (64, 96, 128 and "
            f"256 of 128), rounded down to multiples of {4 * config.heads}."
        )
    return tuple(notes)


_DESCRIPTIONS: dict[str, Callable[[PaperRow, Recipe], _Row]] = {
    "components": _component_row,
    "pala": _pala_row,
    "training": _training_row,
    "hscv": _sweep_row,
    "updater-size": _sweep_row,
}
