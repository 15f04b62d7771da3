"""The scenario `recovery` without processes: whom it takes, what it draws, what it makes of what was seen."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import fake_launcher as fake
import toy_bench as toy

from tfscale.suite.launchers.local import LocalLauncher
from tfscale.suite.launchers.netlab import NetlabLauncher
from tfscale.suite.legs import Leg, Observed
from tfscale.suite.plan import Fault
from tfscale.suite.rankfiles import LOSSES, write_arrays
from tfscale.suite.recovered import Training, largest_difference, result_of
from tfscale.suite.recoveries import common, fault_of, refusal, sorted_out
from tfscale.suite.spec import Case, Recovery

WANTED = Recovery(steps=40, period_steps=10)


@pytest.mark.parametrize(
    ("kept", "step"),
    [
        ([[10, 20], [10, 20]], 20),
        ([[20, 30], [10, 20]], 20),  # rank 1 died while it wrote its 30
        ([[10], []], None),
        ([[30], [20]], None),
        ([[5]], 5),
        ([], None),
    ],
)
def test_only_what_all_ranks_have_is_gone_on_from(kept: list[list[int]], step: int | None) -> None:
    assert common(kept) == step


def test_seeds_draw_every_rank_and_steps_from_the_first_to_all_but_the_last() -> None:
    case = toy.case(devices=3)
    faults = [fault_of(case, WANTED, seed) for seed in range(2000)]
    assert {fault.rank for fault in faults} == {0, 1, 2}
    assert {fault.step for fault in faults} == set(range(1, 39))
    assert all(0 <= fault.fraction < 1 for fault in faults)
    assert faults[7] == fault_of(case, WANTED, 7)


def refused(wanted: Recovery = WANTED, launcher: Any = LocalLauncher, **axes: Any) -> str | None:
    plain = {"workload": "vit", "preset": "micro", "strategy": "mirrored", "per_replica_batch": 4}
    return refusal(Case.model_validate({**plain, **axes}), wanted, launcher)


def test_what_the_scenario_cannot_take_says_why() -> None:
    cut = Recovery(steps=40, period_steps=10, fault="cut")
    assert refused() is None
    assert "parameter_server cannot take" in (refused(strategy="parameter_server", devices=2) or "")
    assert "independent cannot take" in (refused(strategy="independent", devices=2) or "")
    assert "decided by the case's own first launch" in (refused(per_replica_batch="auto") or "")
    assert refused(steps_per_call=4) == "period_steps 10 is no multiple of 4 steps a call"
    assert refused(steps_per_call=5) is None
    assert refused(cut) == "launcher local cannot cut a link; netlab can"
    pair = {"strategy": "multi_worker_mirrored", "topology": {"hosts": 2}, "devices": 2}
    assert refused(cut, NetlabLauncher, **pair) is None
    assert "no link" in (refused(cut, NetlabLauncher) or "")
    case = toy.case(strategy="Apart")
    assert sorted_out([case], cut, fake.FakeLauncher)[1][0].reason.startswith("recovery: launcher fake cannot cut")


def test_a_stamp_of_another_clock_is_brought_to_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rank's clock is 1000 s ahead; what it tells is read 0.2 s later, but for one event that is read at once."""
    now = 50.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    observed = Observed(cut=lambda rank: None)
    for told_s, late_s in ((10.0, 0.2), (20.0, 0.0), (30.0, 0.2)):
        now = told_s + late_s
        observed.event(1, {"event": "phase", "name": "joined", "t_ns": (1000 + told_s) * 1e9})
    now = 40.2
    observed.event(1, {"event": "fault", "kind": "kill", "step": 3, "t_ns": 1040 * 1e9})
    assert observed.struck_s == pytest.approx(40.0)
    assert observed.phases_s == {"joined": 30.2}


def test_a_cut_comes_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    now, made = 7.0, []
    monkeypatch.setattr("time.perf_counter", lambda: now)
    observed = Observed(cut=made.append)
    observed.event(1, {"event": "fault", "kind": "cut", "step": 3, "t_ns": 0})
    observed.event(1, {"event": "fault", "kind": "cut", "step": 3, "t_ns": 0})
    assert made == [1] and observed.struck_s == 7.0


def leg(number: int, end: str, **more: Any) -> Leg:
    return Leg.model_validate(
        {"number": number, "end": end, "resume_step": None, "clock": "here", "ended_s": 0.0, **more}
    )


PHASES = {"started": 13.0, "imported": 13.5, "joined": 14.0, "traced": 17.0, "first_step": 18.0}


def training(folder: Path, losses: list[float], *legs: Leg, saves: tuple[float, ...] = (0.2, 0.4)) -> Training:
    """Two ranks; the second saves twice as slowly. Calls take 10 ms but for the first two."""
    seconds = np.array([1.0, 0.5] + [0.01] * (len(losses) - 2))
    for rank in (0, 1):
        saved = np.array([[10 * (n + 1), (rank + 1) * s, 1000] for n, s in enumerate(saves)]).reshape(-1, 3)
        where = folder / f"launch{legs[-1].number}/rank{rank}" / LOSSES
        write_arrays(where, {"loss": np.array(losses), "seconds": seconds, "saved": saved})
    return Training(folder, Fault(kind="kill", rank=1, step=26, fraction=0.0), 2, legs)


def result(tmp_path: Path, losses: list[float], **more: Any) -> Any:
    reference = training(tmp_path / "reference", LOSS, leg(0, "done"))
    struck = leg(0, "failed", reached_step=26, struck_s=10.0, noticed_s=10.25, ended_s=12.5, classification="lost_rank")
    after = leg(1, "done", resume_step=20, phases_s=PHASES, **more)
    one = training(tmp_path / "seed3", losses, struck, after)
    return result_of(toy.case(), WANTED, reference, {3: one}, run="run", accelerator="cpu", reproduce="again")


LOSS = [1 / n for n in range(1, 41)]


def test_what_a_failure_costs(tmp_path: Path) -> None:
    told = result(tmp_path, LOSS)
    values = {name: quantity.value for name, quantity in told.quantities.items()}
    assert values["detection_time"] == 0.25
    assert values["restart_time"] == 7.75  # 10.25 to 18
    parts = [values[f"{part}_time"] for part in ("end", "start", "import", "join", "build", "resume")]
    assert parts == [2.25, 0.5, 0.5, 0.5, 3.0, 1.0]
    assert values["steps_lost"] == 6
    assert values["time_lost"] == pytest.approx(0.25 + 7.75 + 6 * 0.01)
    assert values["step_time"] == 0.01
    assert values["checkpoint_time"] == pytest.approx(0.6)  # the slower rank's 0.4 and 0.8
    assert values["checkpoint_bytes"] == 2000
    assert values["checkpoint_cost"] == pytest.approx(0.06)
    assert values["checkpoint_share"] == pytest.approx(6.0)
    hour = told.periods[0]
    assert hour.young.value == pytest.approx(np.sqrt(2 * 0.6 * 3600))
    assert hour.steps.value == pytest.approx(hour.daly.value / 0.01, rel=0.01)
    assert hour.overhead.value < hour.overhead_here.value == pytest.approx(6 + 7 * 8.35 / 3600, rel=0.01)
    assert told.validity.status == "VALID" and "bit for bit" in told.validity.checks[1].detail
    assert told.files == {"losses": "reference/launch0/rank0/losses.npz", "losses/3": "seed3/launch1/rank0/losses.npz"}
    assert {q.kind for q in told.quantities.values()} == {"measured", "derived"}


def test_a_loss_that_differs_is_a_finding(tmp_path: Path) -> None:
    other = [*LOSS[:-1], LOSS[-1] * (1 + 1e-6)]
    told = result(tmp_path, other)
    assert told.validity.status == "INVALID"
    assert told.validity.checks[1].evidence["largest_difference"] == pytest.approx(1e-6, rel=1e-3)
    assert told.failures[0].resumed


def test_times_of_two_harnesses_are_not_subtracted(tmp_path: Path) -> None:
    told = result(tmp_path, LOSS, clock="another")
    assert told.failures[0].quantities["detection_time"].value == 0.25
    assert told.failures[0].quantities["restart_time"].value is None
    assert told.quantities["time_lost"].value is None
    assert told.periods[0].steps.value is None and "did not go on in the same run" in told.periods[0].steps.reason
    assert told.failures[0].resumed and told.validity.status == "VALID"


@pytest.mark.parametrize(
    ("losses", "expected", "difference"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([1.0, np.nan], [1.0, 2.0], None),
        ([1.0], [1.0, 2.0], None),
        ([0.0, 2.5], [0.0, 2.0], 0.25),
        ([1.0, 2.0], [0.0, 2.0], None),  # relative to nothing
    ],
)
def test_largest_difference(losses: list[float], expected: list[float], difference: float | None) -> None:
    assert largest_difference(np.array(losses), np.array(expected)) == difference
