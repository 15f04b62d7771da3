"""The scenario `recovery` with real TensorFlow: what is saved is all there is to save, so losses go on bit for bit."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_bench
import toy_ranks
from toy_ranks import toy

from tfscale.suite.engine import Sweep
from tfscale.suite.launch import Bench
from tfscale.suite.launchers import procfs
from tfscale.suite.notices import Notice
from tfscale.suite.planner import Place
from tfscale.suite.record import RecoveryResult
from tfscale.suite.runfolder import RunFolder
from tfscale.suite.spec import Case, Measure, Recovery
from tfscale.suite.workload import load

pytestmark = [pytest.mark.system, pytest.mark.tensorflow]
WANTED = Recovery(steps=24, period_steps=4, seeds=(0,))
MEASURE = Measure(trials=1, launch_s=60, join_s=60, first_step_s=120)


def sweep(case: Case, results: Path, wanted: Recovery = WANTED, **options: Any) -> Sweep:
    """A run, or the rest of one, of nothing but the scenario for one case."""
    each = max(1, len(toy_ranks.CORES) // case.devices)
    bench = Bench(
        launcher=toy_ranks.launcher(),
        place=Place(host_cores=toy_ranks.CORES, cores_per_device=each),
        measure=MEASURE,
        data_of=lambda one: (
            load(one.workload).sample_data(one.preset, results.parent / "data", one.seed)
            if one.input.kind == "files"
            else None
        ),
    )
    made = Sweep(
        suite="recovering",
        cases=[case],
        folder=toy_bench.latest(results) or RunFolder.create(results, "name: recovering\n", {}),
        bench=bench,
        reproduce=lambda one: "again",
        environment={},
        recovery=wanted,
        **options,
    )
    made.cases = []
    return made


def recovered(case: Case, results: Path, wanted: Recovery = WANTED) -> RecoveryResult:
    (result,) = sweep(case, results, wanted).run().recoveries
    return result


def assert_exact(result: RecoveryResult) -> None:
    assert result.validity.status == "VALID", (result.validity, [failure.reason for failure in result.failures])
    assert "bit for bit" in result.validity.checks[1].detail
    assert all((failure.resumed_step or 0) > 0 for failure in result.failures), "nothing was read from a checkpoint"


def test_two_ranks_preempted_by_a_warning_and_killed(tmp_path: Path) -> None:
    """Rank 1 is warned, as a scheduler does, while the first training runs; later a rank is killed. What the exchange
    keeps back is in the checkpoints, or the losses would not be the same."""
    case = toy(
        workload="toy_workload:ADAMW",
        preset="wide",
        strategy="multi_worker_mirrored",
        devices=2,
        exchange="topk(ratio=0.1)",
    )
    warned: list[int] = []

    def warn(notice: Notice) -> None:
        if notice.detail.get("event", {}).get("step") == 6 and not warned:
            launch = next(tmp_path.rglob("rank1/launch.json"))
            warned.append(json.loads(launch.read_text())["pid"])
            os.kill(warned[0], signal.SIGTERM)

    wanted = WANTED.model_copy(update={"steps": 600, "period_steps": 120})
    stopped = sweep(case, tmp_path, wanted, notify=warn).run()
    assert (stopped.ended, stopped.failed, len(stopped.missing)) == ("preempted", (), 1)
    assert not procfs.session_members(warned[0])
    (leg,) = json.loads(next(tmp_path.rglob("reference/legs.json")).read_text())
    assert leg["kept"]["0"] == leg["kept"]["1"] and leg["kept"]["0"][-1] % 120, "saved because of the warning"
    result = recovered(case, tmp_path, wanted)
    legs = json.loads(next(tmp_path.rglob("reference/legs.json")).read_text())
    assert [one["resume_step"] for one in legs] == [None, leg["kept"]["0"][-1]]
    assert_exact(result)
    assert result.failures[0].noticed_as == "lost_rank"


STATE = {
    "weights that differ between replicas, their slots, a loss scale": {
        "workload": "toy_workload:ADAMW",
        "preset": "pool",
        "strategy": "mirrored",
        "devices": 2,
        "exchange": "local_sgd(every=5)",
        "precision": "mixed_float16",
    },
    "where in the files": {"workload": "vit", "preset": "micro", "input": "files", "per_replica_batch": 4},
}


@pytest.mark.parametrize("name", STATE)
def test_one_process_goes_on_exactly(name: str, tmp_path: Path) -> None:
    assert_exact(recovered(toy(**STATE[name]), tmp_path))
