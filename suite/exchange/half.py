"""16-bit exchanges: dense gradients travel, and are summed, in half the bytes.

A replica hands in its share of the mean, so a 16-bit sum overflows only where the mean does. Rounding happens once a
replica and once a sum; nothing is kept back, so tiny gradients are lost for good: below 2^-24 in float16, not in
bfloat16, which has float32's exponents and 8 bits of precision.

Sparse gradients and the riders stay float32: rows are gathered, not summed, and TensorFlow gathers no bfloat16.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from tfscale.suite.exchange.base import Exchange, payload_of
from tfscale.suite.exchange.none import NoCompression, pack_options


class Half(Exchange):
    """What both have in common. `pack_mib` as in `none`, counted in the bytes that travel."""

    dtype: ClassVar[str]
    largest: ClassVar[float | None] = None
    """Gradients beyond are cut to it: an infinity of our own making would poison every later step."""

    def __init__(self, pack_mib: float = 25.0) -> None:
        self._rest = NoCompression(pack_mib)
        self._pack_mib = pack_mib

    def reduce(self, context: Any, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        if context.num_replicas_in_sync == 1:
            self.payload_bytes = 0
            return list(gradients), riders
        import tensorflow as tf

        dense = [place for place, gradient in enumerate(gradients) if not isinstance(gradient, tf.IndexedSlices)]
        sparse = [place for place in range(len(gradients)) if place not in set(dense)]
        with tf.name_scope("exchange/encode"):
            sent = [self._encode(gradients[place]) for place in dense]
        self.payload_bytes = payload_of([*sent, *(gradients[place] for place in sparse), riders])
        rest, summed = self._rest.reduce(context, [gradients[place] for place in sparse], riders)
        halves = context.all_reduce(tf.distribute.ReduceOp.SUM, sent, pack_options(self._pack_mib)) if sent else []
        with tf.name_scope("exchange/decode"):
            means = {place: tf.cast(half, tf.float32) for place, half in zip(dense, halves, strict=True)}
        means.update(zip(sparse, rest, strict=True))
        return [means[place] for place in range(len(gradients))], summed

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
