"""One rank end to end, in real processes, under every strategy that runs on CPUs."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import toy_ranks
from toy_ranks import toy

from tfscale.suite.events import PHASES
from tfscale.suite.rankfiles import BLOCKS, RESULT, read_arrays
from tfscale.suite.timing.series import BlockSeries

pytestmark = [pytest.mark.tensorflow, pytest.mark.system]


def phases(ran: toy_ranks.Ran, rank: int = 0) -> list[str]:
    return [event["name"] for event in ran.events(rank) if event["event"] == "phase"]


def test_two_ranks_stop_at_the_same_step_and_leave_whole_files(tmp_path: Path) -> None:
    case = toy(strategy="multi_worker_mirrored", devices=2)
    ran = toy_ranks.run(case, tmp_path, steps=None).assert_clean()
    assert ran.last_loss(0)[0] == ran.last_loss(1)[0]
    for rank in (0, 1):
        assert phases(ran, rank) == [name for name in PHASES if name != "profiled"]
        result = ran.result(rank)
        assert result.replicas == 2
        assert result.self_check.passed
        assert result.effective["collective"] == "ring"
        assert result.counts["samples"] == 16 * result.counts["steps"]
        assert result.counts["gradient_bytes"] == 4 * (129 - 48) + 16 * (4 * 4 + 4) + 16
        assert {"import", "join", "build", "check", "trace", "first_step", "timed"} <= set(result.phases)
        assert (result.memory_peak_bytes["host"] or 0) > 10**8
        series = BlockSeries.from_arrays(read_arrays(Path(ran.plans[rank].directory) / BLOCKS))
        assert len(series) > 1
    assert any(event["event"] == "progress" for event in ran.events(0))


def test_coordinator_counts_completed_steps_and_all_end(tmp_path: Path) -> None:
    case = toy(strategy="parameter_server", devices=2, workload="toy_workload:ADAMW", preset="wide", input="files")
    ran = toy_ranks.run(case, tmp_path, steps=30).assert_clean()
    result = ran.result()
    assert result.replicas == 2
    assert result.self_check.passed, result.self_check.detail
    assert result.counts["steps"] == 32
    assert result.counts["samples"] == 32 * 8
    assert result.counts["retraces"] == 0
    assert result.effective["update"] == "kernels"
    for rank in range(1, 5):
        assert phases(ran, rank) == ["started", "imported", "joined", "done"]
        assert not (Path(ran.plans[rank].directory) / RESULT).exists()


def test_independent_replicas_take_the_same_steps(tmp_path: Path) -> None:
    ran = toy_ranks.run(toy(strategy="independent", devices=2), tmp_path, steps=None).assert_clean()
    series = [read_arrays(Path(plan.directory) / BLOCKS) for plan in ran.plans]
    assert series[0]["group_size"].tolist() == series[1]["group_size"].tolist()
    assert series[0]["group_loss"][-1] != series[1]["group_loss"][-1], "each has its own samples"
    assert ran.result(1).self_check.passed is None
    assert ran.result(1).counts["samples"] == 8 * ran.result(1).counts["steps"]


def test_overflows_skip_the_update_and_lower_the_scale(tmp_path: Path) -> None:
    case = toy(precision="mixed_float16", strategy="mirrored", devices=2, workload="toy_workload:LOUD")
    result = toy_ranks.run(case, tmp_path, steps=20).assert_clean().result()
    assert 0 < result.counts["skipped_steps"] < result.counts["steps"]
    assert result.final_loss_scale is not None
    assert result.final_loss_scale == 2.0 ** (15 - result.counts["skipped_steps"])


def test_profile_has_a_trace_a_rank(tmp_path: Path) -> None:
    ran = toy_ranks.run(toy(strategy="mirrored", devices=2), tmp_path, profiled=True).assert_clean()
    traces = list((Path(ran.plans[0].directory) / "plugins" / "profile").glob("*/*.xplane.pb"))
    assert len(traces) == 1
    assert traces[0].stat().st_size > 1000
    assert phases(ran)[-2:] == ["profiled", "done"]


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "out of memory": ({"workload": "toy_workload:HUGE"}, "oom"),
    "not compilable": ({"workload": "toy_workload:DYNAMIC", "xla": "cluster"}, "xla_unsupported"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_told_before_the_rank_ends(name: str, tmp_path: Path) -> None:
    axes, reason = ERRORS[name]
    ran = toy_ranks.run(toy(**axes), tmp_path)
    assert ran.codes == [1]
    told = [event for event in ran.events() if event["event"] == "error"]
    assert told[-1]["reason"] == reason, told[-1]["detail"]
    assert "Traceback" in told[-1]["detail"]


def test_a_workload_that_is_not_there_starts_no_rank(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="toy_workload:NONE"):
        toy_ranks.run(toy(workload="toy_workload:NONE"), tmp_path)


def test_a_rank_that_finds_other_replicas_than_planned_ends(tmp_path: Path) -> None:
    """A lone worker must not pass for a job of two."""
    ran = toy_ranks.run(toy(strategy="mirrored", devices=2), tmp_path / "whole", steps=3).assert_clean()
    lone = ran.plans[0].model_copy(update={"devices": 1, "directory": str(tmp_path / "lone")})
    job = toy_ranks.launcher().start([lone])
    codes = toy_ranks.wait(job, 60)
    assert codes == [1]
    told = [event for event in toy_ranks.Ran([lone], codes).events() if event["event"] == "error"]
    assert "2 replicas are planned" in told[0]["reason"]
