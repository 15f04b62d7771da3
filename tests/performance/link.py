"""The links of netlab themselves: what a plain TCP socket gets of the stated rate, both ways at once."""

import math
import socket
import statistics
import threading
import time
from collections.abc import Callable, Sequence

from rows import Bound, Part, Row

from tfscale.suite.netlab.lab import Lab
from tfscale.suite.netlab.namespaces import inside
from tfscale.suite.topology import Topology, spelled

RATES_MBIT = (50, 100, 500)
MEGABYTES = 10
LEAST_SHARE = 0.85
PORT = 5201
TIMEOUT_S = 120.0
METHOD = (
    f"Two hosts of the netlab launcher on one switch. One TCP connection between them moves {MEGABYTES} MB (decimal) from "
    "each end to the other at once; the time is from the first byte to the end that is done last, connecting not included. "
    "Share: bytes of one direction over that time, over the stated rate. Headers and acknowledgements are in the rate and "
    "not in the bytes: 1448 of 1514 bytes of a frame are payload, so 0.956 less acknowledgements is the most there can be. "
    "The value is the median, the interval that of order statistics."
)


def run(quick: bool) -> Part:
    repeats = 3 if quick else 9
    return Part("link", "The links of netlab", METHOD, [row(rate, repeats) for rate in RATES_MBIT])


def row(rate_mbit: int, repeats: int) -> Row:
    """The share of `rate_mbit` that a socket gets. Raises LaunchError where there can be no lab."""
    rate = rate_mbit * 10**6
    with Lab(Topology.model_validate({"hosts": 2, "link": rate})) as lab:
        ideal = MEGABYTES * 8e6 / rate
        shares = sorted(ideal / socket_seconds(lab, MEGABYTES) for _ in range(repeats))
    return Row(
        f"{spelled(rate)}: share of the rate, {MEGABYTES} MB both ways at once",
        statistics.median(shares),
        "",
        "measured",
        repeats,
        median_interval(shares),
        Bound("at_least", LEAST_SHARE),
        f"{1e3 * ideal / statistics.median(shares):.0f} ms; TCP {lab.congestion_control}",
    )


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The narrowest symmetric pair of order statistics that holds the median with 95 %, None where there are too few.

    The k-th smallest and k-th largest of n hold it with 1 - 2 P(B < k), B binomial (n, 1/2).
    """
    n, ordered = len(values), sorted(values)

    def beside(k: int) -> float:
        return sum(math.comb(n, below) for below in range(k)) / 2**n

    fitting = [k for k in range(1, n // 2 + 1) if 2 * beside(k) <= 0.05]
    return (ordered[fitting[-1] - 1], ordered[-fitting[-1]]) if fitting else None


def socket_seconds(lab: Lab, megabytes: float, first: int = 0, second: int = 1) -> float:
    """Seconds in which one TCP connection moves `megabytes` (10^6 bytes) in each direction at once.

    Between the hosts at those two places of the lab's topology. Raises OSError where nothing moves for TIMEOUT_S.
    """
    data = memoryview(bytes(round(megabytes * 1e6)))
    near, far = connected(lab, first, second)
    try:
        barrier = threading.Barrier(5)
        errors: list[BaseException] = []

        def worker(work: Callable[[], None]) -> threading.Thread:
            def body() -> None:
                try:
                    barrier.wait(TIMEOUT_S)
                    work()
                except BaseException as error:  # raised again below, in the thread that waits
                    errors.append(error)

            thread = threading.Thread(target=body)
            thread.start()
            return thread

        works = [lambda end=end: end.sendall(data) for end in (near, far)]
        works += [lambda end=end: receive(end, len(data)) for end in (near, far)]
        threads = [worker(work) for work in works]
        barrier.wait(TIMEOUT_S)
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
    finally:
        near.close()
        far.close()
    if errors:
        raise errors[0]
    return seconds


def connected(lab: Lab, first: int, second: int) -> tuple[socket.socket, socket.socket]:
    """The two ends of a TCP connection between two hosts of the lab."""
    server = inside(lab.hosts[second].namespace, lambda: socket.create_server(("", PORT)))
    with server:
        server.settimeout(TIMEOUT_S)
        target = (lab.hosts[second].address, PORT)
        near = inside(lab.hosts[first].namespace, lambda: socket.create_connection(target, TIMEOUT_S))
        far, _ = server.accept()
    far.settimeout(TIMEOUT_S)
    return near, far


def receive(end: socket.socket, count: int) -> None:
    """Take `count` bytes and let them go. Raises ConnectionError where the other end closes before."""
    buffer = bytearray(1 << 18)
    while count:
        got = end.recv_into(buffer, min(count, len(buffer)))
        if got == 0:
            raise ConnectionError(f"closed with {count} bytes to come")
        count -= got
