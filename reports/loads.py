"""The described networks of a run, drawn with what one step of a case puts on each link."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfscale.reports import frames, text
from tfscale.reports.figures import topology as drawing
from tfscale.reports.networks import Network, network_of
from tfscale.suite.analysis import linkload
from tfscale.suite.analysis.linkload import Load
from tfscale.suite.record import CaseResult, Run
from tfscale.suite.spec import Case
from tfscale.suite.topology import Topology

MOST_HOSTS = 24
"""A wider drawing could not be read."""
MOST = 8
TOLD = 0.01
"""Share of a step's bytes that may travel in ways that the record does not tell."""
HIERARCHICAL = "hierarchical"
WAYS: dict[str, Callable[[Topology, Sequence[int], float], Load]] = {
    "sum": linkload.ring_all_reduce,
    "gather": linkload.ring_gather,
    "all_to_all": linkload.all_to_all,
}
"""Kind of collective -> what it puts on links, as TensorFlow's ring does it."""


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
        if case.topology is None or not 1 < case.hosts <= MOST_HOSTS or len(made) == MOST:
            continue
        key = network_of(case), way_of(case, handed.get(result.case_id))
        load = load_of(case, result, handed.get(result.case_id))
        if load is not None and key not in made:
            made[key] = _draw(f"network{len(made)}", case, result, key[1], load)
    return list(made.values())


def way_of(case: Case, handed: dict[str, int] | None) -> str:
    """How most bytes of a case travel, in words."""
    if _name(case) == HIERARCHICAL:
        return "two levels"
    most = max(handed, key=lambda kind: handed[kind]) if handed else ""
    return {"sum": "ring all-reduce", "gather": "ring gather", "all_to_all": "all-to-all"}.get(most, "unknown")


def _name(case: Case) -> str:
    """Of its exchange, without arguments; a record may name one that this version does not know."""
    return case.exchange.partition("(")[0].strip()


def places_of(case: Case) -> list[int]:
    """The host of each replica, by its place in the topology, in the order of the ring."""
    assert case.topology is not None
    order = case.topology.order(case.order, case.hosts)
    each = case.devices // case.hosts
    return [order[replica // each] for replica in range(each * case.hosts)]


def load_of(case: Case, result: CaseResult, handed: dict[str, int] | None) -> Load | None:
    """Bytes that one step of `case` puts on each link; None where it is not known how they travel."""
    topology, places = case.topology, places_of(case)
    assert topology is not None
    if _name(case) == HIERARCHICAL:
        if "cross=" in case.exchange and "cross=none" not in case.exchange:
            return None  # what crosses the core then is coded, in bytes that the record does not tell apart
        named = [result.quantities.get(name) for name in ("exchange_bytes", "exchange_ratio")]
        known = [each.value for each in named if each is not None and each.value is not None]
        try:
            return linkload.two_level_all_reduce(topology, places, known[0] * known[1]) if len(known) == 2 else None
        except ValueError:  # racks of unequal size: the exchange then does something else, if anything
            return None
    sent = result.quantities.get("exchange_bytes")
    if not handed or not set(handed) <= set(WAYS) or sent is None or sent.value is None:
        return None
    if abs(sum(handed.values()) - sent.value) > TOLD * sent.value:
        return None  # what travels beside the gradients, as averaged weights do, is in the count and not in the kinds
    return linkload.added(WAYS[kind](topology, places, amount) for kind, amount in handed.items())


def _draw(name: str, case: Case, result: CaseResult, way: str, load: Load) -> Drawn:
    topology, network = case.topology, network_of(case)
    assert topology is not None
    worst = linkload.bottleneck(topology, load)
    step = result.quantities.get("step_time")
    caption = f"{way}: bytes of one step on each link and direction (derived from what one replica hands over)."
    if worst is not None:
        link, seconds = worst
        whose = f"rack {link.rack}'s link to the core" if link.host is None else f"the link of host {link.host}"
        caption += f" Busiest is {whose}, for {text.seconds(seconds)} at least"
        whole = f", of a step of {text.seconds(step.value)} ({step.kind})" if step and step.value is not None else ""
        caption += f"{whole}."
    about = [case.workload, case.preset, case.strategy, f"exchange {case.exchange}"]
    figure = drawing.drawing(topology, places_of(case), load, name, f"{network.name}, {case.exchange}. {caption}")
    return Drawn(network.name, " · ".join(about), figure, caption)
