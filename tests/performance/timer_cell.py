"""One process of the timer's check: a case under the block timer against a bare loop; prints one JSON document.

    python tests/performance/timer_cell.py bert --segments 4 --seconds 4

The bare loop is what one would write by hand around the same traced step: perf_counter and one host fetch a block.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import ours

from tfscale.suite.events import EventLog
from tfscale.suite.spec import Case
from tfscale.suite.summarise import time_in_lockstep
from tfscale.suite.timed import Heart
from tfscale.suite.timing.clock import MonotonicClock
from tfscale.suite.timing.loop import measure
from tfscale.suite.timing.stopping import LoopSettings

CASES: dict[str, dict[str, Any]] = {
    "bert": {"preset": "tiny", "per_replica_batch": 8},
    "vit": {"preset": "micro", "per_replica_batch": 32},
    "recommender": {"preset": "micro", "per_replica_batch": 256},
}


class Timed:
    """The case as a rank times it: block timer, heartbeats to an event log, mean and median of the steady window."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.runner = ours.build(case).runner
        self.events = EventLog(folder)
        self.block_steps = 1

    def segment(self, seconds: float) -> tuple[float, float]:
        """Mean and median step time, as the record has them."""
        settings = LoopSettings(budget_s=seconds, min_s=seconds, target=1e-9)
        heart = Heart(self.events)
        series = measure(self.runner, MonotonicClock(), settings, decides=True, on_block=heart.beat)
        self.block_steps = series.block_steps
        timing = time_in_lockstep([series], [0.0])
        return float(timing.step_time.value or 0.0), float(np.median(timing.window_seconds))


class Bare:
    """A hand-written loop over the very step that the timer times, so that nothing differs but the timing."""

    def __init__(self, timed: Timed) -> None:
        import tensorflow as tf

        self.step = timed.runner.traced
        self.progress, self.control = tf.zeros([5], tf.float64), tf.zeros([])

    def segment(self, seconds: float, block: int) -> tuple[float, float]:
        """Mean step time of all steps, and the median over blocks of as many steps as the timer's blocks have."""
        stamps = [time.perf_counter()]
        while stamps[-1] - stamps[0] < seconds:
            for _ in range(block):
                self.progress = self.step(self.progress, self.control)
            self.progress.numpy()
            stamps.append(time.perf_counter())
        blocks = np.diff(stamps) / block
        return float(np.mean(blocks)), float(np.median(blocks))


def alternate(case: Case, segments: int, seconds: float) -> dict[str, Any]:
    """Segments A B B A ...; geometric means over the segments of each."""
    with tempfile.TemporaryDirectory() as folder:
        timed = Timed(case, Path(folder))
        timed.segment(1.0)
        bare = Bare(timed)
        bare.segment(1.0, timed.block_steps)
        found: dict[str, list[tuple[float, float]]] = {"timed": [], "bare": []}
        for number in range(segments):
            for name in ("timed", "bare") if number % 2 == 0 else ("bare", "timed"):
                once = timed.segment(seconds) if name == "timed" else bare.segment(seconds, timed.block_steps)
                found[name].append(once)
    centres = {name: np.exp(np.log(values).mean(axis=0)).tolist() for name, values in found.items()}
    return {"block_steps": timed.block_steps, **centres}


def main() -> None:
    parser = argparse.ArgumentParser(description="One process of the timer's check.")
    parser.add_argument("workload", choices=sorted(CASES))
    parser.add_argument("--segments", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one segment")
    chosen = parser.parse_args()
    case = Case(workload=chosen.workload, **CASES[chosen.workload])
    ours.prepare(case)
    json.dump(alternate(case, chosen.segments, chosen.seconds), sys.stdout)


if __name__ == "__main__":
    main()
