"""Error feedback: what a lossy exchange did not send is kept, and added to the gradient of the next step.

corrected = gradient + residual; residual = corrected - sent (Seide et al. 2014; Karimireddy et al. 2019, arXiv
1901.09847). So the sum over all steps of what was sent, plus the residual, is the sum of the gradients.

Usage, in the methods of an exchange:

    self._feedback = Feedback(self)                            # in __init__
    key = self._feedback.key(wire)                             # once for each vector combined
    corrected = self._feedback.correct(wire, key, gradient)
    self._feedback.keep(wire, key, corrected, sent)            # sent: what the others will decode of it
    self._feedback.settle(replica, skipped)                    # in settle
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfscale.suite.exchange.base import Exchange
    from tfscale.suite.exchange.wire import Wire


class Feedback:
    """The residuals of one exchange: one a replica and key, in variables of `Exchange.kept`, so in its checkpoints."""

    def __init__(self, exchange: "Exchange") -> None:
        self._exchange = exchange
        self._residuals: dict[int, dict[str, Any]] = {}
        self._vectors: Counter[int] = Counter()

    def key(self, wire: "Wire") -> str:
        """A key for the next vector of this step: the same number in every step, as `settle` starts them anew.

        An exchange that works on flat vectors may be given several a step, one after another (`hierarchical` in
        chunks), and each needs a residual of its own.
        """
        number = self._vectors[wire.local]
        self._vectors[wire.local] += 1
        return f"residual/{number}"

    def residual(self, wire: "Wire", key: str, shape: Sequence[int]) -> Any:
        """This replica's residual of that key: a float32 variable, zeros at first."""
        own = self._residuals.setdefault(wire.local, {})
        if key not in own:
            own[key] = self._exchange.kept(wire, key, [int(size) for size in shape])
        return own[key]

    def correct(self, wire: "Wire", key: str, gradient: Any) -> Any:
        """The gradient and what earlier steps did not send of theirs."""
        return gradient + self.residual(wire, key, gradient.shape)

    def keep(self, wire: "Wire", key: str, corrected: Any, sent: Any) -> None:
        """Keep what was not sent for the next step."""
        self.residual(wire, key, corrected.shape).assign(left(corrected, sent))

    def settle(self, replica: int, skipped: Any) -> None:
        """To be called from `Exchange.settle`: what a skipped step left is no error, so the residuals become 0."""
        import tensorflow as tf

        self._vectors[replica] = 0
        own = self._residuals.get(replica, {})
        if not own or tf.get_static_value(skipped) == 0.0:  # without loss scaling no step is ever skipped
            return

        def forget() -> Any:
            for residual in own.values():
                residual.assign(tf.zeros(residual.shape))
            return tf.zeros([])

        tf.cond(tf.greater(skipped, 0.0), forget, lambda: tf.zeros([]))


def left(corrected: Any, sent: Any) -> Any:
    """What was not sent: corrected - sent, with 0 where that is not finite."""
    return finite(corrected - sent)


def finite(values: Any) -> Any:
    """`values`, with 0 for infinities and NaN: one of a single step must not come back in all later ones."""
    import tensorflow as tf

    return tf.where(tf.math.is_finite(values), values, tf.zeros_like(values))
