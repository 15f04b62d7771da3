"""`auto`: the links are measured, the cost of each exchange is predicted on them, and the best one is taken.

`build` times sums between the replicas (probe.py) and, where lossy ones may be taken, how long each of those encodes and
decodes (recording.py). The choice falls when the step is traced, because only then is it known which gradients are
sparse: each candidate says what it would move, and the links say how long that takes (analysis/communication.py). All
of it rests on numbers that all ranks share, so that all choose alike, once, before anything is timed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfscale.suite import registry
from tfscale.suite.analysis import communication
from tfscale.suite.analysis.choice import Candidate, choose
from tfscale.suite.exchange.base import Exchange, create
from tfscale.suite.exchange.parse import parse
from tfscale.suite.exchange.racks import columns_of, racks_of, why_not

if TYPE_CHECKING:
    from tfscale.suite.analysis.linkfit import LinkFit
    from tfscale.suite.exchange.recording import Job
    from tfscale.suite.exchange.wire import Wire
    from tfscale.suite.spec import Case
    from tfscale.suite.strategies.base import Session

STRATEGIES = ("multi_worker_mirrored", "mirrored")
EXACT = ("none", "pack(mib=1)", "pack(mib=4)", "pack(mib=16)", "priority")
RACKED = ("hierarchical",)
"""Where replicas lie in several racks of one size."""
LOSSY = ("fp16", "int8", "powersgd(rank=4)", "topk")
RACKED_LOSSY = ("hierarchical(cross=fp16)", "hierarchical(cross=int8)")
KINDS = {"all": ("all_reduce",), "rack": ("all_to_all", "all_gather"), "across": ("all_reduce",)}
"""What the exact exchanges ask of each level of links, and so what is measured."""
LOSSY_KINDS = {"all": ("all_gather", "all_to_all"), "rack": (), "across": ("all_gather", "all_to_all")}
SAMPLE = 2**22
"""Elements that encoding is timed on at most."""


class Auto(Exchange):
    """`auto`, or `auto(lossy=true)`, which may take an exchange that loses something too."""

    name = "auto"

    def __init__(self, lossy: bool = False) -> None:
        super().__init__()
        if not isinstance(lossy, bool):
            raise TypeError(f"lossy is {lossy!r}, and must be true or false")
        self._lossy = lossy
        self.exact = not lossy
        self._variables: Sequence[Any] = ()
        self._links: dict[tuple[str, str], LinkFit] = {}
        self._codecs: dict[str, float] = {}
        self._predicted: dict[str, float] = {}
        self._chosen: Exchange | None = None
        self._name: str | None = None
        self._reason = "the step was not traced"

    def refuses(self, case: "Case") -> str | None:
        if case.strategy not in STRATEGIES:
            return f"exchange {self.name}: {case.strategy} has no links to measure; only {' and '.join(STRATEGIES)} do"
        return None

    def build(self, session: "Session", variables: Sequence[Any]) -> None:
        super().build(session, variables)
        self._variables = variables
        if session.replicas == 1:
            return
        from tfscale.suite.exchange import probe

        for level, groups in levels(session.replicas, session.racks).items():
            for kind in KINDS[level] + (LOSSY_KINDS[level] if self._lossy else ()):
                self._links[level, kind] = probe.link(session, groups, kind)
        if self._lossy:
            self._codecs = self._timed_codecs(session)

    def reduce(self, wire: "Wire", gradients: Sequence[Any], riders: Any) -> tuple[list[Any], Any]:
        if self._chosen is None:
            self._chosen = self._choose(gradients)
        return self._chosen.reduce(wire, gradients, riders)

    def settle(self, replica: int, skipped: Any) -> None:
        if self._chosen is not None:
            self._chosen.settle(replica, skipped)

    def state(self, replica: int) -> list[Any]:
        return self._chosen.state(replica) if self._chosen else []

    def resolved(self) -> str | None:
        return self._name

    def told(self) -> dict[str, Any]:
        probe = {
            "links": {
                " ".join(key): {
                    "latency_s": fitted.link.latency_s,
                    "seconds_per_byte": fitted.link.seconds_per_byte,
                    "misfit": fitted.misfit,
                }
                for key, fitted in self._links.items()
            },
            "predicted_s": self._predicted,
            **({"codec_s_per_element": self._codecs} if self._codecs else {}),
        }
        return {"resolved": self._name, "resolved_reason": self._reason, "probe": probe}

    def _choose(self, gradients: Sequence[Any]) -> Exchange:
        assert self._session is not None, "build comes first"
        if self._session.replicas == 1:
            self._name, self._reason = "none", "one replica: nothing is exchanged"
        else:
            candidates = self._candidates(gradients)
            self._predicted = {each.name: each.seconds for each in candidates}
            choice = choose(candidates)
            self._name, self._reason = choice.name, choice.reason
        chosen = create(self._name)
        chosen.build(self._session, self._variables)
        self.exact, self.tolerance, self.moves = chosen.exact, chosen.tolerance, chosen.moves
        return chosen

    def _candidates(self, gradients: Sequence[Any]) -> list[Candidate]:
        from tfscale.suite.exchange import recording
        from tfscale.suite.exchange.shapes import shapes_of

        job = self._job()
        shapes = shapes_of(gradients, self._variables)
        dense = sum(_elements(gradient.shape) for gradient in gradients if not hasattr(gradient, "indices"))
        links = {key: fitted.link for key, fitted in self._links.items()}
        found = []
        for name in self._names():
            moved = recording.moved(name, job, self._variables, shapes)
            levels = [each.level for each in moved]
            found.append(
                Candidate(
                    name,
                    create(name).exact,
                    communication.exchange_seconds(moved, links),
                    self._codecs.get(name, 0.0) * dense,
                    max((levels.count(level) for level in levels), default=0),
                )
            )
        return found

    def _names(self) -> list[str]:
        """Candidates that are registered and make sense here."""
        assert self._session is not None
        racked = any(level == "across" for level, _ in self._links)
        names = [*EXACT, *(RACKED if racked else ())]
        if self._lossy:
            names += [*LOSSY, *(RACKED_LOSSY if racked else ())]
        known = registry.names("exchanges")
        return [name for name in names if parse(name).name in known]

    def _job(self) -> "Job":
        from tfscale.suite.exchange.recording import Job

        assert self._session is not None
        return Job(self._session.replicas, tuple(self._session.racks), on_gpu=on_gpu(self._session))

    def _timed_codecs(self, session: "Session") -> dict[str, float]:
        """Seconds per dense element of every candidate that encodes, averaged over replicas."""
        from tfscale.suite.exchange import probe, recording
        from tfscale.suite.exchange.shapes import GradientShape

        names = [name for name in self._names() if not create(name).exact]
        shapes = sample_of([tuple(variable.shape) for variable in self._variables])
        elements = sum(_elements(shape) for shape in shapes)
        mine = [recording.seconds(name, self._job(), [GradientShape(shape) for shape in shapes]) for name in names]
        shared = probe.mean(session, mine)
        return {name: taken / elements for name, taken in zip(names, shared, strict=True)}


def levels(replicas: int, racks: Sequence[int]) -> dict[str, list[tuple[int, ...]]]:
    """The groups that each level of links joins: all replicas, those of a rack, and those at one place of the racks."""
    found = {"all": [tuple(range(replicas))]}
    inside = racks_of(racks)
    if len(racks) == replicas and why_not(inside) is None:
        across = columns_of(inside)
        found.update({name: groups for name, groups in (("rack", inside), ("across", across)) if len(groups[0]) > 1})
    return found


def sample_of(shapes: Sequence[tuple[int, ...]], most: int = SAMPLE) -> list[tuple[int, ...]]:
    """Shapes of at most `most` elements in all: the largest first, cut along their first dimension where they are more."""
    found, left = [], most
    for shape in sorted(shapes, key=_elements, reverse=True):
        row = max(1, _elements(shape[1:]))
        rows = min(shape[0], left // row) if shape else 0
        if rows:
            found.append((rows, *shape[1:]))
            left -= rows * row
    return found


def _elements(shape: Sequence[int]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total


def on_gpu(session: "Session") -> bool:
    return any("GPU" in device.upper() for device in getattr(session, "devices", ()))
