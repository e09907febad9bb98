"""`linstereo ablate`: the paper's ablation tables, at a budget of your own."""

import argparse
import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from linstereo.cli.method_options import no_progress, progress_bar
from linstereo.cli.training_session import (
    TrainingDisplay,
    add_session_options,
    check_session_options,
    chosen_recipe,
    chosen_threads,
    default_workers,
    interruptible,
)
from linstereo.data.datasets.naming import parse_dataset
from linstereo.errors import InputError

if TYPE_CHECKING:
    from linstereo.ablation.tables import AblationTable, Variant
    from linstereo.evaluation.runner import Benchmark
    from linstereo.processes import Worker
    from linstereo.training.recipe import Recipe
    from linstereo.training.trainer import Session


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Train every row of the paper's ablation tables, or some of them, all derived from one recipe and "
        "with the same number of steps, and write OUT/TABLE.md, .csv and .json. The same command again resumes where "
        "it stopped; rows that are done are not trained again."
    )
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        dest="tables",
        metavar="TABLE",
        help="components, pala, training, hscv or updater-size; may be given several times (default: all)",
    )
    parser.add_argument(
        "--rows", action="append", default=[], metavar="NAME,...", help="only these rows of the tables (see --list)"
    )
    parser.add_argument("--list", action="store_true", help="print the rows and what they change, then stop")
    parser.add_argument("--config", required=True, metavar="RECIPE", help="the base: paper, compact, or a TOML file")
    parser.add_argument("--out", metavar="DIR", help="folder of the tables and of the runs, DIR/TABLE/ROW")
    parser.add_argument(
        "--steps", type=int, metavar="N", help="steps of each row, over all stages (default: the recipe's)"
    )
    parser.add_argument(
        "--stages",
        action="append",
        default=[],
        metavar="NAME,...",
        help="only these stages of the recipe (default: all; with --from, those that train the decoder)",
    )
    parser.add_argument(
        "--from",
        dest="start",
        metavar="CHECKPOINT",
        help="start every row from the backbone and the projections of this checkpoint (compact is the bundled model), "
        "as far as the row has them",
    )
    parser.add_argument(
        "--benchmark",
        action="append",
        default=[],
        metavar="NAME[:SPLIT]=ROOT",
        help="also measure on this benchmark, as `linstereo evaluate` does; the paper's are kitti2015 and tartanair-uw",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N images of each benchmark")
    add_session_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Train what is left, and write the tables; returns the exit code, as `linstereo.cli.train.run` does."""
    from linstereo.ablation.tables import check_rows

    tables, notes = _tables(options)
    rows = _names(options.rows, option="--rows")
    check_rows(tables, rows)
    if options.list:
        _print_rows(tables, rows)
        return 0
    _check(options, tables[0].base)
    return _ablate(options, tables, rows, notes=notes)


def _ablate(options: argparse.Namespace, tables: "list[AblationTable]", rows: list[str], *, notes: list[str]) -> int:
    from linstereo.ablation.report import write_report
    from linstereo.ablation.run import Ablation, load_start, run_variants
    from linstereo.processes import joined_workers

    ablation = Ablation(
        out=Path(options.out),
        start=load_start(options.start, backbone_weights=options.backbone) if options.start is not None else None,
        benchmarks=_benchmarks(options),
        backbone_weights=options.backbone,
    )
    written: list[Path] = []
    with joined_workers(gpu=True) as worker, chosen_threads(options.threads), interruptible() as interrupted:
        sessions = _Sessions(options, worker=worker, stopping=interrupted)
        if worker.leads and notes:
            print("\n".join(notes), file=sys.stderr)
        for table in tables:
            try:
                finished = run_variants(
                    ablation,
                    table,
                    table.chosen(rows),
                    session=sessions,
                    worker=worker,
                    progress=progress_bar if worker.leads else no_progress,
                    done=partial(write_report, ablation, table),
                )
            finally:
                sessions.close()
            if not finished:
                if worker.leads:
                    print("stopped; the same command resumes from here", file=sys.stderr)
                return interrupted.exit_code
            if worker.leads:
                written += write_report(ablation, table)
    for file in written:
        if file.suffix == ".md":
            print(file.read_text("utf-8"))
    if written:
        print(f"written: {', '.join(map(str, written))}")
    return 0


class _Sessions:
    """Makes the session of one variant after the other, each with a progress bar of its own."""

    def __init__(self, options: argparse.Namespace, *, worker: "Worker", stopping: Callable[[], bool]) -> None:
        from linstereo.backends.devices import pick_device
        from linstereo.training.trainer import Session

        self._worker = worker
        self._display: TrainingDisplay | None = None
        self._session = Session(
            folder=Path(options.out),
            device=pick_device(worker.device() if options.device is None else options.device),
            worker=worker,
            loaders=default_workers() if options.workers is None else options.workers,
            skip_bad=options.skip_bad,
            cache=None if options.cache_features is None else Path(options.cache_features),
            stopping=stopping,
        )

    def __call__(self, variant: "Variant", recipe: "Recipe") -> "Session":
        """See `linstereo.ablation.run.MakeSession`."""
        self.close()
        self._display = TrainingDisplay(recipe, leads=self._worker.leads)
        return dataclasses.replace(self._session, say=self._display.say, on_step=self._display.on_step)

    def close(self) -> None:
        """End the last bar."""
        if self._display is not None:
            self._display.close()


def _tables(options: argparse.Namespace) -> "tuple[list[AblationTable], list[str]]":
    """The tables, and what the user should be told about their pairs."""
    from linstereo.ablation.tables import TABLES, ablation_table, budgeted

    recipe, notes = chosen_recipe(options.config, options)
    stages = _names(options.stages, option="--stages")
    if options.start is not None and not stages:
        stages = [stage.name for stage in recipe.stages if stage.objective != "matching"]
    base = budgeted(recipe, steps=options.steps, stages=stages)
    return [ablation_table(name, base) for name in dict.fromkeys(options.tables or TABLES)], notes


def _benchmarks(options: argparse.Namespace) -> "tuple[Benchmark, ...]":
    from linstereo.evaluation.runner import open_benchmark

    parsed = [parse_dataset(text, what="--benchmark") for text in options.benchmark]
    return tuple(open_benchmark(name, root, split=split, limit=options.limit) for name, split, root in parsed)


def _check(options: argparse.Namespace, base: "Recipe") -> None:
    """Refuse what could only fail after hours of training."""
    from linstereo.runs import check_output_folder
    from linstereo.training.sources import check_sources, require_rendering

    if options.out is None:
        raise InputError("no folder for the results is given; add --out DIR")
    check_session_options(options)
    check_output_folder(options.out)
    if options.limit is not None and options.limit < 1:
        raise InputError(f"--limit is {options.limit}; measure at least 1 image")
    for stage in base.stages:
        if not stage.data:
            raise InputError(f"there is no training data for stage {stage.name!r}; add --data SOURCE")
    require_rendering(source for stage in base.stages for source in (*stage.data, *stage.validation))
    check_sources(base)
    if not base.stages[-1].validation and not options.benchmark:
        raise InputError(
            "there are no pairs to measure the variants on; add --validation SOURCE or --benchmark NAME=ROOT"
        )


def _print_rows(tables: "list[AblationTable]", rows: list[str]) -> None:
    for table in tables:
        print(f"{table.name}: {table.paper.caption}")
        for variant in table.chosen(rows):
            settings = ", ".join(f"{name} {value}" for name, value in variant.settings.items() if value)
            print(
                f"  {variant.name:<18}{settings}{f' (not for this base: {variant.obstacle})' * bool(variant.obstacle)}"
            )
        for note in table.notes:
            print(f"  {note}")


def _names(texts: list[str], *, option: str) -> list[str]:
    names = [name.strip() for text in texts for name in text.split(",")]
    if "" in names:
        raise InputError(f"{option} {','.join(texts)!r} holds an empty name; write NAME,NAME or leave it out for all")
    return names
