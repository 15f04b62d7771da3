"""A described network: racks, the hosts in them, and the speed of every link; what netlab builds and reports draw.

    name: two-racks
    racks:
      a: {link: 1Gbit, uplink: 200Mbit}
      b: {link: 1Gbit, uplink: 200Mbit}
    hosts: [a, a, b, b]

`hosts` names the rack of each host, in the order in which a scheduler would list them. `{hosts: 2, link: 100Mbit}` is
short for one rack of two hosts. Links carry their rate in each direction at once.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

Order = Literal["listed", "topology"]

_RATE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kMGT]?)bit(?:/s)?")
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def bits_per_second(value: Any) -> Any:
    """`100Mbit` or a number of bits per second as an integer; other things are left for pydantic to refuse."""
    if isinstance(value, str):
        match = _RATE.fullmatch(value.strip())
        if match is None:
            raise ValueError(f"{value!r} is no rate; write 100Mbit, 1Gbit or a number of bits per second")
        return round(float(match["number"]) * _FACTORS[match["unit"]])
    return value


def spelled(rate: int) -> str:
    """A rate as people write it: 100Mbit."""
    for unit, factor in reversed(_FACTORS.items()):
        if rate >= factor:
            return f"{rate / factor:.6g}{unit}bit"
    return f"{rate}bit"


Rate = Annotated[int, BeforeValidator(bits_per_second), Field(gt=0, strict=True), PlainSerializer(spelled)]
"""Bits per second, in each direction."""


class Rack(BaseModel):
    """Hosts behind one switch."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    link: Rate | None = None
    """Between each of its hosts and its switch; null: not limited."""
    uplink: Rate | None = None
    """Between its switch and the core, shared by all its hosts; null: not limited."""
    delay_ms: float = Field(default=0.0, ge=0)
    """Added to every packet that a host sends."""


class Topology(BaseModel):
    """Racks and hosts. Two topologies with the same numbers are the same link, whatever they are called."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(default="", max_length=60)
    racks: dict[str, Rack] = Field(min_length=1)
    hosts: tuple[str, ...] = Field(min_length=1, max_length=250)

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "racks" in data or isinstance(data.get("hosts"), list | tuple):
            return data
        count = data.get("hosts")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"hosts: got {count!r}: a number of hosts, or a list of their racks is wanted")
        rest = {key: value for key, value in data.items() if key not in ("hosts", "name")}
        link = rest.get("link")
        name = data.get("name") or f"{count}x{spelled(bits_per_second(link)) if link else 'unlimited'}"
        return {"name": name, "racks": {"rack": rest}, "hosts": ["rack"] * count}

    @model_validator(mode="after")
    def _racks_and_hosts_fit(self) -> Self:
        unknown = sorted(set(self.hosts) - set(self.racks))
        if unknown:
            raise ValueError(f"hosts: rack {unknown[0]!r} is not among the racks {', '.join(self.racks)}")
        empty = [name for name in self.racks if name not in self.hosts]
        if empty:
            raise ValueError(f"racks: {empty[0]!r} has no host; name it in hosts, or leave it out")
        return self

    @property
    def shaped(self) -> bool:
        """Whether any link is limited or delayed."""
        return any(rack.link or rack.uplink or rack.delay_ms for rack in self.racks.values())

    def order(self, order: Order, hosts: int) -> list[int]:
        """Places in `hosts` of the first `hosts` hosts used: as listed, or with hosts of a rack beside each other."""
        used = range(min(hosts, len(self.hosts)))
        if order == "listed":
            return list(used)
        racks = list(self.racks)
        return sorted(used, key=lambda host: (racks.index(self.hosts[host]), host))

    def racks_of(self, places: Sequence[int]) -> list[int]:
        """Number of the rack of each host, by its place in `hosts`."""
        racks = list(self.racks)
        return [racks.index(self.hosts[place]) for place in places]


def load(name: str, beside: Path, shipped: Path) -> Topology:
    """The topology file `name`: a path (relative to the folder `beside`), or the name of one in the folder `shipped`.

    Raises ValueError naming what is there, or what is wrong with the file.
    """
    import yaml

    path = beside / name if name.endswith((".yaml", ".yml")) else shipped / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in shipped.glob("*.yaml")))
        raise ValueError(f"topology {name!r}: no such file ({path}) and not one of {known}")
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Topology.model_validate({"name": path.stem, **data} if isinstance(data, dict) else data)
    except (ValueError, yaml.YAMLError, OSError) as error:
        raise ValueError(f"topology {name!r} ({path}): {error}") from error
