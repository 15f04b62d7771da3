"""The document of `tfscale compare`, and the pairing that a run of two interleaved settings keeps."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from tfscale.suite.analysis.cost import Price
from tfscale.suite.record import Quantity, Status, Strict

SCHEMA: Literal["tfscale.compare/1"] = "tfscale.compare/1"
PAIRING_SCHEMA: Literal["tfscale.pairing/1"] = "tfscale.pairing/1"

PARTS = ("hardware", "clocks", "software")
"""What of an environment may be the thing compared, beside the axes of a case."""
Weighs = Literal["compared", "unfair", "note"]
"""compared: it is the thing compared; unfair: it makes the comparison unfair; note: worth knowing."""
Verdict = Literal["faster", "slower", "no_difference_shown", "no_interval", "not_compared"]
"""Of B against A."""


class Pair(Strict):
    """Two launches that ran one right after the other."""

    first: Literal["A", "B"]
    case_a: str
    trial_a: int
    case_b: str
    trial_b: int


class Pairing(Strict):
    """`pairing.json` of a run: which launches are pairs. Pairs of the same two cases come in the order they ran in."""

    schema_: Annotated[Literal["tfscale.pairing/1"], Field(alias="schema")] = PAIRING_SCHEMA
    a: str
    """What side A is called: the suite's name, or the value that tells it from B."""
    b: str
    by: tuple[str, ...]
    """Axes that were named as the thing compared."""
    pairs: tuple[Pair, ...]

    model_config = ConfigDict(populate_by_name=True)


class Side(Strict):
    """One of the two: where it was found and what it ran on."""

    name: str
    path: str
    run: str
    created: str
    cases: int
    trials: int
    system: dict[str, str | None]
    """Processor, cores, accelerators, memory, TensorFlow, ... as read; null where it is not known."""


class Difference(Strict):
    """One thing in which A and B differ."""

    what: str
    """An axis (`precision`), `effective.math`, or a path of the environment (`environment.cpu.model`)."""
    a: Any
    b: Any
    weighs: Weighs
    why: str
    cases: tuple[str, ...] = ()
    """Ids of A's cases that it concerns; empty: all of them."""


class Comparability(Strict):
    """Whether A and B are alike but for what is compared."""

    things: tuple[str, ...]
    """What is compared: axes, `hardware`, `clocks` or `software`; empty where nothing that is known differs."""
    fair: bool
    """No difference makes it unfair."""
    differences: tuple[Difference, ...]


class Needed(Strict):
    """Trials of each side (pairs, where they are) that would show a difference of `effect`, with probability `power`."""

    effect: float
    power: float
    trials: int | None
    """None beyond `most`, or where the spread between trials is not known."""
    most: int
    reason: str


class Both(Strict):
    """A quantity of both sides, and B over A; no ratio where dividing them would say nothing."""

    a: Quantity
    b: Quantity
    ratio: Quantity | None = None


class Row(Strict):
    """One case of A against one of B."""

    title: str
    case_a: str
    case_b: str
    axes: dict[str, tuple[Any, Any]]
    """Axes in which the two differ, with both values."""
    devices: tuple[int, int]
    paired: bool
    trials_a: tuple[str, ...]
    """Ids of the records behind it; the n-th of A and of B are a pair where `paired`."""
    trials_b: tuple[str, ...]
    throughput: Both
    step_time: Both
    verdict: Verdict
    reason: str | None = None
    """Why it was not compared, or why there is no interval."""
    needed: Needed | None = None
    energy: Both
    """Per sample."""
    cost: Both
    """Per million samples."""
    memory_headroom: Both
    """Share of the memory that is left at the peak."""
    steps_to_target: Both
    validity: tuple[Status, Status]
    doubts: tuple[str, ...] = ()
    """What the checks of either side say against the numbers."""


class Mean(Strict):
    """A geometric mean of ratios and the rows that are in it."""

    of: str
    """Which setting against which; empty where there is one."""
    ratio: Quantity
    verdict: Verdict
    members: tuple[tuple[str, str], ...]
    """(case of A, case of B) of each."""


class Unmatched(Strict):
    """A case that stands on one side only, or has no number there."""

    side: Literal["A", "B"]
    case_id: str
    title: str
    reason: str


class Swayed(Strict):
    """Cost of B over A's when the prices change by these shares."""

    change_a: float
    change_b: float
    ratio: float


class Money(Strict):
    """Cost over all rows. The ratios are B over A."""

    prices: dict[Literal["A", "B"], Price]
    ratio: Quantity
    break_even: float | None
    """Price of B over that of A at which both cost the same."""
    swayed: tuple[Swayed, ...]
    rank_changes: bool | None
    """Whether the cheaper side changes within the prices of `swayed`."""


class Comparison(Strict):
    """The answer of `tfscale compare`. Every ratio is B / A; of throughputs, above 1 means that B is faster."""

    schema_: Annotated[Literal["tfscale.compare/1"], Field(alias="schema")] = SCHEMA
    a: Side
    b: Side
    by: tuple[str, ...]
    comparability: Comparability
    rows: tuple[Row, ...]
    means: tuple[Mean, ...]
    money: Money | None = None
    """None where no price was given."""
    unmatched: tuple[Unmatched, ...] = ()
    notes: tuple[str, ...] = ()

    model_config = ConfigDict(populate_by_name=True)
