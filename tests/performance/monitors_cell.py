"""One process of the monitors' check: a case's median step with and without a sampler beside it; prints one document.

python tests/performance/monitors_cell.py bert --segments 4 --seconds 4
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

import monitors
import numpy as np

from tfscale.suite import registry
from tfscale.suite.monitors.sampling import Sampler, Sampling


def segment(median_step: Callable[[], float], sampled: bool, folder: Path, cards: Mapping[str, str]) -> float:
    """Median step time of one segment, with all monitors beside it or without any."""
    sampling = Sampling(sorted(registry.names("monitors")), folder)
    with Sampler(sampling, {**os.environ, **cards}) if sampled else nullcontext() as sampler:
        if sampled:
            monitors.wait_for_samples(sampling)
        found = median_step()
    if sampler is not None and sampler.reason:
        raise RuntimeError(sampler.reason)
    sampling.output.unlink(missing_ok=True)
    return found


def alternate(
    median_step: Callable[[], float], segments: int, folder: Path, cards: Mapping[str, str]
) -> dict[str, float]:
    """Segments A B B A ...; geometric means of the median steps of each. This process is the run that is watched."""
    launch = folder / "rank0" / "launch.json"
    launch.parent.mkdir()
    launch.write_text(json.dumps({"pid": os.getpid()}))
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(segments):
        for sampled in (False, True) if number % 2 == 0 else (True, False):
            found[sampled].append(segment(median_step, sampled, folder, cards))
    return {
        "without": float(np.exp(np.log(found[False]).mean())),
        "with": float(np.exp(np.log(found[True]).mean())),
    }


def main() -> None:
    import ours
    import timer_cell

    from tfscale.suite.spec import Case

    parser = argparse.ArgumentParser(description="One process of the monitors' check.")
    parser.add_argument("workload", choices=sorted(timer_cell.CASES))
    parser.add_argument("--segments", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one segment")
    parser.add_argument(
        "--cards", type=json.loads, default={}, help="JSON: variables under which a sampler finds cards"
    )
    chosen = parser.parse_args()
    case = Case(workload=chosen.workload, **timer_cell.CASES[chosen.workload])
    ours.prepare(case)
    with tempfile.TemporaryDirectory() as events, tempfile.TemporaryDirectory() as folder:
        timed = timer_cell.Timed(case, Path(events))
        timed.segment(1.0)
        found = alternate(lambda: timed.segment(chosen.seconds)[1], chosen.segments, Path(folder), chosen.cards)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
