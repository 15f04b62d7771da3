"""AMD cards, as `amd-smi metric --json` tells of them. Shape from documentation, never run here on a real card.

The program prints a list with one object a card (newer versions: {"gpu_data": [...]}), whose numbers are
{"value", "unit"} or plain, and the text N/A where there is none. Memory in its MB is taken as 2^20 bytes.
"""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from tfscale.suite.monitors.told import Figure, Telling, Told

MIB = 2.0**20
PLACES: Mapping[str, tuple[str, float]] = {
    "utilisation_gpu": ("usage.gfx_activity", 1e-2),
    "utilisation_memory": ("usage.umc_activity", 1e-2),
    "memory_used": ("mem_usage.used_vram", MIB),
    "power": ("power.socket_power", 1.0),
    "energy": ("energy.total_energy_consumption", 1.0),
    "clock_gfx": ("clock.gfx_0.clk", 1.0),
    "clock_memory": ("clock.mem_0.clk", 1.0),
    "temperature": ("temperature.hotspot", 1.0),
    "temperature_memory": ("temperature.mem", 1.0),
    "ecc_corrected": ("ecc.total_correctable_count", 1.0),
    "ecc_uncorrected": ("ecc.total_uncorrectable_count", 1.0),
    "pcie_replays": ("pcie.replay_count", 1.0),
}
"""Column -> (place in a card's object, factor to base units)."""


class AmdSmi(Telling):
    """Every AMD card of the host, `amd<index>`."""

    name: ClassVar[str] = "amdsmi"
    command = "amd-smi metric --json"
    figures = (
        Figure("utilisation_gpu", "1"),
        Figure("utilisation_memory", "1"),
        Figure("memory_used", "B"),
        Figure("power", "W"),
        Figure("energy", "J", "counter"),
        Figure("clock_gfx", "MHz"),
        Figure("clock_memory", "MHz"),
        Figure("temperature", "C"),
        Figure("temperature_memory", "C"),
        Figure("ecc_corrected", "1", "counter"),
        Figure("ecc_uncorrected", "1", "counter"),
        Figure("pcie_replays", "1", "counter"),
    )

    def parse(self, output: str) -> Told:
        return metrics(output)


def metrics(output: str) -> Told:
    """Card -> column -> value of the program's JSON. Raises ValueError for anything else."""
    document = json.loads(output)
    cards = document.get("gpu_data") if isinstance(document, dict) else document
    if not isinstance(cards, list) or not all(isinstance(card, dict) and "gpu" in card for card in cards):
        raise ValueError("no list of cards with a number `gpu` each")
    return {
        f"amd{card['gpu']}": {name: _number(card, place, factor) for name, (place, factor) in PLACES.items()}
        for card in cards
    }


def _number(card: Mapping[str, Any], place: str, factor: float) -> float | None:
    found: Any = card
    for part in place.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, dict):
        found = found.get("value")
    return found * factor if isinstance(found, int | float) and not isinstance(found, bool) else None
