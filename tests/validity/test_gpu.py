from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from judged import evidence, only

from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.series import Series, Window
from tfscale.suite.record import Check, Monitored
from tfscale.suite.validity import gpu

N = 100
START, PERIOD = 1_000_000_000, 100_000_000
WINDOW = Window(START, START + (N - 1) * PERIOD)
COUNTERS = ("violation_thermal", "ecc_uncorrected")
REASON = "the card or its driver does not support this"


def sampled(devices: Sequence[Mapping[str, Any]]) -> Series:
    """100 samples in 9.9 s; of each device its columns: an array, a constant, or None where it is unsupported."""
    columns, values = [], []
    for index, device in enumerate(devices):
        for name, found in device.items():
            kind = "counter" if name in COUNTERS else "gauge"
            bad = {"state": "unsupported", "reason": REASON} if found is None else {}
            columns.append(Column(name, "1", kind, f"gpu{index}", **bad))
            values.append(np.broadcast_to(np.nan if found is None else found, N))
    return Series(tuple(columns), START + PERIOD * np.arange(N), np.array(values, dtype=float).T)


def judged(check: Any, devices: Sequence[Mapping[str, Any]], **facts: Any) -> Check:
    used = {"used": [f"gpu{index}" for index in range(len(devices))], **facts}
    seen = {"nvml": Monitored(samples=N, facts=used)}
    return only(check(evidence(monitors=seen, series={"nvml": sampled(devices)}, window=WINDOW)))


def bits(mask: int, count: int) -> Any:
    """`mask` in the first `count` of the samples."""
    return np.where(np.arange(N) < count, mask, 0)


@pytest.mark.parametrize(
    ("reasons", "status", "word"),
    [
        (0, "VALID", "no card"),
        (0x1, "VALID", "no card"),  # idle
        (0x4, "VALID", "gpu0 kept to its power limit for 100%"),
        (bits(0x8, 6), "SUSPECT", "6% of the window (hw_slowdown)"),
        (bits(0x8, 5), "VALID", "5.0%"),
        (bits(0x20, 30), "SUSPECT", "sw_thermal"),
        (bits(0x40 | 0x8, 30), "SUSPECT", "hw_slowdown, hw_thermal"),
        (bits(0x80, 10), "SUSPECT", "power_brake"),
        (None, "UNKNOWN", REASON),
    ],
)
def test_throttling(reasons: Any, status: str, word: str) -> None:
    check = judged(gpu.throttling, [{"clock_reasons": reasons}])
    assert check.status == status
    assert word in check.detail


def test_a_violation_counter_sees_heat_between_samples() -> None:
    """0.1 s of thermal violation a second is 10 % of the time, whatever the masks say."""
    counted = 5.0 + 0.01 * np.arange(N)
    check = judged(gpu.throttling, [{"clock_reasons": 0, "violation_thermal": counted}])
    assert check.status == "SUSPECT"
    assert check.evidence["thermal_violation"]["gpu0"] == pytest.approx(0.1)


def test_power_caps_are_compared_between_cards() -> None:
    check = judged(gpu.throttling, [{"clock_reasons": 0}, {"clock_reasons": bits(0x4, 80)}])
    assert check.status == "VALID"
    assert "gpu1 kept to its power limit for 80% of it, gpu0 for 0%" in check.detail
    assert check.evidence["shares"]["gpu1"]["sw_power_cap"] == 0.8


@pytest.mark.parametrize(
    ("clocks", "status"),
    [
        ([1980.0, 1980.0], "VALID"),
        ([1980.0, 1900.0], "VALID"),  # 4 % slower
        ([1980.0, 1800.0], "SUSPECT"),  # 9 % slower
        ([1755.0 + np.where(np.arange(N) < 50, 0, 165)], "VALID"),  # (1920 - 1755) / 1837.5 = 9 %
        ([1755.0 + np.where(np.arange(N) < 50, 0, 225)], "SUSPECT"),  # (1980 - 1755) / 1867.5 = 12 %
        ([1980.0, None], "UNKNOWN"),
        ([np.where(np.arange(N) < 9, 1980.0, np.nan)], "UNKNOWN"),
    ],
)
def test_clocks(clocks: Sequence[Any], status: str) -> None:
    assert judged(gpu.clocks_steady, [{"clock_sm": clock} for clock in clocks]).status == status


@pytest.mark.parametrize(
    ("processes", "status", "word"),
    [
        ([(10, "python", True)], "VALID", "to itself"),
        ([(10, "python", True), (66, "miner", False)], "SUSPECT", "miner (66)"),
        ([(10, "python", True), (66, None, None)], "SUSPECT", "process (66)"),
        ([(66, "miner", False)], "UNKNOWN", "none of this run's"),
        ([], "UNKNOWN", "no process"),
    ],
)
def test_processes_of_others(processes: Sequence[tuple[int, str | None, bool | None]], status: str, word: str) -> None:
    listed = [{"pid": pid, "name": name, "memory": 1, "own": own} for pid, name, own in processes]
    check = judged(gpu.foreign_gpu_process, [{"processes": float(len(listed))}], processes={"gpu0": listed})
    assert check.status == status
    assert word in check.detail


def test_a_list_of_processes_that_cannot_be_had_says_why() -> None:
    check = judged(gpu.foreign_gpu_process, [{"processes": None}], processes={})
    assert (check.status, REASON in check.detail) == ("UNKNOWN", True)


@pytest.mark.parametrize(
    ("count", "status"), [(3.0, "VALID"), (np.where(np.arange(N) < 60, 3, 5), "SUSPECT"), (None, "UNKNOWN")]
)
def test_memory_errors(count: Any, status: str) -> None:
    assert judged(gpu.ecc, [{"ecc_uncorrected": count}]).status == status


@pytest.mark.parametrize(
    ("facts", "status", "word"),
    [
        ({"xid": []}, "VALID", "no error"),
        ({"xid": [{"device": "gpu0", "code": 79, "t_ns": 1}]}, "SUSPECT", "gpu0: Xid 79"),
        ({"xid": [{"device": "gpu5", "code": 79, "t_ns": 1}]}, "VALID", "no error"),
        ({"xid": [], "lost": {"gpu0": "GPU is lost"}}, "SUSPECT", "gpu0: GPU is lost"),
        ({"xid": None, "xid_reasons": {"gpu0": REASON}}, "UNKNOWN", REASON),
    ],
)
def test_errors_that_the_driver_reports(facts: dict[str, Any], status: str, word: str) -> None:
    check = judged(gpu.xid, [{"power": 1.0}], **facts)
    assert check.status == status
    assert word in check.detail


CHECKS = (gpu.throttling, gpu.clocks_steady, gpu.foreign_gpu_process, gpu.ecc, gpu.xid)


@pytest.mark.parametrize("check", CHECKS)
def test_without_cards_there_is_no_question(check: Any) -> None:
    assert not list(check(evidence(monitors={}, series={})))
    absent = Series(
        (Column("power", "W", "gauge", state="absent", reason="no driver"),), np.empty(0, int), np.empty((0, 1))
    )
    assert not list(check(evidence(monitors={"nvml": Monitored()}, series={"nvml": absent})))


@pytest.mark.parametrize("check", CHECKS)
def test_cards_that_the_run_does_not_use_are_not_judged(check: Any) -> None:
    hot = {"clock_reasons": 0x40, "clock_sm": bits(900, 50), "ecc_uncorrected": np.arange(N), "processes": 1.0}
    seen = {"nvml": Monitored(samples=N, facts={"used": [], "lost": {"gpu0": "GPU is lost"}})}
    assert not list(check(evidence(monitors=seen, series={"nvml": sampled([hot])}, window=WINDOW)))
