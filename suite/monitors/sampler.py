"""The one sampler process of a host: `python -m tfscale.suite.monitors.sampler CONFIG.json`.

CONFIG  {"monitors": [names], "period_s", "slow_s", "output": path, "folder": the trial's, "visible": {variable: value},
         "namespaces": {host: name}, optional}

It writes JSON lines; times are perf_counter_ns, the clock of the steps on this host:

    {"sampler": {"pid", "period_s", "slow_s"}}
    {"m": monitor, "columns": [{name, unit, kind, device, state, reason, slow, wraps_at}]}   before its samples
    {"m": monitor, "t": ns, "s": 0 | 1, "v": [value | null]}    s 1: its slow columns, 0: the others; only those ok
    {"m": monitor, "t": ns, "facts": {...}}                     whenever they differ from the last
    {"m": monitor, "t": ns, "state": "error", "reason": text}   it failed and is asked no more; the others go on
    {"end": {"cause", "cpu_s", "wall_s", "opening_cpu_s", "ticks", "missed",
             "monitors": {name: {"cpu_s", "longest_s", "overruns"}}}}

cpu_s and wall_s are from the first tick to the end; opening_cpu_s is what came before, imports included.
A stamp is the middle of its reading. Ticks lie on multiples of the period after the start, so nothing drifts; those
whose time passes while another is worked on are counted and never made up for. It ends on SIGTERM, and when its
standard input closes, so that it cannot outlive the harness; a last sample then lies behind all that was measured.

It lowers its own priority (nice 5): where all cores are busy it is the sampler that should wait. That costs a later
stamp or a missed tick, and the file tells of both; a step that waits would change what is measured.
"""

import dataclasses
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tfscale.suite import registry
from tfscale.suite.monitors.base import Column, Monitor, Target
from tfscale.suite.sources.base import Sources
from tfscale.suite.sources.here import here

NICE = 5

Line = dict[str, Any]
Wait = Callable[[int], str | None]
"""Waits until a time (perf_counter_ns); what ended the sampling meanwhile, if anything."""


class Sampled:
    """One monitor in the sampler, with what it costs. Its lines gather in `lines`."""

    def __init__(self, name: str, sources: Sources, target: Target) -> None:
        self.name = name
        self.lines: list[Line] = []
        self.alive = True
        self.cpu_s = self.longest_s = 0.0
        self.overruns = 0
        self._monitor: Monitor | None = None
        self._facts: dict[str, Any] = {}
        self._fast: Sequence[Column] = ()
        self._slow: Sequence[Column] = ()
        with self._guard():
            self._open(sources, target)

    def tick(self, slow: bool) -> None:
        """Sample the fast columns; where `slow`, the others and the facts too."""
        if self.alive:
            with self._guard():
                self._sample(self._fast, 0)
                if slow:
                    self._sample(self._slow, 1)
                    self._ask_facts()

    def close(self) -> None:
        if self._monitor is not None:
            with self._guard():
                self._monitor.close()

    def _open(self, sources: Sources, target: Target) -> None:
        self._monitor = registry.load("monitors", self.name)(sources, target)
        columns = self._monitor.columns()
        self._say(columns=[dataclasses.asdict(column) for column in columns])
        self._fast = [column for column in columns if column.state == "ok" and not column.slow]
        self._slow = [column for column in columns if column.state == "ok" and column.slow]

    def _sample(self, columns: Sequence[Column], slow: int) -> None:
        if not columns or self._monitor is None:
            return
        began = time.perf_counter_ns()
        values = self._monitor.sample(columns)
        ended = time.perf_counter_ns()
        if len(values) != len(columns):
            raise ValueError(f"sample() gave {len(values)} values for {len(columns)} columns")
        self.longest_s = max(self.longest_s, (ended - began) / 1e9)
        self._say(t=(began + ended) // 2, s=slow, v=values)

    def _ask_facts(self) -> None:
        facts = self._monitor.facts() if self._monitor else {}
        if facts != self._facts:
            self._say(t=time.perf_counter_ns(), facts=facts)
            self._facts = facts

    def _say(self, **fields: Any) -> None:
        self.lines.append({"m": self.name, **fields})

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """A failure of this monitor is told, and ends this monitor only. Its CPU time is added up."""
        before = time.process_time()
        try:
            yield
        except Exception as error:  # whatever a monitor, or a plugin's, raises
            self.alive = False
            self._say(t=time.perf_counter_ns(), state="error", reason=f"{type(error).__name__}: {error}")
        self.cpu_s += time.process_time() - before


class Output:
    """The file of lines, whole lines at a time."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("wb", buffering=1 << 20)  # noqa: SIM115 (closed at the end of the process)
        self._encode = msgspec.json.Encoder().encode  # NaN and infinity become null

    def write(self, *lines: Line) -> None:
        for line in lines:
            self._file.write(self._encode(line) + b"\n")

    def take(self, monitor: Sampled) -> None:
        """Write what the monitor has said; encoding it is part of what it costs."""
        before = time.process_time()
        self.write(*monitor.lines)
        monitor.lines.clear()
        monitor.cpu_s += time.process_time() - before

    def flush(self) -> None:
        self._file.flush()


def next_tick(last: int, since_start_ns: int, period_ns: int) -> int:
    """The tick to wait for after tick `last`: the first whose time has not passed. Those between are missed."""
    return max(last + 1, -(-since_start_ns // period_ns))


def sample(config: dict[str, Any], output: Output, wait: Wait) -> None:
    """Sample until `wait` gives a cause to end. Raises OSError where the output cannot be written."""
    output.write({"sampler": {"pid": os.getpid(), "period_s": config["period_s"], "slow_s": config["slow_s"]}})
    target, sources = Target(Path(config["folder"]), config["visible"], config.get("namespaces", {})), here()
    monitors = []
    for name in config["monitors"]:
        monitors.append(Sampled(name, sources, target))
        output.take(monitors[-1])
        monitors[-1].cpu_s = 0.0
    output.flush()
    gc.collect()
    gc.freeze()  # what is there stays; a collection while sampling need not look at it again
    began, cpu = time.perf_counter(), time.process_time()
    cause, ticks, missed = _loop(monitors, output, config["period_s"], config["slow_s"], wait)
    for monitor in monitors:
        monitor.close()
        output.take(monitor)
    used = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - began, "opening_cpu_s": cpu}
    costs = {m.name: {"cpu_s": m.cpu_s, "longest_s": m.longest_s, "overruns": m.overruns} for m in monitors}
    output.write({"end": {"cause": cause, **used, "ticks": ticks, "missed": missed, "monitors": costs}})
    output.flush()


def _loop(
    monitors: Sequence[Sampled], output: Output, period_s: float, slow_s: float, wait: Wait
) -> tuple[str, int, int]:
    """Ticks until the end: its cause, how many ticks there were, how many were missed."""
    period_ns, slow_every = round(period_s * 1e9), max(1, round(slow_s / period_s))
    start, tick, ticks, missed, last_slow = time.perf_counter_ns(), 0, 0, 0, -1
    cause: str | None = None
    while True:
        # The last tick is a slow one, so that slow columns too have a sample behind all that was measured.
        slow = tick // slow_every != last_slow or cause is not None
        last_slow = tick // slow_every
        for monitor in monitors:
            monitor.tick(slow)
            output.take(monitor)
        ticks += 1
        if slow:
            output.flush()
        if cause is not None:
            return cause, ticks, missed
        following = next_tick(tick, time.perf_counter_ns() - start, period_ns)
        missed += following - tick - 1
        for monitor in monitors:
            monitor.overruns += following - tick - 1 if monitor.alive else 0
        tick = following
        cause = wait(start + tick * period_ns)


def wait_on(signalled: int) -> Wait:
    """Waits for a time, for standard input to close, or for a signal, which makes `signalled` readable."""

    def wait(until_ns: int) -> str | None:
        while (left := until_ns - time.perf_counter_ns()) > 0:
            ready, _, _ = select.select([0, signalled], [], [], left / 1e9)
            if signalled in ready:
                return "SIGTERM"
            if 0 in ready and not os.read(0, 4096):
                return "standard input closed"
        return None

    return wait


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tfscale.suite.monitors.sampler CONFIG.json", file=sys.stderr)
        return 2
    config = json.loads(Path(arguments[0]).read_bytes())
    readable, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGTERM, lambda *_: None)
    os.nice(NICE)
    try:
        sample(config, Output(config["output"]), wait_on(readable))
    except OSError as error:
        print(f"{config['output']}: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
