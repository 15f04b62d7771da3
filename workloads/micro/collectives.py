"""One rank of `tfscale bench collectives`: chains of collectives through TensorFlow's own ops, timed and checked.

A call is one traced function: all ranks meet in a small sum, the clock is read, the operations follow, each on what the
one before gave, and the clock is read again. So neither Python nor the start of a call is timed. How long a chain is
and how often it is called follows from the sizes before it and from what is left of the budget, by numbers that all
ranks share: they must all make the same calls.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tfscale.suite import workload
from tfscale.suite.benchforms import CELLS, SETTINGS, Cell, RankCells, Settings
from tfscale.suite.events import EventLog
from tfscale.suite.exchange.wire import Wire
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import LOG, write_atomic
from tfscale.suite.worker import as_rank, leave
from tfscale.workloads.micro.operations import TIMED, Timed, longest_chain, why_missing

if TYPE_CHECKING:
    from tfscale.suite.strategies.base import Strategy
    from tfscale.suite.strategies.synchronous import SynchronousSession

CALL_S = 0.05
"""About as long as one call lasts where operations are short."""
MOST_IN_A_CHAIN, MOST_CALLS, FEWEST_CALLS = 16, 20, 3
SMALL = 64 * 1024
"""Bytes up to which a first size is tried in a chain: nothing is known yet of the link, and it may be slow."""
SWEEP = "sweep"
Call = Callable[[], tuple[float, Any]]
"""Seconds of the chain, and its result."""


def main(plan: RankPlan) -> int:
    """Measure what `collectives.json` beside the trial's folder asks for; the exit code."""
    return as_rank(plan, _run)


def _run(plan: RankPlan, strategy: "Strategy", events: EventLog) -> None:
    import tensorflow as tf

    from tfscale.suite.strategies import devices

    tf.get_logger().setLevel("INFO")
    events.phase("imported")
    devices.configure(plan)
    session = strategy.open(plan)
    events.phase("joined", replicas=session.replicas)
    settings = Settings.model_validate_json((Path(plan.trial_directory).parent / SETTINGS).read_bytes())
    events.phase("first_step")
    events.phase("steady")
    directory = Path(plan.directory)
    sweep = Sweep(session, plan, settings, events)
    pairs = ()
    if settings.pairs:
        from tfscale.workloads.micro.pairs import measured

        pairs = measured(session, sweep.beat)
    cells = sweep.run()
    effective = session.effective((directory / LOG).read_text(errors="replace"))
    found = RankCells(rank=plan.rank, cells=cells, pairs=pairs, effective=effective)
    write_atomic(directory / CELLS, found.model_dump_json().encode())
    events.phase("written")
    leave(session)


class Sweep:
    """All operations at all sizes on one rank."""

    def __init__(self, session: "SynchronousSession", plan: RankPlan, settings: Settings, events: EventLog) -> None:
        self._session, self._plan, self._settings, self._events = session, plan, settings, events
        self._agree = traced(session, lambda mine: of_first(session.wire(), mine))
        self._beats = 0

    def run(self) -> tuple[Cell, ...]:
        """The cells in order; those that TensorFlow has no kernel for, or the budget no time, say so."""
        deadline = time.perf_counter() + self._settings.budget_s
        sizes = [(size, SWEEP) for size in self._settings.sizes]
        if self._settings.sizes_of:
            name, preset = self._settings.sizes_of
            sizes += [(size, f"{name}/{preset}") for size in gradient_sizes(name, preset)]
        cells: list[Cell] = []
        kinds = [TIMED[name] for name in self._settings.operations]
        left = [kind for kind in kinds if why_missing(kind.name, self._plan.accelerator) is None]
        for kind in kinds:
            if reason := why_missing(kind.name, self._plan.accelerator):
                cells += [self._cell(kind, size, origin, reason=reason) for size, origin in sizes]
                continue
            share = self._agreed(deadline - time.perf_counter()) / len(left)
            left.remove(kind)
            cells += self._operation(kind, sizes, share)
        return tuple(cells)

    def beat(self) -> None:
        """Tell the watcher that something was completed."""
        self._beats += 1
        self._events.progress(self._beats)

    def _operation(self, kind: Timed, sizes: Sequence[tuple[int, str]], share_s: float) -> list[Cell]:
        """The cells of one operation in about `share_s` seconds. Sizes are taken in rising order, whatever they are of."""
        until = time.perf_counter() + share_s
        found: dict[tuple[int, str], Cell] = {}
        known: tuple[int, float] | None = None
        for number, (size, origin) in enumerate(sorted(sizes)):
            left = self._agreed(until - time.perf_counter())
            expected = known[1] * max(1.0, size / known[0]) if known else None
            # One call is checked, one is timed.
            if left <= 0 or (expected is not None and 2 * expected > left):
                found[size, origin] = self._cell(kind, size, origin, reason="the time budget does not hold it")
                continue
            cell = self._measured(kind, size, origin, expected, left / (len(sizes) - number))
            found[size, origin] = cell
            known = (cell.size, self._agreed(float(np.mean(cell.seconds))))
            self.beat()
        return [found[each] for each in sizes]

    def _measured(self, kind: Timed, size: int, origin: str, expected: float | None, share_s: float) -> Cell:
        until = time.perf_counter() + share_s
        ranks, rank = self._session.replicas, self._session.first_replica
        count = kind.count(size, ranks)
        chain = (8 if size <= SMALL else 1) if expected is None else int(CALL_S / expected)
        chain = max(1, min(chain, MOST_IN_A_CHAIN, longest_chain(ranks)))
        call = self._traced(kind, count, chain)
        wanted = kind.expected(rank, ranks, count, chain)
        first, out = call()
        wrong = int(np.count_nonzero(np.asarray(out) != wanted))
        calls = int(self._agreed((until - time.perf_counter()) / max(first, 1e-6)))
        seconds = []
        for _ in range(max(FEWEST_CALLS if expected is None else 1, min(calls, MOST_CALLS))):
            taken, out = call()
            seconds.append(taken / chain)
        wrong += int(np.count_nonzero(np.asarray(out) != wanted))
        return self._cell(kind, size, origin, chain=chain, seconds=tuple(seconds), wrong=wrong)

    def _cell(self, kind: Timed, size: int, origin: str, **found: Any) -> Cell:
        ranks = self._session.replicas
        count = kind.count(size, ranks)
        return Cell(operation=kind.name, size=kind.size(count, ranks), count=count, origin=origin, **found)

    def _traced(self, kind: Timed, count: int, chain: int) -> Call:
        import tensorflow as tf

        session = self._session
        given = kind.given(session.first_replica, session.replicas, count)

        def replica(value: Any) -> Any:
            wire = session.wire()
            (met,) = wire.sum([tf.ones([1])], 0)
            with tf.control_dependencies([met]):
                began = tf.timestamp()
            with tf.control_dependencies([began]):
                value = tf.identity(value)
            for number in range(chain):
                value, out = kind.once(wire, value, number)
            with tf.control_dependencies([out]):
                return tf.timestamp() - began, out

        run, value = traced(session, replica), tf.constant(given)

        def call() -> tuple[float, Any]:
            seconds, out = run(value)
            return float(seconds), out

        return call

    def _agreed(self, value: float) -> float:
        """Rank 0's `value`, on every rank."""
        import tensorflow as tf

        return float(self._agree(tf.constant(value, tf.float64)))


def traced(session: "SynchronousSession", fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`fn` in replica context on this rank's value, traced when it is first called; this rank's result."""
    import tensorflow as tf

    run = tf.function(lambda value: session.strategy.run(fn, args=(value,)), autograph=False)

    def call(value: Any) -> Any:
        (result,) = session.strategy.experimental_local_results(run(session.per_replica([value])))
        return result

    return call


def of_first(wire: Wire, mine: Any) -> Any:
    """What replica 0 handed in."""
    import tensorflow as tf

    return wire.sum([tf.identity(mine) if wire.replica == 0 else tf.zeros_like(mine)], 0)[0]


def gradient_sizes(name: str, preset: str) -> list[int]:
    """Bytes of the float32 gradients of a model's variables, each size once, and of all of them together, rising."""
    from tfscale.suite.training.step import flat_variables

    model = workload.load(name).build(preset, workload.BuildContext(seed=0))
    sizes = [4 * int(variable.shape.num_elements()) for variable in flat_variables(model)]
    return sorted({*sizes, sum(sizes)})
