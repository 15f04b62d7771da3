"""`tfscale trace`: speed and memory against XProf and HTA on the same files, and the straggler that it names."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import processes
from rows import Bound, Part, Row

from tfscale.suite.launchers.ports import free_ports
from tfscale.suite.profiling.readers.xspace import message_class
from tfscale.suite.profiling.sources import read

METHOD = (
    "The same file in the same run, each analysis in processes of its own, importing not counted, in turns; medians of 5. "
    "XProf and HTA work on a copy, because XProf leaves its caches beside the trace. Peak memory is the whole process's. "
    "The stragglers are two real workers over gRPC, 24 steps, the second one slow; a worker that TensorFlow's profiler "
    "kills is started again, at most 6 times."
)
REPEATS = 5
LARGE_BYTES = 60_000_000


def run(quick: bool) -> Part:
    with tempfile.TemporaryDirectory() as folder:
        rows = [*speed(Path(folder), quick), *kineto(quick), *stragglers(Path(folder))]
    return Part("trace", "Reading traces", METHOD, rows)


def speed(folder: Path, quick: bool) -> list[Row]:
    path = capture(folder, 30 if quick else 900)
    events = int(read(path).start_ps.size)
    seconds = {name: median_of(name, path, quick) for name in ("ours", "overview", "viewer")}
    rows = [
        Row("events of the captured CPU trace", events, "1", "measured", 1, note=f"{path.stat().st_size / 1e6:.2f} MB"),
        Row(
            "ours: full breakdown", events / seconds["ours"], "events/s", "measured", REPEATS,
            bound=None if quick else Bound("at_least", 1e6, "events/s"),
        ),
        ratio("XProf overview_page / ours", seconds["overview"], seconds["ours"], 2.0),
        ratio("XProf trace_viewer@ and json.loads / ours", seconds["viewer"], seconds["ours"], 8.0),
    ]  # fmt: skip
    large = repeated(path, folder / "large.xplane.pb", LARGE_BYTES // (10 if quick else 1))
    peaks = {
        name: processes.script("trace_cell.py", name, "1", str(large))["peak_bytes"] for name in ("ours", "overview")
    }
    rows.append(
        Row(
            f"peak memory on {large.stat().st_size / 1e6:.0f} MB, ours / XProf overview_page",
            peaks["ours"] / peaks["overview"], "1", "derived", 1, bound=None if quick else Bound("at_most", 0.5),
            note=f"{peaks['ours'] / 1e6:.0f} and {peaks['overview'] / 1e6:.0f} MB",
        )
    )  # fmt: skip
    eight = repeated(path, folder / "eight.xplane.pb", 8_000_000)
    walls = [wall(eight) for _ in range(REPEATS)]
    rows.append(
        Row(
            f"tfscale trace of {eight.stat().st_size / 1e6:.1f} MB, wall", statistics.median(walls), "s", "measured",
            REPEATS, bound=Bound("at_most", 1.5, "s"),
        )
    )  # fmt: skip
    return rows


def ratio(what: str, theirs: float, own: float, least: float) -> Row:
    note = f"{theirs:.3f} s and {own:.3f} s"
    return Row(what, theirs / own, "1", "derived", REPEATS, bound=Bound("at_least", least), note=note)


def median_of(name: str, path: Path, quick: bool) -> float:
    """Median seconds; the first repeat of a process warms it up and does not count."""
    repeats = 2 if quick else REPEATS
    return statistics.median(processes.script("trace_cell.py", name, str(repeats + 1), str(path))["seconds"][1:])


def capture(folder: Path, steps: int) -> Path:
    processes.script("trace_capture.py", str(folder / "large"), str(steps))
    (path,) = (folder / "large").rglob("*.xplane.pb")
    return path


def repeated(path: Path, out: Path, size: int) -> Path:
    """The trace with its planes repeated until it has about `size` bytes, each copy under a name of its own."""
    space = message_class("Space").FromString(path.read_bytes())
    copies = max(1, round(size / path.stat().st_size))
    for number in range(1, copies):
        for plane in message_class("Space").FromString(path.read_bytes()).planes:
            if plane.lines:
                plane.name += f" copy {number}".encode()
                space.planes.append(plane)
    out.write_bytes(space.SerializeToString())
    return out


def wall(path: Path) -> float:
    began = time.perf_counter()
    processes.tfscale("trace", str(path))
    return time.perf_counter() - began


def kineto(quick: bool) -> list[Row]:
    data = os.environ.get("TFSCALE_TEST_DATA")
    if not data:
        return [
            Row("HTA / ours, Kineto", None, "1", "derived", 0, note="TFSCALE_TEST_DATA is not set: no recorded files")
        ]
    rows = []
    for name in ("hta_nccl_data", "hta_ns_resolution_rank-0"):
        path = Path(data) / "traces" / "kineto" / f"{name}.json.gz"
        rows.append(
            ratio(
                f"HTA load and breakdown / ours, {name}",
                median_of("hta", path, quick),
                median_of("ours", path, quick),
                3.0,
            )
        )
    return rows


def stragglers(folder: Path) -> list[Row]:
    return [straggler(folder, slow) for slow in ("input", "compute")]


def straggler(folder: Path, slow: str) -> Row:
    """1 when the second worker is named with its cause, else 0."""
    logs = [folder / slow / f"worker{index}" for index in (0, 1)]
    for _ in range(6):
        if two_workers(logs, slow):
            break
    else:
        return Row(
            f"slow {slow}: named", None, "1", "measured", 0, note="TensorFlow's profiler killed a worker 6 times"
        )
    document = processes.tfscale("trace", *map(str, logs))
    found = [(one["rank"], one["cause"]) for one in document["stragglers"]]
    hosts = [host["host"] for host in document["hosts"]]
    named = found == [(f"{hosts[1]} CPU", slow)]
    told = "; ".join(
        f"{one['rank']} {one['lateness_ps'] / 1e9:.1f} ms late ({one['share']:.0%}, p {one['p']:.1g}), {one['cause']}"
        for one in document["stragglers"]
    )
    note = told or document["straggler_verdict"]["reason"]
    return Row(
        f"slow {slow} on worker 1: named with its cause",
        float(named),
        "1",
        "measured",
        1,
        bound=Bound("at_least", 1),
        note=note,
    )


def two_workers(logs: list[Path], slow: str) -> bool:
    """Whether both workers ended well; their traces then lie in `logs`."""
    ports = free_ports(2)
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    running = []
    for index, log in enumerate(logs):
        shutil.rmtree(log, ignore_errors=True)
        config: dict[str, Any] = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(config), "TF_CPP_MIN_LOG_LEVEL": "2"}
        command = [sys.executable, str(processes.HERE / "trace_worker.py"), str(log), "24", slow]
        running.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    deadline = time.monotonic() + 120
    while any(one.poll() is None for one in running) and time.monotonic() < deadline:
        if any(one.poll() not in (None, 0) for one in running):
            break
        time.sleep(0.2)
    for one in running:
        one.kill()
        one.wait()
    return all(one.returncode == 0 for one in running)
