"""Counts the FLOPs of matmul-class operations in a concrete function from the shapes in its graph.

This is the independent check of the analytic formulas. TensorFlow's own profiler is none: it registers no formula for
Einsum and counts softmax.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def count(function: Any) -> dict[str, int]:
    """Operation type -> FLOPs (one multiply-add counts 2) of one call of `function`, a ConcreteFunction.

    Functions that the graph calls are counted at each call, operations that nothing needs are not; both branches of a
    conditional and one pass of a loop's body are counted. Raises ValueError where a shape that is needed is not static.
    """
    counts: Counter[str] = Counter()
    _count_graph(function.graph, counts)
    return dict(counts)


def _count_graph(graph: Any, counts: Counter[str]) -> None:
    for op in _live(graph):
        if op.type in COUNTERS:
            counts[op.type] += COUNTERS[op.type](op)
        for called in _called_functions(op):
            _count_graph(_body(graph, called), counts)


def _live(graph: Any) -> set[Any]:
    """The operations that the graph's outputs or effects need; TensorFlow prunes the others before it runs them."""
    pending = [tensor.op for tensor in graph.outputs] + list(graph.control_outputs)
    live: set[Any] = set()
    while pending:
        op = pending.pop()
        if op not in live:
            live.add(op)
            pending += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return live


def _called_functions(op: Any) -> list[str]:
    """Names of the functions that `op` runs in the forward direction of its graph."""
    names = []
    for value in op.node_def.attr.values():
        names += [value.func.name] if value.HasField("func") else [f.name for f in value.list.func]
    return names


def _body(graph: Any, name: str) -> Any:
    while graph is not None:
        function = graph._get_function(name)  # no public accessor in any TensorFlow 2 release
        if function is not None:
            return function.graph
        graph = getattr(graph, "outer_graph", None)
    raise ValueError(f"the graph has no function {name!r}")


def _dimensions(tensor: Any) -> list[int]:
    if not tensor.shape.is_fully_defined():
        raise ValueError(f"the shape of {tensor.name} is not static: {tensor.shape}")
    return list(tensor.shape.as_list())


def _matmul(op: Any) -> int:
    left = _dimensions(op.inputs[0])
    inner = left[0] if op.get_attr("transpose_a") else left[1]
    return 2 * math.prod(_dimensions(op.outputs[0])) * inner


def _batch_matmul(op: Any) -> int:
    left = _dimensions(op.inputs[0])
    inner = left[-2] if op.get_attr("adj_x") else left[-1]
    return 2 * math.prod(_dimensions(op.outputs[0])) * inner


def _einsum(op: Any) -> int:
    """2 x the product of all named dimensions; an equation on one operand multiplies nothing."""
    operands = op.get_attr("equation").decode().split("->")[0].split(",")
    if len(operands) == 1:
        return 0
    sizes: dict[str, int] = {}
    for labels, tensor in zip(operands, op.inputs, strict=True):
        shape = _dimensions(tensor)
        before, dots, after = labels.partition("...")
        extra = len(shape) - len(before) - len(after)
        # Dimensions under the ellipsis are numbered from the right, as broadcasting aligns them.
        named = [*before, *(str(n) for n in range(extra, 0, -1) if dots), *after]
        for label, size in zip(named, shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    return 2 * math.prod(sizes.values())


def _convolution(kernel: list[int], output: list[int]) -> int:
    """2 x output positions and channels x kernel height, width and input channels; the data format does not matter."""
    return 2 * math.prod(output) * math.prod(kernel[:3])


def _conv2d(op: Any) -> int:
    return _convolution(_dimensions(op.inputs[1]), _dimensions(op.outputs[0]))


def _conv2d_filter_gradient(op: Any) -> int:
    return _convolution(_dimensions(op.outputs[0]), _dimensions(op.inputs[2]))


def _conv2d_input_gradient(op: Any) -> int:
    return _convolution(_dimensions(op.inputs[1]), _dimensions(op.inputs[2]))


COUNTERS: dict[str, Callable[[tf.Operation], int]] = {
    "MatMul": _matmul,
    "BatchMatMul": _batch_matmul,
    "BatchMatMulV2": _batch_matmul,
    "BatchMatMulV3": _batch_matmul,
    "Einsum": _einsum,
    "Conv2D": _conv2d,
    "Conv2DBackpropFilter": _conv2d_filter_gradient,
    "Conv2DBackpropInput": _conv2d_input_gradient,
}
