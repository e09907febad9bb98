"""`linstereo confidence`: teach a trained network how far its disparities can be trusted."""

import argparse
from pathlib import Path
from typing import Any

from linstereo.cli.options import check_threads
from linstereo.cli.training_session import chosen_threads, interruptible


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Train the confidence head of a network, whose other weights and disparities stay as they are: the probability "
        "that a disparity is off by less than 1 px or 5 %. Takes minutes on a CPU. The same command again resumes the "
        "run in --out where it stopped."
    )
    parser.add_argument(
        "--from",
        dest="start",
        default="compact",
        metavar="CHECKPOINT",
        help="the trained network: file, folder or hub repository (default: compact, the bundled model)",
    )
    parser.add_argument(
        "--out", required=True, metavar="RUN", help="folder of the run, in which linstereo.safetensors is written"
    )
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="SOURCE",
        help="pairs with ground truth that the network was not trained on, as for linstereo train (default: synth, in "
        "air and under water, with noise and plain rooms); may be given several times",
    )
    parser.add_argument("--pairs", type=int, metavar="N", help="pairs to predict (default: 160)")
    parser.add_argument("--steps", type=int, metavar="N", help="training steps (default: 800)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of everything random (default: 0)")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads of the network (default: PyTorch's)")
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1, ... (default: CUDA if there is one)")
    parser.add_argument("--backbone", metavar="PATH", help="official DA3 model.safetensors, or its hub name")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Train the head; returns the exit code, which is not 0 if a signal ended the training before it was done."""
    from tqdm import tqdm

    from linstereo.backends.devices import pick_device
    from linstereo.training.confidence import DEFAULT_DATA, ConfidenceRecipe, ConfidenceSession, train_confidence
    from linstereo.training.sources import require_rendering

    check_threads(options.threads)
    given: dict[str, Any] = {name: getattr(options, name) for name in ("pairs", "steps", "seed")}
    recipe = ConfidenceRecipe(
        data=tuple(options.data) or DEFAULT_DATA, **{name: value for name, value in given.items() if value is not None}
    )
    require_rendering(recipe.data)
    total = recipe.pairs + recipe.steps
    with (
        chosen_threads(options.threads),
        interruptible() as interrupted,
        tqdm(total=total, desc="predict pairs", disable=None) as bar,
    ):

        def on_pair(done: int) -> None:
            bar.update(done - bar.n)

        def on_step(step: int, loss: float) -> None:
            bar.set_description("train", refresh=False)
            bar.set_postfix_str(f"loss {loss:.3f}", refresh=False)
            bar.update(recipe.pairs + step - bar.n)

        session = ConfidenceSession(
            folder=Path(options.out),
            device=pick_device(options.device),
            on_pair=on_pair,
            on_step=on_step,
            stopping=interrupted,
        )
        error = train_confidence(options.start, recipe, session, backbone_weights=options.backbone)
    if error is None:
        print("stopped; the same command resumes from here")
        return interrupted.exit_code
    print(f"expected calibration error {error:.3f} on pairs not trained on")
    print(f"done: {Path(options.out) / 'linstereo.safetensors'}")
    return 0
