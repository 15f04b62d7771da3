"""In what two results differ, and what each difference does to their comparison. Pure.

A difference is the thing compared, makes the comparison unfair, or is a note. What is compared is named by the user, or
is the first of hardware, clocks and software that differs.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from tfscale.suite.compare.forms import PARTS, Comparability, Difference, Weighs
from tfscale.suite.compare.matching import Matched, differing
from tfscale.suite.environment.diff import Change, differences
from tfscale.suite.record import Record

LIKELY = 70
"""Weight (environment/diff.py) from which a change of the environment is taken to change speed."""
NEVER_THE_THING = ("workload", "preset")
"""Another model takes other samples: the ratio of two rates of them says nothing of systems or settings."""
WORK = ("per_replica_batch", "global_batch", "accumulation", "input", "seed", "learning_rate_rule", "recompute")
"""Axes that change what a step works on: fair only where they are named."""

_HARDWARE = (
    "gpus*", "cpu.model", "cpu.sockets", "cpu.cores", "cpu.threads", "cpu.usable", "cpu.instructions", "cpu.caches",
    "cpu.hypervisor", "memory_bytes", "numa*", "nics*", "rdma*", "topology*", "system.*", "cgroup.*",
)  # fmt: skip
_CLOCKS = ("cpu.governor", "cpu.driver", "cpu.turbo", "cpu.energy_preference", "cpu.smt", "settings.*")
_NEITHER = (
    "host",
    "hosts*",
    "load_average",
    "scheduler.*",
    "limits.*",
    "cpu.microcode",
    "system.firmware",
    "gpus.*.pci*",
)
_WITH_CARDS = ("driver.*", "libraries.*", "packages.nvidia-*", "packages.libtpu*", "tensorflow_build.*",
               "packages.tensorflow-cpu", "packages.tensorflow", "topology*", "variables.CUDA_VISIBLE_DEVICES")  # fmt: skip
"""What another accelerator brings with it: no unfairness where hardware is compared."""

_EFFECTIVE = {
    "math": ("precision", "matrices were multiplied in another arithmetic"),
    "xla": ("xla", "XLA compiled on one side only, or otherwise"),
    "collective": ("collective", "another implementation of the collectives ran"),
    "resolved": ("exchange", "`auto` came down to another exchange"),
    "update": ("", "the optimiser's update was compiled on one side only"),
    "start": ("", "ranks were started in another way"),
}
"""Key of `effective` -> the axis that asks for it ("": none does), and what its difference means."""
_IN_THE_INTERVAL = ("steady_state", "interval", "trials_agree")
"""Checks whose doubts are about spread: the interval of the ratio has it."""
_LOSS_APART, _ERRORS_APART = 0.05, 3.0


def comparability(matched: Sequence[Matched], by: Sequence[str], lossless: Iterable[str]) -> Comparability:
    """Every difference of the matched cases: what was asked for, what ran, what it came to, and on what.

    `by`: axes and PARTS that are named as the thing compared. `lossless`: ids of the cases whose losses need no proof,
    because trainings to a target loss are on record. What is alike in all pairs is said once.
    """
    found: dict[str, list[tuple[Difference, str]]] = {}
    pairs = [(one.a[0], one.b[0]) for one in matched]
    things = _things(pairs, by)
    for one in matched:
        for difference in _of_checks(one):
            _add(found, difference, one.a[0].case_id)
    for a, b in pairs:
        for difference in (*_of_cases(a, b, by), *_of_effective(a, b, by), *_of_losses(a, b, by, set(lossless))):
            _add(found, difference, a.case_id)
    for sides, cases in _by_environment(pairs):
        for change in differences(*sides):
            for case in cases:
                _add(found, _of_environment(change, things, sides), case)
    every = {a.case_id for a, _ in pairs}
    merged = [_merge(group, every) for group in found.values()]
    order: tuple[Weighs, ...] = ("unfair", "compared", "note")
    merged.sort(key=lambda difference: order.index(difference.weighs))
    told = tuple(dict.fromkeys((*things, *(d.what for d in merged if d.weighs == "compared" and "." not in d.what))))
    return Comparability(
        things=told, fair=all(difference.weighs != "unfair" for difference in merged), differences=tuple(merged)
    )


def _things(pairs: Sequence[tuple[Record, Record]], by: Sequence[str]) -> tuple[str, ...]:
    """The parts of the environment that are compared: those named; where nothing is, the first that differs."""
    if by or any(differing(a.case, b.case) for a, b in pairs):
        return tuple(part for part in PARTS if part in by)
    for part in PARTS:
        for (a, b), _ in _by_environment(pairs):
            if any(part_of(c.path) == part and c.known == "both" and c.weight >= LIKELY for c in differences(a, b)):
                return (part,)
    return ()


def _add(found: dict[str, list[tuple[Difference, str]]], difference: Difference, case: str) -> None:
    key = json.dumps([difference.what, difference.a, difference.b, difference.weighs], sort_keys=True, default=str)
    found.setdefault(key, []).append((difference, case))


def _merge(group: Sequence[tuple[Difference, str]], every: set[str]) -> Difference:
    cases = {case for _, case in group}
    return group[0][0].model_copy(update={"cases": () if cases == every else tuple(sorted(cases))})


def _by_environment(
    pairs: Sequence[tuple[Record, Record]],
) -> list[tuple[tuple[Mapping[str, Any], Mapping[str, Any]], list[str]]]:
    """The distinct pairs of environments and the cases that were measured in them; a run has one environment."""
    seen: dict[tuple[str, str], tuple[tuple[Mapping[str, Any], Mapping[str, Any]], list[str]]] = {}
    for a, b in pairs:
        seen.setdefault((a.run, b.run), ((a.environment, b.environment), []))[1].append(a.case_id)
    return list(seen.values())


def part_of(path: str) -> str | None:
    """Which of PARTS a path of the environment belongs to; None for what changes by itself."""
    for part, patterns in ((None, _NEITHER), ("hardware", _HARDWARE), ("clocks", _CLOCKS)):
        if any(fnmatchcase(path, pattern) for pattern in patterns):
            return part
    return "software"


def _of_environment(
    change: Change, things: Sequence[str], sides: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> Difference:
    part = part_of(change.path)
    other_cards = _cards(sides[0]) != _cards(sides[1])
    brought = "hardware" in things and other_cards and any(fnmatchcase(change.path, p) for p in _WITH_CARDS)
    why = change.why
    weighs: Weighs = "note"
    if change.known != "both":
        why = f"only {'A' if change.known == 'before' else 'B'} tells it"
    elif part in things:
        weighs = "compared"
    elif brought:
        why = "comes with the other accelerator"
    elif part is not None and change.weight >= LIKELY:
        weighs = "unfair"
    return Difference(what=f"environment.{change.path}", a=change.before, b=change.after, weighs=weighs, why=why)


def _cards(environment: Mapping[str, Any]) -> list[Any]:
    return [card.get("name") for card in environment.get("gpus") or ()]


def _of_cases(a: Record, b: Record, by: Sequence[str]) -> Iterator[Difference]:
    if a.case_id == b.case_id:
        return
    for axis, (one, other) in differing(a.case, b.case).items():
        weighs: Weighs = "compared"
        why = "named as the thing compared" if axis in by else "the settings that were given differ in it"
        if axis in NEVER_THE_THING:
            weighs, why = "unfair", "another model: its samples are other work"
        elif axis in WORK and axis not in by:
            weighs, why = "unfair", f"another work for a step; `--by {axis}` if it is what you compare"
        yield Difference(what=axis, a=one, b=other, weighs=weighs, why=why)


def _of_checks(matched: Matched) -> Iterator[Difference]:
    """What a check doubts on one side only: somebody else's load, throttling, another transport."""
    if any(result.validity.status == "INVALID" for result in matched.results):
        return  # it is not compared
    doubted = [
        {check.name: check.status for check in result.validity.checks if check.status == "SUSPECT"}
        for result in matched.results
    ]
    for name in dict.fromkeys((*doubted[0], *doubted[1])):
        one, other = (side.get(name, "not doubted") for side in doubted)
        if one == other:
            continue
        weighs: Weighs = "note" if name in _IN_THE_INTERVAL else "unfair"
        side = "A" if name in doubted[0] else "B"
        why = (
            "it widens the interval"
            if weighs == "note"
            else f"{side} was measured under a condition that its checks doubt"
        )
        yield Difference(what=f"validity.{name}", a=one, b=other, weighs=weighs, why=why)


def _of_effective(a: Record, b: Record, by: Sequence[str]) -> Iterator[Difference]:
    for key, (axis, meaning) in _EFFECTIVE.items():
        one, other = a.effective.get(key), b.effective.get(key)
        if one == other or (axis and a.case.get(axis) != b.case.get(axis)):
            continue  # what was asked for differs, and that is told
        weighs: Weighs = "unfair" if axis and axis not in by else "note"
        if None in (one, other):
            weighs, meaning = "note", "what really ran is known of one side only"
        yield Difference(what=f"effective.{key}", a=one, b=other, weighs=weighs, why=meaning)


def _of_losses(a: Record, b: Record, by: Sequence[str], proved: set[str]) -> Iterator[Difference]:
    """What the speed was bought with: a loss that did not fall, came out elsewhere, or an exchange that loses digits."""
    first, second = a.loss.get("verdict"), b.loss.get("verdict")
    if first != second and "unknown" not in (first, second):
        yield Difference(
            what="loss.verdict", a=first, b=second, weighs="unfair", why="one side trains and one does not"
        )
    exact = [record.effective.get("exchange_exact") for record in (a, b)]
    if exact[0] is not exact[1] and False in exact and not {a.case_id, b.case_id} <= proved:
        why = (
            "one exchange loses digits, so a step is worth less, and no training to a target loss is on record "
            "(`target_loss` in the suite): this ratio is of speeds, not of times to a result"
        )
        yield Difference(what="effective.exchange_exact", a=exact[0], b=exact[1], weighs="unfair", why=why)
    apart = _losses_apart(a, b)
    if apart is not None:
        same_work = not differing(a.case, b.case)
        why = "the same case came to another loss in as many steps" if same_work else "another loss in as many steps"
        yield Difference(
            what="loss.last_fifth", a=apart[0], b=apart[1], weighs="unfair" if same_work else "note", why=why
        )


def _losses_apart(a: Record, b: Record) -> tuple[float, float] | None:
    """Losses of the last fifth of as many steps (within a tenth) that lie apart by more than their noise and 5 %."""
    ends = [_end_of(record.loss) for record in (a, b)]
    if ends[0] is None or ends[1] is None:
        return None
    (steps, mean, error), (other_steps, other_mean, other_error) = ends[0], ends[1]
    if abs(math.log(steps / other_steps)) > math.log(1.1):
        return None
    bound = max(_ERRORS_APART * math.hypot(error, other_error), _LOSS_APART * max(abs(mean), abs(other_mean)))
    return (mean, other_mean) if abs(mean - other_mean) > bound else None


def _end_of(loss: Mapping[str, Any]) -> tuple[int, float, float] | None:
    """Steps, mean and standard error of the last fifth of them; None where the record does not tell all three."""
    steps, last = loss.get("steps"), loss.get("last_fifth")
    if not steps or not isinstance(last, Mapping):
        return None
    mean, error = last.get("mean"), last.get("standard_error")
    return None if mean is None or error is None else (int(steps), float(mean), float(error))
