"""`tfscale gate` over a long history: the whole command, from the shell to its answer."""

import sys
import tempfile
import time
from pathlib import Path

import processes
import stats
from rows import Bound, Part, Row, from_quantity

sys.path.insert(0, str(processes.HERE.parent / "nightly"))
import histories

CASES, TRIALS, NIGHTS = 25, 3, 134
METHOD = (
    f"A results folder of invented records: {CASES} cases, {TRIALS} trials, {NIGHTS} nights at one level each. `tfscale gate "
    "RESULTS --json` from a shell, interpreter and imports included; the first time warms the page cache and is not counted."
)


def run(quick: bool) -> Part:
    nights, times = (20, 2) if quick else (NIGHTS, 10)
    with tempfile.TemporaryDirectory() as folder:
        results = histories.Results(Path(folder))
        levels = {name: 100.0 + 10 * place for place, name in enumerate(histories.cases(CASES))}
        histories.steady(results, levels, nights)
        records = sum(1 for _ in Path(folder).rglob("record.json"))
        processes.tfscale("gate", folder)
        seconds = []
        for _ in range(times):
            began = time.perf_counter()
            found = processes.tfscale("gate", folder)
            seconds.append(time.perf_counter() - began)
    alarms = float(sum(series["verdict"] in ("regressed", "missing") for series in found["series"]))
    return Part(
        "gate",
        "The nightly gate",
        METHOD,
        [
            from_quantity(f"{records:,} records", stats.mean(seconds, "s"), bound=Bound("at_most", 3.0, "s")),
            Row("alarms", alarms, "1", "simulated", CASES, note="no case changed"),
        ],
    )
