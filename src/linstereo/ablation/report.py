"""An ablation table with our figures beside the paper's, as Markdown, CSV and JSON.

OUT/<table>.md     for people, with the notes that are needed to read it
OUT/<table>.csv    the same table, every number with all its digits
OUT/<table>.json   settings and every figure of every variant
"""

import csv
import dataclasses
import io
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from linstereo.ablation.run import Ablation, find_home, read_result
from linstereo.ablation.tables import AblationTable, Variant
from linstereo.evaluation.protocol import get_protocol
from linstereo.evaluation.report import MISSING, Row, Table, column_title, format_value, markdown_table
from linstereo.evaluation.scores import column_key
from linstereo.files import write_file, write_json
from linstereo.training.recipe import Stage
from linstereo.training.recipe_files import recipe_to_json

_FIGURES = (("all", "EPE"), ("all", "bad3"), ("occ", "EPE"))
_PAPER_EPE = "kitti2015/EPE"
_FEWEST_ROWS = 3  # to speak of an order
_COUNTS = {"parameters": "parameters", "trained": "of them trained", "seconds_per_step": "s per step"}


@dataclasses.dataclass(frozen=True)
class _Line:
    """A variant with what is known of it; `result` is None if it is not done."""

    variant: Variant
    home: Path
    result: dict[str, Any] | None

    def figure(self, key: str) -> float | None:
        """One of our figures on the validation pairs."""
        return self.result["figures"].get(key) if self.result else None

    def benchmark(self, column: str) -> float | None:
        """One of our figures on a benchmark, by the paper's column such as "kitti2015/EPE"."""
        name, _, key = column.partition("/")
        value: float | None = self.result.get("benchmarks", {}).get(name, {}).get(key) if self.result else None
        return value


def write_report(ablation: Ablation, table: AblationTable) -> list[Path]:
    """Write the table as it stands, rows that are not done included; returns the files."""
    lines = [_line(ablation, table, variant) for variant in table.variants]
    contents: dict[str, Any] = {
        "md": _markdown(ablation, table, lines),
        "csv": _csv(ablation, table, lines),
        "json": _json(ablation, table, lines),
    }
    files = [ablation.out / f"{table.name}.{suffix}" for suffix in contents]
    for file, content in zip(files, contents.values(), strict=True):
        (write_json if file.suffix == ".json" else write_file)(file, content)
    return files


def _line(ablation: Ablation, table: AblationTable, variant: Variant) -> _Line:
    home = find_home(ablation, table, variant) if variant.config else ablation.out / variant.table / variant.name
    return _Line(variant, home, read_result(home))


def _markdown(ablation: Ablation, table: AblationTable, lines: Sequence[_Line]) -> str:
    text = [f"# Ablation: {table.name}", "", f"The paper's table: {table.paper.caption}", ""]
    text += [f"- {note}" for note in _notes(ablation, table, lines)]
    text += ["", *markdown_table(_table(ablation, table, lines)), ""]
    text += [f"- {remark}" for remark in [*_comparison(table, lines), *_remarks(lines)]]
    return "\n".join(text).rstrip() + "\n"


def _table(ablation: Ablation, table: AblationTable, lines: Sequence[_Line]) -> Table:
    """Settings, our figures, our figures on the paper's benchmarks, the paper's row, and both EPEs against the base."""
    validated = any(line.figure("EPE") is not None for line in lines)
    figures = [column for column in _FIGURES if any(line.figure(column_key(*column)) is not None for line in lines)]
    benchmarks = [column for column in table.paper.columns if _measured(column, ablation)]
    base = next((line for line in lines if table.is_base(line.variant)), None)
    header = [
        *table.columns[1:],
        *(column_title(*column) for column in figures),
        *(["EPE against base"] if validated else []),
        *(_benchmark_title(column) for column in benchmarks),
        *_COUNTS.values(),
        "paper's row",
        *(f"paper: {_benchmark_title(column)}" for column in table.paper.columns),
        "paper: EPE against base",
    ]
    rows = []
    for line in lines:
        result, paper = line.result or {}, line.variant.paper
        own = base.figure("EPE") if base else None
        theirs = base.variant.paper.values[_PAPER_EPE] if base else None
        settings = [line.variant.settings[column] for column in table.columns]
        cells = [
            *settings[1:],
            *(format_value(line.figure(column_key(*column)), column[1]) for column in figures),
            *([_against(line.figure("EPE"), own)] if validated else []),
            *(format_value(line.benchmark(column), column.split("/")[1]) for column in benchmarks),
            *(_count(result.get(name)) for name in _COUNTS),
            paper.method,
            *(paper.printed[column] or MISSING for column in table.paper.columns),
            _against(paper.values[_PAPER_EPE], theirs),
        ]
        rows.append(Row(settings[0], tuple(cells), ours=True))
    return Table(first=table.columns[0], header=tuple(header), rows=tuple(rows))


def _notes(ablation: Ablation, table: AblationTable, lines: Sequence[_Line]) -> list[str]:
    """What a reader must know before comparing, in whole sentences."""
    stages = table.base.stages
    notes = [
        f"The base is the preset {table.base.preset!r}"
        + (f" with {', '.join(f'{k} = {v}' for k, v in table.base.model.items())}" if table.base.model else "")
        + f"; every row was trained with seed {table.base.seed}, on the same pairs in the same order."
    ]
    notes += [_stage_note(stage) for stage in stages]
    if ablation.start is not None:
        notes.append(
            f"All rows start from {ablation.start.name}: its backbone and those of its projections that the row has; "
            "everything else starts from random weights."
        )
    pairs = {line.result["figures"]["pairs"] for line in lines if line.result and line.result["figures"]}
    if pairs:
        notes.append(
            f"EPE, bad3 and occluded EPE are ours, means over {'/'.join(map(str, sorted(pairs)))} pairs of "
            f"{', '.join(stages[-1].validation)}, with the averaged weights after the last step."
        )
    notes += [
        f"{benchmark.protocol.title} is measured on {benchmark.count} of {len(benchmark.names)} images."
        for benchmark in ablation.benchmarks
    ]
    notes += table.notes
    notes.append(
        "The paper's figures are those of its own model, Depth Anything 3 (ViT-B) frozen, 200,000 steps on SceneFlow, "
        "measured on KITTI 2015 and TartanAir-UW. Other data and another budget: compare which rows are better than "
        "which, not the numbers. One seed each: small differences mean nothing."
    )
    return notes


def _stage_note(stage: Stage) -> str:
    what = "features alone (matching loss)" if stage.objective == "matching" else f"T = {stage.iterations}"
    frozen = f", frozen: {', '.join(stage.frozen)}" if stage.frozen else ""
    height, width = stage.crop
    steps = f"{stage.steps} step{'s' * (stage.steps > 1)}"
    return (
        f"Stage {stage.name!r}: {steps}, batch {stage.batch}, crops of {height} x {width} px, peak "
        f"learning rate {stage.learning_rate:g}, {what}{frozen}, data: {', '.join(stage.data)}."
    )


def _remarks(lines: Sequence[_Line]) -> list[str]:
    """What is special about single rows."""
    missing = [line.variant.name for line in lines if line.result is None and not line.variant.obstacle]
    remarks = [f"Not trained yet: {', '.join(missing)}."] if missing else []
    for line in lines:
        variant = line.variant
        if variant.obstacle:
            remarks.append(f"{variant.name}: this base does not allow it ({variant.obstacle}).")
        elif line.result is not None:
            if line.home.parts[-2:] != (variant.table, variant.name):
                remarks.append(f"{variant.name}: the same network and training as {'/'.join(line.home.parts[-2:])}.")
            for stage in variant.stages:
                freed = [p for p in stage.frozen if p not in line.result["frozen"][stage.name]]
                if freed:
                    remarks.append(
                        f"{variant.name}: {', '.join(freed)} trained in stage {stage.name!r} too, since the shared "
                        "start has none that were trained for this."
                    )
    return remarks


def _comparison(table: AblationTable, lines: Sequence[_Line]) -> list[str]:
    """How far our rows are ordered as the paper's, and what each component does on average."""
    runs = {line.home: line for line in reversed(lines)}  # rows that share a run count once
    done = [(line, epe) for line in reversed(runs.values()) if (epe := line.figure("EPE")) is not None]
    theirs = [line.variant.paper.values[_PAPER_EPE] or 0.0 for line, _ in done]
    ours = [epe for _, epe in done]
    if len(done) < _FEWEST_ROWS or len(set(theirs)) == 1 or len(set(ours)) == 1:
        return []
    order = spearman(ours, theirs)
    told = [
        f"The order of the {len(done)} trained networks by EPE against the paper's on KITTI 2015: Spearman's rank "
        f"correlation {order:+.2f} (1: the same order, 0: unrelated, -1: the reverse)."
    ]
    if table.name == "components":
        pairs = {tuple(line.variant.settings.values()): (line, epe) for line, epe in done}
        told += filter(None, (_effect(pairs, column, name) for column, name in enumerate(table.columns)))
    return told


def _effect(rows: Mapping[tuple[str, ...], tuple[_Line, float]], column: int, name: str) -> str:
    """What a component changes, averaged over the combinations of the others that were trained with and without it."""
    ours, paper = [], []
    for settings, (line, epe) in rows.items():
        other = rows.get((*settings[:column], "yes", *settings[column + 1 :]))
        if settings[column] == "no" and other is not None:
            before, after = (x.variant.paper.values[_PAPER_EPE] or 0.0 for x in (line, other[0]))
            ours.append(other[1] / epe - 1)
            paper.append(after / before - 1)
    if not ours:
        return ""
    here, there, least, most = (
        100 * x for x in (statistics.fmean(ours), statistics.fmean(paper), min(ours), max(ours))
    )
    return (
        f"{name} changes the EPE by {here:+.0f} % here and by {there:+.0f} % in the paper, mean over {len(ours)} "
        f"combinations of the other two (here from {least:+.0f} to {most:+.0f} %)."
    )


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Rank correlation of two equally long lists, in [-1, 1]; equal values share their mean rank, not all are equal."""
    return statistics.correlation(*([_rank(x, values) for x in values] for values in (first, second)))


def _rank(value: float, values: Sequence[float]) -> float:
    return sum(v < value for v in values) + sum(v == value for v in values) / 2


def _csv(ablation: Ablation, table: AblationTable, lines: Sequence[_Line]) -> str:
    benchmarks = [column for column in table.paper.columns if _measured(column, ablation)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            "variant",
            *table.columns,
            *(column_key(*column) for column in _FIGURES),
            *benchmarks,
            *_COUNTS,
            "paper/row",
            *(f"paper/{column}" for column in table.paper.columns),
        ]
    )
    for line in lines:
        result = line.result or {}
        values = [
            *(line.figure(column_key(*column)) for column in _FIGURES),
            *(line.benchmark(column) for column in benchmarks),
            *(result.get(name) for name in _COUNTS),
        ]
        writer.writerow(
            [
                line.variant.name,
                *(line.variant.settings[column] for column in table.columns),
                *("" if value is None else value for value in values),
                line.variant.paper.method,
                *(line.variant.paper.printed[column] for column in table.paper.columns),
            ]
        )
    return out.getvalue()


def _json(ablation: Ablation, table: AblationTable, lines: Sequence[_Line]) -> dict[str, Any]:
    start = ablation.start
    return {
        "table": table.name,
        "paper_table": {"name": table.paper.name, "label": table.paper.label, "paper": table.paper.paper},
        "base": json.loads(recipe_to_json(table.base)),
        "base_network": dataclasses.asdict(table.base.config()),
        "start": None if start is None else {"checkpoint": start.name, "sha256": start.sha256},
        "notes": _notes(ablation, table, lines),
        "rows": [
            {
                "variant": line.variant.name,
                "settings": dict(line.variant.settings),
                "is_base": table.is_base(line.variant),
                "network": dataclasses.asdict(line.variant.config) if line.variant.config else None,
                "obstacle": line.variant.obstacle or None,
                "run": "/".join(line.home.parts[-2:]) if line.result else None,
                "result": line.result,
                "paper": {"row": line.variant.paper.method, **line.variant.paper.values},
            }
            for line in lines
        ],
    }


def _measured(column: str, ablation: Ablation) -> bool:
    return column.split("/")[0] in [benchmark.key for benchmark in ablation.benchmarks]


def _benchmark_title(column: str) -> str:
    name, _, metric = column.partition("/")
    return f"{get_protocol(name).title} {column_title('all', metric)}"


def _against(value: float | None, base: float | None) -> str:
    return MISSING if value is None or not base else f"{100 * (value / base - 1):+.0f} %"


def _count(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
