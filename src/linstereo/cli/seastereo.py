"""`linstereo seastereo`: plan, render and verify the underwater dataset of the paper."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from tqdm import tqdm

from linstereo.cli.options import Subparsers, add_farm_options, image_size

if TYPE_CHECKING:
    from linstereo.synthesis.seastereo.plan import Configuration
    from linstereo.synthesis.seastereo.render import Report

_WATERS = ("I", "IA", "IB", "II", "III", "1C", "3C")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    parser.description = (
        "SeaStereo: stereo pairs under water with dense ground truth, rendered with Blender. 7 camera trajectories x 4 "
        "cameras x 12 water settings x 3 iterations are 1,008 configurations of 40 frames."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_plan(actions)
    _add_render(actions)
    _add_verify(actions)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which configurations", "all by default; each may be given several times")
    group.add_argument("--trajectory", type=int, action="append", default=[], metavar="N", help="camera path, 1 to 7")
    group.add_argument("--focal", type=int, action="append", default=[], metavar="MM", help="focal length: 24 or 35")
    group.add_argument("--baseline", type=int, action="append", default=[], metavar="MM", help="65 or 120")
    group.add_argument("--water", choices=_WATERS, action="append", default=[], help="Jerlov type")
    group.add_argument("--depth", choices=("shallow", "deep"), action="append", default=[], help="of the sea floor")
    group.add_argument("--iteration", type=int, action="append", default=[], metavar="N", help="1 to 3")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of all that is random (default: 0)")
    parser.add_argument(
        "--frames", type=int, default=40, metavar="N", help="frames of each configuration, evenly spread (default: 40)"
    )
    parser.add_argument(
        "--mode",
        choices=("analytic", "volume"),
        default="analytic",
        help="water: `analytic` renders the dry scene and applies the optics of linstereo.synthesis, `volume` has "
        "Cycles render absorption and scattering, which takes longer (default: analytic)",
    )
    parser.add_argument(
        "--size",
        type=image_size,
        default=(480, 640),
        metavar="HEIGHTxWIDTH",
        help="size of the images (default: 480x640)",
    )
    parser.add_argument(
        "--samples", type=int, metavar="N", help="paths for each pixel (default: 24 analytic, 64 volume)"
    )


def _add_plan(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "plan",
        help="list configurations, and what rendering them costs",
        description="List the configurations, one name in each line, then their number and an estimate of the time "
        "and the disk space that rendering them takes.",
    )
    _add_filters(parser)
    parser.add_argument(
        "--rate", type=float, metavar="SECONDS", help="for one pair on one machine, instead of the measured rate"
    )
    parser.add_argument("--machines", type=int, default=1, metavar="N", help="of the estimate (default: 1)")
    parser.set_defaults(run=run_plan)


def _add_render(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "render",
        help="render configurations into a folder",
        description="Render frames with Blender: left and right images, disparity, depth, masks and metadata. An "
        "interrupted run resumes when it is started again, and a run with other configurations adds to the folder.",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the dataset")
    _add_filters(parser)
    parser.add_argument(
        "--objects", metavar="DIR", help="folder of .obj, .glb or .gltf files for the foreground, such as ShapeNetCore"
    )
    parser.add_argument(
        "--scenery", metavar="DIR", help="folder with meshes in rock/, coral/, seaweed/, fish/ or wreck/, to add"
    )
    parser.add_argument(
        "--only-scenery", action="store_true", help="take scenery from that folder alone, where it has any of a kind"
    )
    parser.add_argument(
        "--workers", type=int, metavar="W", help="Blenders at a time (default: 2, but at most one for each core)"
    )
    parser.add_argument("--gpu", action="store_true", help="render on the GPU")
    parser.add_argument(
        "--blender",
        metavar="PROGRAM",
        help="Blender executable, or a Python with bpy (default: what `make blender` made)",
    )
    add_farm_options(parser)
    parser.set_defaults(run=run_render)


def _add_verify(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "verify",
        help="check a finished or partial dataset",
        description="Check that every frame is there once and undamaged, and the geometry of some. Ends with code 1 if "
        "something is wrong; frames that are not rendered yet are counted, not wrong.",
    )
    parser.add_argument("data", metavar="DIR", help="folder of the dataset")
    parser.add_argument(
        "--geometry", type=int, default=20, metavar="N", help="frames whose geometry is checked (default: 20)"
    )
    parser.set_defaults(run=run_verify)


def run_plan(options: argparse.Namespace) -> None:
    """Print the configurations and the estimate."""
    from linstereo.synthesis.seastereo.estimate import estimate

    chosen = _configurations(options)
    height, width = options.size
    told = estimate(
        chosen,
        frames=options.frames,
        height=height,
        width=width,
        mode=options.mode,
        samples=options.samples,
        rate=options.rate,
        machines=options.machines,
    )
    for configuration in chosen:
        print(f"{configuration.name}  floor at {configuration.floor_depth:.2f} m")
    print(told)


def run_render(options: argparse.Namespace) -> None:
    """Render, with a progress bar, and say how to use the dataset."""
    from linstereo.synthesis.seastereo.blender_process import find_blender
    from linstereo.synthesis.seastereo.ray_farm import RayFarm
    from linstereo.synthesis.seastereo.render import Job, LocalFarm, RenderSettings, render_plan
    from linstereo.synthesis.shards import Shard, parse_shard

    height, width = options.size
    settings = RenderSettings(
        seed=options.seed,
        height=height,
        width=width,
        mode=options.mode,
        samples=options.samples,
        objects=options.objects,
        scenery=options.scenery,
        only_scenery=options.only_scenery,
    )
    chosen = _configurations(options)
    shard = Shard() if options.shard is None else parse_shard(options.shard)
    cores = os.cpu_count() or 1
    workers = options.workers if options.workers is not None else min(2, cores)
    local = LocalFarm(workers)
    farm = local if options.ray is None else RayFarm(options.ray)
    program = None if options.ray is not None and options.blender is None else str(find_blender(options.blender))
    with tqdm(total=len(chosen) * options.frames, desc="render", unit="pair", disable=None, file=sys.stderr) as bar:

        def on_frame(done: int, total: int) -> None:
            bar.total = total
            if bar.n == 0 and done:
                bar.initial = done  # frames of earlier runs do not count for the speed
            bar.update(done - bar.n)

        report = render_plan(
            options.out,
            settings,
            chosen,
            frames=options.frames,
            runner=farm,
            job=lambda root: Job(
                root=root, settings=settings, blender=program, threads=max(cores // workers, 1), gpu=options.gpu
            ),
            shard=shard,
            on_frame=on_frame,
        )
    _tell(report)
    print(f"{report.written} pairs written; use them with --data seastereo={options.out}")


def run_verify(options: argparse.Namespace) -> int:
    """Print what is wrong, and a summary."""
    from linstereo.synthesis.seastereo.verify import verify

    with tqdm(total=0, desc="verify", unit="pair", disable=None, file=sys.stderr) as bar:

        def on_frame(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        findings = verify(options.data, samples=options.geometry, on_frame=on_frame)
    for problem in findings.problems:
        print(problem)
    print(
        f"{findings.present} of {findings.expected} pairs are there, {findings.missing} are not rendered yet; geometry "
        f"checked on {findings.checked}; {len(findings.problems) or 'no'} problems"
    )
    return 1 if findings.problems else 0


def _configurations(options: argparse.Namespace) -> "tuple[Configuration, ...]":
    from linstereo.synthesis.seastereo.plan import all_configurations, choose

    return choose(
        all_configurations(options.seed),
        trajectories=options.trajectory,
        focal_lengths=options.focal,
        baselines=options.baseline,
        waters=options.water,
        depths=options.depth,
        iterations=options.iteration,
    )


def _tell(report: "Report") -> None:
    """Say on the standard error what was skipped on the way."""
    for reason in report.broken.values():
        print(f"skipped: {reason}", file=sys.stderr)
    for mesh, texture in sorted(report.missing_textures):
        print(f"the mesh {mesh} names the texture {texture}, which is not there; it is plain grey", file=sys.stderr)
    if report.broken:
        print(f"{len(report.broken)} broken meshes were skipped", file=sys.stderr)
    if report.died:
        print(f"Blender died {report.died} times; the frames were rendered again", file=sys.stderr)
