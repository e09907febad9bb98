"""What 8-bit convolutions would give: time and difference of the bundled model in ONNX Runtime and OpenVINO.

    python benchmarks/int8.py left.png right.png --size 608x832

writes the model as `linstereo export` does, quantises its dense 3x3 convolutions (weights per channel, activations per
map, ranges from rendered pairs) with ONNX Runtime's own tool, and runs both files in both engines, taking turns. CPU
seconds are those of all threads together. Needs the extras `export` and `synth`.
"""

import argparse
import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import onnxruntime
import openvino
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import linstereo
from backends import take_turns
from linstereo.cli.options import image_size
from linstereo.export.onnx_model import onnx_model
from linstereo.image_pairs import read_pair
from linstereo.synthesis.engine import EngineSettings, StereoEngine

SEED = 6_000_001
CALIBRATION_PAIRS = 8
LEAST_CHANNELS = 24

Run = Callable[[], NDArray[np.float32]]


class RenderedPairs(CalibrationDataReader):  # type: ignore[misc]
    """The pairs whose activations give the ranges."""

    def __init__(self) -> None:
        engine = StereoEngine(EngineSettings(underwater=0.2, max_disparity=0.2))
        samples = (engine.sample(SEED, index) for index in range(CALIBRATION_PAIRS))
        self._inputs = ({"left": sample.left, "right": sample.right} for sample in samples)

    def get_next(self) -> dict[str, NDArray[np.uint8]] | None:
        """The next pair; None after the last."""
        return next(self._inputs, None)


def dense_convolutions(file: Path) -> list[str]:
    """Names of the 3x3 convolutions over all channels, which are most of the work."""
    graph = onnx.load(file).graph
    shapes = {weight.name: tuple(weight.dims) for weight in graph.initializer}
    convolutions = [node for node in graph.node if node.op_type == "Conv" and node.input[1] in shapes]
    return [
        node.name
        for node in convolutions
        if shapes[node.input[1]][2:] == (3, 3) and min(shapes[node.input[1]][:2]) >= LEAST_CHANNELS
    ]


def in_onnx_runtime(file: Path, inputs: dict[str, Any], threads: int) -> Run:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return lambda: np.asarray(session.run(None, inputs)[0])


def in_openvino(file: Path, inputs: dict[str, Any], threads: int) -> Run:
    core = openvino.Core()
    model = core.read_model(file)
    model.reshape({name: list(value.shape) for name, value in inputs.items()})
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"})
    return lambda: np.asarray(next(iter(compiled(inputs).values())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("left")
    parser.add_argument("right")
    parser.add_argument("--size", type=image_size, default=(608, 832), metavar="HEIGHTxWIDTH")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    height, width = options.size
    pair = read_pair(options.left, options.right)
    inputs = {name: cv2.resize(image, (width, height)) for name, image in zip(("left", "right"), pair, strict=True)}
    predictor = linstereo.load(device="cpu")
    assert predictor.model is not None
    with tempfile.TemporaryDirectory() as folder:
        exact, quantised = Path(folder) / "float32.onnx", Path(folder) / "int8.onnx"
        content = onnx_model(
            predictor.model,
            iterations=predictor.iterations(None),
            name=predictor.name,
            trained=True,
            licence="Apache-2.0",
            with_confidence=False,
        )
        exact.write_bytes(content)
        quantize_static(
            exact,
            quantised,
            RenderedPairs(),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv"],
            nodes_to_quantize=dense_convolutions(exact),
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            extra_options={"CalibMovingAverage": True},
        )
        engines = {"ONNX Runtime": in_onnx_runtime, "OpenVINO": in_openvino}
        runs: dict[str, Run] = {
            f"{name}, {file.stem}": make(file, inputs, options.threads)
            for name, make in engines.items()
            for file in (exact, quantised)
        }
        expected = next(iter(runs.values()))()
        errors = {name: np.abs(run() - expected) for name, run in runs.items()}
        seconds = take_turns([functools.partial(run) for run in runs.values()], options.rounds)
    print("| engine | CPU s | mean difference, px | 99th percentile, px |\n|---|---|---|---|")
    for name, taken in zip(runs, seconds, strict=True):
        error = errors[name]
        print(f"| {name} | {np.median(taken):.2f} | {error.mean():.3f} | {np.percentile(error, 99):.2f} |")


if __name__ == "__main__":
    main()
