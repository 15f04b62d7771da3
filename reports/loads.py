"""The described networks of a run, drawn with what one step of a case puts on each link."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfscale.reports import frames, text
from tfscale.reports.figures import topology as drawing
from tfscale.reports.networks import Network, network_of
from tfscale.suite.analysis import linkload
from tfscale.suite.analysis.linkload import Load
from tfscale.suite.record import CaseResult, Run
from tfscale.suite.spec import Case
from tfscale.suite.topology import Topology, spelled

MOST_HOSTS = 24
"""A wider drawing could not be read."""
MOST = 8


@dataclass(frozen=True)
class Drawn:
    title: str
    subtitle: str
    figure: str
    caption: str


def drawings(run: Run) -> list[Drawn]:
    """One for each described network and each way in which bytes travel on it: the first case that does so."""
    made: dict[tuple[Network, str], Drawn] = {}
    handed = {record.case_id: record.effective.get("exchange_handed") for record in reversed(run.records)}
    for result in run.cases:
        case = frames.case_of(result.case)
        network = network_of(case)
        if case.topology is None or case.hosts < 2 or case.hosts > MOST_HOSTS or len(made) == MOST:
            continue
        told = handed.get(result.case_id)
        how = _how(case, told)
        if how is None or (network, how) in made:
            continue
        drawn = _draw(f"network{len(made)}", case, network, result, how, told or {})
        if drawn is not None:
            made[network, how] = drawn
    return list(made.values())


def _how(case: Case, handed: dict[str, int] | None) -> str | None:
    """How the bytes of a case travel; None where nobody knows."""
    if not handed:
        return None
    if case.exchange.partition("(")[0] == "hierarchical":
        return "two levels"
    kinds = sorted(kind for kind, amount in handed.items() if amount)
    return {"sum": "ring all-reduce", "gather": "ring gather"}.get(kinds[0], kinds[0]) if len(kinds) == 1 else "mixed"


def places_of(case: Case) -> list[int]:
    """The host of each replica, by its place in the topology, in the order of the ring."""
    assert case.topology is not None
    order = case.topology.order(case.order, case.hosts)
    each = case.devices // case.hosts
    return [order[replica // each] for replica in range(case.devices)]


def load_of(case: Case, handed: dict[str, int]) -> Load:
    """Bytes that one step of `case` puts on each link. Raises ValueError where two levels do not fit the racks."""
    topology, places = case.topology, places_of(case)
    assert topology is not None
    if _how(case, handed) == "two levels":
        return linkload.two_level_all_reduce(topology, places, _whole(handed, topology, places))
    ways = {"sum": linkload.ring_all_reduce, "gather": linkload.ring_gather, "all_to_all": linkload.all_to_all}
    return linkload.added(ways[kind](topology, places, amount) for kind, amount in handed.items())


def _whole(handed: dict[str, int], topology: Topology, places: Sequence[int]) -> float:
    """Bytes of all gradients of a replica, from the shard of them that its rack sums with the others."""
    members = len([place for place in places if topology.hosts[place] == topology.hosts[places[0]]])
    return float(handed.get("sum", 0) * members)


def _draw(
    name: str, case: Case, network: Network, result: CaseResult, how: str, handed: dict[str, int]
) -> Drawn | None:
    topology = case.topology
    assert topology is not None
    try:
        load = load_of(case, handed)
    except ValueError:
        return None  # no such thing as two levels here: the case itself was refused or says why
    worst = linkload.bottleneck(topology, load)
    step = result.quantities.get("step_time")
    caption = f"{how}: bytes of one step on each link and direction (derived from what one replica hands over)."
    if worst is not None:
        link, seconds = worst
        rate = linkload.rate_of(topology, link)
        whose = f"rack {link.rack}'s link to the core" if link.host is None else f"the link of host {link.host}"
        caption += f" Busiest is {whose}: {text.seconds(seconds)} at {spelled(rate or 0)}"
        caption += f", of a step of {text.seconds(step.value)} ({step.kind})." if step and step.value else "."
    figure = drawing.drawing(topology, places_of(case), load, name, f"{network.name}, {case.exchange}. {caption}")
    return Drawn(network.name, f"{case.title.split(' topology=')[0]}", figure, caption)
