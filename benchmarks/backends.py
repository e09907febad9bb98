"""How far ONNX Runtime and OpenVINO differ from PyTorch on a pair of pictures, and how long each takes.

Run: python benchmarks/backends.py compact left.png right.png --sizes 240x320 375x450 480x640
     python benchmarks/backends.py --paths 608x832

Engines take turns, so that a busy spell hits all of them; CPU seconds are those of all threads together. `--paths`
compares the two ways of writing the start's path costs: as a loop (Scan) and written out step by step for one size.
"""

import argparse
import functools
import time
from collections.abc import Callable, Mapping, Sequence

import cv2
import numpy as np
import torch

import linstereo
from linstereo.backends.engine import Engine, EngineRequest, Image
from linstereo.backends.graph_engine import Compiled, GraphEngine, onnx_runtime
from linstereo.cli.options import image_size
from linstereo.efficiency.methods import installed_ways
from linstereo.export.correlation_start import aggregated
from linstereo.export.graph import IR_VERSION, OPSET, Graph, Value, cut, reshape, transpose
from linstereo.geometry.sparse_matches import match_sparse
from linstereo.image_pairs import read_pair
from linstereo.model.correlation_start import LARGE_STEP, SMALL_STEP


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", default="compact")
    parser.add_argument("pair", nargs="*", metavar="IMAGE")
    parser.add_argument("--sizes", nargs="+", type=image_size, default=[(480, 640)])
    parser.add_argument("--iters", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--paths", type=image_size)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.paths:
        compare_paths(*options.paths, threads=options.threads, rounds=options.rounds)
        return
    predictor = linstereo.load(options.model, device="cpu")
    engines: dict[str, Engine] = {
        str(way): predictor.engine
        if way.backend == "torch"
        else GraphEngine(predictor.model, backend=way.backend, threads=options.threads, precision=way.precision)
        for way in installed_ways()
    }
    left, right = read_pair(*options.pair)
    print("| size | backend | mean, px | 99.9th percentile, px | largest, px | CPU s | of PyTorch's |\n|" + 7 * "---|")
    for height, width in options.sizes:
        pair = [np.asarray(cv2.resize(image, (width, height)), np.uint8) for image in (left, right)]
        compare(engines, pair[0], pair[1], iterations=predictor.iterations(options.iters), rounds=options.rounds)


def compare(engines: Mapping[str, Engine], left: Image, right: Image, *, iterations: int, rounds: int) -> None:
    """Rows of a table; the first engine is PyTorch's."""
    matches = match_sparse(left, right) if next(iter(engines.values())).needs_matches else None
    request = EngineRequest(left, right, iterations=iterations, matches=matches)

    def run(engine: Engine) -> np.ndarray:
        return engine.run(request).disparity

    found = [run(engine) for engine in engines.values()]
    errors = [np.abs(disparity - found[0]) for disparity in found]
    seconds = take_turns([functools.partial(run, engine) for engine in engines.values()], rounds)
    for name, error, taken in zip(engines, errors, seconds, strict=True):
        ratio = np.median(np.divide(taken, seconds[0]))
        print(
            f"| {left.shape[0]}x{left.shape[1]} | {name} | {error.mean():.1e} | {np.percentile(error, 99.9):.1e} | "
            f"{error.max():.1e} | {np.median(taken):.2f} | {ratio:.2f} |",
            flush=True,
        )


def take_turns(actions: Sequence[Callable[[], object]], rounds: int) -> list[list[float]]:
    """CPU seconds of every action in every round."""
    seconds: list[list[float]] = [[] for _ in actions]
    for _ in range(rounds):
        for action, taken in zip(actions, seconds, strict=True):
            start = time.process_time()
            action()
            taken.append(time.process_time() - start)
    return seconds


def compare_paths(height: int, width: int, *, threads: int, rounds: int) -> None:
    rows, columns, count = height // 4, width // 4, width // 8 + 1
    merit = -10 * np.random.default_rng(0).random((rows, count, columns), np.float32)
    compiled = {}
    for name in ("Scan", "written out"):
        start = time.process_time()
        compiled[name] = _path_model(rows, count, columns, written_out=name != "Scan", threads=threads)
        print(f"{name}: ready after {time.process_time() - start:.1f} CPU s")
    results = [run({"merit": merit})["total"] for run in compiled.values()]
    print(f"largest difference: {np.abs(results[0] - results[1]).max():g}")
    seconds = take_turns([functools.partial(run, {"merit": merit}) for run in compiled.values()], rounds)
    for name, taken in zip(compiled, seconds, strict=True):
        print(f"{name}: {np.median(taken):.3f} CPU s")


def _path_model(rows: int, count: int, columns: int, *, written_out: bool, threads: int) -> Compiled:
    import onnx

    g = Graph()
    merit = Value("merit")
    if written_out:
        down = _written_out(g, merit, rows)
        across = _written_out(g, transpose(g, merit, 2, 1, 0), columns)
        total = g.op("Add", down, transpose(g, across, 2, 1, 0))
    else:
        total = aggregated(g, merit)
    g.op("Identity", total, name="total")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    sides = [rows, count, columns]
    given, asked = (helper.make_tensor_value_info(name, kind, sides) for name in ("merit", "total"))
    graph = helper.make_graph(g.nodes, "paths", [given], [asked], list(g.initializers.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return onnx_runtime(model.SerializeToString(), threads)


def _written_out(g: Graph, merit: Value, length: int) -> Value:
    """The paths along the first axis of [n, D, m], step by step."""
    total = []
    for order in (range(length), range(length - 1, -1, -1)):
        path, places = None, {}
        for i in order:
            here = cut(g, merit, 0, i, i + 1)  # [1, D, m]
            if path is None:
                path = here
            else:
                top = g.op("ReduceMax", path, g.integers(1), keepdims=1)
                grown = g.op("Unsqueeze", path, g.integers(0))
                near = g.op("MaxPool", grown, kernel_shape=[3, 1], pads=[1, 0, 1, 0], strides=[1, 1])
                near = g.op("Sub", g.op("Squeeze", near, g.integers(0)), g.constant(SMALL_STEP))
                way = g.op("Max", path, g.op("Sub", top, g.constant(LARGE_STEP)), near)
                path = g.op("Add", g.op("Sub", way, top), here)
            places[i] = path
        total.append(g.op("Concat", *[places[i] for i in range(length)], axis=0))
    return reshape(g, g.op("Add", *total), length, 0, 0)


if __name__ == "__main__":
    main()
