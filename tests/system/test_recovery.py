"""The scenario `recovery` on real processes without TensorFlow: every failure is come back from, whenever it comes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_bench as toy

from tfscale.suite import store
from tfscale.suite.launchers import procfs
from tfscale.suite.launchers.local import LocalLauncher
from tfscale.suite.rankfiles import read_arrays
from tfscale.suite.record import RecoveryResult
from tfscale.suite.spec import Recovery

pytestmark = pytest.mark.system
WORKER = "toy_recovering"
WANTED = Recovery(steps=40, period_steps=5, seeds=(0,))


@pytest.fixture(scope="module")
def ranks() -> Iterator[LocalLauncher]:
    with pytest.MonkeyPatch.context() as patch:
        toy.use(patch)
        with launcher() as made:
            yield made


def launcher() -> LocalLauncher:
    return LocalLauncher(worker=WORKER, preload=("numpy",), modules_of=lambda case: [])


def recovered(results: Path, ranks: LocalLauncher, wanted: Recovery, preset: str = "good") -> RecoveryResult:
    """The document of one case of which only the scenario is run."""
    sweep = toy.sweep([toy.case(preset)], results, ranks, recovery=wanted)
    sweep.cases = []
    (result,) = sweep.run().recoveries
    return result


def test_kills_at_any_moment_are_come_back_from(ranks: LocalLauncher, tmp_path: Path) -> None:
    result = recovered(tmp_path, ranks, WANTED.model_copy(update={"seeds": (0, 1, 3, 5)}))
    assert result.validity.status == "VALID", result.validity
    assert "bit for bit" in result.validity.checks[1].detail
    assert len({(failure.rank, failure.step) for failure in result.failures}) >= 3
    for failure in result.failures:
        assert failure.resumed and failure.noticed_as == "lost_rank"
        assert failure.step is not None and failure.resumed_step is not None
        assert failure.resumed_step % 5 == 0 and 0 <= failure.step - failure.resumed_step < 10
        assert failure.quantities["steps_lost"].value == failure.step - failure.resumed_step
        parts = [failure.quantities[name].value for name in failure.quantities if name in PARTS]
        assert sum(part for part in parts if part) == pytest.approx(failure.quantities["restart_time"].value)
        assert 0 <= (failure.quantities["detection_time"].value or 0) < 1
    folder = store.RunFolder.open(tmp_path).recovery(result.case_id)
    assert not list(folder.rglob("step-*.json"))  # a training that is done needs its checkpoints no more
    assert read_arrays(folder / result.files["losses/3"])["loss"].size == 40
    assert result.quantities["checkpoint_time"].n_samples == 7
    assert [period.mtbf_s for period in result.periods] == [3600, 86400, 604800]
    assert store.load_run(tmp_path).run.recoveries == (result,)


PARTS = ("end_time", "start_time", "import_time", "join_time", "build_time", "resume_time")


def test_a_frozen_rank_is_named_and_come_back_from(ranks: LocalLauncher, tmp_path: Path) -> None:
    result = recovered(tmp_path, ranks, WANTED.model_copy(update={"fault": "freeze"}))
    (failure,) = result.failures
    assert failure.resumed and failure.noticed_as in ("hung", "lost_rank")
    assert (failure.quantities["detection_time"].value or 0) > 0.5  # toy.QUICK lets a step take a second
    assert result.validity.status == "VALID"


def test_a_job_that_never_comes_back_is_told(ranks: LocalLauncher, tmp_path: Path) -> None:
    result = recovered(tmp_path, ranks, WANTED.model_copy(update={"seeds": (0,)}), "broken")
    (failure,) = result.failures
    assert failure.step is not None and failure.step > 5
    assert not failure.resumed and failure.reason is not None
    assert "launch 1 failed: error: ValueError: this job never comes back" in failure.reason
    assert result.validity.status == "INVALID"
    assert failure.quantities["restart_time"].value is None and failure.quantities["restart_time"].reason


HARNESS = """
import sys
sys.path.insert(0, {toy!r})
from pathlib import Path
import toy_bench as toy
from tfscale.suite.launchers.local import LocalLauncher
from tfscale.suite.spec import Recovery
wanted = Recovery(steps={steps}, period_steps={steps} - 1, seeds=(0,))
with LocalLauncher(worker="toy_recovering", preload=("numpy",), modules_of=lambda case: []) as ranks:
    found = toy.latest(Path({results!r}))
    sweep = toy.sweep([toy.case()], Path({results!r}), ranks, folder=found, recovery=wanted)
    sweep.cases = []
    with sweep.interrupt:
        print(sweep.run().ended)
"""


@pytest.mark.parametrize("warned", ["harness by SIGTERM", "harness by SIGUSR1", "rank"])
def test_a_warning_is_answered_by_saving_and_resume_goes_on(warned: str, tmp_path: Path) -> None:
    """No checkpoint is due before the last step: what resume goes on from was saved because of the warning."""
    script = HARNESS.format(toy=str(toy.HERE), results=str(tmp_path), steps=150)
    harness = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(toy.HERE)},
        stdout=subprocess.PIPE,
        text=True,
    )
    pids = wait_for(lambda: at_step(tmp_path, 30), 60)
    if warned == "rank":
        os.kill(pids[1], signal.SIGTERM)
    else:
        harness.send_signal(signal.SIGUSR1 if "USR1" in warned else signal.SIGTERM)
    assert harness.communicate(timeout=30)[0] == "preempted\n"
    assert harness.returncode == 0
    assert not any(procfs.session_members(pid) for pid in pids)
    document = store.load_run(tmp_path).run
    assert document.ended == "preempted" and len(document.missing) == 1
    assert not document.failed and not document.recoveries
    folder = store.RunFolder.open(tmp_path).recovery(document.missing[0])
    (leg,) = json.loads((folder / "reference/legs.json").read_text())
    saved = leg["kept"]["0"]
    assert leg["end"] == "stopped" and saved == leg["kept"]["1"] and 30 <= saved[0] < 150
    again = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(toy.HERE)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert again.stdout == "complete\n"
    (result,) = store.load_run(tmp_path).run.recoveries
    assert result.validity.status == "VALID"
    assert json.loads((folder / "reference/legs.json").read_text())[1]["resume_step"] == saved[0]


def at_step(results: Path, step: int) -> list[int] | None:
    """Process ids of both ranks, once rank 0 has completed `step` steps."""
    told = [path for path in results.rglob("rank0/events.jsonl") if f'"step": {step},' in path.read_text()]
    if not told:
        return None
    return [json.loads((told[0].parent.parent / f"rank{rank}/launch.json").read_text())["pid"] for rank in (0, 1)]


def wait_for(condition: Callable[[], Any], seconds: float) -> Any:
    """The condition's first true answer."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return answer
