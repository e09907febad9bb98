"""A graph of plain ONNX operators, written node by node."""

from collections.abc import Sequence
from typing import Any, NewType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linstereo.extras import require

OPSET = 18
"""Version of the ONNX operators; all engines of the last years know it."""
IR_VERSION = 8
"""Version of the file format that belongs to the operators."""
Value = NewType("Value", str)
"""The name of a tensor in a graph."""
END = (1 << 31) - 1
"""As the end of a slice: up to the last element."""


class Graph:
    """Nodes in the order in which they are computed, and the constants that they read.

    Args:
        parent: the graph in which this one is the body of a loop or a branch; its tensors can be read by their names.
    """

    def __init__(self, parent: "Graph | None" = None) -> None:
        self._onnx = require("onnx", extra="export", purpose="writing an ONNX model")
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Value] = {}
        self._root: Graph = self if parent is None else parent._root
        self._count = 0

    def op(self, kind: str, *inputs: Value, name: str | None = None, **attributes: Any) -> Value:
        """Append a node with one output and return it; `name` is what to call the output."""
        return self.ops(kind, *inputs, names=[name or self._fresh(kind)], **attributes)[0]

    def ops(self, kind: str, *inputs: Value, names: Sequence[str], **attributes: Any) -> list[Value]:
        """Append a node with several outputs."""
        self.nodes.append(
            self._onnx.helper.make_node(kind, list(inputs), list(names), name=self._fresh(kind), **attributes)
        )
        return [Value(name) for name in names]

    def fresh(self, kind: str, count: int) -> list[str]:
        """Names that no other tensor has."""
        return [self._fresh(kind) for _ in range(count)]

    def constant(self, values: ArrayLike, dtype: type[np.generic] = np.float32) -> Value:
        """A tensor that is part of the file; the same values are stored once."""
        array = np.asarray(values, dtype, order="C")
        key = (array.dtype.str, array.shape, array.tobytes())  # numbers are not vectors of one number
        if key not in self._constants:
            name = self._fresh("constant")
            tensor = self._onnx.numpy_helper.from_array(array, name)
            if self is self._root:
                self.initializers[name] = tensor
                self._constants[key] = Value(name)
            else:  # bodies hold their constants themselves: not every engine looks for them outside
                self._constants[key] = self.op("Constant", name=name, value=tensor)
        return self._constants[key]

    def integers(self, *values: int) -> Value:
        """An int64 vector that is part of the file."""
        return self.constant(values, np.int64)

    def body(
        self, inputs: Sequence[tuple[str, Sequence[int | str | None]]], outputs: Sequence[Value], name: str
    ) -> Any:
        """This graph as a GraphProto of float32 inputs and outputs, to be the body of a loop or a branch.

        Args:
            inputs: names and shapes.
            outputs: tensors of this graph.
            name: of the body.
        """
        helper, float32 = self._onnx.helper, self._onnx.TensorProto.FLOAT
        return helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(input_name, float32, shape) for input_name, shape in inputs],
            [helper.make_tensor_value_info(output, float32, None) for output in outputs],
        )

    def _fresh(self, kind: str) -> str:
        self._root._count += 1
        return f"{kind}_{self._root._count}"


# Short forms of what is needed everywhere. Maps are [B, C, h, w].


def array(tensor: Any) -> NDArray[np.float32]:
    """A parameter as a float32 array."""
    return np.asarray(tensor.detach().cpu().float().numpy(), np.float32)


def reshape(g: Graph, x: Value, *shape: int) -> Value:
    """To a shape of numbers, 0 for a side that stays and -1 for the one that is left."""
    return g.op("Reshape", x, g.integers(*shape))


def reshape_to(g: Graph, x: Value, *shape: "int | Value") -> Value:
    """To a shape some of whose sides are tensors, int64 [1]."""
    sides = [g.integers(side) if isinstance(side, int) else side for side in shape]
    return g.op("Reshape", x, g.op("Concat", *sides, axis=0))


def transpose(g: Graph, x: Value, *order: int) -> Value:
    """With the axes in another order."""
    return g.op("Transpose", x, perm=list(order))


def cut(g: Graph, x: Value, axis: int, start: "int | Value" = 0, end: "int | Value" = END, step: int = 1) -> Value:
    """A slice along one axis; ends may be tensors, int64 [1]."""
    ends = [g.integers(e) if isinstance(e, int) else e for e in (start, end)]
    return g.op("Slice", x, *ends, g.integers(axis), g.integers(step))


def halves(g: Graph, x: Value, axis: int) -> list[Value]:
    """Two equal parts along an axis."""
    return g.ops("Split", x, names=g.fresh("half", 2), axis=axis, num_outputs=2)


def side(g: Graph, x: Value, axis: int) -> Value:
    """The length of an axis, int64 [1]."""
    return g.op("Shape", x, start=axis, end=axis + 1)


def pooled(g: Graph, x: Value, rows: int, columns: int) -> Value:
    """Means over cells of rows x columns positions."""
    return g.op("AveragePool", x, kernel_shape=[rows, columns], strides=[rows, columns])


def resized(g: Graph, x: Value, factor: float) -> Value:
    """Bilinear, between centres of positions, without a filter."""
    scales = g.constant([1, 1, factor, factor])
    return g.op("Resize", x, Value(""), scales, mode="linear", coordinate_transformation_mode="half_pixel")
