from typing import Any

import pytest
from judged import evidence, only

from tfscale.suite.record import Monitored, Quantity, unknown
from tfscale.suite.validity import disturbance

ENVIRONMENT = {"cpu": {"usable": 4}}


def seen(name: str, value: float | None, unit: str = "1", **facts: Any) -> dict[str, Monitored]:
    quantity = (
        unknown(unit, "measured", "mean", "no samples")
        if value is None
        else Quantity(value=value, unit=unit, kind="measured", statistic="mean")
    )
    return {"host": Monitored(summary={"": {name: quantity}}, facts=facts)}


@pytest.mark.parametrize(
    ("cores", "usable", "status"),
    [(0.24, 4, "VALID"), (0.26, 4, "SUSPECT"), (0.5, 64, "VALID"), (1.3, 64, "SUSPECT"), (None, 4, "UNKNOWN")],
)
def test_other_processes(cores: float | None, usable: int, status: str) -> None:
    """A quarter of a core, or 2 % of the machine: 1.28 of 64."""
    found = seen("foreign_cpu_mean", cores, foreign=[{"pid": 7, "name": "miner", "cores": cores}])
    check = only(disturbance.foreign_cpu(evidence(monitors=found, environment={"cpu": {"usable": usable}})))
    assert check.status == status
    if cores is not None:
        assert "miner (7)" in check.detail


@pytest.mark.parametrize(("rate", "status"), [(0.1, "VALID"), (0.21, "SUSPECT"), (None, "UNKNOWN")])
def test_stolen_time_is_a_share_of_all_cores(rate: float | None, status: str) -> None:
    check = only(disturbance.steal(evidence(monitors=seen("cpu_steal_rate", rate), environment=ENVIRONMENT)))
    assert check.status == status


@pytest.mark.parametrize(("rate", "status"), [(0.009, "VALID"), (0.011, "SUSPECT")])
def test_a_quota_that_bites(rate: float, status: str) -> None:
    assert only(disturbance.quota(evidence(monitors=seen("cgroup_throttled_rate", rate)))).status == status


@pytest.mark.parametrize(("pages", "status"), [(0.0, "VALID"), (249.0, "VALID"), (251.0, "SUSPECT"), (None, "UNKNOWN")])
def test_swapping(pages: float | None, status: str) -> None:
    assert only(disturbance.swapping(evidence(monitors=seen("swap_in_rate", pages)))).status == status


def test_without_samples_there_is_no_question() -> None:
    silent = evidence(monitors={})
    for check in (disturbance.foreign_cpu, disturbance.steal, disturbance.quota, disturbance.swapping):
        assert not list(check(silent))


def test_a_silent_monitor_is_unknown() -> None:
    checks = list(disturbance.counters(evidence(monitors={"nvml": Monitored(reason="the sampler was killed")})))
    assert [(check.name, check.status) for check in checks] == [("counters_nvml", "UNKNOWN")]
