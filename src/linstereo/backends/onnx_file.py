"""Opening ONNX files that `linstereo export` wrote, and none others.

A file is read whole and judged before an engine sees it: a graph that names other files, operators that the export does
not write, or another format is refused. Nothing is read but the file itself.
"""

import dataclasses
import json
import os
import reprlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from linstereo.checkpoints.checkpoint import parse_config
from linstereo.errors import InputError
from linstereo.export.confidence import CONFIDENCE
from linstereo.export.onnx_model import FORMAT, LARGEST
from linstereo.extras import require
from linstereo.files import read_file, readable
from linstereo.model.presets import LinStereoConfig

SUFFIX = ".onnx"
# fmt: off
OPERATORS = frozenset((
    "Abs", "Add", "And", "ArgMax", "ArgMin", "AveragePool", "Cast", "Concat", "Constant", "ConstantOfShape", "Conv",
    "ConvTranspose", "Cos", "CumSum", "DepthToSpace", "Div", "Elu", "Equal", "Erf", "Exp", "Expand", "Floor",
    "Gather", "GatherElements", "Greater", "GreaterOrEqual", "GridSample", "Identity", "If", "InstanceNormalization",
    "IsNaN", "LayerNormalization", "Less", "LessOrEqual", "Log", "MatMul", "Max", "MaxPool", "Min", "Mod", "Mul",
    "Neg", "Not", "Or", "Pad", "Range", "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Relu",
    "Reshape", "Resize", "Scan", "ScatterElements", "Shape", "Sigmoid", "Sin", "Slice", "Softmax", "SpaceToDepth",
    "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "TopK", "Transpose", "Unsqueeze", "Where",
))
# fmt: on
"""Operators that the export may write."""
DEEPEST = 8  # graphs inside of graphs
_REMEDY = "give a file written by linstereo export"


@dataclasses.dataclass(frozen=True)
class OnnxFile:
    """An exported model.

    Attributes:
        content: the file.
        config: settings of the network.
        iterations: that it runs, always.
        name: of the model.
        trained: False for random weights.
        gives_confidence: whether it has the output `confidence`.
    """

    content: bytes
    config: LinStereoConfig
    iterations: int
    name: str
    trained: bool
    gives_confidence: bool


def read_onnx(path: str | os.PathLike[str]) -> OnnxFile:
    """Read and judge a file; an `InputError` unless `linstereo export` may have written it."""
    onnx = require("onnx", extra="export", purpose="opening an ONNX model")
    file = Path(path)
    with readable(file):
        size = file.stat().st_size
    if size > LARGEST:
        raise InputError(
            f"{file} is not an ONNX model: it holds {size:,} bytes, more than the format allows; {_REMEDY}"
        )
    content = read_file(file)
    try:
        proto = onnx.load_model_from_string(content)
    except Exception as error:  # of protobuf, whose errors have no common type of their own
        raise InputError(f"{file} is not an ONNX model, or it is damaged; {_REMEDY}, or copy it again") from error
    if not proto.graph.node:
        raise InputError(f"{file} is not an ONNX model, or it is damaged; {_REMEDY}, or copy it again")
    facts = {entry.key: entry.value for entry in proto.metadata_props}
    if facts.get("format") != FORMAT:
        raise InputError(
            f"{file} is an ONNX model of another kind (its metadata says format {reprlib.repr(facts.get('format'))} "
            f"instead of {FORMAT!r}); {_REMEDY}"
        )
    _check_graph(onnx, proto, file)
    config = parse_config(facts.get("config", ""), file=file)
    try:
        iterations, trained = int(facts["iterations"]), json.loads(facts["trained"])
        if iterations < 1 or not isinstance(trained, bool):
            raise ValueError
    except (KeyError, ValueError) as error:
        raise InputError(f"{file} has metadata that cannot be used; export the model again") from error
    sure = any(output.name == CONFIDENCE for output in proto.graph.output)
    return OnnxFile(content, config, iterations, facts.get("name", "model"), trained, sure)


def _check_graph(onnx: Any, proto: Any, file: Path) -> None:
    if proto.functions or any(opset.domain not in ("", "ai.onnx") for opset in proto.opset_import):
        raise InputError(f"{file} uses operators beyond those of ONNX; {_REMEDY}")
    for graph in _graphs(proto.graph, file):
        tensors = [*graph.initializer, *(a.t for node in graph.node for a in node.attribute if a.HasField("t"))]
        if graph.sparse_initializer or any(t.data_location == onnx.TensorProto.EXTERNAL for t in tensors):
            raise InputError(f"{file} keeps weights in other files, which are never read; {_REMEDY}")
        for node in graph.node:
            if node.op_type not in OPERATORS or node.domain not in ("", "ai.onnx"):
                raise InputError(
                    f"{file} uses the operator {reprlib.repr(node.op_type)}, which is not known; {_REMEDY}"
                )
    try:
        onnx.checker.check_model(proto)
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        raise InputError(f"{file} is damaged: its graph does not hold together; {_REMEDY}, or copy it again") from error


def _graphs(graph: Any, file: Path, depth: int = 0) -> Iterator[Any]:
    """A graph and all that its nodes hold."""
    if depth > DEEPEST:
        raise InputError(f"{file} nests graphs too deeply; {_REMEDY}")
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from _graphs(inner, file, depth + 1)
