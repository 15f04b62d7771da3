"""Four ranks in two racks behind a slow core: a flat ring in both orders of ranks, and the two-level exchange."""

import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import processes
import racks_cell
from rows import Bound, Part, Row

from tfscale.suite import topology
from tfscale.suite.launchers.netlab import NetlabLauncher
from tfscale.suite.matrix import TOPOLOGIES
from tfscale.suite.plan import RankPlan
from tfscale.suite.planner import Folders, Place, plan_launch
from tfscale.suite.rankfiles import LOG
from tfscale.suite.spec import Case, Measure
from tfscale.suite.strategies.multi_worker_mirrored import MultiWorkerMirrored
from tfscale.suite.topology import Order

LISTED, RACKED = "racks in turn", "racks together"
ORDERS: dict[str, Order] = {LISTED: "listed", RACKED: "topology"}
FLAT, TWO_LEVELS = "none", "hierarchical"
LIMIT_S = 120.0
METHOD = (
    "A gradient of 10 MB float32 summed over four ranks, each in a network namespace of its own: two racks of two hosts, "
    "1 Gbit/s in the rack, 200 Mbit/s to the core. `none` is TensorFlow's flat ring in the order of the ranks, with racks "
    "in turn (every hop crosses the core) and together (two do). Medians of 20 sums, each begun when the last had ended "
    "on all ranks, mean of the ranks' own medians. The core alone needs 1,200 ms for the ring with racks in turn, 600 ms "
    "for the ring with racks together, 400 ms for the two levels."
)


def run(quick: bool, exchanges: tuple[str, ...] = (FLAT, TWO_LEVELS), rounds: int = 0) -> Part:
    """`rounds`: launches of every cell; by default 1 where quick, else 3 (the middle one counts)."""
    found: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch, launcher() as lab:
        for number in range(rounds or (1 if quick else 3)):
            for exchange in exchanges:
                for order in ORDERS:
                    folder = Path(scratch) / f"{number}-{exchange}-{order}".replace("/", "_")
                    found.setdefault((exchange, order), []).append(milliseconds(lab, exchange, ORDERS[order], folder))
    times = {cell: statistics.median(values) for cell, values in found.items()}
    rows = [cell_row(cell, times[cell], found[cell]) for cell in times]
    return Part(
        "racks", "Two racks behind a slow core", METHOD, [*rows, *judged(times, len(next(iter(found.values()))))]
    )


def launcher() -> NetlabLauncher:
    """Forks ranks that run racks_cell."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(processes.HERE), os.environ.get("PYTHONPATH", "")])
    preload = ("numpy", "tensorflow", "tfscale.suite.strategies.synchronous")
    return NetlabLauncher(worker="racks_cell", preload=preload, modules_of=lambda case: [])


def milliseconds(lab: NetlabLauncher, exchange: str, order: Order, folder: Path) -> float:
    """Median time of a sum in one launch. Raises RuntimeError where a rank fails or a sum is wrong."""
    case = Case(
        workload="bert",
        preset="tiny",
        per_replica_batch=1,
        strategy="multi_worker_mirrored",
        devices=4,
        topology=topology.load("two-racks-interleaved", TOPOLOGIES, TOPOLOGIES),
        order=order,
        exchange=exchange,
    )
    place = Place(host_cores=[], cores_per_device=1)
    measure = Measure(trials=1)
    plans = plan_launch(
        case,
        0,
        MultiWorkerMirrored(),
        place,
        Folders(folder),
        measure=measure,
        profile=None,
        pass_="timed",
        hosts=lab.hosts(case),
    )
    wait(lab, plans)
    documents = [json.loads((Path(plan.directory) / racks_cell.TIMES).read_text()) for plan in plans]
    if not all(document["right"] for document in documents):
        raise RuntimeError(f"{exchange}, order {order}: the sum is wrong on some rank")
    return 1000 * statistics.mean(statistics.median(document["seconds"]) for document in documents)


def wait(lab: NetlabLauncher, plans: list[RankPlan]) -> None:
    """Run the ranks. Raises RuntimeError with the end of the log of the first that fails, or of rank 0 when all hang."""
    job = lab.start(plans)
    deadline = time.monotonic() + LIMIT_S
    try:
        while None in (codes := job.exit_codes()) and not any(codes) and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        job.end(0.1)
    if any(code != 0 for code in codes):
        failed = next((rank for rank, code in enumerate(codes) if code), 0)
        log = (Path(plans[failed].directory) / LOG).read_text(errors="replace")
        raise RuntimeError(f"ranks ended with {codes}; rank {failed} said:\n{log[-3000:]}")


def cell_row(cell: tuple[str, str], value: float, launches: list[float]) -> Row:
    exchange, order = cell
    bound = Bound("at_most", 0.52, "s") if exchange == TWO_LEVELS else None
    note = f"launches: {', '.join(f'{each:.0f}' for each in launches)} ms"
    return Row(f"{exchange}, {order}", value / 1000, "s", "measured", racks_cell.SUMS, bound=bound, note=note)


def judged(times: dict[tuple[str, str], float], launches: int) -> list[Row]:
    """The ratios that are required, where their cells were measured."""
    rows = []
    if {(FLAT, LISTED), (FLAT, RACKED)} <= times.keys():
        gain = times[FLAT, LISTED] / times[FLAT, RACKED]
        bound = Bound("at_least", 1.8)
        rows.append(
            Row("order topology over racks in turn", gain, "x", "derived", launches, bound=bound, note="floors: 2")
        )
    if {(TWO_LEVELS, LISTED), (TWO_LEVELS, RACKED)} <= times.keys():
        both = [times[TWO_LEVELS, order] for order in ORDERS]
        bound = Bound("at_most", 1.1)
        rows.append(
            Row("hierarchical, slower order over faster", max(both) / min(both), "x", "derived", launches, bound=bound)
        )
    return rows
