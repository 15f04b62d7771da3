"""The real profile plugin and XProf's real converters, where the extra `profile` is installed."""

import gzip
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
from toy_timeline import E, Timeline

from tfscale.suite.profiling import plugin
from tfscale.suite.profiling.answer import Options, answer

CPU = "/host:CPU"


def job(host: str) -> bytes:
    timeline = Timeline(host=host)
    timeline.line(CPU, "python", [E("train", 100 * n, 100, step_num=n, _r=1) for n in range(4)])
    timeline.line(CPU, "tf_Compute/1", [E("a/MatMul:MatMul", 100 * n + 10, 50) for n in range(4)])
    return timeline.bytes()


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """Two ranks as a run of ours leaves them: a log directory each."""
    for rank in range(2):
        folder = tmp_path / f"profile/rank{rank}/plugins/profile/2026_01_01"
        folder.mkdir(parents=True)
        (folder / "vm.xplane.pb").write_bytes(job("vm"))
    return tmp_path / "profile"


def test_all_ranks_are_staged_under_names_of_their_own(run_folder: Path) -> None:
    with plugin.staged([run_folder]) as folder:
        names = sorted(path.name for path in folder.rglob("*.xplane.pb"))
        assert names == ["0-vm.xplane.pb", "1-vm.xplane.pb"]
    assert not folder.exists()


def test_without_the_package_the_extra_is_named() -> None:
    with pytest.raises(plugin.MissingPluginError, match=r"pip install 'tfscale\[profile\]'"):
        plugin.require("no_such_package_here")


def test_xprofs_tables_are_read_by_hand() -> None:
    cols = [{"id": "stepnum"}, {"id": "deviceComputeTimeMs"}, {"id": "stepTimeMs"}]
    rows = [{"c": [{"v": str(n)}, {"v": 1.0 + n}, {"v": 4.0}]} for n in range(3)]
    raw = {
        "version": "9",
        "input_pipeline_analyzer": [{"cols": [], "rows": []}, {"cols": cols, "rows": rows}],
        "pod_viewer": {"podStatsSequence": {"podStatsMap": [
            {"stepNum": 7, "podStatsPerCore": {"1": {"hostName": "a", "totalDurationUs": 1500}}}]}},
        "memory_profile": {"memoryProfilePerAllocator": {"bfc": {"profileSummary": {"peakBytesUsageLifetime": "42"}}}},
        "kernel_stats": {"cols": [{"label": "Rank"}], "rows": []},
    }  # fmt: skip
    found = plugin.summary(raw)
    assert found["mean_step_ms"] == {"device compute": 2.0, "step time": 4.0}
    assert found["steps_ms"] == [{"step": 7, "core": "1", "host": "a", "ms": 1.5}]
    assert (found["memory"], found["tables"], found["unanswered"]) == ({"bfc": 42}, {}, ["hlo_stats"])


def test_cross_check_with_the_real_converters(recorded_data: Path) -> None:
    """XProf's step table is the first host's, without its first and last step; both hosts are in its pod table."""
    pytest.importorskip("xprof", reason="the extra `profile` is not installed")
    paths = [recorded_data / f"traces/tf221_cpu/mw_w{rank}.xplane.pb" for rank in (0, 1)]
    found = plugin.cross_check(paths)
    ours = answer(paths, Options(edge_steps=False)).document["hosts"][0]["devices"][0]["steps"]
    mean = sum(step["span_ps"] for step in ours) / len(ours) / 1e9
    assert found["mean_step_ms"]["step time"] == pytest.approx(mean, abs=1e-6)
    # What we call exposed communication, 71 % of the step, XProf does not see.
    assert found["mean_step_ms"]["device collectives"] == 0
    assert {step["core"] for step in found["steps_ms"]} == {"1", "1001"}


def test_xprof_counts_a_copy_as_compute(recorded_data: Path) -> None:
    """The recorded 8-GPU file: XProf's device compute is ours and the exposed copies together."""
    pytest.importorskip("xprof", reason="the extra `profile` is not installed")
    found = plugin.cross_check([recorded_data / "traces/xprof_gpu_multi_worker/tf_8xV100_multi_worker.xplane.pb"])
    assert found["mean_step_ms"]["device compute"] == pytest.approx(14.875539, abs=1e-9)


@pytest.mark.system
def test_the_real_plugin_lists_all_hosts_of_a_run(run_folder: Path, root: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra `profile` is not installed")
    pytest.importorskip("tensorboard_plugin_profile", reason="the extra `profile` is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(root / "harness.py"), "trace", "--open", "--port", str(port), str(run_folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True) as server:
        try:
            base = f"http://127.0.0.1:{port}/data/plugin/profile"
            hosts = wait_for(f"{base}/hosts?run={plugin.RUN}&tag=trace_viewer@", 60)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)
    assert sorted(host["hostname"] for host in hosts) == ["0-vm", "1-vm"]


def wait_for(url: str, seconds: float) -> list[dict[str, str]]:
    """The first answer of a server that is starting."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                data = reply.read()
                found = json.loads(gzip.decompress(data) if reply.headers["Content-Encoding"] == "gzip" else data)
                if found:
                    return found  # type: ignore[no-any-return]
        except (OSError, ValueError):
            pass
        assert time.monotonic() < deadline, f"no answer from {url}"
        time.sleep(0.3)
