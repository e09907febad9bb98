"""`linstereo info`: what a preset is made of."""

import argparse
import dataclasses
import json

from linstereo.cli.options import Subparsers, image_size


def add_parser(subparsers: Subparsers) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser("info", help="print the parts of a preset, their parameters and GFLOPs")
    parser.add_argument("--preset", default="paper", metavar="NAME", help="which network (default: paper)")
    parser.add_argument("--list", action="store_true", help="print the names of all presets instead")
    parser.add_argument(
        "--size", type=image_size, default=(480, 640), metavar="HxW", help="image size (default: 480x640)"
    )
    parser.add_argument("--iters", type=int, metavar="T", help="refinement iterations (default: the preset's)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the summary."""
    from linstereo.model.presets import PRESETS, preset
    from linstereo.model.summary import summarise

    if options.list:
        print(json.dumps(list(PRESETS)) if options.json else "\n".join(PRESETS))
        return
    config = preset(options.preset)
    height, width = options.size
    summary = summarise(config, height=height, width=width, iterations=options.iters)
    if options.json:
        report = {
            "preset": options.preset,
            "config": dataclasses.asdict(config),
            **dataclasses.asdict(summary),
            "parameters": summary.parameters,
            "trained": summary.trained,
            "gflops": summary.gflops,
        }
        print(json.dumps(report, indent=2))
        return
    print(f"{options.preset} at {summary.height} x {summary.width} px (height x width), T = {summary.iterations}\n")
    print(f"{'part':<26}{'parameters':>14}{'trained':>14}{'GFLOPs':>10}")
    for part in summary.parts:
        name = f"{part.name} x {part.repeats}" if part.repeats > 1 else part.name
        print(f"{name:<26}{part.parameters:>14,}{part.trained:>14,}{part.gflops:>10.1f}")
    print(f"{'total':<26}{summary.parameters:>14,}{summary.trained:>14,}{summary.gflops:>10.1f}")
    print("\nA multiplication and an addition count as two operations; SIFT matching is not counted.")
