"""16-bit exchanges: dense gradients travel, and are summed, in half the bytes.

A replica hands in its share of the mean, so a 16-bit sum overflows only where the mean does. Rounding happens once a
replica and once a sum; nothing is kept back, so tiny gradients are lost for good: below 2^-24 in float16, not in
bfloat16, which has float32's exponents and 8 bits of precision.

Sparse gradients and the riders stay float32: rows are gathered, not summed, and TensorFlow gathers no bfloat16.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from tfscale.suite.exchange.dense import FlatExchange
from tfscale.suite.exchange.none import NoCompression
from tfscale.suite.exchange.wire import PACK_MIB, Wire


class Half(FlatExchange):
    """What both have in common. `pack_mib` as in `none`, counted in the bytes that travel."""

    exact = False
    smallest = 0
    dtype: ClassVar[str]
    largest: ClassVar[float | None] = None
    """Gradients beyond are cut to it: an infinity of our own making would poison every later step."""

    def __init__(self, pack_mib: float = PACK_MIB) -> None:
        super().__init__()
        self._rest = NoCompression(pack_mib)
        self._pack_mib = pack_mib

    def combine(self, wire: Wire, places: Sequence[int], gradients: Sequence[Any]) -> list[Any]:
        # Not as one vector: each pack then leaves while the backward pass still runs.
        import tensorflow as tf

        with tf.name_scope("exchange/encode"):
            sent = [self._encode(gradient) for gradient in gradients]
        halves = wire.sum(sent, self._pack_mib)
        with tf.name_scope("exchange/decode"):
            return [tf.cast(half, tf.float32) for half in halves]

    def combine_flat(self, wire: Wire, flat: Any) -> Any:
        return self.combine(wire, [0], [flat])[0]

    def _encode(self, gradient: Any) -> Any:
        import tensorflow as tf

        if self.largest is not None:
            gradient = tf.clip_by_value(gradient, -self.largest, self.largest)  # a NaN stays one
        return tf.cast(gradient, self.dtype)


class Fp16(Half):
    """`fp16`: IEEE half precision, 11 bits of precision; gradients beyond 65504 are cut to it."""

    name = "fp16"
    tolerance = 2.0**-10
    dtype = "float16"
    largest = 65504.0


class Bf16(Half):
    """`bf16`: bfloat16, 8 bits of precision and the range of float32."""

    name = "bf16"
    tolerance = 2.0**-7
    dtype = "bfloat16"
