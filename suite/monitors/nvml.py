"""NVIDIA cards: utilisation, memory, power, energy, clocks and what limits them, temperature, links, errors.

Devices are `gpu<index>`, numbered as NVML does (by PCI address), which need not be CUDA's numbers: the facts hold each
card's name, identifier and address. All cards of the host are sampled, the run's own are those of `used`.

Where a card is divided (MIG), NVML has no utilisation for the whole: those columns have no values and say so. Power,
energy, clocks and temperature are then those of the whole card, whoever uses the other instances; the facts say that.

PCIe throughput blocks for 20 ms a reading and direction, so only one card a second takes its turn, of those
that the run sees.
Never run here on a real card: a double of the library, loaded by the real binding, stands in.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from tfscale.suite.monitors.base import Column, Monitor, Target
from tfscale.suite.monitors.gpuprocesses import described
from tfscale.suite.monitors.processes import ranks_in
from tfscale.suite.monitors.visible import Card, Visible, visible
from tfscale.suite.sources.base import Answer, Source, Sources
from tfscale.suite.sources.nvml import ask_many
from tfscale.suite.sources.nvmlerrors import is_lost
from tfscale.suite.sources.nvmlfields import FIELDS, GPM, XID

FAST = (
    *("utilisation_gpu", "utilisation_memory", "memory_used"),
    *("power", "power_instant", "energy"),
    *("clock_sm", "clock_memory", "clock_reasons", "temperature"),
)
SLOW = (
    *("power_average", "memory_reserved", "power_limit", "temperature_memory"),
    *("violation_power", "violation_thermal", "violation_sync_boost", "violation_board_limit", "violation_reliability"),
    *("nvlink_tx", "nvlink_rx"),
    *("pcie_generation", "pcie_width", "pcie_replays", "pcie_tx", "pcie_rx"),
    *("ecc_corrected", "ecc_uncorrected", "ecc_corrected_lifetime", "ecc_uncorrected_lifetime"),
    *GPM,
    "processes",
)
TURNS = ("pcie_tx", "pcie_rx")
"""Fields that block: one card at a time."""
# Counters lose nothing by being read once a second: their growth over a window is the same.
COUNTERS = ("energy", "violation_", "nvlink_", "pcie_replays", "ecc_")
"""How names of fields that only grow begin."""
DESCRIBING = (
    *("name", "uuid", "pci", "memory_total", "clock_sm_max", "clock_memory_max", "power_limit"),
    *("pcie_generation_max", "pcie_width_max", "mig_mode", "persistence"),
)
WHOLE_CARD = "the card is divided (MIG): power, energy, clocks and temperature are those of all its instances together"
_ABSENT = ("utilisation_gpu", "power")
"""Columns that are named where there is no card: enough to say why there is none."""


def column(name: str, device: str | None) -> Column:
    """The column of a field."""
    kind: Literal["gauge", "counter"] = "counter" if name.startswith(COUNTERS) else "gauge"
    if name in GPM:
        return Column(name, GPM[name][1], kind, device, slow=True)
    read = FIELDS[name]
    # NVML counts in 64 bits, so that a fall is a reset and never a wrap. PCIe replays alone are 32-bit.
    wraps_at = 2.0**32 if name == "pcie_replays" else 2.0**64 * (read.factor or 1.0)
    return Column(name, "1" if name == "processes" else read.unit, kind, device, slow=name in SLOW, wraps_at=wraps_at)


@dataclass(frozen=True)
class _Part:
    """What one sample asks of one card."""

    index: int
    fields: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Where each value goes."""
    quick: list[str] = field(default_factory=list)
    quick_places: list[int] = field(default_factory=list)
    """Without those that block."""


class Nvml(Monitor):
    """Every NVIDIA card of the host."""

    name: ClassVar[str] = "nvml"

    def __init__(self, sources: Sources, target: Target) -> None:
        super().__init__(sources, target)
        self._nvml: Source = sources.nvml
        self._indices = sorted(int(index) for index in self._nvml.under(""))
        self._plans: list[tuple[Sequence[Column], list[_Part]]] = []
        self._listed: dict[str, list[dict[str, Any]]] = {}
        self._lost: dict[str, str] = {}
        self._xid: list[dict[str, Any]] = []
        self._xid_reasons: dict[str, str] = {}
        self._turn = 0

    def columns(self) -> Sequence[Column]:
        if not self._indices:
            count = self._nvml.ask("count")
            reason = count.reason or "the NVIDIA driver has no card"
            state = "absent" if count.ok else count.state
            return [replace(column(name, None), state=state, reason=reason) for name in _ABSENT]
        columns = [found for index in self._indices for found in self._probed(index)]
        self._ask_xids()  # events count from here on
        self.facts()  # what describes a card is asked while it is there
        return columns

    def sample(self, columns: Sequence[Column]) -> list[float | None]:
        values: list[float | None] = [None] * len(columns)
        slow = bool(columns) and columns[0].slow
        self._turn += slow
        for part in self._plan(columns):
            device = f"gpu{part.index}"
            if device in self._lost:
                continue
            its_turn = slow and part.index == self._in_turn[self._turn % len(self._in_turn)]
            fields, places = (part.fields, part.places) if its_turn or not slow else (part.quick, part.quick_places)
            for name, place, answer in zip(fields, places, ask_many(self._nvml, part.index, fields), strict=True):
                if answer.state == "ok":
                    values[place] = self._counted(device, answer.value) if name == "processes" else answer.value
                elif is_lost(answer):
                    self._lost[device] = str(answer.reason)
        return values

    def facts(self) -> dict[str, Any]:
        """`devices`, `used` (names of the run's), `processes` on each used one, `xid` events, `lost` cards.

        `xid` is null where no card reports such events, beside `xid_reasons`. `visible_reasons`: what of
        CUDA_VISIBLE_DEVICES could not be mapped.
        """
        if not self._indices:
            return {}
        self._ask_xids()
        processes = described(self.sources.files, ranks_in(self.target.folder), self._listed)
        used = self._used(processes)
        facts: dict[str, Any] = {
            "devices": self._described,
            "used": used,
            "processes": {device: found for device, found in processes.items() if device in used},
            "xid": list(self._xid) if len(self._xid_reasons) < len(self._indices) else None,
        }
        optional: dict[str, Any] = {
            "xid_reasons": dict(self._xid_reasons),
            "lost": dict(self._lost),
            "visible_reasons": list(self._visible.reasons),
        }
        return facts | {name: found for name, found in optional.items() if found}

    def _counted(self, device: str, processes: list[dict[str, Any]]) -> float:
        self._listed[device] = processes
        return float(len(processes))

    def _probed(self, index: int) -> list[Column]:
        """The columns of one card with the state of their first answer."""
        names = [*FAST, *SLOW]
        answers = dict(zip([*names, "mig_mode"], ask_many(self._nvml, index, [*names, "mig_mode"]), strict=True))
        divided = answers["mig_mode"].ok and answers["mig_mode"].value == 1
        if answers["processes"].ok:
            self._listed[f"gpu{index}"] = answers["processes"].value
        return [_with_state(column(name, f"gpu{index}"), answers[name], divided) for name in names]

    def _plan(self, columns: Sequence[Column]) -> list[_Part]:
        """The questions that answer `columns`, which the sampler hands over as the same list each time."""
        for known, plan in self._plans:
            if known is columns:
                return plan
        parts: dict[str, _Part] = {}
        for place, one in enumerate(columns):
            device = str(one.device)
            part = parts.setdefault(device, _Part(int(device.removeprefix("gpu"))))
            part.fields.append(one.name)
            part.places.append(place)
            if one.name not in TURNS:
                part.quick.append(one.name)
                part.quick_places.append(place)
        self._plans.append((columns, list(parts.values())))
        return self._plans[-1][1]

    def _ask_xids(self) -> None:
        for index in self._indices:
            device = f"gpu{index}"
            if device in self._xid_reasons:
                continue  # a lost card is asked on: the event that tells why may come after its last value
            (answer,) = ask_many(self._nvml, index, [XID])
            if answer.ok:
                now = time.perf_counter_ns()
                self._xid += [{"device": device, "code": code, "t_ns": now} for code in answer.value]
            elif is_lost(answer):
                self._lost.setdefault(device, str(answer.reason))
            else:
                self._xid_reasons[device] = str(answer.reason)

    def _used(self, processes: dict[str, list[dict[str, Any]]]) -> list[str]:
        """The cards with processes of the run; before there are any, or where they cannot be told, those it sees."""
        seen = [f"gpu{index}" for index in self._visible.certain]
        occupied = [d for d, listed in processes.items() if any(process["own"] for process in listed)]
        return sorted(occupied or seen, key=lambda device: int(device.removeprefix("gpu")))

    @cached_property
    def _in_turn(self) -> Sequence[int]:
        """The cards that take turns: those that the run sees, or all where it sees none."""
        return self._visible.certain or self._indices

    @cached_property
    def _visible(self) -> Visible:
        cards = []
        for index in self._indices:
            asked = ("name", "uuid", "mig_instances", "pci")
            name, uuid, instances, pci = ask_many(self._nvml, index, asked)
            cards.append(Card(index, uuid.value, name.value, tuple(instances.value or ()), pci.value))
        return visible(self.target.visible, cards)

    @cached_property
    def _described(self) -> dict[str, Any]:
        return {f"gpu{index}": self._description(index) for index in self._indices}

    def _description(self, index: int) -> dict[str, Any]:
        answers = dict(zip(DESCRIBING, ask_many(self._nvml, index, DESCRIBING), strict=True))
        told: dict[str, Any] = {name: answer.value for name, answer in answers.items()}
        reasons = {name: answer.reason for name, answer in answers.items() if not answer.ok}
        scope = {"scope": WHOLE_CARD} if told["mig_mode"] == 1 else {}
        return {**told, **scope, **({"reasons": reasons} if reasons else {})}


def _with_state(described: Column, answer: Answer, divided: bool) -> Column:
    if answer.ok:
        return described
    why = answer.reason or "NVML gave no reason"
    reason = f"{why} (the card is divided, MIG: this is not told for the whole)" if divided else why
    return replace(described, state=answer.state, reason=reason)
