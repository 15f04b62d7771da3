"""How the clocks of a rank's host compare with the harness's: `clock.json` in the rank's folder."""

import json
from dataclasses import dataclass
from pathlib import Path

from tfscale.suite.rankfiles import write_atomic
from tfscale.suite.timing.clock import ClockOffset

CLOCK = "clock.json"
"""{offset_ns, bound_ns: of the wall clock, which traces are stamped with; monotonic_offset_ns, monotonic_bound_ns: of the
clock of the steps}: how far the host is ahead of the harness's machine, and the most that this can be wrong."""


@dataclass(frozen=True)
class HostClocks:
    """One host's clocks against the harness's."""

    monotonic: ClockOffset
    wall: ClockOffset


def write_clocks(folder: Path, clocks: HostClocks) -> None:
    told = {
        "offset_ns": clocks.wall.offset_ns,
        "bound_ns": clocks.wall.bound_ns,
        "monotonic_offset_ns": clocks.monotonic.offset_ns,
        "monotonic_bound_ns": clocks.monotonic.bound_ns,
    }
    write_atomic(folder / CLOCK, json.dumps(told).encode())


def read_clocks(folder: Path) -> HostClocks | None:
    """None where nobody compared them. Raises ValueError for another content."""
    try:
        told = json.loads((folder / CLOCK).read_bytes())
        monotonic = ClockOffset(float(told["monotonic_offset_ns"]), float(told["monotonic_bound_ns"]))
        return HostClocks(monotonic, ClockOffset(float(told["offset_ns"]), float(told["bound_ns"])))
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{folder / CLOCK}: {type(error).__name__}: {error}") from error
