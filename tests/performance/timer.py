"""Truth of the timer: mean and median step of a case against a bare hand-written loop of the same model and step."""

from typing import Any

import processes
import stats
from rows import Bound, Part, Row, from_quantity

from tfscale.suite.record import Quantity
from tfscale.suite.timing.trials import paired_ratio

WORKLOADS = ("bert", "vit", "recommender")
WIDTH = 0.02
METHOD = (
    "The bare loop: the same traced step in a loop written by hand, perf_counter, and one host fetch a block of as many "
    "steps as the timer's. Both run in one process in alternating segments A B B A, so that memory, frequency and "
    "neighbours are the same for both. One process gives one pair and the interval is Student's over processes (log "
    "ratios), more of them until it is no wider than +-2 %. Mean and median are those of the record: steady window, "
    "blocks."
)


def run(quick: bool, cells: str = "") -> Part:
    """`cells`: a part of the names of the workloads wanted."""
    rows = [row for name in WORKLOADS if cells in name for row in of_workload(name, quick)]
    return Part("timer", "Truth of the timer", METHOD, rows)


def of_workload(name: str, quick: bool) -> list[Row]:
    arguments = ["--segments", "2", "--seconds", "1"] if quick else ["--segments", "12", "--seconds", "1"]
    found: list[dict[str, Any]] = []

    def pair(number: int) -> tuple[float, float]:
        found.append(processes.script("timer_cell.py", name, *arguments))
        return found[-1]["bare"][0], found[-1]["timed"][0]

    def narrow(_: Quantity) -> bool:
        return len(found) >= least and all(stats.half_width(ratio(found, index)) <= WIDTH for index in (0, 1))

    least, most = (2, 2) if quick else (4, 16)
    stats.pairs_until(pair, least=least, most=most, enough=narrow)
    bound = Bound("holds", 1.0, width=WIDTH, strict=not quick)
    note = f"blocks of {found[0]['block_steps']} steps"
    rows = []
    for index, what in enumerate(("mean", "median")):
        steps = stats.mean([document["bare"][index] for document in found], "s")
        rows.append(from_quantity(f"{name}: {what} step of the bare loop", steps))
        title = f"{name}: {what} step, timer / bare loop"
        rows.append(from_quantity(title, ratio(found, index), n=len(found), bound=bound, note=note))
    return rows


def ratio(found: list[dict[str, Any]], index: int) -> Quantity:
    """Timer / bare over processes; index 0 is the mean step, 1 the median."""
    return paired_ratio([d["bare"][index] for d in found], [d["timed"][index] for d in found])
