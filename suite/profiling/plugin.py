"""Traces in TensorBoard's profile plugin, and XProf's own numbers beside ours. Needs the extra `profile`.

XProf writes caches beside the files that it reads, so it only ever gets a temporary copy.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tfscale.suite.profiling import sources
from tfscale.suite.profiling.table import TraceError

RUN = "trace"
CHILD_S = 300.0
TOOLS = ("input_pipeline_analyzer", "pod_viewer", "hlo_stats", "kernel_stats", "memory_profile")
STEP_PARTS = {
    "deviceComputeTimeMs": "device compute",
    "deviceToDeviceTimeMs": "device to device",
    "deviceCollectivesTimeMs": "device collectives",
    "hostComputeTimeMs": "host compute",
    "kernelLaunchTimeMs": "kernel launch",
    "infeedTimeMs": "input",
    "outfeedTimeMs": "output",
    "compileTimeMs": "compilation",
    "otherTimeMs": "all others",
    "stepTimeMs": "step time",
}
REASONS = (
    "XProf merges all devices of a host into one timeline and keeps one step span; we never merge devices",
    "XProf looks for copies under names that CUPTI does not use, and counts them as device compute",
    "XProf has no class for collectives on a CPU: they are in host compute, or in others",
    "XProf's table of TPU steps has no column for communication: collectives are in compute",
    "its input pipeline table is that of core 1 of the first host only",
)


class MissingPluginError(ValueError):
    """The optional packages are not installed."""


def require(package: str) -> None:
    if find_spec(package) is None:
        raise MissingPluginError(f"this needs the package {package}; install it with: pip install 'tfscale[profile]'")


@contextmanager
def staged(paths: Sequence[Path]) -> Iterator[Path]:
    """A temporary TensorBoard log directory with copies of the XPlane files that `paths` name, one a host.

    Raises TraceError where there is none.
    """
    notes: list[str] = []
    files = [file for path in paths for file in sources.files_of(path, notes) if file.name.endswith(".xplane.pb")]
    if not files:
        raise TraceError("the profile plugin reads .xplane.pb files, and none was named")
    with tempfile.TemporaryDirectory(prefix="tfscale-trace-") as folder:
        profile = Path(folder) / "plugins" / "profile" / RUN
        profile.mkdir(parents=True)
        for number, file in enumerate(dict.fromkeys(files)):
            name = file.name.removesuffix(".xplane.pb")
            shutil.copy(file, profile / (f"{name}.xplane.pb" if len(files) == 1 else f"{number}-{name}.xplane.pb"))
        yield Path(folder)


def serve(paths: Sequence[Path], port: int) -> int:
    """Serve the traces in TensorBoard until it is interrupted; its exit code."""
    require("tensorboard")
    require("tensorboard_plugin_profile")
    with staged(paths) as folder:
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", str(port)]
        try:
            return subprocess.run(command, check=False).returncode
        except KeyboardInterrupt:
            return 0


def cross_check(paths: Sequence[Path]) -> dict[str, Any]:
    """What XProf's converters say of the traces: mean step breakdown, steps by host, tables. In a process of its own,
    because a converter that fails takes its process with it.

    Raises MissingPluginError, TraceError.
    """
    require("xprof")
    with staged(paths) as folder:
        files = sorted(map(str, (folder / "plugins" / "profile" / RUN).glob("*.xplane.pb")))
        command = [sys.executable, "-m", "tfscale.suite.profiling.plugin", *files]
        try:
            done = subprocess.run(command, capture_output=True, timeout=CHILD_S, check=False)
        except subprocess.TimeoutExpired:
            raise TraceError(f"XProf did not end within {CHILD_S:.0f} s") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
        raise TraceError(f"XProf ended with {done.returncode}; it said: {said[0]}")
    return summary(json.loads(done.stdout))


def summary(raw: dict[str, Any]) -> dict[str, Any]:
    """The answers of XProf's tools, as far as they are compared or shown."""
    return {
        "version": raw.get("version"),
        "mean_step_ms": _mean_step(raw.get("input_pipeline_analyzer")),
        "steps_ms": _steps(raw.get("pod_viewer")),
        "tables": {name: table for name in ("hlo_stats", "kernel_stats") if (table := _table(raw.get(name)))},
        "memory": _memory(raw.get("memory_profile")),
        "reasons": list(REASONS),
        "unanswered": [name for name in TOOLS if raw.get(name) is None],
    }


def _mean_step(tables: Any) -> dict[str, float] | None:
    """Means of the step table; None where it has no step."""
    for table in tables if isinstance(tables, list) else ():
        ids = [column.get("id") for column in table.get("cols", ())]
        if "stepTimeMs" in ids and table.get("rows"):
            rows = [[cell.get("v") for cell in row["c"]] for row in table["rows"]]
            at = {name: ids.index(name) for name in STEP_PARTS if name in ids}
            return {STEP_PARTS[name]: sum(float(row[i] or 0) for row in rows) / len(rows) for name, i in at.items()}
    return None


def _steps(pods: Any) -> list[dict[str, Any]]:
    """Length of every step of every core, as the pod viewer has it."""
    sequence = (pods or {}).get("podStatsSequence", {}).get("podStatsMap", ())
    return [
        {"step": entry["stepNum"], "core": core, "host": stats.get("hostName"), "ms": stats["totalDurationUs"] / 1000}
        for entry in sequence
        for core, stats in sorted(entry["podStatsPerCore"].items())
    ]


def _table(table: Any, most: int = 20) -> dict[str, Any] | None:
    """Headings and the first rows of a table, None where it is empty."""
    table = table[0] if isinstance(table, list) and table else table
    if not isinstance(table, dict) or not table.get("rows"):
        return None
    rows = [[cell.get("v") for cell in row["c"]] for row in table["rows"][:most]]
    return {"columns": [column.get("label") for column in table["cols"]], "rows": rows}


def _memory(profile: Any) -> dict[str, int]:
    """Peak bytes by allocator."""
    allocators = (profile or {}).get("memoryProfilePerAllocator", {})
    return {
        name: int(found["profileSummary"]["peakBytesUsageLifetime"])
        for name, found in allocators.items()
        if "peakBytesUsageLifetime" in found.get("profileSummary", {})
    }


def _child(files: list[str]) -> dict[str, Any]:
    from importlib.metadata import version

    from xprof.convert import raw_to_tool_data

    answers: dict[str, Any] = {"version": version("xprof")}
    for name in TOOLS:
        # The memory profile is one host's; the other tools take all of them.
        chosen = files[:1] if name == "memory_profile" else files
        try:
            data, _ = raw_to_tool_data.xspace_to_tool_data(chosen, name, {})
            answers[name] = json.loads(data) if data else None
        except Exception as error:  # one tool that fails must not cost the others' answers; which one is told
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            answers[name] = None
    return answers


if __name__ == "__main__":
    json.dump(_child(sys.argv[1:]), sys.stdout)
