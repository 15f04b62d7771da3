"""Cases side by side, where a suite asks for it (`cluster.beside`): each lane is a part of this machine's devices.

What ran at the same time is kept, launch by launch: a case with a neighbour is SUSPECT, for they share memory, power,
clocks and the network, whatever cores they have.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tfscale.suite.planner import Place
from tfscale.suite.spec import Case

_LOOK_S = 0.2
"""How long signals may wait while lanes run: handlers are called between two looks."""


class TooSmallError(ValueError):
    """The machine cannot be parted into so many lanes."""


class Neighbours:
    """Which launches ran at the same time as another, however briefly."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[tuple[str, set[str]]] = []

    @contextmanager
    def running(self, title: str) -> Iterator[set[str]]:
        """While a launch of the case `title` runs; gives the titles of those it met, complete when this ends."""
        met: set[str] = set()
        mine = (title, met)
        with self._lock:
            for other, meets in self._running:
                met.add(other)
                meets.add(title)
            self._running.append(mine)
        try:
            yield met
        finally:
            with self._lock:
                self._running = [each for each in self._running if each is not mine]


def places(place: Place, lanes: int, cores_per_device: int | None) -> list[Place]:
    """`place` in `lanes` equal parts that share no core and no GPU; a device has `cores_per_device` cores where the suite
    says so. Raises TooSmallError where a part would have no device.
    """
    cores, gpus = len(place.host_cores) // lanes, len(place.visible_gpus) // lanes
    if not cores or (place.accelerator == "gpu" and not gpus):
        have = f"{len(place.visible_gpus)} GPUs" if place.accelerator == "gpu" else f"{len(place.host_cores)} cores"
        raise TooSmallError(f"cluster.beside {lanes}: this machine has {have}, which is less than one for each")
    if cores_per_device is not None and cores_per_device * max(1, gpus) > cores:
        raise TooSmallError(
            f"cluster.beside {lanes}: each would have {cores} cores, which is less than cluster.cores_per_device "
            f"{cores_per_device}" + (f" for each of {gpus} GPUs" if gpus else "")
        )
    each = max(1, min(place.cores_per_device, cores // max(1, gpus)))
    return [
        replace(
            place,
            host_cores=place.host_cores[lane * cores : (lane + 1) * cores],
            visible_gpus=place.visible_gpus[lane * gpus : (lane + 1) * gpus],
            cores_per_device=each,
        )
        for lane in range(lanes)
    ]


def devices_of(place: Place) -> int:
    """Devices of one host that `place` has."""
    if place.accelerator == "gpu":
        return len(place.visible_gpus)
    return len(place.host_cores) // max(1, place.cores_per_device)


def split(cases: Sequence[Case], devices: int) -> tuple[list[Case], list[Case]]:
    """Those that fit a lane of so many devices, and those that need the whole machine for themselves."""
    small = [case for case in cases if case.devices <= devices]
    return small, [case for case in cases if case.devices > devices]


def in_lanes(cases: Sequence[Case], lanes: Sequence[Callable[[Case], bool]]) -> bool:
    """Run `cases`, each on the first lane that is free; a lane returns False where the run is to end.

    Returns whether all were run. The first error of a lane is raised when all lanes have stopped.
    """
    left, lock = iter(cases), threading.Lock()
    ended, errors = threading.Event(), list[BaseException]()

    def work(lane: Callable[[Case], bool]) -> None:
        try:
            while not ended.is_set():
                with lock:
                    case = next(left, None)
                if case is None:
                    return
                if not lane(case):
                    ended.set()
        except BaseException as error:  # raised again below, in the thread that waits
            errors.append(error)
            ended.set()

    threads = [threading.Thread(target=work, args=(lane,), daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(_LOOK_S)
    if errors:
        raise errors[0]
    return not ended.is_set()
