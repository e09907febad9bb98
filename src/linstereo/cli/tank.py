"""`linstereo tank`: make a target, render it, and make ground truth from its tags and its CAD model."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from linstereo.cli.options import Subparsers, image_size

if TYPE_CHECKING:
    from linstereo.tank.target import TargetDesign

_PAPERS = ("a4", "a3", "a2", "a1", "a0", "letter", "tabloid")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    parser.description = (
        "Measure stereo under water with a target of known geometry: design one (target), photograph it, "
        "and turn the pairs into a benchmark with metric ground truth (ground-truth). `render` makes pictures of the "
        "target in a tank, to try it all out."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_target(actions)
    _add_ground_truth(actions)
    _add_render(actions)


def _add_target(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "target",
        help="design a target: printable tag sheets, a mesh, and the tag layout",
        description="Design a target of plates with AprilTags 16h5, rails and taut ropes. Writes tags.pdf and "
        "tags-1.svg ... at true scale, target.obj and target.stl in metres, and the tag layout tags.json.",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="output folder")
    _add_design(parser)
    parser.add_argument("--paper", choices=_PAPERS, default="a4", help="paper of the tag sheets (default: a4)")
    parser.set_defaults(run=run_target)


def _add_design(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("design")
    for name, default, meaning in (
        ("tag-size", 40, "side of a tag's black square"),
        ("opening", 300, "width between the upright plates"),
        ("stagger", 120, "distance of the third plate behind the others; 0 leaves it out"),
        ("rope-diameter", 3, "diameter of the ropes"),
        ("thickness", 5, "thickness of the plates"),
        ("rail", 15, "side of the square rails"),
    ):
        group.add_argument(
            f"--{name}", type=float, default=default, metavar="MM", help=f"{meaning}, mm (default: {default})"
        )
    group.add_argument("--tags", type=int, default=5, metavar="N", help="tags on each plate (default: 5)")
    group.add_argument("--ropes", type=int, default=5, metavar="N", help="ropes, the last one aslant (default: 5)")


def _add_ground_truth(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "ground-truth",
        help="depth and disparity of a target in rectified pairs, from its tags and its CAD model",
        description="Find the AprilTags 16h5 of a target in the left images, solve for its pose, and render metric "
        "depth and disparity of its CAD model. Pairs that fail a threshold are listed with the reason, not written. "
        "The output folder is a session of the benchmark `tank`. An interrupted run resumes when it is started "
        "again.",
    )
    parser.add_argument("pairs", metavar="SESSION", help="folder with left/, right/ and calib.json (or calib.txt)")
    parser.add_argument("--layout", required=True, metavar="FILE", help="tag layout, JSON")
    parser.add_argument("--mesh", required=True, metavar="FILE", help="CAD model: .stl, .obj, .ply or .glb")
    parser.add_argument("--mesh-unit", choices=("m", "mm"), default="m", help="unit of the mesh (default: m)")
    parser.add_argument("--rope-mesh", metavar="FILE", help="a second mesh that holds the ropes")
    parser.add_argument("--calib", metavar="FILE", help="calibration of all pairs, instead of that in the folder")
    parser.add_argument("--out", required=True, metavar="DIR", help="output folder, such as ROOT/session1")
    group = parser.add_argument_group("thresholds")
    group.add_argument("--min-tags", type=int, default=2, metavar="N", help="least number of tags (default: 2)")
    group.add_argument(
        "--max-reprojection", type=float, default=1.0, metavar="PX", help="largest corner error, RMS, px (default: 1)"
    )
    group.add_argument(
        "--max-depth-error", type=float, default=2.0, metavar="MM", help="largest estimated depth error (default: 2 mm)"
    )
    group.add_argument(
        "--max-disparity-error",
        type=float,
        default=1.0,
        metavar="PX",
        help="largest difference between the tags' disparity in the pair and in the ground truth (default: 1 px)",
    )
    parser.set_defaults(run=run_ground_truth)


def _add_render(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "render",
        help="pictures of a target in a tank under water, with their true depth",
        description="Render stereo pairs of a target (see `target` for its measures) in a tank under water, from "
        "random sides, with the faults of real cameras. Writes left/, right/, calib.json, true_depth/ (the renderer's "
        "own depth), and the target itself in target/.",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="output folder")
    parser.add_argument("--count", type=int, default=8, metavar="N", help="number of pairs (default: 8)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="which series of pairs (default: 0)")
    parser.add_argument(
        "--water", metavar="TYPE", help="Jerlov type I, IA, IB, II, III, 1C or 3C (default: all in turn)"
    )
    parser.add_argument("--size", type=image_size, metavar="HEIGHTxWIDTH", help="size of the images (default: 720x960)")
    _add_design(parser)
    parser.set_defaults(run=run_render)


def run_target(options: argparse.Namespace) -> None:
    """Write the design and say what to do with it."""
    from linstereo.tank.sheets import tag_sheets, write_sheets
    from linstereo.tank.target import make_target, write_target

    target = make_target(_design(options))
    pages = tag_sheets(target, paper=options.paper)
    written = [*write_target(options.out, target), *write_sheets(options.out, pages)]
    print(f"written: {', '.join(map(str, written))}")
    print(
        "print tags.pdf at 100 %, measure a black square, glue the strips onto the plates; use target.obj as --mesh "
        "and tags.json as --layout"
    )


def run_ground_truth(options: argparse.Namespace) -> None:
    """Make the ground truth of a session, with a progress bar, and tell what became of it."""
    from linstereo.tank.ground_truth import Thresholds
    from linstereo.tank.session import SessionSettings, summary, write_session

    settings = SessionSettings(
        layout=options.layout,
        mesh=options.mesh,
        unit=options.mesh_unit,
        ropes=options.rope_mesh,
        calibration=options.calib,
        thresholds=Thresholds(
            tags=options.min_tags,
            reprojection=options.max_reprojection,
            depth_error=options.max_depth_error / 1e3,
            disparity_error=options.max_disparity_error,
        ),
    )
    with tqdm(desc="ground truth", unit="pair", disable=None, file=sys.stderr) as bar:

        def on_pair(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        reports = write_session(options.pairs, options.out, settings, on_pair=on_pair)
    print(summary(reports))
    root = Path(options.out).resolve().parent
    print(f"written: {options.out}; evaluate with: linstereo evaluate --benchmark tank={root}")


def run_render(options: argparse.Namespace) -> None:
    """Render the pairs, with a progress bar."""
    from linstereo.tank.target import make_target
    from linstereo.tank.views import ViewSettings, write_views

    settings = ViewSettings(count=options.count, seed=options.seed, water=options.water, size=options.size)
    target = make_target(_design(options))
    with tqdm(total=options.count, desc="render", unit="pair", disable=None, file=sys.stderr) as bar:
        write_views(options.out, target, settings, on_pair=lambda done: bar.update(done - bar.n))
    print(
        f"{options.count} pairs are in {options.out}; make their ground truth with: linstereo tank ground-truth "
        f"{options.out} --layout {options.out}/target/tags.json --mesh {options.out}/target/target.obj "
        "--out ROOT/session"
    )


def _design(options: argparse.Namespace) -> "TargetDesign":
    from linstereo.tank.target import TargetDesign

    return TargetDesign(
        tag_size=options.tag_size / 1e3,
        tags=options.tags,
        opening=options.opening / 1e3,
        stagger=options.stagger / 1e3,
        ropes=options.ropes,
        rope_diameter=options.rope_diameter / 1e3,
        thickness=options.thickness / 1e3,
        rail=options.rail / 1e3,
    )
