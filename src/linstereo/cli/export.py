"""`linstereo export`: a model as an ONNX file, checked against PyTorch."""

import argparse
import sys


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Write a model as one ONNX file of plain operators, for ONNX Runtime, OpenVINO and others: two RGB images of "
        "any size in, disparity and confidence out. Before the file is kept, ONNX Runtime runs it, and what it says "
        "is compared with PyTorch on a pair of images at two sizes."
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="checkpoint file or folder, hub repository, or preset; by default compact, the bundled model",
    )
    parser.add_argument("--backbone", metavar="PATH", help="official DA3 model.safetensors, or its hub name")
    parser.add_argument(
        "--iters", type=int, metavar="T", help="refinement iterations, fixed in the file (default: the model's)"
    )
    parser.add_argument(
        "--pair", nargs=2, metavar=("LEFT", "RIGHT"), help="images to compare on (default: a small pair of the package)"
    )
    parser.add_argument(
        "--no-confidence",
        action="store_true",
        help="disparity only, a few per cent faster, and no input but the images",
    )
    parser.add_argument(
        "--out", default="linstereo.onnx", metavar="FILE", help="the file to write (default: linstereo.onnx)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the file and say how well it agrees."""
    import torch

    from linstereo.backends.exporting import PERCENTILE, check_target, export_model
    from linstereo.checkpoints.checkpoint import is_bundled
    from linstereo.files import make_parent
    from linstereo.image_pairs import read_pair
    from linstereo.loading import load

    target = check_target(options.out)
    pair = None if options.pair is None else read_pair(*options.pair)
    predictor = load(options.model, device="cpu", backbone_weights=options.backbone, backend="torch")
    iterations = predictor.iterations(options.iters)
    if not predictor.trained:
        print(f"WARNING: the weights of {predictor.name!r} are random, not trained.", file=sys.stderr)
    bundled = options.model is None or is_bundled(options.model)
    make_parent(target)
    found = export_model(
        predictor.torch_engine,
        target,
        iterations=iterations,
        name=predictor.name,
        trained=predictor.trained,
        licence="Apache-2.0" if bundled else "that of the checkpoint",
        threads=torch.get_num_threads(),
        with_confidence=not options.no_confidence,
        pair=pair,
    )
    for a in found:
        print(
            f"{a.width} x {a.height} px: ONNX Runtime and PyTorch differ by {a.percentile:.1g} px at the "
            f"{PERCENTILE:g}th percentile, {a.largest:.1g} px at most (mean disparity {a.mean:.3g} px)"
            + (f", confidences by {a.confidence:.1g}" if a.confidence else "")
        )
    print(f"written: {target} ({target.stat().st_size:,} bytes, T = {iterations})")
