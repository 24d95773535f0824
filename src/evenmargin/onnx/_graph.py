"""Nodes of an ONNX graph, written as calls.

`Graph` wraps what skl2onnx hands to a converter. A node is a call that returns the
name of its result; names are passed on as they are, and arrays and numbers become constants:

    scores = g("Add", g("MatMul", rows, coef.T), intercept)

Numbers are double. All operators here have double kernels in onnxruntime on the CPU,
and mean the same from opset 13 on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .._util.typing import Array

__all__ = ["LEAST_OPSET", "Container", "Graph", "Operator", "Proto", "Scope"]

# Objects of packages without types: skl2onnx's three arguments of a converter, and a part of an ONNX model.
Scope: TypeAlias = Any
Operator: TypeAlias = Any
Container: TypeAlias = Any
Proto: TypeAlias = Any

LEAST_OPSET = 13  # from which axes are inputs


class Graph:
    """Calls that add nodes; see the module."""

    def __init__(self, scope: Scope, container: Container, numbers: Iterator[int] | None = None) -> None:
        if container.target_opset < LEAST_OPSET:
            raise ValueError(f"evenmargin's models need an opset of {LEAST_OPSET} or more: raise target_opset.")
        self.scope, self.container = scope, container
        # For names: without numbers skl2onnx tries all from 1 on for each name.
        self.numbers = numbers or count(len(scope.onnx_variable_names))

    def __call__(self, op: str, *inputs: ArrayLike, out: str | None = None, **attributes: object) -> str:
        """Add a node; `out` is the name for its result, a new one if None."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        result = out or self.name()
        title = self.scope.get_unique_operator_name(f"{op}{next(self.numbers)}")
        self.container.add_node(op, names, [result], name=title, **attributes)
        return result

    def name(self) -> str:
        """A name that is not yet used."""
        return str(self.scope.get_unique_variable_name(f"x{next(self.numbers)}"))

    def constant(self, value: ArrayLike) -> str:
        from onnx import TensorProto, numpy_helper

        array, name = np.asarray(value), self.name()
        if array.dtype.kind in "UO":
            words = [str(word).encode() for word in array.ravel()]
            self.container.add_initializer(name, TensorProto.STRING, list(array.shape), words)
        else:
            tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            self.container.add_initializer(name, tensor.data_type, list(array.shape), tensor)
        return name

    def double(self, value: ArrayLike) -> str:
        """In double; an array of float32 stays so in the file, and is cast when the model is loaded."""
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            return self.constant(value)
        return self.cast(value, np.float64)

    def cast(self, value: ArrayLike, dtype: DTypeLike) -> str:
        from onnx import helper

        return self("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def flat(self, value: str) -> str:
        """A column as a vector."""
        return self("Reshape", value, np.array([-1]))

    def columns(self, value: str, which: ArrayLike) -> str:
        return self("Gather", value, np.asarray(which, dtype=np.int64), axis=1)

    def beside(self, *values: str) -> str:
        """Matrices next to each other, as one."""
        return values[0] if len(values) == 1 else self("Concat", *values, axis=1)

    def total(self, value: str) -> str:
        """The sum of each row, as a column."""
        return self("ReduceSum", value, np.array([1]), keepdims=1)

    def clipped(self, value: str, low: ArrayLike, high: ArrayLike) -> str:
        return self("Min", self("Max", value, low), high)

    def interpolated(self, x: str, knots: list[Array], values: list[Array]) -> str:
        """`np.interp` of each column of x, digit for digit: one binary search in all columns at once."""
        steps = int(np.ceil(np.log2(max(own.size for own in knots))))
        shape = (len(knots), 2**steps)
        place, height, slope = np.full(shape, np.inf), np.zeros(shape), np.zeros(shape)
        for row, (own, level) in enumerate(zip(knots, values, strict=True)):
            place[row, : own.size], height[row, : own.size] = own, level
            apart = np.diff(own)
            slope[row, : own.size - 1] = np.diff(level) / np.where(apart > 0, apart, 1.0)
        first, last = np.array([own[0] for own in knots]), np.array([own[-1] for own in knots])
        x = self.clipped(x, first, last)
        table = self.constant(place.ravel())
        found = self.constant(np.arange(shape[0], dtype=np.int64) * shape[1])
        for step in 2 ** np.arange(steps)[::-1]:
            further = self("Add", found, np.int64(step))
            found = self("Where", self("LessOrEqual", self("Gather", table, further), x), further, found)
        rise = self("Mul", self("Gather", slope.ravel(), found), self("Sub", x, self("Gather", table, found)))
        return self("Add", rise, self("Gather", height.ravel(), found))

    def in_blocks(self, rows: str, step: int, width: int, build: Callable[[Graph, str], str]) -> str:
        """`build` of some rows at a time, one below the other: memory is that of a block, however many rows there are.

        `build` may use nothing of the surrounding graph but `rows`: skl2onnx sorts nodes by the inputs of the
        loop, and `rows` is the only one.
        """
        from onnx import TensorProto
        from onnx.helper import make_tensor_value_info as typed

        body = Graph(self.scope, _Body(self.container.target_opset), self.numbers)
        turn, going, before = self.name(), self.name(), self.name()
        start = body("Mul", body("Reshape", turn, np.array([1])), np.array([step]))
        block = body("Slice", rows, start, body("Add", start, np.array([step])), np.array([0]))
        after = body("Concat", before, build(body, block), axis=0)
        shape = [None, width]
        state = [typed(going, TensorProto.BOOL, []), typed(before, TensorProto.DOUBLE, shape)]
        inputs = [typed(turn, TensorProto.INT64, []), *state]
        outputs = [typed(body("Identity", going), TensorProto.BOOL, []), typed(after, TensorProto.DOUBLE, shape)]
        graph = body.container.graph("block", inputs, outputs)
        height = self("Gather", self("Shape", rows), np.array(0))
        turns = self("Div", self("Add", height, np.array(step - 1)), np.array(step))
        return self("Loop", turns, np.array(True), np.zeros((0, width)), body=graph)


class _Body:
    """What holds the nodes and constants of a loop's body, in place of skl2onnx's container.

    Constants are the body's own: onnxruntime would try to merge those of the surrounding graph, and warns
    that it cannot.
    """

    def __init__(self, target_opset: int) -> None:
        self.target_opset = target_opset
        self.nodes: list[Proto] = []
        self.constants: list[Proto] = []

    def add_node(self, op: str, inputs: list[str], outputs: list[str], name: str, **attributes: Any) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, **attributes))

    def add_initializer(self, name: str, kind: int, shape: list[int], content: Proto) -> None:
        self.constants.append(content)

    def graph(self, name: str, inputs: list[Proto], outputs: list[Proto]) -> Proto:
        from onnx import helper

        return helper.make_graph(self.nodes, name, inputs, outputs, self.constants)
