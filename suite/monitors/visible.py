"""Which cards of NVML a process sees, by CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.

NVML's reference promises no order of its indices from boot to boot, and says to look cards up by address or identifier.
CUDA numbers by PCI address where CUDA_DEVICE_ORDER says PCI_BUS_ID, else by speed, which cannot be told from here; where
all cards are alike, the order of their addresses is taken too. Forms of the variable are those of the CUDA programming
guide (environment variables): indices, `GPU-` and `MIG-` identifiers, each down to a prefix that only one card has, and
the first invalid entry hides itself and all after it. Never tried here on real cards.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"


@dataclass(frozen=True, slots=True)
class Card:
    """What identifies a card."""

    index: int
    """NVML's."""
    uuid: str | None
    """`GPU-...`."""
    name: str | None
    mig: Sequence[str] = ()
    """Identifiers of its MIG instances, where they are known."""
    pci: str | None = None
    """PCI address, `00000000:1B:00.0`."""


@dataclass(frozen=True, slots=True)
class Visible:
    """The cards of a process in its own order. An index is None where an entry cannot be mapped, and `reasons` say why."""

    indices: tuple[int | None, ...]
    reasons: tuple[str, ...] = ()

    @property
    def certain(self) -> tuple[int, ...]:
        """The cards that were mapped, each once."""
        return tuple(dict.fromkeys(index for index in self.indices if index is not None))


def visible(environment: Mapping[str, str], cards: Sequence[Card]) -> Visible:
    """The cards that a process with this environment sees, of all `cards`; all of them where nothing is set."""
    wanted = environment.get(VISIBLE)
    numbered = _by_address(cards)
    if wanted is None:
        return Visible(tuple(card.index for card in cards))
    indices: list[int | None] = []
    reasons: list[str] = []
    doubt = _order_doubt(environment, cards)
    for entry in (part.strip() for part in wanted.split(",")):
        index, reason, invalid = _entry(entry, cards, numbered)
        if invalid:
            if entry not in ("", "-1"):  # the usual ways to say: no card
                reasons.append(f"{VISIBLE} {wanted!r}: {reason}; it and what follows it are hidden")
            break
        if index is not None and index in indices and not entry.upper().startswith("MIG-"):
            # CUDA then gives an error, or no card at all; which of them was never seen here.
            return Visible((), (f"{VISIBLE} {wanted!r}: {entry} names a card again, with which CUDA shows none",))
        if index is not None and entry.isdecimal() and doubt:
            index, reason = None, doubt
        if reason:
            reasons.append(f"{VISIBLE} entry {entry}: {reason}")
        indices.append(index)
    return Visible(tuple(indices), tuple(dict.fromkeys(reasons)))


def _entry(entry: str, cards: Sequence[Card], numbered: Sequence[int]) -> tuple[int | None, str | None, bool]:
    """(NVML index or None, why none or what to know, whether CUDA would stop here)."""
    if entry.isdecimal():
        if int(entry) < len(numbered):
            return numbered[int(entry)], None, False
        return None, f"there is no card {entry}, only {len(cards)} cards", True
    if entry.upper().startswith("MIG-"):
        return _mig(entry, cards)
    if entry.upper().startswith("GPU-"):
        found = [card.index for card in cards if _starts(card.uuid, entry)]
        if len(found) == 1:
            return found[0], None, False
        if any(card.uuid is None for card in cards):
            return None, "the identifiers of the cards cannot be read", False
        what = "no card has this identifier" if not found else f"{len(found)} cards begin with this identifier"
        return None, what, True
    return None, f"{entry!r} is neither an index nor an identifier", True


def _by_address(cards: Sequence[Card]) -> list[int]:
    """NVML's indices by PCI address; in NVML's order where an address is not known."""
    places = {card.index: [int(part, 16) for part in re.findall("[0-9a-fA-F]+", card.pci or "")] for card in cards}
    known = all(places.values())
    return sorted(places, key=places.__getitem__) if known else list(places)


def _mig(entry: str, cards: Sequence[Card]) -> tuple[int | None, str | None, bool]:
    """The card that a MIG instance is part of: named in the old form MIG-GPU-<uuid>/<gi>/<ci>, else looked up."""
    if entry.upper().startswith("MIG-GPU-"):
        parent = entry[len("MIG-") :].partition("/")[0]
        found = [card.index for card in cards if _starts(card.uuid, parent)]
    else:
        found = [card.index for card in cards if any(_starts(instance, entry) for instance in card.mig)]
    if len(found) == 1:
        return found[0], None, False
    return None, "it cannot be told which card this MIG instance is a part of", False


def _starts(identifier: str | None, prefix: str) -> bool:
    return identifier is not None and identifier.lower().startswith(prefix.lower())


def _order_doubt(environment: Mapping[str, str], cards: Sequence[Card]) -> str | None:
    """Why CUDA's indices may not be NVML's, if so."""
    if environment.get(ORDER) == "PCI_BUS_ID" or len({card.name for card in cards}) <= 1:
        return None
    return f"the cards differ and CUDA numbers them by speed, which cannot be told from here; set {ORDER}=PCI_BUS_ID"
