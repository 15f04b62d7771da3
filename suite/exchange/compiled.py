"""Encoders and decoders as XLA functions: one pass over memory where kernels would make one for each operation."""

from collections.abc import Callable
from functools import cache
from typing import Any

NAME = "exchange_coder"
"""What the functions are called in a traced graph, so that they are not taken for compiled parts of the model."""


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, compiled once for each device, each shape of its tensors and each value of its other arguments.

    It must be pure, and a function of a module: all exchanges and replicas of a process share what was compiled.
    """
    import tensorflow as tf

    def exchange_coder(*arguments: Any) -> Any:
        return function(*arguments)

    return tf.function(exchange_coder, jit_compile=True, autograph=False)  # type: ignore[no-any-return]
