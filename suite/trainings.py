"""Which trainings to a target loss a run needs. Pure, but for the registry.

The link changes no loss of a synchronous exchange, so each case is trained once for each seed off its network, on this
machine, and stands for all cases that differ in the network only. What an exact exchange gives is what `none` gives: it
is not trained again.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tfscale.suite import registry
from tfscale.suite.exchange import base as exchanges
from tfscale.suite.exchange.parse import parse
from tfscale.suite.spec import Case, TargetLoss

CHOSEN_BY_LINK = ("auto",)
"""Exchanges that are what the links of the case make of them."""


@dataclass(frozen=True)
class Training:
    """One case and seed to train; `base`: its twin with `none`, whose smoothed loss is the target; None where it is that."""

    case: Case
    base: Case | None
    stands_for: tuple[str, ...]
    data_seed: int
    """Seed of the sample files: seeds of one case read the same files, in orders of their own."""


def unlinked(case: Case) -> Case:
    """`case` without its network, and with `none` for an exact exchange: cases that are equal then have the same losses.

    An exchange that has no meaning without the racks of its topology keeps them.
    """
    plain = {"ranks": "device", "collective": "auto", "transport": "auto", "steps_per_call": 1}
    if exchanges.create(case.exchange).exact:
        plain["exchange"] = "none"
    bare = case.model_copy(update={**plain, "topology": None, "order": "listed", "hosts": 1})
    if exchanges.create(bare.exchange).refuses(bare) is None:
        return bare
    return case.model_copy(update=plain)


def base_of(case: Case) -> Case:
    """The training with the exact exchange that an unlinked case is held against: its own strategy's, where it averages."""
    plain = {"exchange": "none", "topology": None, "order": "listed", "hosts": 1}
    if not registry.load("strategies", case.strategy).synchronous:
        plain["strategy"] = "multi_worker_mirrored" if case.devices > 1 else "one_device"
    return case.model_copy(update=plain)


def trainings(cases: Iterable[Case], wanted: TargetLoss) -> list[Training]:
    """All trainings that `cases` need, seed by seed, each base before what is held against it; none without a lossy case.

    A case that leaves its batch to a pilot launch, or its exchange to its links, is left out: what it trains with is not
    known before its first trial, and would be another off its network.
    """
    standing: dict[str, list[str]] = {}
    bare: dict[str, Case] = {}
    for case in cases:
        if case.undecided or parse(case.exchange).name in CHOSEN_BY_LINK:
            continue
        one = unlinked(case)
        bare.setdefault(one.id, one)
        standing.setdefault(one.id, []).append(case.id)
    order: dict[str, tuple[Case, Case | None]] = {}
    for one in bare.values():
        base = base_of(one)
        if base != one:
            order.setdefault(base.id, (base, None))
            order[one.id] = (one, base)
    return [
        Training(seeded(one, seed), base and seeded(base, seed), tuple(standing.get(name, ())), one.seed)
        for seed in range(wanted.seeds)
        for name, (one, base) in sorted(order.items(), key=lambda item: item[1][1] is not None)
    ]


def seeded(case: Case, more: int) -> Case:
    return case.model_copy(update={"seed": case.seed + more})
