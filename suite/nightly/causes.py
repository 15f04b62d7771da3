"""What differs between the last good night and the first bad one: environment, git, node, parts of the step, operations.

Reads the two records' own files, and their profiles; called only for what is found.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from tfscale.suite.environment.diff import differences
from tfscale.suite.nightly.forms import Cause, Explanation, Grown
from tfscale.suite.nightly.series import Night, Series
from tfscale.suite.nightly.verdicts import Step
from tfscale.suite.record import Kind, Quantity
from tfscale.suite.runfolder import PROFILE
from tfscale.suite.timing.trials import welch_half_width

LIKELY = 30
"""Weight in the environment's difference from which a change is named."""
MOST = 8
_GIT = ("tfscale.git", "directory.git")
_NIGHTS_TO_TELL = 3
_NIGHTS_BEFORE = 15
"""Nights before a change that its parts and memory are compared with: older ones may have changed for reasons of their own."""
_LEAST_SHARE = 0.01
"""A part that moved by less of the step is unchanged."""
_NEAR = 2
_OPERATIONS = 8


def causes(series: Series, step: Step) -> tuple[Cause, ...]:
    """Between the last night before `step` and its first night; where that is nothing, what changed within two nights."""
    found = _between(series.nights[step.before[-1]], first_bad(series, step))
    if any(cause.kind != "node" for cause in found):
        return tuple(found[:MOST])
    return tuple([*found, *_nearby(series, step)][:MOST])


def first_bad(series: Series, step: Step) -> Night:
    """The first night since the step that has a result; levels between it and the newest one count too."""
    return next(night for night in series.nights[step.since :] if night.values)


def kind_of(series: Series) -> Kind:
    """How the newest throughput came about."""
    kind = series.last.trials[0].kind
    return kind if kind in get_args(Kind) else "measured"  # type: ignore[return-value]


def _between(good: Night, bad: Night, off: int = 0) -> list[Cause]:
    near = (
        f"; it changed with {bad.run}, {abs(off)} night{'s' if abs(off) > 1 else ''} {'before' if off < 0 else 'after'}"
    )
    found = []
    if good.node != bad.node:
        found.append(Cause(kind="node", what="host", before=good.node, after=bad.node, why="another node ran it"))
    for change in differences(_environment(good), _environment(bad)):
        if change.path == "host" or change.weight < LIKELY or change.known != "both":
            continue
        before, after = _text(change.before), _text(change.after)
        git = change.path in _GIT
        why = change.why + (near if off else "")
        command = f"git log --oneline {shlex.quote(f'{_revision(before)}..{_revision(after)}')}" if git else None
        kind: Literal["git", "environment"] = "git" if git else "environment"
        found.append(
            Cause(kind=kind, what=change.path, before=before, after=after, why=why, command=command, nights_off=off)
        )
    return found


def _nearby(series: Series, step: Step) -> list[Cause]:
    """A change is placed a night or two off where nights are noisy."""
    present = [i for i, night in enumerate(series.nights) if night.trials]
    at = present.index(step.before[-1])
    found = []
    for k in range(max(at - _NEAR, 0), min(at + _NEAR + 1, len(present) - 1)):
        one, other = series.nights[present[k]], series.nights[present[k + 1]]
        if k != at and one.trials[0].around is not other.trials[0].around:
            found += [cause for cause in _between(one, other, k - at) if cause.kind != "node"]
    return found


def _environment(night: Night) -> Mapping[str, Any]:
    """Of the night's first record; {} where its file is gone since it was read."""
    try:
        told = json.loads(night.trials[0].path.read_bytes()).get("environment")
    except (OSError, ValueError, IndexError):
        return {}
    return told if isinstance(told, dict) else {}


def _text(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value)


def _revision(described: str | None) -> str:
    """What git understands of its own `describe`: without the mark of a changed checkout."""
    return (described or "").removesuffix("-dirty")


def explanations(series: Series, step: Step) -> tuple[Explanation, ...]:
    """Parts of the step and peak memory before and since, what moved most first."""
    sides = [[series.nights[i] for i in nights] for nights in (step.before[-_NIGHTS_BEFORE:], step.after)]
    names = dict.fromkeys(name for side in sides for night in side for name in parts_of(night))
    scale = _step_time(sides[0])
    kind = kind_of(series)
    found = [_explained(name, "s", [_told(side, name) for side in sides], scale, kind) for name in names]
    memory = [[m for night in side if (m := memory_of(night)) is not None] for side in sides]
    parts = sorted((one for one in found if one is not None), key=_moved)
    return (*parts, *(one for one in [_explained("memory_peak", "bytes", memory, None, kind)] if one is not None))


def _moved(one: Explanation) -> tuple[int, float]:
    return ("grew", "shrank", "unchanged", "unknown").index(one.verdict), -abs(one.grown)


def _told(nights: Sequence[Night], name: str) -> list[float]:
    return [parts[name] for night in nights if name in (parts := parts_of(night))]


def parts_of(night: Night) -> dict[str, float]:
    """Seconds of each part of a step, of the trial that was profiled; {} where none was."""
    return next((trial.parts for trial in night.trials if trial.parts), {})


def _step_time(nights: Sequence[Night]) -> float:
    return float(np.mean([sum(parts_of(night).values()) for night in nights if parts_of(night)] or [0.0]))


def memory_of(night: Night) -> float | None:
    """Peak memory of a night: the largest of its trials."""
    return max((trial.memory for trial in night.trials if trial.memory is not None), default=None)


def _explained(
    name: str, unit: str, sides: Sequence[Sequence[float]], scale: float | None, kind: Kind
) -> Explanation | None:
    if not all(sides):
        return None
    before, after = (_mean(side, unit, kind) for side in sides)
    assert before.value is not None and after.value is not None
    grown = after.value - before.value
    least = _LEAST_SHARE * (scale if scale else before.value)
    verdict: Any = "unknown"
    if min(map(len, sides)) >= _NIGHTS_TO_TELL:
        beyond = abs(grown) > welch_half_width(*(np.array(side) for side in sides)) and abs(grown) >= least
        verdict = "unchanged" if not beyond else "grew" if grown > 0 else "shrank"
    return Explanation(name=name, before=before, after=after, grown=grown, verdict=verdict)


def _mean(values: Sequence[float], unit: str, kind: Kind) -> Quantity:
    return Quantity(
        value=float(np.mean(values)),
        unit=unit,
        kind=kind,
        statistic="mean over nights",
        n_trials=len(values),
        scope="across_trials",
    )


def operations(series: Series, step: Step) -> tuple[tuple[Grown, ...], str | None]:
    """Operations that grew between the newest profile before the step and the newest since, or why none is named."""
    places = []
    for name, nights in (("before", step.before), ("since", step.after)):
        folders = [f for i in reversed(nights) if (f := _profile(series.nights[i])) is not None]
        if not folders:
            return (), f"no profile is stored of a night {name} the change"
        places.append(folders[0])
    from tfscale.suite.profiling.answer import answer, compared
    from tfscale.suite.profiling.table import TraceError

    try:
        before, after = (answer([place]) for place in places)
        told = compared(before, after, _OPERATIONS)["operations"]
    except (TraceError, OSError, ValueError) as error:
        return (), f"a profile cannot be read: {error}"
    grown = [one for one in told if one["grown_ps"] > 0]
    return tuple(map(_grown, grown)), None if grown else "no operation of the profiles takes longer"


def _grown(change: Mapping[str, Any]) -> Grown:
    return Grown(**{name: change[name] for name in ("name", "kind", "before_ps", "after_ps")})


def _profile(night: Night) -> Path | None:
    """The night's profile folder, beside its trials."""
    folder = night.trials[0].path.parent.parent / PROFILE if night.trials else None
    return folder if folder is not None and folder.is_dir() else None
