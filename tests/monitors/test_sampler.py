"""The sampler as a real process: cadence, failures of monitors, and its end, however it comes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tfscale.suite.launchers import procfs
from tfscale.suite.monitors import sampler as program
from tfscale.suite.monitors import series
from tfscale.suite.monitors.sampling import Sampler, Sampling

HERE = Path(__file__).parent
TOY = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
pytestmark = pytest.mark.system


def toy(folder: Path, *names: str, period_s: float = 0.05, slow_s: float = 0.5) -> Sampling:
    return Sampling([f"toy_monitors:{name}" for name in names], folder, period_s=period_s, slow_s=slow_s)


def until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def gone(pid: int) -> bool:
    return procfs.state(pid) in (None, "Z")


def sampled(sampling: Sampling) -> Callable[[], bool]:
    """Whether the first samples are on disk, which they are once a slow tick is done."""
    return lambda: sampling.output.exists() and b'"v":' in sampling.output.read_bytes()


def run(sampling: Sampling, seconds: float) -> tuple[series.Samples, str | None]:
    with Sampler(sampling, TOY) as started:
        assert until(sampled(sampling))
        time.sleep(seconds)
    return series.read(sampling.output), started.reason


@pytest.mark.parametrize(
    ("last", "since_start", "tick"),
    [(0, 1, 1), (0, 99, 1), (0, 100, 1), (0, 101, 2), (0, 350, 4), (7, 701, 8), (7, 799, 8), (7, 1000, 10)],
)
def test_the_next_tick_is_the_first_whose_time_has_not_passed(last: int, since_start: int, tick: int) -> None:
    assert program.next_tick(last, since_start, 100) == tick


def test_ticks_keep_their_cadence_without_drift(tmp_path: Path) -> None:
    found, reason = run(toy(tmp_path, "Steady"), 1.5)
    monitor = found.monitors["toy_monitors:Steady"]
    t_ns, readings = monitor.of(0)
    assert reason is None and found.end is not None
    ticks = (t_ns[:-1] - t_ns[0]) / 50e6  # the last sample is taken when the end comes
    late = ticks - np.rint(ticks)
    # On absolute deadlines lateness does not add up: 20 us a tick would be 0.6 ms, a wake-up 1 ms, after 30 ticks.
    assert abs(np.median(late[-10:]) - np.median(late[:10])) < 0.1
    assert readings.tolist() == list(range(1, len(readings) + 1))
    assert found.end["ticks"] + found.end["missed"] == np.rint(ticks[-1]) + 2


def test_a_tick_that_takes_too_long_costs_the_next_ones_and_none_is_made_up_for(tmp_path: Path) -> None:
    found, _ = run(toy(tmp_path, "Sleepy"), 0.9)
    t_ns, _ = found.monitors["toy_monitors:Sleepy"].of(0)
    gaps = np.diff(t_ns[:-1]) / 1e9
    assert gaps.min() > 0.12  # never bunched
    assert np.median(gaps) == pytest.approx(0.15, abs=0.02)  # 0.12 s of work: every third tick of 0.05 s
    assert found.end is not None
    account = found.end["monitors"]["toy_monitors:Sleepy"]
    assert account["overruns"] == found.end["missed"] >= 2 * (len(gaps) - 1)
    assert account["longest_s"] >= 0.12


def test_what_it_imports_and_what_it_costs(tmp_path: Path) -> None:
    found, _ = run(toy(tmp_path, "Steady"), 0.5)
    assert found.end is not None
    assert found.monitors["toy_monitors:Steady"].facts[0][1] == {"heavy": [], "nice": os.nice(0) + program.NICE}
    assert found.end["opening_cpu_s"] < 0.5
    assert 0 < found.end["cpu_s"] < found.end["wall_s"]
    assert found.end["cause"] == "standard input closed"


def test_columns_states_and_nulls_come_through(tmp_path: Path) -> None:
    found, _ = run(toy(tmp_path, "Steady"), 0.6)
    monitor = found.monitors["toy_monitors:Steady"]
    assert [column.key for column in monitor.columns] == ["readings", "slow", "gpu0/gone"]
    assert (monitor.columns[2].state, monitor.columns[2].reason) == ("no_permission", "may not be read by this user")
    assert np.isnan(monitor.values[:, 1:]).all()  # `slow` gave None each time
    assert len(monitor.facts) == 1  # they never changed


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("toy_monitors:Raises", "OSError: [Errno 5] Input/output error"),
        ("toy_monitors:Short", "ValueError: sample() gave 0 values for 1 columns"),
        ("toy_monitors:Broken", "RuntimeError: the driver does not match its library"),
        ("no_such_module:Monitor", "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_monitor_that_fails_stops_alone(name: str, reason: str, tmp_path: Path) -> None:
    both = Sampling([name, "toy_monitors:Steady"], tmp_path, period_s=0.05)
    found, of_sampler = run(both, 0.4)
    assert of_sampler is None
    assert found.monitors[name].failure == reason
    steady = found.monitors["toy_monitors:Steady"]
    assert steady.failure is None and len(steady.t_ns) > 5
    if name.endswith("Raises"):
        assert found.monitors[name].of(0)[1].tolist() == [1, 2]


def test_an_unknown_name_is_told_with_the_known_ones(tmp_path: Path) -> None:
    found, _ = run(Sampling(["hots", "toy_monitors:Steady"], tmp_path, period_s=0.05), 0.1)
    assert "did you mean 'host'?" in str(found.monitors["hots"].failure)


def test_a_killed_sampler_is_a_reason_and_keeps_what_it_wrote(tmp_path: Path) -> None:
    sampling = toy(tmp_path, "Steady", slow_s=0.1)
    with Sampler(sampling, TOY) as started:
        assert started.pid is not None and until(sampled(sampling))
        os.kill(started.pid, signal.SIGKILL)
        assert until(lambda: gone(started.pid))  # type: ignore[arg-type]
    assert started.reason == "the sampler of counters ended early, by signal 9"
    found = series.read(sampling.output)
    assert len(found.monitors["toy_monitors:Steady"].t_ns) >= 1 and found.end is None


def test_sigterm_ends_it_in_good_order(tmp_path: Path) -> None:
    sampling = toy(tmp_path, "Steady")
    with Sampler(sampling, TOY) as started:
        assert started.pid is not None and until(sampled(sampling))
        os.kill(started.pid, signal.SIGTERM)
        assert until(lambda: gone(started.pid))  # type: ignore[arg-type]
        assert started.stop() == "the sampler of counters ended early, with exit code 0"
    found = series.read(sampling.output)
    assert found.end is not None and found.end["cause"] == "SIGTERM"


def test_a_reading_that_hangs_costs_the_trial_less_than_two_seconds(tmp_path: Path) -> None:
    sampling = toy(tmp_path, "Steady", "Hangs", slow_s=0.05)
    with Sampler(sampling, TOY) as started:
        pid = started.pid
        assert pid is not None and until(sampled(sampling))
        time.sleep(0.2)
        began = time.monotonic()
        reason = started.stop()
        assert time.monotonic() - began < 2.0
    assert "did not end within 1 s" in str(reason) and gone(pid)
    assert started.stop() == reason  # again does nothing


def test_what_cannot_start_or_write_is_a_reason(tmp_path: Path) -> None:
    with Sampler(Sampling(["host"], tmp_path / "not there")) as started:
        assert "could not be started" in str(started.reason) and started.pid is None
    (tmp_path / "monitors.jsonl").mkdir()
    with Sampler(toy(tmp_path, "Steady"), TOY) as started:
        assert until(lambda: gone(started.pid or 0))
    assert "ended early, with exit code 3: " in str(started.reason) and "Is a directory" in str(started.reason)


def test_it_does_not_outlive_the_harness(tmp_path: Path) -> None:
    harness = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; from pathlib import Path\n"
            "from tfscale.suite.monitors.sampling import Sampler, Sampling\n"
            "started = Sampler(Sampling(['host'], Path(sys.argv[1])))\n"
            "print(started.pid, flush=True); time.sleep(60)",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert harness.stdout is not None
        pid = int(harness.stdout.readline())
        assert until(lambda: sampled(toy(tmp_path))())
        harness.kill()
        assert until(lambda: gone(pid), 3.0)
    finally:
        harness.kill()
        harness.communicate()
    found = series.read(tmp_path / "monitors.jsonl")
    assert found.end is not None and found.end["cause"] == "standard input closed"
