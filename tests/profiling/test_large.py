"""A million events: right to the picosecond, and quick."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
from toy_large import LENGTH_US, PERIOD_US, STEP_OPERATIONS, THREADS, large
from toy_timeline import PS

from tfscale.suite.profiling.answer import Options, answer


def test_a_million_events(tmp_path: Path) -> None:
    path = tmp_path / "large.xplane.pb"
    path.write_bytes(large(10**6))
    began = time.perf_counter()
    (device,) = answer([path], Options(top=100)).document["hosts"][0]["devices"]
    print(f"{time.perf_counter() - began:.2f} s")
    assert len(device["steps"]) == 10**6 // THREADS // STEP_OPERATIONS
    for step in device["steps"]:
        span = STEP_OPERATIONS * PERIOD_US * PS
        compute = STEP_OPERATIONS * LENGTH_US * THREADS * PS
        assert (step["span_ps"], step["parts"]["compute"]) == (span, compute)
        assert step["parts"]["host_overhead"] == span - compute
    assert sum(operation["count"] for operation in device["operations"]) == 10**6
