"""Clocks: the monotonic clock of a rank, and the offset between the clocks of two hosts."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock in integer nanoseconds; its origin is arbitrary."""

    def now_ns(self) -> int: ...


class MonotonicClock:
    """`time.perf_counter_ns`: on Linux CLOCK_MONOTONIC, one clock for all processes of a host."""

    def now_ns(self) -> int:
        return time.perf_counter_ns()


@dataclass(frozen=True)
class ClockOffset:
    """How far a remote clock is ahead of the local one, in nanoseconds, and the largest error that this can have."""

    offset_ns: float
    bound_ns: float

    def to_local(self, remote_ns: float) -> float:
        """The local time, in nanoseconds, at which the remote clock showed `remote_ns`; off by at most `bound_ns`."""
        return remote_ns - self.offset_ns


def ping_pong_offset(samples: Iterable[tuple[int, int, int]]) -> ClockOffset:
    """Offset from ping-pong samples (t_send, t_remote, t_recv) in nanoseconds.

    t_send and t_recv are local, t_remote is read by the peer in between. The sample with the shortest round trip is
    used: offset = t_remote - (t_send + t_recv) / 2, and because the remote reading lies somewhere inside the round
    trip, the error is at most half of it, however asymmetric the path (Cristian 1989, Probabilistic clock
    synchronization). Drift after the exchange is not in the bound.

    Raises ValueError for no samples, or for one that was received before it was sent.
    """
    taken = list(samples)
    if not taken:
        raise ValueError("no ping-pong samples to estimate a clock offset from")
    if any(received < sent for sent, _, received in taken):
        raise ValueError("a ping-pong sample was received before it was sent")
    sent, remote, received = min(taken, key=lambda sample: sample[2] - sample[0])
    return ClockOffset(offset_ns=remote - (sent + received) / 2, bound_ns=(received - sent) / 2)
