"""Starts the micro-benchmarks, which import TensorFlow, in processes of their own, pinned to the cores they may use."""

import json
import os
import subprocess
import sys
from typing import Any

from tfscale.suite import environment


def gemm(budget_s: float, cores: int | None) -> dict[str, Any]:
    """The matmul peaks as a `tfscale.gemm/1` document; ValueError for cores that are not there."""
    usable = environment.host_cores()
    if cores is not None and cores > len(usable):
        raise ValueError(f"--cores {cores}: this process may use {len(usable)}")
    rows = _python("tfscale.workloads.micro.gemm", ["--json", "--budget-s", str(budget_s)], usable[:cores])
    return {
        "schema": "tfscale.gemm/1",
        "cores": len(usable[:cores]),
        "environment": environment.capture(),
        "rows": rows,
    }


def _python(module: str, arguments: list[str], cores: list[int]) -> Any:
    """Run `python -m module`, pinned to `cores`; its stdout is JSON, its stderr goes to ours."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"python -m {module} ended with code {done.returncode}; its messages stand above")
    return json.loads(done.stdout)
