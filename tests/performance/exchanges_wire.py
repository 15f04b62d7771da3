"""Bytes on the wire: what the interface in a rank's namespace sent, against what its exchange reports."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rows import Bound, Row

from tfscale.suite import environment, registry
from tfscale.suite.launch import Bench
from tfscale.suite.launch import launch as launch_case
from tfscale.suite.launchers.local import LAUNCH
from tfscale.suite.planner import Place
from tfscale.suite.rankfiles import RankResult, read_result
from tfscale.suite.spec import Case, Measure

TURNS = {"sum": 1.0, "gather": 1.0, "all_to_all": 0.5}
"""Bytes that one of two ranks sends for a byte that it hands in: 2 (n - 1) / n, n - 1, (n - 1) / n."""
COUNTED, FRAMED = 0.03, 0.05
"""Relative error of the count, and what Ethernet, IP and TCP add: 66 bytes to 1,448 in the worst case."""
STEPS, STEPS_OF_FEW_BYTES = 20, 100


def wire_rows(exchanges: Sequence[str], axes: dict[str, Any], quick: bool) -> list[Row]:
    cores = environment.host_cores()
    with registry.load("launchers", "netlab")() as launcher, tempfile.TemporaryDirectory() as folder:
        rows = []
        for name in exchanges:
            case = Case.model_validate({**axes, "exchange": name})
            few = name in ("onebit", "topk", "dgc", "randomk", "powersgd(rank=4)")
            steps = 6 if quick else STEPS_OF_FEW_BYTES if few else STEPS
            measure = Measure(steps=steps, tail_steps=0, min_s=0.0, trials=1)
            bench = Bench(launcher, Place(cores, 1), measure)
            sent, result = one(bench, case, Path(folder) / "trial")
            handed = result.exchange["handed"]
            expected = sum(TURNS[kind] * amount for kind, amount in handed.items())
            each = sent / (result.counts["steps"] - 2)
            away = abs(each / expected - 1)
            note = f"{each:,.0f} bytes a step sent, {expected:,.0f} reported"
            bound = Bound("at_most", COUNTED + FRAMED)
            rows.append(
                Row(f"wire: {name}, |sent / reported - 1|", away, "1", "measured", steps, bound=bound, note=note)
            )
        return rows


def one(bench: Bench, case: Case, folder: Path) -> tuple[int, RankResult]:
    """Bytes that rank 0's interfaces sent between its first and last timed step, and its result."""
    seen: dict[str, int] = {}

    def on_event(rank: int, event: dict[str, Any]) -> None:
        if rank == 0 and event.get("name") in ("steady", "timed"):
            seen[event["name"]] = sent_bytes(folder / "rank0")

    launched = launch_case(bench, case, 0, folder, "timed", on_event, lambda: False)
    if launched.outcome.failure is not None:
        raise RuntimeError(f"{case.title}: {launched.outcome.failure.reason}\n{launched.outcome.log_tail}")
    return seen["timed"] - seen["steady"], read_result(folder / "rank0")


def sent_bytes(rank: Path) -> int:
    """Bytes sent by all interfaces but loopback in the namespace of the rank with that folder (/proc/<pid>/net/dev)."""
    pid = json.loads((rank / LAUNCH).read_bytes())["pid"]
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    fields = {line.partition(":")[0].strip(): line.partition(":")[2].split() for line in lines}
    return sum(int(values[8]) for name, values in fields.items() if name != "lo")
