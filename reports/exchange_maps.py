"""Network x exchange: the speed of every cell relative to `none` on the same network, and the winner of each network."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tfscale.reports import frames, text
from tfscale.reports.efficiencies import Point, points_of
from tfscale.reports.figures import exchange_map
from tfscale.reports.maps import ratio
from tfscale.reports.networks import Network, network_of, setting
from tfscale.suite.record import Failure, Pruned, Quantity, Run
from tfscale.suite.spec import Case

HIDDEN = ("topology", "order")
"""Axes off their defaults that the map itself shows."""


@dataclass(frozen=True)
class ExchangeMap:
    title: str
    subtitle: str
    figure: str
    caption: str
    reasons: tuple[str, ...]
    """Why cells are empty, in words."""
    winners: tuple[str, ...]
    """The fastest on each network, in words."""


def other_of(case: Case) -> str:
    """The axes off their defaults that have no place of their own, without the network's."""
    return frames.other_of(case.model_copy(update={"topology": None, "order": "listed"}))


def maps(run: Run) -> list[ExchangeMap]:
    """One map for every setting that has results of two exchanges or more."""
    points = points_of(run)
    settings = dict.fromkeys(setting(point.case) for point in points)
    made: list[ExchangeMap] = []
    for key in settings:
        group = [point for point in points if setting(point.case) == key]
        if len({point.case.exchange for point in group}) > 1:
            made.append(_map(f"exchanges{len(made)}", group, _absent(run, key)))
    return made


def _absent(run: Run, key: str) -> dict[tuple[Network, str], tuple[str, str]]:
    """Cells without a result: a word, and the reason."""
    found = {}
    documents: list[Failure | Pruned] = [*run.pruned, *run.failed]
    for document in documents:
        case = frames.case_of(document.case)
        if setting(case) == key:
            word = "failed" if isinstance(document, Failure) else "pruned"
            found[network_of(case), case.exchange] = word, document.reason
    return found


def _map(name: str, group: Sequence[Point], absent: dict[tuple[Network, str], tuple[str, str]]) -> ExchangeMap:
    known = {(network_of(point.case), point.case.exchange): point for point in group}
    networks = sorted(dict.fromkeys(network for network, _ in known), key=lambda network: network.slowest)
    asked = dict.fromkeys([*(exchange for _, exchange in known), *(exchange for _, exchange in absent)])
    exchanges = sorted(asked, key=lambda exchange: exchange != "none")  # stable: the others as the run has them
    cells = [cell for network in networks for cell in _row(network, exchanges, known, absent)]
    case = group[0].case
    words = [frames.line_of(case.model_copy(update={"exchange": "none"})), text.plural(case.devices, "replica")]
    words += [f"batch {case.step_batch:,} in all", case.precision, other_of(case)]
    title, subtitle = f"{case.workload} {case.preset}", " · ".join(word for word in words if word)
    winners = tuple(_winner(network, cells) for network in networks)
    spoken = f"Speed relative to none, {title}, {subtitle}. {' '.join(winners)}"
    kinds = sorted({str(cell["kind"]) for cell in cells if cell["kind"]})
    return ExchangeMap(
        title=title,
        subtitle=subtitle,
        figure=exchange_map.exchange_map(pd.DataFrame(cells), name, spoken),
        caption=f"Step time of none / step time on the same network ({', '.join(kinds)}); above 1 is faster than none. "
        "Framed: the fastest on that network.",
        reasons=tuple(dict.fromkeys(str(cell["reason"]) for cell in cells if cell["reason"])),
        winners=winners,
    )


def _row(
    network: Network,
    exchanges: Sequence[str],
    known: dict[tuple[Network, str], Point],
    absent: dict[tuple[Network, str], tuple[str, str]],
) -> list[dict[str, Any]]:
    base = known.get((network, "none"))
    cells = [_cell(network, exchange, base, known.get((network, exchange)), absent) for exchange in exchanges]
    speeds = [cell["speed"] for cell in cells if not math.isnan(cell["speed"])]
    return [cell | {"wins": len(speeds) > 1 and cell["speed"] == max(speeds)} for cell in cells]


def _cell(
    network: Network,
    exchange: str,
    base: Point | None,
    mine: Point | None,
    absent: dict[tuple[Network, str], tuple[str, str]],
) -> dict[str, Any]:
    cell: dict[str, Any] = {"network": network.name, "exchange": exchange, "speed": math.nan, "below": "", "kind": ""}
    cell |= {"why": "", "reason": "", "differs": False}
    head = f"{exchange} on {network.name}"
    if mine is None:
        word, reason = absent.get((network, exchange), ("not run", ""))
        return cell | {"why": word, "reason": f"{head}: {reason}" if reason else ""}
    if not mine.usable:
        return cell | {"why": "invalid", "reason": f"{head}: INVALID"}
    if base is None or not base.usable:
        return cell | {"why": "no reference", "reason": f"{network.name}: no valid case of none to compare with"}
    if mine is base:
        return cell | {"speed": 1.0, "below": "reference"}
    speed = ratio(base.point, mine.point)
    if speed.value is None:
        return cell | {"why": "unknown", "reason": f"{head}: {speed.reason}"}
    below = f"{text.number(speed.ci95[0], 3)}–{text.number(speed.ci95[1], 3)}" if speed.ci95 else "no interval"
    return cell | {"speed": speed.value, "below": below, "kind": speed.kind, "differs": differs(speed)}


def differs(ratio: Quantity) -> bool:
    """Whether the interval of a ratio leaves out 1; without an interval nobody knows."""
    return ratio.ci95 is not None and not ratio.ci95[0] <= 1 <= ratio.ci95[1]


def _winner(network: Network, cells: Sequence[dict[str, Any]]) -> str:
    """In words: `2x100Mbit: powersgd(rank=4) is fastest, 7.5 times none.`"""
    mine = [cell for cell in cells if cell["network"] == network.name]
    best = next((cell for cell in mine if cell["wins"]), None)
    if best is None:
        return f"{network.name}: there is nothing to compare."
    if best["exchange"] == "none":
        return f"{network.name}: none is fastest."
    doubt = "" if best["differs"] else ", but its interval does not leave out 1"
    return f"{network.name}: {best['exchange']} is fastest, {text.number(best['speed'], 3)} times none{doubt}."
