"""What the exchange section groups cases by: the network they ran on, and everything else but the exchange."""

import json
import math
from dataclasses import dataclass, field

from tfscale.suite.spec import Case
from tfscale.suite.topology import Topology

UNSHAPED = "this machine's own links"


@dataclass(frozen=True)
class Network:
    """A described network as cases use it: equal where its numbers are, whatever it is called."""

    key: str
    topology: Topology | None = field(compare=False)
    """None where nothing was described."""
    order: str = field(compare=False)
    hosts: int = field(compare=False)

    @property
    def name(self) -> str:
        if self.topology is None:
            return UNSHAPED if self.hosts == 1 else f"the links between {self.hosts} hosts"
        order = ", order topology" if self.order == "topology" else ""
        return f"{self.topology.name or 'an unnamed topology'}{order}"

    @property
    def slowest(self) -> float:
        """Bits per second of its slowest link in use; infinite where none is limited."""
        if self.topology is None:
            return math.inf
        used = {self.topology.hosts[place] for place in self.topology.order("listed", self.hosts)}
        racks = [self.topology.racks[name] for name in used]
        rates = [rack.link for rack in racks] + ([rack.uplink for rack in racks] if len(used) > 1 else [])
        return min((float(rate) for rate in rates if rate), default=math.inf)


def network_of(case: Case) -> Network:
    """The network that a case ran on."""
    numbers = case.topology.model_dump(mode="json", exclude={"name"}) if case.topology else None
    key = json.dumps([numbers, case.order, case.hosts], sort_keys=True)
    return Network(key, case.topology, case.order, case.hosts)


def setting(case: Case) -> str:
    """Everything but exchange and network: cases with the same text here are compared."""
    plain = {"exchange": "none", "topology": None, "order": "listed", "hosts": 1}
    return case.model_copy(update=plain).id
