"""`tfscale trace`, end to end: load, analyse, join, judge; one document comes out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfscale.suite.profiling import clocks, document, sources, stragglers
from tfscale.suite.profiling.analysed import Analysed, analyse
from tfscale.suite.profiling.calls import calls_of
from tfscale.suite.profiling.collectives import Collective, joined
from tfscale.suite.profiling.operations import Change, differences, operations


@dataclass(frozen=True)
class Options:
    """How a trace is to be read."""

    async_windows: bool = True
    """TPU: count the whole window of an asynchronous operation, not only its start and done."""
    edge_steps: bool = True
    """Keep the first and the last step of each device."""
    top: int = 15
    """Operations listed for each device."""


@dataclass(frozen=True)
class Answer:
    """What was asked, as objects and as the document."""

    analysed: Analysed
    collectives: list[Collective]
    document: dict[str, Any]


def answer(paths: Sequence[Path], options: Options | None = None) -> Answer:
    """The analysed traces of `paths`. Raises TraceError naming the file."""
    chosen = options or Options()
    loaded = sources.load(paths)
    analysed = analyse(loaded.traces, async_windows=chosen.async_windows, edge_steps=chosen.edge_steps)
    analysed, calls, clock = clocks.common(analysed, calls_of(analysed))
    found = joined(calls, aligned=analysed.aligned, bound_ps=clock.bound_ps)
    verdict = stragglers.find(analysed, found)
    told = document.document(analysed, found, verdict, notes=loaded.notes, clock=clock, top=chosen.top)
    return Answer(analysed, found, told)


def compared(base: Answer, other: Answer, top: int) -> dict[str, Any]:
    """The `against` entry of a document: parts and operations that grew, per step and device."""
    return {
        "base_files": [file for host in base.analysed.hosts for file in host.trace.files],
        "devices": document.difference((base.analysed, base.collectives), (other.analysed, other.collectives)),
        "operations": [_change(change) for change in _changes(base.analysed, other.analysed)[:top]],
    }


def _changes(base: Analysed, other: Analysed) -> list[Change]:
    """Of the first device of each: the others run the same program."""
    before, after = (
        next((operations(host, device) for host in one.hosts for device in host.devices), []) for one in (base, other)
    )
    return differences(before, after)


def _change(change: Change) -> dict[str, Any]:
    return {**vars(change), "grown_ps": change.grown_ps}
