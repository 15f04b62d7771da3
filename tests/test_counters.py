"""Energy of a trial: which devices it is of, and what stands where there is none."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tfscale.suite.counters import Counted, energy, keep, kept
from tfscale.suite.monitors.base import Column
from tfscale.suite.monitors.series import Series, Window
from tfscale.suite.record import Monitored, Quantity, Unsampled, unknown
from tfscale.suite.spec import Case

sys.path[:0] = [str(Path(__file__).parent / name) for name in ("toy", "reports")]
import builder  # noqa: E402
import toy_worker  # noqa: E402

WINDOW = Window(0, 20_000_000_000)
RATE = Quantity(value=100.0, unit="images/s", kind="measured", statistic="mean")


def joules(value: float) -> Quantity:
    return Quantity(value=value, unit="J", kind="measured", statistic="growth of the energy counter")


def cards(**energies: Quantity) -> Counted:
    summary = {device: {"energy": quantity} for device, quantity in energies.items()}
    return Counted(WINDOW, {"nvml": Monitored(summary=summary, facts={"used": ["gpu0", "gpu1"]})})


def test_the_devices_of_the_run_are_added() -> None:
    """4000 J + 6000 J over 20 s at 100 images/s: 5 J an image; a third card is another run's."""
    found = energy(cards(gpu0=joules(4000), gpu1=joules(6000), gpu2=joules(1e6)), RATE, "image")
    assert found["energy"].value == 10_000
    assert found["energy_per_sample"].value == pytest.approx(5.0)
    assert (found["energy_per_sample"].unit, found["energy_per_sample"].kind) == ("J/image", "derived")
    assert "2 devices" in found["energy"].statistic


def test_one_device_without_energy_makes_the_sum_unknown_with_its_reason() -> None:
    lost = unknown("J", "measured", "growth", "the counter was reset")
    found = energy(cards(gpu0=joules(4000), gpu1=lost), RATE, "image")
    assert (found["energy"].value, found["energy"].reason) == (None, "the counter was reset")
    assert found["energy_per_sample"].value is None


def test_a_card_that_reports_no_power_says_so() -> None:
    silent = Unsampled(state="unsupported", reason="NVML: Not Supported")
    seen = Monitored(summary={}, unsampled={"gpu0/energy": silent}, facts={"used": ["gpu0"]})
    found = energy(Counted(WINDOW, {"nvml": seen}), RATE, "image")
    assert found["energy"].reason == "gpu0: NVML: Not Supported"


def test_without_cards_the_processor_packages_count_once() -> None:
    summary = {"package-0": {"energy": joules(300)}, "package-0/core": {"energy": joules(200)}}
    found = energy(Counted(WINDOW, {"host": Monitored(summary=summary)}), RATE, "image")
    assert found["energy"].value == 300
    assert "RAPL" in found["energy"].statistic


def test_nothing_to_count_is_a_reason() -> None:
    absent = Unsampled(state="absent", reason="no RAPL on this processor")
    found = energy(Counted(WINDOW, {"host": Monitored(unsampled={"energy": absent})}), RATE, "image")
    assert found["energy"].reason == "no RAPL on this processor"


def test_a_series_that_cannot_be_written_costs_no_trial_and_is_told(tmp_path: Path) -> None:
    series = {"host": Series((Column("load1", "1", "gauge"),), np.array([0, 1]), np.array([[1.0], [2.0]]))}
    blocks = toy_worker.series(8)
    gone = tmp_path / "gone"
    assert keep(gone, Counted(WINDOW, {}, series), [blocks], 0) == {"samples": "monitors.jsonl"}
    record = builder.record(Case(workload="bert", preset="tiny", per_replica_batch=8))
    unwritten = record.model_copy(update={"files": {"samples": "monitors.jsonl"}})
    found, warnings = kept([unwritten], {unwritten.id: gone})
    assert found == {}
    assert "monitors.jsonl" in warnings[0]
