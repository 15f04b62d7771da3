"""What sampling costs: the sampler's share of a core with all monitors on, and the change of a step beside it."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import processes
import psutil
import stats

sys.path.append(str(Path(__file__).resolve().parent.parent / "nvml"))
import double
from rows import Bound, Part, Row, from_quantity

from tfscale.suite import registry
from tfscale.suite.monitors import series
from tfscale.suite.monitors.sampling import Sampler, Sampling
from tfscale.suite.timing.trials import paired_ratio

SCENARIO = "healthy-8gpu"
"""What stands in for a node's cards, of tests/nvml/scenarios."""
MOST_OF_A_CORE = 0.02
MOST_CHANGE = 1.01
WORKLOADS = ("bert", "vit", "recommender")
METHOD = (
    "All registered monitors at 10 Hz, process lists and slow columns at 1 Hz. Cost: CPU time of the sampler's process as "
    "the kernel counts it between two looks, over the time between them, after its start; and the sampler's own account, "
    "which every record holds. One sampler gives one value, Student's interval over samplers. Change: median step of a "
    "case in short segments with the sampler at work and stopped (SIGSTOP), A B B A, in one process; Student's interval over "
    "pairs of segments (log ratios), because the machine's speed drifts more between processes than a sampler could cost."
)


@dataclass(frozen=True)
class Cost:
    """Shares of one core, and the reading that took longest, in seconds."""

    kernel: float
    own: float
    longest_s: float
    overruns: int


def run(quick: bool, cells: str = "") -> Part:
    """`cells`: a part of `cost`, or of the names of the workloads wanted."""
    names = sorted(registry.names("monitors"))
    with tempfile.TemporaryDirectory() as folder:
        cards = double.environment(double.build(Path(folder)), SCENARIO)
        rows = cost(quick, names, cards) if cells in "cost" else []
        rows += [row for name in WORKLOADS if cells in name for row in change(name, quick, cards)]
    return Part("monitors", "What sampling costs", METHOD, rows)


def cost(quick: bool, names: Sequence[str], cards: Mapping[str, str]) -> list[Row]:
    """Rows of the sampler's own cost. `cards`: variables under which it finds cards; without, it has this machine's."""
    found = [one_cost(names, cards, 3.0 if quick else 20.0) for _ in range(2 if quick else 5)]
    beside = f"NVML double, {SCENARIO}" if cards else "this machine's cards"
    note = f"{', '.join(names)}; {beside}; longest reading {max(c.longest_s for c in found) * 1e3:.1f} ms"
    bound = Bound("at_most", MOST_OF_A_CORE, "of a core", strict=not quick)
    missed = sum(c.overruns for c in found)
    return [
        from_quantity("sampler, by the kernel", stats.mean([c.kernel for c in found], "1"), bound=bound, note=note),
        from_quantity("sampler, by its own account", stats.mean([c.own for c in found], "1")),
        Row("ticks missed", float(missed), "1", "measured", len(found), note="of all samplers together"),
    ]


def one_cost(names: Sequence[str], cards: Mapping[str, str], seconds: float) -> Cost:
    """Run a sampler for `seconds` after its first samples. Raises RuntimeError where it has none."""
    with tempfile.TemporaryDirectory() as folder:
        sampling = Sampling(names, Path(folder))
        with Sampler(sampling, {**os.environ, **cards}) as started:
            wait_for_samples(sampling)
            began, before = time.monotonic(), _cpu_s(started)
            time.sleep(seconds)
            share = (_cpu_s(started) - before) / (time.monotonic() - began)
        found = series.read(sampling.output)
    failed = {name: monitor.failure for name, monitor in found.monitors.items() if monitor.failure}
    if started.reason or found.end is None or failed:
        raise RuntimeError(f"the sampler failed: {started.reason}, {failed}")
    accounts = found.end["monitors"].values()
    longest_s = max(account["longest_s"] for account in accounts)
    return Cost(share, found.end["cpu_s"] / found.end["wall_s"], longest_s, found.end["missed"])


def wait_for_samples(sampling: Sampling) -> None:
    """Wait for its first samples. Raises RuntimeError after 10 s without."""
    deadline = time.monotonic() + 10.0
    while not (sampling.output.exists() and b'"v":' in sampling.output.read_bytes()):
        if time.monotonic() > deadline:
            raise RuntimeError("the sampler has written no samples within 10 s")
        time.sleep(0.01)


def _cpu_s(sampler: Sampler) -> float:
    times = psutil.Process(sampler.pid).cpu_times()
    return float(times.user + times.system)


def change(workload: str, quick: bool, cards: Mapping[str, str]) -> list[Row]:
    """Rows of the median step with monitors over without, of one workload's smallest case."""
    arguments = ["--pairs", "6" if quick else "100", "--seconds", "1.0" if workload == "bert" else "0.5"]
    arguments += ["--cards", json.dumps(dict(cards))]
    found = processes.script("monitors_cell.py", workload, *arguments)
    ratio = paired_ratio(found["without"], found["with"])
    bound = Bound("at_most", MOST_CHANGE, strict=not quick)
    return [
        from_quantity(f"{workload}: median step without monitors", stats.mean(found["without"], "s")),
        from_quantity(f"{workload}: median step, with / without monitors", ratio, n=len(found["with"]), bound=bound),
    ]
