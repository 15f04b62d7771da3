"""Which case of A stands against which of B: by id, by the axes that are named, or as pairs that ran side by side. Pure."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tfscale.suite.caseresult import case_result
from tfscale.suite.compare.forms import PARTS, Pairing
from tfscale.suite.record import CaseResult, Record
from tfscale.suite.spec import Case
from tfscale.suite.suitefile import AXES, unknown_key

Cases = Mapping[str, Sequence[Record]]


@dataclass(frozen=True)
class Matched:
    """The trials of a case of A and of one of B; as many of both, in the order of the pairs, where `paired`."""

    a: tuple[Record, ...]
    b: tuple[Record, ...]
    paired: bool = False

    @cached_property
    def results(self) -> tuple[CaseResult, CaseResult]:
        """Either side over its trials."""
        return case_result(self.a), case_result(self.b)


def check_by(names: Iterable[str]) -> tuple[str, ...]:
    """`--by`, its commas split; each an axis or one of PARTS. Raises ValueError."""
    split = [part.strip() for name in names for part in name.split(",") if part.strip()]
    for name in split:
        if name not in AXES and name not in PARTS:
            raise ValueError(f"--by: {unknown_key(name, (*AXES, *PARTS), 'what may be compared')}")
    return tuple(dict.fromkeys(split))


def differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Axes in which two cases differ, with the values of both."""
    first, second = (Case.model_validate(dict(case)).model_dump(mode="json") for case in (a, b))
    return {name: (first[name], second[name]) for name in first if first[name] != second[name]}


def names_of(apart: Sequence[Mapping[str, tuple[Any, Any]]]) -> tuple[str, str]:
    """What to call A and B of one result: the values of the one axis that sets them apart everywhere, else the letters."""
    if any(len(axes) != 1 for axes in apart):
        return "A", "B"
    values = {(str(a), str(b)) for axes in apart for a, b in axes.values()}
    return values.pop() if len(values) == 1 else ("A", "B")


def match(a: Cases, b: Cases, by: Sequence[str], *, same: bool = False) -> list[Matched]:
    """The pairs of cases that differ in exactly the axes in `by`; without any, those of one id.

    `same`: A and B are one result; each of its cases then stands against the first of those before it.
    """
    axes = {name for name in by if name in AXES}
    if not axes:
        return [Matched(tuple(a[case]), tuple(b[case])) for case in a if case in b]
    firsts, seconds = [tuple(trials) for trials in a.values()], [tuple(trials) for trials in b.values()]
    if same:
        found = against_first([one[0].case for one in firsts], axes)
        return [Matched(firsts[one], firsts[other]) for one, other in found]
    return [
        Matched(one, other)
        for one in firsts
        for other in seconds
        if differing(one[0].case, other[0].case).keys() == axes
    ]


def against_first(cases: Sequence[Mapping[str, Any]], axes: Set[str]) -> list[tuple[int, int]]:
    """Of each case that has one, the place of the first case before it from which it differs in exactly `axes`; and its own."""
    found = []
    for place, case in enumerate(cases):
        before = (one for one in range(place) if differing(cases[one], case).keys() == axes)
        if (first := next(before, None)) is not None:
            found.append((first, place))
    return sorted(found)


def pairs(cases: Cases, pairing: Pairing) -> tuple[list[Matched], list[str]]:
    """The pairs of which both launches gave a record, case by case; and what was lost."""
    known = {(record.case_id, record.trial): record for trials in cases.values() for record in trials}
    found: dict[tuple[str, str], list[tuple[Record, Record]]] = {}
    lost = 0
    for pair in pairing.pairs:
        one, other = known.get((pair.case_a, pair.trial_a)), known.get((pair.case_b, pair.trial_b))
        if one is None or other is None:
            lost += pair.case_a in cases or pair.case_b in cases
            continue
        found.setdefault((pair.case_a, pair.case_b), []).append((one, other))
    notes = [f"{lost} of {len(pairing.pairs)} pairs lack a launch and are left out"] if lost else []
    matched = [Matched(tuple(a for a, _ in both), tuple(b for _, b in both), True) for both in found.values()]
    return matched, notes


def nothing_matches(a: Cases, b: Cases, by: Sequence[str], *, same: bool = False) -> str:
    """Why no case matches, with the axes that set the nearest two apart, as a hint."""
    found = [
        set(differing(one[0].case, other[0].case))
        for one in a.values()
        for other in b.values()
        if one[0].case_id != other[0].case_id
    ]
    asked = f"differ in exactly {', '.join(by)}" if by else "have one id"
    counts = f"{len(a)} cases" if same else f"{len(a)} cases of A, {len(b)} of B"
    nearest = min(found, key=lambda axes: (len(axes), sorted(axes)), default=None)
    hint = (
        f"; the nearest two differ in {', '.join(sorted(nearest))}: --by {','.join(sorted(nearest))}" if nearest else ""
    )
    return f"no two cases {asked} ({counts}){hint}"


def shared_title(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """What the two cases have in common, for people: the axes of A that are not at their defaults, less those that differ."""
    apart = differing(a, b)
    case = Case.model_validate(dict(a))
    if not apart:
        return case.title
    head = [str(getattr(case, name)) for name in ("workload", "preset", "strategy") if name not in apart]
    devices = [] if "devices" in apart else [f"x{case.devices}"]
    bare = case.model_copy(
        update={
            name: Case.model_fields[name].get_default(call_default_factory=True) for name in apart if name not in _HEAD
        }
    )
    rest = bare.title.split(" ")[4:]
    return " ".join([*head, *devices, *rest])


_HEAD = ("workload", "preset", "strategy", "devices")
