"""Which cases of a suite get the profiled pass. Pure."""

from collections.abc import Sequence
from typing import Any

from tfscale.suite.spec import Case, Profile


def profiled_cases(cases: Sequence[Case], profile: Profile | None) -> set[str]:
    """Ids of the cases to profile: all, or with `only` the first case of each workload that has those axis values."""
    if profile is None:
        return set()
    if not profile.only:
        return {case.id for case in cases}
    first: dict[str, str] = {}
    for case in cases:
        axes = case.model_dump(mode="json")
        if all(_has(axes.get(name), wanted) for name, wanted in profile.only.items()):
            first.setdefault(case.workload, case.id)
    return set(first.values())


def _has(value: Any, wanted: Any) -> bool:
    """Whether an axis has a value as a suite writes it: a word for a map is its `kind`, a map names part of it."""
    if not isinstance(value, dict):
        return bool(value == wanted)
    parts = wanted if isinstance(wanted, dict) else {"kind": wanted}
    return all(value.get(key) == part for key, part in parts.items())
