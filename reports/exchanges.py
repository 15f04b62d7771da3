"""How gradients travel: what each exchange sends, costs and gains beside `none`, on each network, and up to a loss."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfscale.reports import exchange_maps, frames, targets, text
from tfscale.reports.case_table import MARKS, NOT_RECORDED, Cell, Column, Notes
from tfscale.reports.efficiencies import Point, points_of
from tfscale.reports.maps import ratio
from tfscale.reports.networks import Network, network_of, setting
from tfscale.suite.analysis import convergence
from tfscale.suite.record import Quantity, Record, Run, unknown

ITSELF = "reference"
NO_BASE = "the run has no valid case of `none` on this network to compare with"
NOT_PROFILED = "not profiled"


@dataclass(frozen=True)
class Row:
    case_id: str
    exchange: str
    cells: tuple[Cell, ...]
    status: str


@dataclass(frozen=True)
class Table:
    """All exchanges of one setting on one network."""

    title: str
    subtitle: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    said: tuple[tuple[str, str], ...]
    """(exchange, what it gains a step, what it costs in steps, what is left of it) for those that were trained."""


@dataclass(frozen=True)
class Found:
    """A value of a table with its kind; `why` where there is none."""

    cell: Cell
    kind: str = ""
    why: str = ""


@dataclass(frozen=True)
class Member:
    """One case of a table, with everything that its row is made from."""

    point: Point
    records: tuple[Record, ...]
    faster: Quantity
    """Step time of `none` / its own, null where it is the reference or there is none."""
    told: targets.Told | None

    @property
    def exchange(self) -> str:
        return self.point.case.exchange


def tables(run: Run) -> list[Table]:
    """One table for every setting and network with two exchanges or more, in the order of the run."""
    groups: dict[tuple[str, Network], list[Point]] = {}
    for point in points_of(run):
        groups.setdefault((setting(point.case), network_of(point.case)), []).append(point)
    several = [(key[1], group) for key, group in groups.items() if len({each.case.exchange for each in group}) > 1]
    return [_table(run, network, group) for network, group in several]


def _table(run: Run, network: Network, group: Sequence[Point]) -> Table:
    base = next((each for each in group if each.case.exchange == "none" and each.usable), None)
    members = [_member(run, point, base) for point in group]
    notes = Notes()
    columns: list[Column] = []
    cells: list[list[Cell]] = [[] for _ in members]
    for title, values in _columns(members):
        kinds = sorted({value.kind for value in values if value.kind})
        columns.append(Column(title, "", kinds[0] if len(kinds) == 1 else "kinds marked" if kinds else ""))
        for place, value in enumerate(values):
            cells[place].append(_marked(value, len(kinds) > 1, notes))
    first = group[0].case
    words = [
        first.strategy,
        text.plural(first.devices, "replica"),
        f"batch {first.step_batch:,} in all",
        first.precision,
    ]
    rest = exchange_maps.other_of(first)
    return Table(
        title=f"{first.workload} {first.preset} on {network.name}",
        subtitle=" · ".join([*words, *([rest] if rest else [])]),
        columns=tuple(columns),
        rows=tuple(
            Row(each.point.result.case_id, each.exchange, tuple(cells[place]), each.point.result.validity.status)
            for place, each in enumerate(members)
        ),
        notes=tuple(notes.numbers),
        said=tuple(
            (each.exchange, convergence.sentence(each.faster, each.told.found))
            for each in members
            if each.told and not each.told.exact
        ),
    )


def _member(run: Run, point: Point, base: Point | None) -> Member:
    records = tuple(record for record in run.records if record.id in set(point.result.trials))
    told = targets.told(run, point.result.case_id)
    if base is None:
        return Member(point, records, unknown("1", "derived", "ratio", NO_BASE), told)
    if point is base:
        return Member(point, records, unknown("1", "derived", "ratio", ITSELF), told)
    if not point.usable:
        return Member(point, records, unknown("1", "derived", "ratio", "this case is INVALID"), told)
    return Member(point, records, ratio(base.point, point.point), told)


def _columns(members: Sequence[Member]) -> list[tuple[str, list[Found]]]:
    found = [
        ("Bytes", [_quantity(each, "exchange_bytes") for each in members]),
        ("Ratio", [_quantity(each, "exchange_ratio", "×") for each in members]),
        ("Encode", [_coding(each, "encode") for each in members]),
        ("Decode", [_coding(each, "decode") for each in members]),
        ("Exposed communication", [_exposed(each) for each in members]),
        ("Step", [_quantity(each, "step_time") for each in members]),
        ("Speed to none", [_faster(each) for each in members]),
    ]
    if any(each.told for each in members):
        found += [
            ("Steps to target", [_steps(each) for each in members]),
            ("Time to target", [_time(each, members) for each in members]),
        ]
    return found


def _marked(value: Found, several: bool, notes: Notes) -> Cell:
    if value.why:
        return Cell(text.NONE, note=notes.number(value.why), reason=value.why)
    return replace(value.cell, mark=MARKS[value.kind]) if several and value.kind else value.cell


def _quantity(member: Member, name: str, unit: str = "") -> Found:
    one = member.point.result.quantities.get(name)
    return Found(Cell(""), why=NOT_RECORDED) if one is None else _shown(frames.checked(one, name), unit)


def _shown(one: Quantity, unit: str = "", below: str = "") -> Found:
    if one.value is None:
        return Found(Cell(""), why=one.reason or NOT_RECORDED)
    words = f"{text.number(one.value, 3)}{unit}" if unit else text.quantity(one.value, one.unit)
    interval = text.interval(*one.ci95, one.unit) if one.ci95 and one.unit == "s" else ""
    return Found(Cell(words, below or interval, sort=one.value), one.kind)


def _profiled(member: Member) -> dict[str, Any] | None:
    return next((record.breakdown for record in member.records if record.breakdown), None)


def _coding(member: Member, what: str) -> Found:
    """From the profiled pass where its operations tell, else the loop without collectives."""
    scopes = (_profiled(member) or {}).get("exchange")
    if not scopes:
        return _quantity(member, f"{what}_time")
    seconds = scopes[f"{what}_ps"] / 1e12
    return Found(Cell(text.seconds(seconds), sort=seconds), "measured")


def _exposed(member: Member) -> Found:
    breakdown = _profiled(member)
    if breakdown is None:
        return Found(Cell(""), why=NOT_PROFILED)
    seconds = breakdown["parts"]["exposed_communication"] / 1e12
    below = "distorted by the profiler" if breakdown.get("distorted") else ""
    return Found(Cell(text.seconds(seconds), below, sort=seconds), str(breakdown.get("kind", "measured")))


def _faster(member: Member) -> Found:
    one = member.faster
    if one.reason == ITSELF:
        return Found(Cell("1×", ITSELF, sort=1.0))
    if one.value is None:
        return Found(Cell(""), why=one.reason or NO_BASE)
    below = "slower" if one.value < 1 else "faster"
    if one.ci95:
        told = below if exchange_maps.differs(one) else "undecided"
        below = f"{text.number(one.ci95[0], 3)}–{text.number(one.ci95[1], 3)}, {told}"
    return Found(Cell(f"{text.number(one.value, 3)}×", below, sort=one.value), one.kind)


def _steps(member: Member) -> Found:
    if member.told is None:
        return Found(Cell(""), why="not trained to a target loss")
    found = member.told.found
    if found.steps.value is None:
        return Found(Cell(""), why=f"{member.exchange}: {found.steps.reason}")
    below = "as none: exact" if member.told.exact else _more(found)
    return Found(Cell(text.number(found.steps.value, 3), below, sort=found.steps.value), found.steps.kind)


def _more(found: convergence.Convergence) -> str:
    assert found.ratio.value is not None
    low, high = found.ratio.ci95 or (None, None)
    between = f" ({100 * (low - 1):+.0f} to {100 * (high - 1):+.0f})" if low is not None and high is not None else ""
    return f"{100 * (found.ratio.value - 1):+.0f}\u202f%{between}"


def _time(member: Member, members: Sequence[Member]) -> Found:
    if member.told is None:
        return Found(Cell(""), why="not trained to a target loss")
    step = member.point.result.quantities.get("step_time")
    if step is None:
        return Found(Cell(""), why=NOT_RECORDED)
    time = convergence.time_to_target(member.told.found.steps, step)
    if time.value is None:
        return Found(Cell(""), why=f"{member.exchange}: {time.reason}")
    whole = convergence.gain(member.told.found.ratio, member.faster)
    below = f"{text.number(whole.value, 3)}× none" if whole.value is not None else ""
    return _shown(time, below=below)
