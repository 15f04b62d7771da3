"""One process of the comparison with keras-hub: one model, precision and XLA value; prints one JSON document.

    python tests/performance/peers_cell.py speed bert mixed_bfloat16 cluster --pairs 4 --seconds 3
    python tests/performance/peers_cell.py equal vit float32 none

`speed` alternates segments of ours and theirs in the order A B B A: both see the same machine, the same thread pool
and the same drift. `equal` compares losses of the same weights and batch, dropout 0.
"""

import argparse
import json
import sys
import time
from typing import Any

from tfscale.suite import workload
from tfscale.suite.spec import Case

CASES: dict[str, dict[str, Any]] = {
    "bert": {"preset": "small", "per_replica_batch": 8},
    "vit": {"preset": "ti_16", "per_replica_batch": 8},
}
EQUAL_STEPS = 5


def case_of(name: str, precision: str, xla: str) -> Case:
    return Case(workload=name, precision=precision, xla=xla, **CASES[name])  # type: ignore[arg-type]


class Theirs:
    """keras-hub's model in `fit`, on one cached batch."""

    def __init__(self, case: Case, dropout: float | None) -> None:
        import keras
        import peer_models
        import tensorflow as tf

        own = workload.load(case.workload)
        self.peer = peer_models.PEERS[case.workload]
        self.model = peer_models.build(own, case.preset, dropout, case.xla == "cluster")
        batch = own.synthetic(case.preset, seed=case.seed, index=0, batch=case.step_batch, options={"index": "uniform"})
        self.data = tf.data.Dataset.from_tensors(self.peer.batch(batch)).repeat().prefetch(tf.data.AUTOTUNE)

        class Stamps(keras.callbacks.Callback):
            """Times a fit from the end of its first step, so that making the iterator is not in it, to its last fetch."""

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                if batch == 0:
                    self.begin, self.begin_cpu = time.perf_counter(), time.process_time()

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                self.loss = logs["loss"]
                self.end, self.end_cpu = time.perf_counter(), time.process_time()

        self.stamps = Stamps()

    def segment(self, steps: int) -> tuple[float, float]:
        """Wall and CPU seconds a step."""
        self.model.fit(self.data, steps_per_epoch=steps + 1, shuffle=False, verbose=0, callbacks=[self.stamps])
        s = self.stamps
        return (s.end - s.begin) / steps, (s.end_cpu - s.begin_cpu) / steps

    def losses(self, steps: int) -> list[float]:
        """Loss before each of `steps` updates."""
        found = []
        for _ in range(steps):
            self.model.fit(self.data, steps_per_epoch=1, shuffle=False, verbose=0, callbacks=[self.stamps])
            found.append(float(self.stamps.loss))
        return found


class Ours:
    """The same case as `tfscale run` trains it."""

    def __init__(self, case: Case, dropout: float | None) -> None:
        import ours

        self.job = ours.build(case, dropout)

    def segment(self, steps: int) -> tuple[float, float]:
        """Wall and CPU seconds a step, the last step's result fetched."""
        begin, begin_cpu = time.perf_counter(), time.process_time()
        self.job.runner.dispatch(steps, 0.0).fetch()
        return (time.perf_counter() - begin) / steps, (time.process_time() - begin_cpu) / steps

    def losses(self, steps: int) -> list[float]:
        return [self.job.runner.dispatch(1, 0.0).fetch().loss for _ in range(steps)]


def equal(case: Case) -> dict[str, Any]:
    """Losses of both from the same weights, dropout 0."""
    from tfscale.suite.workload import BuildContext

    # Built a second time only to be copied: the same seed gives the weights that the job starts from.
    source = workload.load(case.workload).build(case.preset, BuildContext(seed=case.seed, dropout=0.0))
    own, theirs = Ours(case, 0.0), Theirs(case, 0.0)
    theirs.peer.copy(source, theirs.model)
    return {
        "ours": own.losses(EQUAL_STEPS),
        "theirs": theirs.losses(EQUAL_STEPS),
        "parameters_ours": own.job.parameters,
        "parameters_theirs": int(theirs.model.count_params()),
    }


def speed(case: Case, pairs: int, seconds: float) -> dict[str, Any]:
    """Step times of alternating segments, A B B A A B B A ..., `pairs` of each, after both have compiled."""
    own, theirs = Ours(case, None), Theirs(case, None)
    for side in (own, theirs):
        side.segment(2)
    steps = {side: max(3, round(seconds / side.segment(2)[0])) for side in (own, theirs)}
    times: dict[Any, list[tuple[float, float]]] = {own: [], theirs: []}
    for number in range(pairs):
        for side in (own, theirs) if number % 2 == 0 else (theirs, own):
            times[side].append(side.segment(steps[side]))
    return {
        name: {
            "step_s": [wall for wall, _ in times[side]],
            "cpu_s": [cpu for _, cpu in times[side]],
            "steps": steps[side],
        }
        for name, side in (("ours", own), ("theirs", theirs))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="One cell of the comparison with keras-hub.")
    parser.add_argument("what", choices=["equal", "speed", "profile"])
    parser.add_argument("workload", choices=sorted(CASES))
    parser.add_argument("precision")
    parser.add_argument("xla", choices=["none", "cluster"])
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one segment")
    chosen = parser.parse_args()
    import ours

    case = case_of(chosen.workload, chosen.precision, chosen.xla)
    ours.prepare(case)
    if chosen.what == "equal":
        found = equal(case)
    elif chosen.what == "speed":
        found = speed(case, chosen.pairs, chosen.seconds)
    else:
        import peers_profile

        found = peers_profile.both(Ours(case, None), Theirs(case, None))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
