"""The answer of `tfscale gate` as a versioned document."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from tfscale.suite.record import Quantity, Strict

SCHEMA: Literal["tfscale.gate/1"] = "tfscale.gate/1"

Verdict = Literal[
    "regressed",
    "missing",
    "improved",
    "slow_node",
    "suspicious",
    "unstable",
    "drifting",
    "accepted",
    "unchanged",
    "not_enough_data",
]
"""The worst first; accepted: a change or an end that somebody accepted with a reason."""
VERDICTS: tuple[Verdict, ...] = (
    "regressed",
    "missing",
    "improved",
    "slow_node",
    "suspicious",
    "unstable",
    "drifting",
    "accepted",
    "unchanged",
    "not_enough_data",
)
ALARMS: tuple[Verdict, ...] = ("regressed", "missing")
"""Verdicts that make the gate exit with 1."""


class Cause(Strict):
    """What differs between the last good night and the first bad one; not proven to be the cause."""

    kind: Literal["git", "environment", "node", "failure"]
    what: str
    before: str | None
    after: str | None
    why: str
    command: str | None = None
    """What to run to see more."""
    nights_off: int = 0
    """Nights by which it changed after (before: negative) the place of the step; 0: right there."""


class Explanation(Strict):
    """A series beside the primary one, before and since: a part of the step, or peak memory. It explains, it never alarms."""

    name: str
    before: Quantity
    after: Quantity
    grown: float
    """after - before, in the unit of both."""
    verdict: Literal["grew", "shrank", "unchanged", "unknown"]
    """unknown: too few nights tell it."""


class Grown(Strict):
    """An operation of the profiles that takes another time a step than before."""

    name: str
    kind: str
    before_ps: float
    after_ps: float


class Finding(Strict):
    """One series with something to say, or one node. `group`: findings of one group began together or share a cause."""

    case_id: str | None
    """None for a slow node, which is not about one case."""
    title: str
    case: dict[str, Any] = Field(default_factory=dict)
    machine: str
    node: str | None = None
    metric: str
    verdict: Verdict
    reason: str
    group: int | None = None
    before: Quantity | None = None
    after: Quantity | None = None
    ratio: float | None = None
    """after / before."""
    ratio_ci95: tuple[float, float] | None = None
    p: float | None = None
    """Chance of so large a step somewhere in a series without one (simulated tail)."""
    q: float | None = None
    """The same after Benjamini and Hochberg over all cases of the machine."""
    last_good: str | None = None
    since: str | None = None
    """First bad run."""
    nights: int = 0
    """Nights with a result since then."""
    causes: tuple[Cause, ...] = ()
    explanations: tuple[Explanation, ...] = ()
    operations: tuple[Grown, ...] = ()
    operations_reason: str | None = None
    """Why no operation is named."""
    reproduce: str | None = None


class Judged(Strict):
    """Every series in a line."""

    case_id: str
    title: str
    machine: str
    metric: str
    unit: str
    verdict: Verdict
    reason: str
    nights: int
    last_run: str | None
    level: float | None
    """Throughput of the current level."""
    noise: float | None
    """Standard deviation of one night, as a fraction of the level."""


class Beside(Strict):
    """A series beside the primary one that changed of late; it explains, it never alarms."""

    case_id: str
    title: str
    machine: str
    metric: str
    unit: str
    before: float
    after: float
    ratio: float
    since: str
    """First run at the new level."""


class Canary(Strict):
    """Pairs of cases that do the same work under two ids, each night: what the gate says of them is false."""

    pairs: int
    nights: int
    """Pairs times nights that both have a result."""
    differing: int
    """Nights on which the two differ at the 5 % level (Welch)."""
    differing_ci95: tuple[float, float] | None
    series_nights: int
    """Nights on which the detector looked at the ratio of a pair, prefix by prefix."""
    false_alarms: int
    false_alarm_rate: float | None
    false_alarm_ci95: tuple[float, float] | None
    reason: str | None = None


class Expected(Strict):
    """False alarms to expect where nothing changes."""

    series: int
    nights_a_month: float
    rate: float
    """False alarms per series and night."""
    rate_of: str
    """Where the rate comes from."""
    a_month: float


class Gate(Strict):
    """What `tfscale gate` answers."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Annotated[Literal["tfscale.gate/1"], Field(alias="schema")] = SCHEMA
    results: str
    last_run: str
    created: str
    baseline: str
    """`rolling`, or the run compared with."""
    min_effect: float
    false_discovery_rate: float
    summary: dict[str, int]
    """Verdict -> number of series; slow_node -> number of nodes."""
    findings: tuple[Finding, ...]
    series: tuple[Judged, ...]
    beside: tuple[Beside, ...] = ()
    machines: tuple[str, ...]
    expected_false_alarms: Expected | None
    canary: Canary | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """Files that were skipped."""

    @property
    def alarms(self) -> int:
        return sum(self.summary.get(verdict, 0) for verdict in ALARMS)
