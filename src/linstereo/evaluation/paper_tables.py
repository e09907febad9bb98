"""The tables of the LinStereo paper, kept as data so that a result can stand beside the published ones.

One CSV file per table in the folder `tables` beside this module; `sources.json` there says where each
comes from. A column `kitti2015/EPE` holds that metric of the protocol `kitti2015`; other regions than `all`
stand between, as in `middlebury/occ/EPE`. Numbers keep the digits they are printed with. The paper's "Ours"
is called LinStereo, with its number of iterations T where the paper says it.
"""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

from linstereo.errors import InputError
from linstereo.evaluation.protocol import get_protocol

_FOLDER = files("linstereo.evaluation") / "tables"
_LABELS = ("method", "extra_data")

# The tables that compare methods; of tables with the same figures, only the one with most digits.
_RESULT_TABLES = ("general", "underwater_full", "realtime_underwater", "tank_full")


@dataclass(frozen=True)
class PaperRow:
    """One row of a table.

    extra_data: whether the method was trained on more than SceneFlow; None where the table does not say.
    settings: the columns that describe the row rather than measure it, as text.
    values: the measured columns; None where the paper prints none.
    printed: the same columns with the paper's own digits; empty where it prints none.
    """

    method: str
    extra_data: bool | None
    settings: Mapping[str, str]
    values: Mapping[str, float | None]
    printed: Mapping[str, str]


@dataclass(frozen=True)
class PaperTable:
    """One table: where it stands, what it shows in our words, and its rows in the paper's order."""

    name: str
    paper: str
    venue: str
    part: str
    label: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[PaperRow, ...]


class PublishedResult(NamedTuple):
    """What the paper reports for one method on one benchmark, by the column names of that benchmark."""

    method: str
    extra_data: bool
    values: dict[str, float]


def load_table(name: str) -> PaperTable:
    """Read one table; `InputError` with the known names if there is no such table."""
    sources = _sources()
    if name not in sources["tables"]:
        raise InputError(f"the paper has no table {name!r}; choose among {', '.join(sources['tables'])}")
    source = sources["tables"][name]
    lines = (_FOLDER / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    reader = csv.DictReader(lines, strict=True)
    header = tuple(reader.fieldnames or ())
    columns = tuple(column for column in header if column not in (*_LABELS, *source["settings"]))
    return PaperTable(
        name=name,
        paper=sources["paper"],
        venue=sources["venue"],
        part=source["part"],
        label=source["label"],
        caption=source["caption"],
        columns=columns,
        rows=tuple(_row(record, columns=columns, settings=source["settings"]) for record in reader),
    )


def rows_for_protocol(protocol_name: str) -> list[PublishedResult]:
    """The published results on one benchmark, methods without extra data first; empty if the paper has none.

    The keys of `values` are those of `linstereo.evaluation.scores.column_key`, such as "EPE" or "occ/EPE".
    Where the paper prints a figure twice, the one with more digits is given.
    """
    prefix = f"{get_protocol(protocol_name).name}/"
    found: dict[str, PublishedResult] = {}
    for name in _RESULT_TABLES:
        for row in load_table(name).rows:
            values = {
                column.removeprefix(prefix): value
                for column, value in row.values.items()
                if column.startswith(prefix) and value is not None
            }
            if values and row.method not in found:
                found[row.method] = PublishedResult(row.method, bool(row.extra_data), values)
    return sorted(found.values(), key=lambda result: result.extra_data)


def _sources() -> dict[str, Any]:
    sources: dict[str, Any] = json.loads((_FOLDER / "sources.json").read_text(encoding="utf-8"))
    return sources


def _row(record: Mapping[str, str], *, columns: tuple[str, ...], settings: list[str]) -> PaperRow:
    extra_data = record.get("extra_data")
    return PaperRow(
        method=record["method"],
        extra_data=None if extra_data is None else extra_data == "yes",
        settings={column: record[column] for column in settings},
        values={column: float(record[column]) if record[column] else None for column in columns},
        printed={column: record[column] for column in columns},
    )
