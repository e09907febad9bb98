"""`linstereo benchmark`: time, frames per second, operations and memory on this machine."""

import argparse
import contextlib
import sys

from tqdm import tqdm

from linstereo.cli.options import add_model_options, image_size, thread_count

_SECTIONS = ("parts", "operators", "scaling", "methods")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Measure how fast a model is on this machine, and what it takes: parameters, GFLOPs, time, frames per second "
        "and peak memory by part; one iteration of PALA against convolutional GRUs; growth with the image, with stored "
        "and on-the-fly volumes; whole predictions, through every backend that is installed or the one of --backend, "
        "against OpenCV's SGBM. Prints Markdown with the paper's rows beside, and writes it with JSON and a plot into "
        "--out."
    )
    add_model_options(parser)
    parser.add_argument(
        "--size", type=image_size, default=(480, 640), metavar="HxW", help="image size (default: 480x640)"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=_SECTIONS,
        default=_SECTIONS,
        help="what to measure (default: all)",
    )
    parser.add_argument(
        "--scaling-sizes",
        nargs="+",
        type=image_size,
        metavar="HxW",
        help="image sizes for the growth with the image (default: 240x320 480x640 960x1280)",
    )
    parser.add_argument(
        "--volume",
        choices=("stored", "on_the_fly"),
        help="how the parts and the whole prediction hold correlations (default: as predict does)",
    )
    parser.add_argument(
        "--rounds", type=int, default=15, metavar="N", help="measurements of each time, at least 6 (default: 15)"
    )
    parser.add_argument(
        "--warm-up", type=int, default=2, metavar="N", help="measurements before that, not kept (default: 2)"
    )
    parser.add_argument("--threads", type=thread_count, metavar="N", help="CPU threads (default: PyTorch's choice)")
    parser.add_argument("--out", metavar="DIR", help="output folder for benchmark.md, benchmark.json and benchmark.svg")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure with a progress bar, then print and write the report."""
    from linstereo.cli.training_session import chosen_threads
    from linstereo.efficiency.plot import svg
    from linstereo.efficiency.report import markdown
    from linstereo.efficiency.study import SCALING_SIZES, Study, StudySettings
    from linstereo.files import write_file, write_json
    from linstereo.runs import output_folder

    settings = StudySettings(
        model=options.model,
        backbone=options.backbone,
        device=options.device,
        precision=options.precision or "float32",
        iterations=options.iters,
        scale=options.scale,
        volume=options.volume,
        size=options.size,
        rounds=options.rounds,
        warm_up=options.warm_up,
        sections=options.only,
        scaling_sizes=options.scaling_sizes or SCALING_SIZES,
        backend=options.backend,
    )
    folder = contextlib.nullcontext() if options.out is None else output_folder(options.out)
    with chosen_threads(options.threads), folder as path:
        study = Study(settings)
        with tqdm(total=study.steps, desc="benchmark", unit="step", disable=None, file=sys.stderr) as bar:
            result = study.run(lambda done, _: bar.update(done - bar.n))
        if path is not None:
            write_json(path / "benchmark.json", result)
            write_file(path / "benchmark.svg", svg(result))
            write_file(path / "benchmark.md", markdown(result, plot="benchmark.svg"))
    print(markdown(result), end="")
