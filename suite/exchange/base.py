"""What an exchange is: how the gradients of all replicas are combined, once a step, in replica context.

Each replica's gradients come in as its *share* of the mean: the step scales the loss by 1 / replicas before it
differentiates, so that no pass over memory is spent on dividing. The sum of the shares is the mean, and a 16-bit sum
cannot overflow where the mean does not.

An exchange never calls a collective of TensorFlow itself: it hands tensors to a `Wire`, which counts their bytes. The
same code then runs over tf.distribute, over part of the replicas, and without any network to time encoding alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tfscale.suite import registry
from tfscale.suite.exchange.parse import parse

if TYPE_CHECKING:
    from tfscale.suite.exchange.wire import Wire
    from tfscale.suite.spec import Case
    from tfscale.suite.strategies.base import Session


class Exchange(ABC):
    """One way to combine gradients. One instance serves one set of variables; its file imports TensorFlow in methods."""

    name: ClassVar[str]
    tolerance: float = 0.0
    """Relative error that the self-check allows on top of rounding: 0 for exact exchanges."""
    moves: Literal["all", "some"] = "all"
    """What one step moves of a large dense gradient. all: every element, to the mean within `tolerance`. some: part of
    the elements, each to the mean within `tolerance`, and the others not at all; they come in later steps."""
    cycle: int = 1
    """Steps after which all that was handed in has been applied; the self-check looks after that many."""
    drifts: bool = False
    """Whether weights and slots of the replicas differ between its exchanges, so that each replica's own are saved."""
    exact: bool = True
    """Whether the mean is that of `none` up to the order of float32 sums; a lossy exchange is judged by its loss curve."""

    def refuses(self, case: "Case") -> str | None:
        """Why `case` cannot be run with this exchange, or None; asked before anything is started."""
        return None

    def __init__(self) -> None:
        self._session: Session | None = None
        self._kept: dict[str, dict[int, Any]] = {}

    def build(self, session: "Session", variables: Sequence[Any]) -> None:
        """Called once before tracing, under the strategy's scope, with the variables whose gradients will come."""
        self._session = session

    def kept(self, wire: "Wire", name: str, shape: Sequence[int]) -> Any:
        """This replica's own float32 variable of that name, zeros at first; made when it is first asked for.

        Made while the step is traced and not in `build`, because only then is it known which gradients are sparse: a
        residual beside an embedding table would double its memory for nothing. Each replica makes its own: in replica
        context, outside of the traced function, no strategy makes a variable of several parts.
        """
        import tensorflow as tf

        assert self._session is not None, "build comes first"
        own = self._kept.setdefault(name, {})
        if wire.local not in own:
            with tf.init_scope():
                zeros = tf.zeros(shape)
            own[wire.local] = _plain_variable(zeros, f"exchange/{name}")
        return own[wire.local]

    @abstractmethod
    def reduce(self, wire: "Wire", gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        """Means of the gradients and sums of the riders over all replicas.

        Args:
            wire: what carries tensors between the replicas, seen from this one.
            gradients: this replica's shares, each a float32 tensor or an IndexedSlices (duplicates allowed); a list as
                long as the variables. Under mixed_float16 they may hold infinities or NaN (the step is then skipped).
            riders: a small float32 vector that travels along, so that loss and control need no collective of their own.

        Returns:
            The same structure: means of the gradients (sparse ones as IndexedSlices or dense), and the summed vector.
        """

    def after_update(self, wire: "Wire", variables: Sequence[Any], updates: Any) -> None:
        """Called once a step in replica context, after the update; for exchanges of weights instead of gradients.

        Args:
            wire: the one of this step's `reduce`.
            variables: this replica's own plain variables, to be changed in place.
            updates: integer scalar, the number of this step's update, from 1; a skipped step's comes again.
        """

    def settle(self, replica: int, skipped: Any) -> None:
        """Called after each step in replica context. `replica`: the local one; `skipped`: 1.0 when the step was.

        State that a skipped step has changed is reset here: what its gradients left in an error feedback is no error.
        """

    def state(self, replica: int) -> list[Any]:
        """The plain variables that hold the state of local replica number `replica`, to be saved in checkpoints."""
        return [own[replica] for own in self._kept.values() if replica in own]

    def resolved(self) -> str | None:
        """What this exchange came down to, as a suite would name it; None where there is, or so far was, no choice."""
        return None

    def told(self) -> dict[str, Any]:
        """What the record's `effective` is to say of it, once the step is traced: plain JSON, the same on all ranks.

        `resolved`, with `resolved_reason`, where it chose among others: only equal ones are compared.
        """
        return {}


def _plain_variable(value: Any, name: str) -> Any:
    """A variable where `value` lies, made in a thread of its own, where neither a strategy nor a trace intervenes.

    One that replica context makes while a function is traced counts as that function's, which is then traced again.
    """
    import tensorflow as tf

    def make() -> Any:
        with tf.device(value.device):
            return tf.Variable(value, trainable=False, name=name)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()


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
