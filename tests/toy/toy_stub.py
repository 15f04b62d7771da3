"""`tfscale run` from end to end with workers that do not import TensorFlow: a launcher, and suites of stub cases.

The launcher is named on the command line: `--launcher toy_stub:StubLauncher`, with this folder on PYTHONPATH.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import toy_bench

from tfscale.suite.launchers.local import LocalLauncher

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
LAUNCHER = "toy_stub:StubLauncher"
DEADLINES = {"launch_s": 2, "join_s": 2, "first_step_s": 2, "step_s": 1}


class StubLauncher(LocalLauncher):
    """Local ranks that run the toy worker."""

    name = "stub"

    def __init__(self) -> None:
        super().__init__(worker=toy_bench.WORKER, preload=(), modules_of=lambda case: [])


class AnyPreset(Mapping[str, Any]):
    """Every preset is known: it says how the toy worker misbehaves."""

    def __getitem__(self, key: str) -> None:
        return None

    def __iter__(self) -> Any:
        return iter(("good",))

    def __len__(self) -> int:
        return 1


class Stub(toy_bench.Toy):
    name = "stub"
    presets = AnyPreset()


WORKLOAD = Stub()


def suite(path: Path, presets: Sequence[str], **measure: Any) -> Path:
    """Write a suite with a case a preset, told apart by a variable that nothing reads."""
    settings = {**DEADLINES, "trials": 1, "tail_steps": 0, **measure}
    cases = "".join(
        f'  - {{workload: "toy_stub:WORKLOAD", preset: "{preset}", strategy: "toy_bench:Ranks", devices: 2, '
        f'per_replica_batch: 4, env: {{NCCL_TEST: "{number}"}}}}\n'
        for number, preset in enumerate(presets)
    )
    text = f"name: stubs\nmeasure: {{{', '.join(f'{k}: {v}' for k, v in settings.items())}}}\nmonitors: false\n"
    path.write_text(f"{text}include:\n{cases}")
    return path


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{HERE}:{ROOT}", **more}


def command(suite: Path, results: Path, *options: str) -> list[str]:
    run = [sys.executable, str(ROOT / "harness.py"), "run", str(suite), "--results", str(results)]
    return [*run, "--launcher", LAUNCHER, *options]


def start(suite: Path, results: Path, *options: str, **popen: Any) -> "subprocess.Popen[str]":
    """The command, running; its output in pipes unless told otherwise."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment()} | popen
    return subprocess.Popen(command(suite, results, *options), **given)


def run(suite: Path, results: Path, *options: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    given = {"capture_output": True, "text": True, "env": environment(), "timeout": 120} | more
    return subprocess.run(command(suite, results, *options), check=False, **given)


def report(results: Path, page: Path) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, str(ROOT / "harness.py"), "report", str(results), "-o", str(page)]
    return subprocess.run(words, check=False, capture_output=True, text=True, env=environment(), timeout=120)
