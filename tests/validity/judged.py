"""Evidence of a trial as the toy worker leaves it, with whatever a test changes. Not a test module."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import toy_worker

from tfscale.suite import registry, summarise
from tfscale.suite.merge import window_of
from tfscale.suite.planner import Folders, Place, plan_launch
from tfscale.suite.ranks import RankData
from tfscale.suite.record import Check
from tfscale.suite.spec import Case, Measure
from tfscale.suite.validity.base import Evidence

EVIDENCE = set(Evidence.__dataclass_fields__) - {"strategy"}


def evidence(folder: Path = Path("trial"), result: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    """`result` changes fields of every rank's result; `changes` are fields of Evidence, `accelerator`, or axes of the case."""
    kind = changes.pop("accelerator", "cpu")
    fields = {name: changes.pop(name) for name in EVIDENCE if name in changes}
    case = Case(**{"workload": "bert", "preset": "tiny", "per_replica_batch": 8, **changes})
    strategy = registry.load("strategies", case.strategy)()
    place = Place(
        host_cores=[0, 1, 2, 3], cores_per_device=1, accelerator=kind, visible_gpus=["0", "1"] if kind == "gpu" else []
    )
    plans = plan_launch(case, 0, strategy, place, Folders(folder), measure=Measure(), profile=None, pass_="timed")
    ranks = [
        RankData(
            plan, toy_worker.result(plan).model_copy(update=result or {}), toy_worker.series(case.step_batch), {}, None
        )
        for plan in plans
    ]
    timing = summarise.time_in_lockstep([rank.series for rank in ranks], [0.0] * len(ranks))
    quantities = summarise.speed(timing, "sequences", claims_interval=True)
    made = Evidence(
        ranks=ranks,
        strategy=strategy,
        timing=timing,
        window=window_of(ranks, timing),
        quantities=quantities,
        effective=ranks[0].result.effective,
    )
    return replace(made, **fields)


def only(checks: Any) -> Check:
    """The one answer of a check."""
    (check,) = checks
    return check
