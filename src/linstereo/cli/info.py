"""`linstereo info`: what a checkpoint or a preset is made of."""

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING, Any

from linstereo.cli.options import image_size
from linstereo.errors import InputError

if TYPE_CHECKING:
    from linstereo.model.presets import LinStereoConfig


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="checkpoint file or folder, hub repository, compact (the bundled model), or another preset",
    )
    parser.add_argument("--preset", metavar="NAME", help="a preset, whatever files are there (default: paper)")
    parser.add_argument("--list", action="store_true", help="print the names of all presets instead")
    parser.add_argument(
        "--size", type=image_size, default=(480, 640), metavar="HxW", help="image size (default: 480x640)"
    )
    parser.add_argument("--iters", type=int, metavar="T", help="refinement iterations (default: the model's)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the summary."""
    from linstereo.checkpoints.summary import summarise
    from linstereo.model.presets import PRESETS

    if options.list:
        print(json.dumps(list(PRESETS)) if options.json else "\n".join(PRESETS))
        return
    if options.model is not None and options.preset is not None:
        raise InputError(f"both {options.model} and --preset {options.preset} are given; leave one of the two out")
    origin, config = _find(options.model, options.preset)
    height, width = options.size
    summary = summarise(config, height=height, width=width, iterations=options.iters)
    if options.json:
        report = {
            **origin,
            "config": dataclasses.asdict(config),
            **dataclasses.asdict(summary),
            "parameters": summary.parameters,
            "trained": summary.trained,
            "gflops": summary.gflops,
        }
        print(json.dumps(report, indent=2))
        return
    name = next(iter(origin.values()))
    print(f"{name} at {summary.height} x {summary.width} px (height x width), T = {summary.iterations}")
    if "bytes" in origin:
        print(f"weights: {origin['bytes']:,} bytes, stored as {', '.join(origin['precision'])}")
        print(", ".join(f"{key} {value}" for key, value in dataclasses.asdict(config).items()))
    print(f"\n{'part':<26}{'parameters':>14}{'trained':>14}{'GFLOPs':>10}")
    for part in summary.parts:
        name = f"{part.name} x {part.repeats}" if part.repeats > 1 else part.name
        print(f"{name:<26}{part.parameters:>14,}{part.trained:>14,}{part.gflops:>10.1f}")
    print(f"{'total':<26}{summary.parameters:>14,}{summary.trained:>14,}{summary.gflops:>10.1f}")
    print("\nA multiplication and an addition count as two operations; SIFT matching is not counted.")


def _find(model: str | None, preset_name: str | None) -> "tuple[dict[str, Any], LinStereoConfig]":
    """Where the settings come from, for the reader, and the settings."""
    from linstereo.checkpoints.checkpoint import is_random_preset, read_config
    from linstereo.checkpoints.checkpoint_file import read_header
    from linstereo.model.presets import preset

    if model is None or is_random_preset(model):
        name = next(given for given in (model, preset_name, "paper") if given is not None)
        return {"preset": name}, preset(name)
    config, file = read_config(model)
    header = read_header(file)
    return {"checkpoint": str(file), "bytes": file.stat().st_size, "precision": header.precisions}, config
