"""What an exchange is: how the gradients of all replicas are combined, once a step, in replica context.

Each replica's gradients come in as its *share* of the mean: the step scales the loss by 1 / replicas before it
differentiates, so that no pass over memory is spent on dividing. The sum of the shares is the mean, and a 16-bit sum
cannot overflow where the mean does not.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from tfscale.suite import registry
from tfscale.suite.exchange.parse import parse


class Exchange(ABC):
    """One way to combine gradients. One instance serves one set of variables; its file imports TensorFlow in methods."""

    name: ClassVar[str]
    tolerance: ClassVar[float] = 0.0
    """Relative error that the self-check allows on top of rounding: 0 for exact exchanges."""

    payload_bytes: int | None = None
    """Bytes that one replica hands to collectives in one step, counted at their inputs; None before tracing."""

    def build(self, session: Any, variables: Sequence[Any]) -> None:
        """Create state (error feedback and the like) for `variables`. Runs under the strategy's scope."""

    @abstractmethod
    def reduce(self, context: Any, gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        """Means of the gradients and sums of the riders over all replicas.

        Args:
            context: the replica context.
            gradients: this replica's shares, each a float32 tensor or an IndexedSlices (duplicates allowed); a list as
                long as the variables. Under mixed_float16 they may hold infinities or NaN (the step is then skipped).
            riders: a small float32 vector that travels along, so that loss and control need no collective of their own.

        Returns:
            The same structure: means of the gradients (sparse ones as IndexedSlices or dense), and the summed vector.
        """


def create(text: str) -> Exchange:
    """The exchange that a case names. Raises ValueError for bad syntax or arguments, UnknownNameError for a name."""
    spec = parse(text)
    factory = registry.load("exchanges", spec.name)
    try:
        exchange = factory(**spec.arguments)
    except TypeError as error:
        raise ValueError(f"exchange {text!r}: {error}") from None
    if not isinstance(exchange, Exchange):
        raise TypeError(f"exchange {spec.name!r} is a {type(exchange).__name__}, not a tfscale Exchange")
    return exchange


def payload_of(tensors: Sequence[Any]) -> int:
    """Bytes of tensors and IndexedSlices (values and indices) whose static shapes are known; unknown ones raise ValueError."""
    total = 0
    for tensor in tensors:
        for part in (tensor.values, tensor.indices) if hasattr(tensor, "indices") else (tensor,):
            elements = part.shape.num_elements()
            if elements is None:
                raise ValueError(f"the shape {part.shape} of a gradient is not known when the step is traced")
            total += elements * part.dtype.size
    return total
