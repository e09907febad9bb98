"""Every figure of the data files against the LaTeX source of the paper, if it lies beside the project."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from linstereo.errors import InputError
from linstereo.evaluation.paper_tables import PaperTable, _sources, load_table, rows_for_protocol
from linstereo.evaluation.protocol import get_protocol, protocol_names
from linstereo.evaluation.scores import column_key

SOURCE = Path(__file__).resolve().parents[3] / "shared" / "paper" / "linstereo.tex"
TABLES = tuple(_sources()["tables"])
NUMBER = re.compile(r"\d+(?:\.\d+)?")
METRIC = re.compile(r"AbsRel|SqRel|Log ?RMSE|RMSE|A[123]|EPE|bad\d")
GROUPS = {
    "kitti2015": "KITTI 2015", "kitti2012": "KITTI 2012", "middlebury": "Middlebury (H)", "eth3d": "ETH3D",
    "booster": "Booster (Q)", "tartanair-uw": "TartanAir UW", "squid": "SQUID", "tank": "Laboratory Tank",
}  # fmt: skip
ITERATIONS_IN_TEXT = {"underwater": "(T=8)", "realtime_underwater": "(T=2)", "efficiency": "(T=2)"}
UNITS = {
    "efficiency": {
        "parameters_million": "Params (M)",
        "gflops": "GFLOPs",
        "time_ms": "Time (ms)",
        "fps": "FPS",
    },
    "iteration_latency": {"latency_ms": "Latency (ms)", "ci95_ms": ""},
}
SWEEPS = {
    "correlation levels": r"$L_\text{corr}$", "update scales": r"$n_\text{scales}$",
    "blocks per updater": r"$N_\text{block}$", "heads": "Heads", "hidden width": "Hidden dim",
}  # fmt: skip


@pytest.fixture(scope="module")
def source() -> str:
    if not SOURCE.is_file():
        pytest.skip("the paper's source (../shared/paper/linstereo.tex beside the project) is not here")
    return SOURCE.read_text(encoding="utf-8")


def tabular(source: str, table: PaperTable) -> tuple[str, str]:
    """Header and body of the table's LaTeX, without the little tables that break a heading into two lines."""
    end = r"\end{tabular}"
    start = source.index(rf"\label{{{table.label}}}")
    text = source[start : source.index(r"\end{table", start)]
    text = text.replace(r"\begin{tabular}[c]{@{}c@{}}Extra\\Data" + end, "Extra Data")
    inner = text.split(r"\begin{tabular}")[1:]
    chosen = inner[1 if table.name == "ablation_training" else 0].split(end)[0]
    header, _, body = chosen.partition(r"\midrule")
    return header, body.split(r"\bottomrule")[0]


def plain(cell: str) -> str:
    """A cell as a reader sees it: no colours, no bold, no citations, no rules."""
    cell = re.sub(r"\\(?:row|cell)color\[rgb\]\s*\{[\d., ]*\}", "", cell)
    cell = re.sub(r"~?\\cite\{\w+\}|\\midrule|\\boldmath|\\quad|\\!", "", cell)
    previous = ""
    while previous != cell:
        previous = cell
        cell = re.sub(r"\\(?:textbf|underline)\{([^{}]*)\}", r"\1", cell)
    cell = re.sub(r"\\multirow\{\d\}\{\*\}\{(.*)\}", r"\1", cell)
    return cell.replace("~", " ").strip()


def printed_rows(source: str, table: PaperTable) -> list[list[str]]:
    _, body = tabular(source, table)
    lines = [line for line in body.split(r"\\") if NUMBER.search(re.sub(r"\\rowcolor.*", "", line))]
    rows = [[plain(cell) for cell in line.split("&")] for line in lines]
    if "sweep" in table.rows[0].settings:  # the name of a sweep is printed in its first row only
        for above, row in pairwise(rows):
            row[0] = row[0] or above[0]
    return rows


def squeeze(name: str) -> str:
    """A method's name without spaces, with our spelling of what the paper writes in formulas."""
    return re.sub(r"\(\$(T=\d)\$\)", r"(\1)", name).replace(r"$^\dagger$", "†").replace(" ", "")


def figures(cell: str) -> list[str]:
    if cell == "--":
        return [""]
    parts = cell.strip("$").split(r"\pm")
    assert all(NUMBER.fullmatch(part.strip()) for part in parts), cell
    return [part.strip() for part in parts]


@pytest.mark.parametrize("name", TABLES)
def test_every_figure_is_the_printed_one(name, source):
    table = load_table(name)
    rows = printed_rows(source, table)
    assert len(rows) == len(table.rows)
    cells = 1 if name == "iteration_latency" else len(table.columns)
    for row, printed in zip(table.rows, rows, strict=True):
        values = [figure for cell in printed[-cells:] for figure in figures(cell)]
        assert list(row.printed.values()) == values, row.method
        assert [*row.values.values()] == [float(value) if value else None for value in values]


@pytest.mark.parametrize("name", TABLES)
def test_every_row_and_column_is_what_it_is_called(name, source):
    table = load_table(name)
    for row, printed in zip(table.rows, printed_rows(source, table), strict=True):
        check_label(table, row, printed)
    header, _ = tabular(source, table)
    if name in UNITS:
        assert table.columns == tuple(UNITS[name])
        places = [header.index(unit) for unit in UNITS[name].values() if unit]
        assert places == sorted(places)
    else:
        check_columns(table, header)


def check_label(table, row, printed) -> None:
    match table.name:
        case "ablation_components":
            if row.settings["HSCV"] == "pooled":
                assert printed[0] == r"\multicolumn{3}{l}{HSCV (pooled) + DPI + PALA}"
                assert row.method == "HSCV (pooled) + DPI + PALA"
                assert list(row.settings.values()) == ["pooled", "yes", "yes"]
            else:
                flags = ["yes" if cell == r"\checkmark" else "no" for cell in printed[:3]]
                assert list(row.settings.values()) == flags
                enabled = [part for part, flag in zip(("HSCV", "DPI", "PALA"), flags, strict=True) if flag == "yes"]
                assert row.method == (" + ".join(enabled) or "baseline")
        case "ablation_training":
            rate = re.fullmatch(r"\$(\d)\\times10\^\{-(\d)\}\$", printed[0])
            assert rate is not None
            expected = [f"{rate[1]}e-{rate[2]}", printed[1], printed[2]]
            assert list(row.settings.values()) == expected
            assert row.method == "LR {}, batch {}, T={}".format(*expected)
        case "ablation_pala":
            assert (f"({row.settings['step']})" if row.settings["step"] else "") == printed[0]
            assert row.method == printed[1]
        case "hyperparameters_hscv" | "hyperparameters_pala":
            assert SWEEPS[row.settings["sweep"]] == printed[0]
            assert row.settings["value"] == printed[1].removesuffix(" (ours)")
            assert row.method == f"{row.settings['sweep']} = {row.settings['value']}"
        case "iteration_latency":
            assert squeeze(row.method) == squeeze(printed[0]).replace("PALA(Ours)", "LinStereoPALA")
        case _:
            ours = "LinStereo" + ITERATIONS_IN_TEXT.get(table.name, "")
            assert squeeze(row.method) == squeeze(printed[0]).replace("Ours", ours)
            if row.extra_data is not None:
                assert printed[1] == (r"$\checkmark$" if row.extra_data else "---")


def check_columns(table, header) -> None:
    header = header.replace("-UW", " UW").replace("Log RMSE", "LogRMSE")
    metrics = [column.split("/")[-1] for column in table.columns]
    if table.name == "general":  # its second heading line holds all but Middlebury, the third only Middlebury
        regions = [column.count("/") and column.split("/")[1] for column in table.columns if "bury" in column]
        assert regions == ["EPE", "bad2", "nonocc", "nonocc", "occ", "occ"]
        assert re.findall(r"\{(All|NonOcc|Occ)\}", header) == ["All", "NonOcc", "Occ"]
        metrics = metrics[:4] + metrics[10:] + metrics[4:10]
    assert METRIC.findall(header) == metrics
    groups = list(dict.fromkeys(column.split("/")[0] for column in table.columns))
    if table.name != "tank_full":  # one benchmark, named in the caption
        places = [header.index(GROUPS[group]) for group in groups]
        assert places == sorted(places)
        for group in groups:
            width = sum(column.startswith(f"{group}/") for column in table.columns)
            assert rf"\multicolumn{{{width}}}{{c}}{{{GROUPS[group]}}}" in header


def test_no_table_of_the_paper_is_missing(source):
    labels = set(re.findall(r"\\label\{(tab:\w+)\}", source))
    assert labels == {load_table(name).label for name in TABLES}
    count = sum(value is not None for name in TABLES for row in load_table(name).rows for value in row.values.values())
    assert count == 1115


def test_title_is_that_of_the_paper(source):
    for name in TABLES:
        table = load_table(name)
        assert rf"\title{{{table.paper}}}" in source
        assert table.venue.startswith("ECCV")
        assert table.caption


def test_unknown_table_lists_the_known_ones():
    with pytest.raises(InputError, match="no table 'table1'; choose among general, underwater"):
        load_table("table1")


def test_rows_are_well_formed_without_the_source():
    for name in TABLES:
        table = load_table(name)
        assert table.rows
        assert len({row.method for row in table.rows}) == len(table.rows)
        for row in table.rows:
            assert tuple(row.values) == tuple(row.printed) == table.columns
            assert row.method
            assert all(column.split("/")[0] in protocol_names() for column in table.columns if "/" in column)


@pytest.mark.parametrize("name", protocol_names())
def test_published_rows_fit_the_columns_of_the_protocol(name):
    protocol = get_protocol(name)
    columns = {column_key(region, metric) for region in protocol.regions for metric in protocol.metrics}
    for method, extra_data, values in rows_for_protocol(name):
        assert method
        assert isinstance(extra_data, bool)
        assert set(values) <= columns
        assert values


def test_published_rows_come_with_most_digits():
    tank = {row.method: row.values for row in rows_for_protocol("tank")}
    assert tank["LinStereo (T=8)"]["AbsRel"] == 0.0423
    squid = rows_for_protocol("squid")
    assert {row.method: row.values["AbsRel"] for row in squid if "LinStereo" in row.method} == {
        "LinStereo (T=8)": 0.045,
        "LinStereo (T=2)": 0.05,
    }
    assert [row.extra_data for row in squid] == sorted(row.extra_data for row in squid)
    middlebury = {row.method: row.values for row in rows_for_protocol("middlebury")}
    assert middlebury["LinStereo (ViT-B)"]["occ/EPE"] == 1.33
    assert len(rows_for_protocol("kitti2015")) == 16
    assert rows_for_protocol("folder") == []


@pytest.mark.parametrize(("rounded", "full"), [("underwater", "underwater_full"), ("tank", "tank_full")])
def test_rounded_and_full_tables_agree(rounded, full):
    precise = {row.method: row.values for row in load_table(full).rows}
    for row in load_table(rounded).rows:
        for column, value in row.values.items():
            assert value == pytest.approx(precise[row.method][column], abs=0.00501), (row.method, column)
