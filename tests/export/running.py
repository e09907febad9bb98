"""Run graphs in ONNX Runtime for tests."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from linstereo.export.graph import IR_VERSION, OPSET, Graph, Value

KINDS = {"float32": onnx.TensorProto.FLOAT, "bool": onnx.TensorProto.BOOL}


def evaluate(g: Graph, inputs: dict[str, NDArray[Any]], outputs: list[Value]) -> list[NDArray[Any]]:
    """The values of some tensors of a graph; inputs are float32 with sizes that the graph does not know."""
    helper = onnx.helper
    given = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * x.ndim) for name, x in inputs.items()]
    asked = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(g.nodes, "part", given, asked, list(g.initializers.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(x) for x in session.run(list(outputs), inputs)]
