"""Ten million events in a process of its own: the right answer, in bounded memory; how long it took is printed."""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
from toy_large import LENGTH_US, PERIOD_US, STEP_OPERATIONS, THREADS, large
from toy_timeline import PS

EVENTS = 10**7
BYTES_AN_EVENT = 250
"""Six columns of 8 bytes, the bytes of the event, and what sorting and decoding hold at a time."""


def test_ten_million_events(tmp_path: Path, root: Path) -> None:
    path = tmp_path / "large.xplane.pb"
    path.write_bytes(large(EVENTS))
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(root / "harness.py"), "trace", "--json", str(path)], capture_output=True, check=False
    )
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"{seconds:.1f} s, {EVENTS / seconds / 1e6:.2f} M events/s, peak {peak / 1e9:.2f} GB")
    assert done.returncode == 0, done.stderr.decode()
    (device,) = json.loads(done.stdout)["hosts"][0]["devices"]
    assert len(device["steps"]) == EVENTS // THREADS // STEP_OPERATIONS
    assert {step["parts"]["compute"] for step in device["steps"]} == {STEP_OPERATIONS * LENGTH_US * THREADS * PS}
    assert {step["span_ps"] for step in device["steps"]} == {STEP_OPERATIONS * PERIOD_US * PS}
    assert peak < EVENTS * BYTES_AN_EVENT
