"""One analysis of one trace in one process: seconds of each of n repeats, and the peak memory. Prints JSON.

python trace_cell.py ours|overview|viewer|hta N PATH...
"""

import contextlib
import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


def ours(path: Path) -> None:
    from tfscale.suite.profiling.answer import answer

    answer([path])


def tool(name: str) -> Callable[[Path], None]:
    """XProf writes its caches beside the trace and would find them again: every repeat has a copy of its own."""

    def run(path: Path) -> None:
        from xprof.convert import raw_to_tool_data

        data, _ = raw_to_tool_data.xspace_to_tool_data([str(path)], name, {})
        if data is None:
            raise RuntimeError(f"{name} gave nothing")
        if name.startswith("trace_viewer"):
            json.loads(data)

    return run


def hta(path: Path) -> None:
    from hta.trace_analysis import TraceAnalysis

    analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir="")
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_comm_comp_overlap(visualize=False)


ANALYSES: dict[str, Callable[[Path], None]] = {
    "ours": ours,
    "overview": tool("overview_page"),
    "viewer": tool("trace_viewer@"),
    "hta": hta,
}


def main() -> None:
    name, count, path = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    seconds = []
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / path.name
            shutil.copy(path, copy)
            began = time.perf_counter()
            with contextlib.redirect_stdout(sys.stderr):  # the peers talk
                ANALYSES[name](copy)
            seconds.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak_bytes": peak}))


if __name__ == "__main__":
    main()
