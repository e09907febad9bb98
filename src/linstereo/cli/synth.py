"""`linstereo synth`: write a dataset of synthetic stereo pairs."""

import argparse
import os
import sys

from tqdm import tqdm

from linstereo.cli.options import add_farm_options, image_size

_LAYOUTS = ("folder", "sceneflow")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Render random scenes, in air and under water, as stereo pairs with exact disparity and occlusion. "
        "The same seed gives the same bytes, whatever the number of workers; an interrupted run resumes when it is "
        "started again, and a larger --count adds pairs."
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the dataset")
    parser.add_argument("--count", type=int, required=True, metavar="N", help="number of pairs")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="which endless series of pairs (default: 0)")
    parser.add_argument(
        "--workers", type=int, metavar="W", help="number of processes (default: one for each core, at most 8)"
    )
    parser.add_argument(
        "--size",
        type=image_size,
        default=(320, 640),
        metavar="HEIGHTxWIDTH",
        help="size of the images (default: 320x640)",
    )
    parser.add_argument(
        "--layout",
        choices=_LAYOUTS,
        default="folder",
        help="how the files are laid out: `folder`, read as the dataset folder=DIR with occlusion and calibration, or "
        "`sceneflow`, as FlyingThings3D, read as sceneflow:flyingthings3d=DIR (default: folder)",
    )
    parser.add_argument(
        "--underwater", type=float, default=0.4, metavar="F", help="share of pairs under water, 0 to 1 (default: 0.4)"
    )
    parser.add_argument(
        "--max-disparity",
        type=float,
        default=1 / 3,
        metavar="F",
        help="the largest disparity as a share of the width (default: 1/3)",
    )
    shares = (
        ("plain", "of plain rooms among the pairs in air", "0.25"),
        ("grey", "of pairs of cameras without colour", "1/3"),
        ("noisy", "of pairs of small cameras with much noise", "0.5"),
        ("margins", "of pairs with the black margins of rectified wide-angle lenses", "0.08"),
    )
    for name, what, default in shares:
        parser.add_argument(f"--{name}", type=float, metavar="F", help=f"share {what}, 0 to 1 (default: {default})")
    parser.add_argument(
        "--kind",
        metavar="KIND",
        help="scenes of one kind only: flying, room, plain_room, tabletop, workshop, posters, road, country, reef or "
        "harbour (default: a mixture that suits air or water)",
    )
    parser.add_argument("--photos", metavar="DIR", help="folder of photographs to use as textures too")
    parser.add_argument(
        "--meshes", metavar="DIR", help="folder of .obj, .glb, .stl, .ply or .off files to use as objects too"
    )
    parser.add_argument("--depth", action="store_true", help="write depth maps too (layout folder)")
    add_farm_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the dataset, with a progress bar, and say how to use it."""
    from linstereo.synthesis.engine import EngineSettings
    from linstereo.synthesis.shards import Shard, parse_shard
    from linstereo.synthesis.writer import WriterSettings, write_dataset

    height, width = options.size
    shares = {name: getattr(options, name) for name in ("plain", "grey", "noisy", "margins")}
    settings = WriterSettings(
        engine=EngineSettings(
            height=height,
            width=width,
            underwater=options.underwater,
            max_disparity=options.max_disparity,
            photos=options.photos,
            meshes=options.meshes,
            kind=options.kind,
            **{name: share for name, share in shares.items() if share is not None},
        ),
        seed=options.seed,
        layout=options.layout,
        depth=options.depth,
    )
    shard = Shard() if options.shard is None else parse_shard(options.shard)
    workers = options.workers if options.workers is not None else min(os.cpu_count() or 1, 8)
    with tqdm(total=shard.size(max(options.count, 0)), desc="synth", unit="pair", disable=None, file=sys.stderr) as bar:

        def on_pair(done: int) -> None:
            if bar.n == 0 and done:
                bar.initial = done  # pairs of earlier runs do not count for the speed
            bar.update(done - bar.n)

        written = write_dataset(
            options.out,
            settings,
            count=options.count,
            workers=workers,
            on_pair=on_pair,
            shard=shard,
            ray=options.ray,
        )
    there = shard.size(options.count) - written
    source = f"sceneflow:flyingthings3d={options.out}" if options.layout == "sceneflow" else f"folder={options.out}"
    print(f"{written} pairs written{f', {there} were there' if there else ''}; train on them with --data {source}")
