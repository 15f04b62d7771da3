"""From what a user names to the traces of the hosts: files, folders, runs; read only, nothing is written beside them.

A folder may be a profile (`<log>/plugins/profile/<time>`), a TensorBoard log directory (its newest profile), a rank's,
a case's or a run's folder of ours, or any folder that holds trace files.
"""

import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfscale.suite import registry
from tfscale.suite.profiling.readers import Reader
from tfscale.suite.profiling.table import HostTrace, TraceError

LARGEST_BYTES = 4 * 2**30
"""Of one uncompressed trace; a protobuf cannot be larger than 2 GiB."""
MOST_EXPANSION = 200
"""Traces compress to a tenth or a fifteenth; a file that expands more than this is not one."""
CLOCK = "clock.json"
_CHUNK = 1 << 22
_RANK = re.compile(r"rank\d+$")
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Loaded:
    """Traces in the order given, and what a reader of the answer must know about how they were found."""

    traces: list[HostTrace]
    notes: list[str]


def load(paths: Sequence[Path]) -> Loaded:
    """The traces that `paths` name. Raises TraceError naming the path."""
    notes: list[str] = []
    files = [file for path in paths for file in files_of(path, notes)]
    if not files:
        raise TraceError("no trace was named")
    traces = [read(file) for file in _distinct(files, notes)]
    return Loaded(_unique(traces, notes), notes)


def _distinct(files: Sequence[Path], notes: list[str]) -> list[Path]:
    """Every file once, however often and by whatever names it was given: it is not another host."""
    found: dict[Path, Path] = {}
    for file in files:
        first = found.setdefault(file.resolve(), file)
        if first is not file:
            notes.append(f"{file} is {'named twice' if file == first else f'the file {first}'}: it is read once")
    return list(found.values())


def files_of(path: Path, notes: list[str]) -> list[Path]:
    """The trace files that one path stands for. Raises TraceError where there is none, or they cannot be looked for."""
    wanted = "a trace file, a profile folder, a log directory or a run is expected"
    try:
        if path.is_file():
            return [path]
        if not path.exists():
            raise TraceError(f"{path} does not exist ({wanted})")
        if not path.is_dir():
            raise TraceError(
                f"{path} is neither a file nor a folder ({wanted}; save what a pipe gives to a file first)"
            )
        found = _below(path)
    except OSError as error:
        raise TraceError(f"{error.filename or path}: {error.strerror or error}") from error
    return _newest(_one_job(found, path, notes), notes)


def _one_job(files: list[Path], path: Path, notes: list[str]) -> list[Path]:
    """Of the profiles of our runs those of one case: ranks are hosts of one job, and cases are different jobs.

    The newest run is taken; a run with several profiled cases is refused with their folders.
    """
    jobs: dict[Path, list[Path]] = {}
    for file in files:
        job = next((p for p in file.parents if p.name == "profile" and _RANK.match(file.relative_to(p).parts[0])), None)
        if job is None:
            return files
        jobs.setdefault(job, []).append(file)
    runs = sorted({job.parent.parent for job in jobs}, key=lambda run: run.name)
    newest = {job: mine for job, mine in jobs.items() if job.parent.parent == runs[-1]}
    if len(runs) > 1:
        notes.append(f"{path} holds {len(runs)} runs with profiles; the newest, {runs[-1].name}, is read")
    if len(newest) > 1:
        raise TraceError(f"{path} holds the profiles of {len(newest)} cases; name one of {', '.join(map(str, newest))}")
    return next(iter(newest.values()))


def _below(path: Path) -> list[Path]:
    found = [file for file in path.rglob("*") if file.is_file() and _ending(file) is not None and _is_trace(file)]
    if not found:
        held = ", ".join(sorted({file.name for file in path.iterdir()})[:5]) or "nothing"
        raise TraceError(f"{path} holds no trace ({', '.join(registry.names('readers'))}, also .gz); it holds {held}")
    return sorted(found)


def _is_trace(file: Path) -> bool:
    """JSON files of runs are not traces; a trace in JSON says so early."""
    if not re.search(r"\.json(\.gz)?$", file.name):
        return True
    opener: Any = gzip.open if file.name.endswith(".gz") else open
    try:
        with opener(file, "rb") as stream:
            return re.search(rb'"traceEvents"|"ph"\s*:', stream.read(1 << 16)) is not None
    except (OSError, EOFError):
        return True  # let the reader say what is wrong


def _newest(files: list[Path], notes: list[str]) -> list[Path]:
    """Of several profiles below one log directory the newest; the ranks of a run have a log directory each."""
    by_log: dict[Path, dict[str, list[Path]]] = {}
    chosen: list[Path] = []
    for file in files:
        if "profile" in file.parts and file.parent.parent.name == "profile":
            by_log.setdefault(file.parent.parent, {}).setdefault(file.parent.name, []).append(file)
        else:
            chosen.append(file)
    for log, profiles in by_log.items():
        newest = max(profiles)
        if len(profiles) > 1:
            notes.append(f"{log} holds {len(profiles)} profiles; the newest, {newest}, is read")
        chosen += profiles[newest]
    return sorted(chosen, key=_by_rank)


def _by_rank(file: Path) -> tuple[list[int], str]:
    """Rank 10 after rank 9."""
    return [int(digits) for digits in re.findall(r"[0-9]+", str(file))], str(file)


def _ending(file: Path) -> str | None:
    name = file.name.removesuffix(".gz")
    return next((ending for ending in registry.names("readers") if name.endswith(ending)), None)


def read(file: Path) -> HostTrace:
    """One trace file, by its name, else by what it holds. Raises TraceError."""
    try:
        data = _bytes(file)
    except OSError as error:
        raise TraceError(f"{file}: {error.strerror or error}") from error
    if not data:
        raise TraceError(f"{file}: an empty file")
    ending = _ending(file) or (".json" if data.lstrip()[:1] in (b"{", b"[") else ".xplane.pb")
    reader: Reader = registry.load("readers", ending)
    trace, clock = reader(data, str(file)), _clock(file)
    return replace(trace, facts={**trace.facts, "clock": clock}) if clock else trace


def _clock(file: Path) -> dict[str, float] | None:
    """What `clock.json` says, beside the trace or in its log directory: `offset_ns`, how far the host's clock is ahead of
    the reference's, and `bound_ns`, the error that this can have. Raises TraceError for another content."""
    log = file.parents[3] if len(file.parents) > 3 and file.parent.parent.name == "profile" else file.parent
    for path in (file.parent / CLOCK, log / CLOCK):
        try:
            told = json.loads(path.read_bytes())
            return {name: float(told[name]) for name in ("offset_ns", "bound_ns")}
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TraceError(f"{path}: no offset_ns and bound_ns in it: {type(error).__name__}: {error}") from error
    return None


def _bytes(file: Path) -> bytes:
    size = file.stat().st_size
    if size > LARGEST_BYTES:
        raise TraceError(f"{file}: {size} bytes; at most {LARGEST_BYTES} are read")
    raw = file.read_bytes()
    if raw[:2] != _GZIP:
        return raw
    limit = min(LARGEST_BYTES, max(MOST_EXPANSION * size, 1 << 20))
    parts: list[bytes] = []
    total = 0
    try:
        with gzip.open(file, "rb") as stream:
            while part := stream.read(_CHUNK):
                total += len(part)
                if total > limit:
                    raise TraceError(f"{file}: {size} bytes of gzip expand to more than {limit}: that is no trace")
                parts.append(part)
    except (EOFError, gzip.BadGzipFile, OSError) as error:
        raise TraceError(f"{file}: damaged gzip after {total} bytes: {error}") from error
    return b"".join(parts)


def _unique(traces: list[HostTrace], notes: list[str]) -> list[HostTrace]:
    """Two files of one host name are two hosts, `name` and `name#2`, in the order given."""
    seen: dict[str, int] = {}
    named = []
    for trace in traces:
        seen[trace.host] = seen.get(trace.host, 0) + 1
        if seen[trace.host] > 1:
            name = f"{trace.host}#{seen[trace.host]}"
            notes.append(f"{trace.files[0]} has the host name {trace.host} of another file: it is called {name}")
            trace = replace(trace, host=name)
        named.append(trace)
    return named
