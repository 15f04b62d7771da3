"""Faults of a real two-rank TensorFlow job: what its runtime says and swallows ends in the right class all the same."""

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_bench as toy

from tfscale.suite.launchers import ports, procfs
from tfscale.suite.launchers.local import LocalLauncher
from tfscale.suite.planner import Place
from tfscale.suite.spec import Measure
from tfscale.suite.watch import Outcome, watch

pytestmark = [pytest.mark.system, pytest.mark.tensorflow]
MEASURE = Measure(launch_s=4, join_s=20, first_step_s=30, step_s=20, trials=1)
PLACE = Place(host_cores=[], cores_per_device=0)


@pytest.fixture(scope="module")
def ranks() -> Iterator[LocalLauncher]:
    with pytest.MonkeyPatch.context() as patch:
        toy.use(patch)
        with LocalLauncher(worker="tf_worker", preload=("tensorflow",), modules_of=lambda case: []) as launcher:
            yield launcher


def run(launcher: LocalLauncher, preset: str, folder: Path, place: Place = PLACE) -> tuple[Outcome, float]:
    """Outcome of one launch and how long it was watched; asserts that nothing of it is left."""
    plans = toy.plans(toy.case(preset), folder, MEASURE, place)
    job = launcher.start(plans)
    begun = time.monotonic()
    try:
        outcome = watch(job, plans)
    finally:
        job.end(0.3)
    seconds = time.monotonic() - begun
    assert not [pid for rank in job.ranks for pid in procfs.session_members(rank.pid)]  # type: ignore[attr-defined]
    assert not any(ports.is_listened_on(port) for port in toy.ports_of(plans) if place is PLACE)
    return outcome, seconds


def expect(outcome: Outcome, classification: str, rank: int) -> None:
    assert outcome.failure is not None
    assert (outcome.failure.classification, outcome.failure.rank) == (classification, rank), outcome


def test_good(ranks: LocalLauncher, tmp_path: Path) -> None:
    outcome, _ = run(ranks, "good", tmp_path)
    assert outcome.failure is None, outcome


def test_killed(ranks: LocalLauncher, tmp_path: Path) -> None:
    outcome, seconds = run(ranks, "killed@1", tmp_path)
    expect(outcome, "lost_rank", 1)
    assert seconds < 15


def test_frozen_is_noticed_by_the_survivor(ranks: LocalLauncher, tmp_path: Path) -> None:
    outcome, seconds = run(ranks, "frozen@1", tmp_path)
    assert outcome.failure is not None and outcome.failure.classification in ("lost_rank", "hung")
    assert outcome.failure.rank == 1
    assert "State:\tT (stopped)" in (outcome.stacks or "")
    assert seconds < 35


def test_never_started_while_the_other_waits_for_ever(ranks: LocalLauncher, tmp_path: Path) -> None:
    outcome, seconds = run(ranks, "absent@1", tmp_path)
    expect(outcome, "never_started", 1)
    assert "rank 0" in (outcome.stacks or "")
    assert seconds < 12


def test_a_real_port_clash(ranks: LocalLauncher, tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("0.0.0.0", 0))
        holder.listen()
        taken = holder.getsockname()[1]
        place = Place([], 0, ports=lambda count: [*ports.free_ports(1), taken])
        outcome, seconds = run(ranks, "good", tmp_path, place)
    expect(outcome, "port_in_use", 1)
    assert seconds < 15


def test_a_real_shortage_of_memory(ranks: LocalLauncher, tmp_path: Path) -> None:
    outcome, seconds = run(ranks, "memory@1", tmp_path)
    expect(outcome, "oom", 1)
    assert seconds < 15
