"""Faults of real processes: each ends in its class within its deadline, leaves no process and no port, and the sweep
goes on. Ranks are toys without TensorFlow, so that a fault takes as long as its deadline and no more."""

import json
import os
import signal
import socket
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
from tfscale.suite.events import EventReader
from tfscale.suite.launchers import ports, procfs
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.local import LocalLauncher
from tfscale.suite.planner import Place
from tfscale.suite.spec import Profile
from tfscale.suite.watch import Outcome, watch

pytestmark = pytest.mark.system
SLACK_S = 3.0
"""What a launch may take beyond its deadline, on a machine that is busy with other tests."""


@pytest.fixture(scope="module")
def ranks() -> Iterator[LocalLauncher]:
    with pytest.MonkeyPatch.context() as patch:
        toy.use(patch)
        with toy.launcher() as launcher:
            yield launcher


def run(launcher: LocalLauncher, preset: str, folder: Path) -> tuple[Outcome, float]:
    """Outcome and seconds of one launch; asserts that nothing of it is left."""
    plans = toy.plans(toy.case(preset), folder)
    begun = time.monotonic()
    job = launcher.start(plans)
    pids = [rank.pid for rank in job.ranks]  # type: ignore[attr-defined]
    try:
        outcome = watch(job, plans, settle_s=0.5)
    finally:
        job.end(0.3)
    seconds = time.monotonic() - begun
    assert not [pid for leader in pids for pid in procfs.session_members(leader)]
    assert not any(ports.is_listened_on(port) for port in toy.ports_of(plans))
    assert None not in job.exit_codes()
    return outcome, seconds


FAULTS = {
    "killed@1": ("lost_rank", 1, "ended by SIGKILL"),
    "killed@0": ("lost_rank", 0, "ended by SIGKILL"),
    "frozen@1": ("hung", 1, "state T"),
    "absent@1": ("never_started", 1, "within 2 s"),
    "unjoined@0": ("join_timeout", 0, "within 2 s"),
    "stuck@1": ("first_step_timeout", 1, "within 2 s"),
    "silent@1": ("hung", 1, "no step for"),
    "quits@1": ("lost_rank", 1, "exited with code 9"),
    "leaves@0": ("error", 0, "before its result"),
    "memory@1": ("oom", 1, "MemoryError"),
    "xla@0": ("xla_unsupported", 0, "not compilable"),
    "disk@1": ("disk_full", 1, "No space left"),
    "stubborn@1": ("hung", 1, "no step for"),
}


@pytest.mark.parametrize("preset", FAULTS)
def test_a_fault_ends_in_its_class_within_its_deadline(preset: str, ranks: LocalLauncher, tmp_path: Path) -> None:
    classification, rank, words = FAULTS[preset]
    outcome, seconds = run(ranks, preset, tmp_path)
    assert outcome.failure is not None
    assert (outcome.failure.classification, outcome.failure.rank) == (classification, rank)
    assert words in outcome.failure.reason
    late = classification in ("hung", "never_started", "join_timeout", "first_step_timeout")
    assert seconds < (toy.QUICK.launch_s if late else 0) + SLACK_S
    if late:
        expected = "State:\tT (stopped)" if preset.startswith("frozen") else "toy_worker.py"
        assert outcome.stacks is not None and expected in outcome.stacks


def test_a_gpu_that_kernels_are_compiled_for_first_has_time(ranks: LocalLauncher, tmp_path: Path) -> None:
    """A first step of 3 s where 2 are allowed, after TensorFlow's warning."""
    outcome, seconds = run(ranks, "compiles@1", tmp_path)
    assert outcome == Outcome(None) and seconds > 3


def test_an_error_after_the_result_is_no_failure(ranks: LocalLauncher, tmp_path: Path) -> None:
    outcome, _ = run(ranks, "late_error@1", tmp_path)
    assert outcome.failure is None
    assert "Connection reset" in outcome.notes[0]


def test_a_good_launch_is_forked_and_says_so(ranks: LocalLauncher, tmp_path: Path) -> None:
    outcome, _ = run(ranks, "good", tmp_path)
    assert outcome == Outcome(None)
    launch = json.loads((tmp_path / "rank1/launch.json").read_text())
    assert (launch["start"], launch["reason"]) == ("forked", None)
    assert "rank 1 is done" in (tmp_path / "rank1/log.txt").read_text()


def test_a_fresh_interpreter_where_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toy.use(monkeypatch)
    with toy.launcher(fork=False) as launcher:
        outcome, _ = run(launcher, "good", tmp_path)
    assert outcome == Outcome(None)
    launch = json.loads((tmp_path / "rank0/launch.json").read_text())
    assert (launch["start"], launch["reason"]) == ("fresh", "asked for")


def test_an_unclean_parent_starts_fresh_interpreters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A module of the workload that starts a thread when it is imported: a fork would lose the thread."""
    toy.use(monkeypatch)
    (tmp_path / "threaded.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{toy.HERE}:{tmp_path}")
    with LocalLauncher(worker=toy.WORKER, preload=(), modules_of=lambda case: ["threaded"]) as launcher:
        outcome, _ = run(launcher, "good", tmp_path)
    assert outcome == Outcome(None)
    launch = json.loads((tmp_path / "rank0/launch.json").read_text())
    assert launch["start"] == "fresh" and "2 threads" in launch["reason"]


def test_a_worker_that_cannot_be_imported_is_told(tmp_path: Path) -> None:
    with (
        LocalLauncher(worker="no_such_worker", preload=()) as launcher,
        pytest.raises(LaunchError, match="no_such_worker"),
    ):
        launcher.start(toy.plans(toy.case(), tmp_path))


@pytest.mark.parametrize("fork", [True, False])
def test_a_dead_parent_takes_its_ranks_along_and_is_replaced(
    fork: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    toy.use(monkeypatch)
    with toy.launcher(fork=fork) as launcher:
        plans = toy.plans(toy.case("silent@0"), tmp_path / "first")
        job = launcher.start(plans)
        pids = wait_for(lambda: pids_at_step(tmp_path, 31, after_records=0), 30)
        os.kill((launcher._warm[0] if fork else launcher._cold).pid, signal.SIGKILL)  # type: ignore[union-attr]
        outcome = watch(job, plans, settle_s=0.3)
        assert outcome.failure is not None and outcome.failure.classification == "lost_rank"
        wait_for(lambda: not any(procfs.session_members(pid) for pid in pids), 5)
        assert run(launcher, "good", tmp_path / "second")[0] == Outcome(None)


def test_a_taken_port_is_retried_with_new_ports(ranks: LocalLauncher, tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("0.0.0.0", 0))
        holder.listen()
        answers = iter([[holder.getsockname()[1], *ports.free_ports(1)], ports.free_ports(2)])
        place = Place([], 0, ports=lambda count: next(answers))
        document = toy.sweep([toy.case()], tmp_path, ranks, place=place).run()
    assert not document.failed
    assert document.records[0].counts["port_retries"] == 1


def test_a_crash_in_the_profiler_is_retried_and_counted(ranks: LocalLauncher, tmp_path: Path) -> None:
    cases = [toy.case("bad_profile@1"), toy.case("worse_profile@0"), toy.case()]
    document = toy.sweep(cases, tmp_path, ranks, profile=Profile(retries=1)).run()
    assert not document.failed
    assert [record.counts["profiler_retries"] for record in document.records] == [1, 1, 0]
    assert [record.effective["profile"] for record in document.records] == ["captured", None, "captured"]


def test_the_sweep_goes_on_after_failures(ranks: LocalLauncher, tmp_path: Path) -> None:
    cases = [toy.case("killed@0"), toy.case("memory@1"), toy.case()]
    document = toy.sweep(cases, tmp_path, ranks).run()
    assert [failure.classification for failure in document.failed] == ["lost_rank", "oom"]
    assert len(document.records) == 1 and document.records[0].effective["start"] == "forked"
    assert document.records[0].phases["launch"].value is not None


HARNESS = """
import sys
sys.path.insert(0, {toy!r})
from pathlib import Path
import toy_bench as toy
with toy.launcher() as launcher:
    patient = toy.QUICK.model_copy(update={{"step_s": 60.0}})
    sweep = toy.sweep(toy.numbered({presets!r}), Path({results!r}), launcher, patient)
    with sweep.interrupt:
        sweep.run()
"""


def harness(results: Path, *presets: str) -> subprocess.Popen[bytes]:
    """A harness of its own that runs cases of `presets`, one after the other."""
    script = HARNESS.format(toy=str(toy.HERE), results=str(results), presets=presets)
    return subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(toy.HERE)})


def test_a_killed_harness_leaves_whole_records_and_no_process_and_resume_finishes(
    ranks: LocalLauncher, tmp_path: Path
) -> None:
    presets = ("good", "good", "good", "silent@1")
    killed = harness(tmp_path, *presets)
    started = wait_for(lambda: pids_at_step(tmp_path, 31, after_records=3), 60)
    killed.kill()
    killed.wait()
    wait_for(lambda: not any(procfs.session_members(pid) for pid in started), 5)
    found = store.find_records(tmp_path)
    assert len(found.records) == 3 and not found.failures and not found.warnings
    folder = store.RunFolder.open(tmp_path)
    document = toy.sweep(toy.numbered(presets), tmp_path, ranks, folder=folder).run()
    assert len(document.records) == 3
    assert [failure.classification for failure in document.failed] == ["hung"]


def test_ctrl_c_once_ends_after_the_running_case(tmp_path: Path) -> None:
    running = harness(tmp_path, *["good"] * 40)
    wait_for(lambda: len(list(tmp_path.rglob("record.json"))) >= 1, 60)
    running.send_signal(signal.SIGINT)
    assert running.wait(30) == 0
    loaded = store.load_run(tmp_path)
    assert 1 <= len(loaded.run.records) < 40
    assert not loaded.run.failed and not loaded.warnings
    last = max(tmp_path.rglob("launch.json"), key=lambda path: path.stat().st_mtime_ns)
    assert (last.parent.parent / "record.json").is_file()


def test_ctrl_c_twice_ends_now(tmp_path: Path) -> None:
    running = harness(tmp_path, "silent@1")
    started = wait_for(lambda: pids_at_step(tmp_path, 31, after_records=0), 60)
    running.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    assert running.wait(10) == 0
    assert not any(procfs.session_members(pid) for pid in started)
    found = store.find_records(tmp_path)
    assert not found.records and not found.failures


def pids_at_step(results: Path, step: int, after_records: int) -> list[int] | None:
    """Both ranks of the running case, once they have made `step` steps and `after_records` cases are done."""
    if len(list(results.rglob("record.json"))) < after_records:
        return None
    running = [path for path in results.rglob("launch.json") if not (path.parent.parent / "record.json").exists()]
    told = [path for path in running if any(e.get("step") == step for e in EventReader(path.parent).read())]
    return [json.loads(path.read_text())["pid"] for path in told] if len(told) == 2 else None


def wait_for(condition: Callable[[], Any], seconds: float) -> Any:
    """The condition's first true answer."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return answer
