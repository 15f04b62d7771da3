"""One process of the monitors' check: a case's median step with the sampler at work and at rest; prints one document.

python tests/performance/monitors_cell.py bert --pairs 100 --seconds 0.5

The sampler is stopped and continued (SIGSTOP, SIGCONT) between short segments, so that a pair of them sees the same
machine: its speed drifts far more within a minute than a sampler could cost.
"""

import argparse
import itertools
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import monitors

from tfscale.suite import registry
from tfscale.suite.monitors.sampling import Sampler, Sampling


def median_step(step: Callable[[], object], seconds: float) -> float:
    """Median duration of the steps that begin within `seconds`; each is waited for."""
    stamps = [time.perf_counter()]
    while stamps[-1] - stamps[0] < seconds:
        step()
        stamps.append(time.perf_counter())
    return statistics.median(end - begin for begin, end in itertools.pairwise(stamps))


def alternate(
    step: Callable[[], object], pairs: int, seconds: float, folder: Path, cards: dict[str, str]
) -> dict[str, list[float]]:
    """Segments A B B A ...: the median steps without and with the sampler. This process is the run that is watched.

    `cards`: variables under which the sampler finds cards.
    """
    launch = folder / "rank0" / "launch.json"
    launch.parent.mkdir()
    launch.write_text(json.dumps({"pid": os.getpid()}))
    found: dict[str, list[float]] = {"without": [], "with": []}
    sampling = Sampling(sorted(registry.names("monitors")), folder)
    with Sampler(sampling, {**os.environ, **cards}) as sampler:
        monitors.wait_for_samples(sampling)
        assert sampler.pid is not None, sampler.reason
        for number in range(pairs):
            for name in ("without", "with") if number % 2 == 0 else ("with", "without"):
                os.kill(sampler.pid, signal.SIGCONT if name == "with" else signal.SIGSTOP)
                found[name].append(median_step(step, seconds))
        os.kill(sampler.pid, signal.SIGCONT)
    if sampler.reason:
        raise RuntimeError(sampler.reason)
    return found


def main() -> None:
    import ours
    import timer_cell

    from tfscale.suite.spec import Case

    parser = argparse.ArgumentParser(description="One process of the monitors' check.")
    parser.add_argument("workload", choices=sorted(timer_cell.CASES))
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one segment")
    parser.add_argument(
        "--cards", type=json.loads, default={}, help="variables under which the sampler finds cards, JSON"
    )
    chosen = parser.parse_args()
    case = Case(workload=chosen.workload, **timer_cell.CASES[chosen.workload])
    ours.prepare(case)
    runner = ours.build(case).runner
    for _ in range(5):
        runner.dispatch(1, 0.0).fetch()
    with tempfile.TemporaryDirectory() as folder:
        step = lambda: runner.dispatch(1, 0.0).fetch()  # noqa: E731
        found = alternate(step, chosen.pairs, chosen.seconds, Path(folder), chosen.cards)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
