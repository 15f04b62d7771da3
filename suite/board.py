"""Where every case of a run stands, from the notices of the run; and which of them fit on a screen. No printing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tfscale.suite.display import cell, quantity, varying_axes
from tfscale.suite.notices import Notice
from tfscale.suite.spec import Case

State = Literal["waiting", "running", "done", "failed"]
_STAGES = {"pilot_started": "pilot", "profile_started": "profile", "training_started": "training"}
_WORDS = ("workload", "preset", "strategy", "devices")
"""Axes whose value says which axis it is of."""


@dataclass
class Row:
    """One case, or one training to a target loss."""

    label: str
    state: State = "waiting"
    stage: str = ""
    """trial 1, pilot, profile, ..."""
    phase: str = ""
    value: str = ""
    """Of the newest trial."""
    trouble: list[str] = field(default_factory=list)
    """Failures, the newest last."""
    retries: int = 0

    @property
    def told(self) -> str:
        """The row in words: what it does, what came out, what went wrong."""
        running = f"{self.stage}: {self.phase}" if self.phase else self.stage
        words = [running] if self.state == "running" else []
        words += [f"retried {self.retries}x"] if self.retries else []
        words += [self.value] if self.value else []
        words += self.trouble[-1:]
        return "; ".join(words) or ("kept from before" if self.state == "done" else "")


class Board:
    """All rows in the order of the suite; trainings come after the cases as they begin."""

    def __init__(self, cases: Sequence[Case]) -> None:
        varying = varying_axes([case.axes() for case in cases])
        self._axes = varying if len({case.workload for case in cases}) > 1 else varying[1:] or varying
        self.rows = {case.id: Row(label(case, self._axes)) for case in cases}
        self.left_s: float | None = None
        """Estimate of the seconds left when the newest notice came."""

    def take(self, notice: Notice) -> None:
        """Account for one notice."""
        self.left_s = notice.left_s if notice.left_s is not None else self.left_s
        row = self.rows.get(notice.case.id)
        if row is None:
            row = self.rows[notice.case.id] = Row(label(notice.case, [*self._axes, "seed"]))
        _take(row, notice)

    def counts(self) -> Counter[str]:
        """Rows by state, and `retried`."""
        found: Counter[str] = Counter(row.state for row in self.rows.values())
        found["retried"] = sum(1 for row in self.rows.values() if row.retries)
        return found

    def window(self, most: int) -> tuple[list[Row], Counter[str]]:
        """At most `most` rows for a screen, in order, and the states of those that are left out.

        What runs comes first, then a third for the newest failures, then what has ended last and what comes next.
        """
        rows = list(self.rows.values())
        at: dict[State, list[int]] = {"running": [], "failed": [], "done": [], "waiting": []}
        for number, row in enumerate(rows):
            at[row.state].append(number)
        chosen = [*at["running"], *at["failed"][::-1][: most // 3]][:most]
        ended, coming = sorted([*at["done"], *at["failed"]], reverse=True), at["waiting"]
        turns = [number for pair in zip(ended, coming, strict=False) for number in pair]
        longer = ended if len(ended) > len(coming) else coming
        for number in [*turns, *longer[min(len(ended), len(coming)) :]]:
            if len(chosen) == most:
                break
            if number not in chosen:
                chosen.append(number)
        hidden: Counter[str] = Counter(row.state for number, row in enumerate(rows) if number not in set(chosen))
        return [rows[number] for number in sorted(chosen)], hidden


def label(case: Case, axes: Sequence[str]) -> str:
    """A case by `axes`, those in which it differs from the others: `bert mini mirrored x2 xla=cluster`."""
    values = case.model_dump(mode="json")
    words = {name: cell(values[name]) for name in dict.fromkeys(axes)}
    words |= {"devices": f"x{case.devices}"} if "devices" in words else {}
    return " ".join(word if name in _WORDS else f"{name}={word}" for name, word in words.items())


def _take(row: Row, notice: Notice) -> None:
    kind, detail = notice.kind, notice.detail
    if kind in ("case_started", "training_started"):
        row.state = "running"
    if kind in _STAGES or kind == "trial_started":
        row.stage, row.phase = _STAGES.get(kind, f"trial {(notice.trial or 0) + 1}"), ""
    elif kind == "event":
        event = detail["event"]
        row.phase = str(event.get("name") or (f"step {event['step']}" if "step" in event else row.phase))
    elif kind == "trial_retry":
        row.retries += 1
        row.trouble.append(f"{detail['retry'].classification}: {detail['retry'].reason}")
    elif kind == "trial_done":
        record = detail["record"]
        row.value = f"{quantity(record.quantities['step_time'])} a step, {record.validity.status}"
        row.trouble.clear()
    elif kind in ("trial_failed", "training_failed"):
        row.trouble.append(f"{detail['failure'].classification}: {detail['failure'].reason}")
    elif kind in ("profile_retry", "profile_failed"):
        row.trouble.append(f"profile: {detail['reason']}")
    elif kind == "training_done":
        row.value = reached(detail["curve"].reached, detail["curve"].target)
    if kind in ("case_done", "training_done", "training_failed"):
        row.state = "done" if row.value or not row.trouble else "failed"


def reached(steps: int | None, target: float) -> str:
    """What came of a training to a target loss."""
    return f"{steps} steps to a loss of {target:.4g}" if steps else "did not come to its target"
