"""A network as a complete ONNX model: the graph, its inputs and outputs, and what whoever runs it has to know."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from linstereo.errors import InputError
from linstereo.export.graph import IR_VERSION, OPSET, Graph
from linstereo.export.network import (
    CONFIDENCE,
    DISPARITY,
    LEFT,
    MATCHES,
    PRIOR,
    PRIOR_VALUES,
    RIGHT,
    TOLERANCE,
    write_network,
)
from linstereo.extras import require
from linstereo.model.linstereo import LinStereo
from linstereo.model.strides import PAD_TO

FORMAT = "linstereo-onnx/1"
"""What the entry `format` of the metadata says."""
LARGEST = (1 << 31) - 1
"""Bytes that a file can hold: the limit of the format that ONNX is written in."""

MOST_ITERATIONS = 64
"""Of a graph: they are written out one after the other."""


def exported_iterations(count: int) -> int:
    """`count` itself if a graph can hold so many iterations."""
    if count > MOST_ITERATIONS:
        raise InputError(
            f"the number of iterations is {count}; an exported model writes them out, use at most {MOST_ITERATIONS}"
        )
    return count


def onnx_model(
    model: LinStereo, *, iterations: int, name: str, trained: bool, licence: str, with_confidence: bool = True
) -> bytes:
    """The content of an ONNX file.

    Args:
        model: the network.
        iterations: refinement iterations, which are fixed in the file.
        name: of the model, for messages.
        trained: False for a network with random weights.
        licence: of the weights.
        with_confidence: whether the graph tells how far its disparities can be trusted, if the network has learned it.
    """
    sure = with_confidence and model.confidence_head is not None
    onnx = require("onnx", extra="export", purpose="writing an ONNX model")
    graph = Graph()
    write_network(graph, model, exported_iterations(iterations), with_confidence=sure)
    image = ["height", "width", 3]
    inputs = [_tensor(onnx, LEFT, onnx.TensorProto.UINT8, image), _tensor(onnx, RIGHT, onnx.TensorProto.UINT8, image)]
    outputs = [_tensor(onnx, DISPARITY, onnx.TensorProto.FLOAT, ["height", "width"])]
    if sure:
        inputs.append(_tensor(onnx, TOLERANCE, onnx.TensorProto.FLOAT, [1]))
        outputs.append(_tensor(onnx, CONFIDENCE, onnx.TensorProto.FLOAT, ["height", "width"]))
    if model.start.needs_depth:
        inputs.append(_tensor(onnx, MATCHES, onnx.TensorProto.FLOAT, ["matches", 3]))
        outputs.append(_tensor(onnx, PRIOR, onnx.TensorProto.FLOAT, [len(PRIOR_VALUES)]))
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "linstereo", inputs, outputs, list(graph.initializers.values())),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="linstereo",
        doc_string="Disparity of a rectified stereo pair; left, right: RGB images of one size, at least 32 px a side.",
    )
    facts = {
        "format": FORMAT,
        "name": name,
        "trained": json.dumps(trained),
        "licence": licence,
        "iterations": str(iterations),
        "working_pixels": str(model.config.working_pixels),
        "padded_to": str(PAD_TO),
        "config": json.dumps(dataclasses.asdict(model.config)),
    }
    onnx.helper.set_model_props(proto, facts)
    if proto.ByteSize() > LARGEST:
        raise InputError(f"the model {name} takes {proto.ByteSize():,} bytes; an ONNX file holds at most {LARGEST:,}")
    content: bytes = proto.SerializeToString()
    return content


def _tensor(onnx: Any, name: str, kind: int, shape: Sequence[object]) -> Any:
    return onnx.helper.make_tensor_value_info(name, kind, shape)
