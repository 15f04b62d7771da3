"""Each scenario, sampled by the real sampler through the real binding, and what is concluded from it."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import builder
import double
import pytest
from judged import evidence

from tfscale.reports.page import scaling_report
from tfscale.suite import counters
from tfscale.suite.caseresult import case_result
from tfscale.suite.monitors import energy
from tfscale.suite.monitors.sampling import Sampler, Sampling
from tfscale.suite.monitors.series import Window
from tfscale.suite.record import Quantity, Record, Validity
from tfscale.suite.spec import Case
from tfscale.suite.validity.judging import judge_trial

SAMPLED_S = 4.0
CARDS = {"healthy-8gpu": 8, "throttling": 2, "mig": 2, "consumer": 1, "lost": 2, "energy-reset": 1, "no-permission": 2}
SCENARIOS = (*CARDS, "mismatch")


@dataclass(frozen=True)
class Seen:
    """A scenario as a trial would have it."""

    counted: counters.Counted
    answers: dict[str, str]
    """Check -> status."""
    details: dict[str, str]
    status: str


@pytest.fixture(scope="module")
def seen(nvml_double: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Seen]]:
    """All scenarios, sampled at once; this process is the run that their cards list."""
    folders = {name: tmp_path_factory.mktemp(name) for name in SCENARIOS}
    begun = time.perf_counter_ns()
    with ExitStack() as running:
        for name, folder in folders.items():
            (folder / "rank0").mkdir()
            (folder / "rank0" / "launch.json").write_text(json.dumps({"pid": os.getpid()}))
            visible = {
                "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(CARDS.get(name, 0)))),
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            }
            variables = {**os.environ, **double.environment(nvml_double, name), "TFSCALE_NVML_PID": str(os.getpid())}
            running.enter_context(Sampler(Sampling(("nvml",), folder, visible), variables))
        while not all(has_samples(name, folder) for name, folder in folders.items()):
            assert time.perf_counter_ns() - begun < 20e9, "a sampler has not begun"
            time.sleep(0.05)
        start = time.perf_counter_ns()
        time.sleep(SAMPLED_S)
        window = Window(start, time.perf_counter_ns())
        time.sleep(0.3)
    yield {name: judge(folder, window) for name, folder in folders.items()}


def has_samples(name: str, folder: Path) -> bool:
    path = folder / "monitors.jsonl"
    return path.exists() and (b'"v":' in path.read_bytes() or (name == "mismatch" and b"columns" in path.read_bytes()))


def judge(folder: Path, window: Window) -> Seen:
    counted = counters.count(folder, ("nvml",), window, None)
    found = evidence(folder, monitors=counted.monitors, series=counted.series, window=window, accelerator="gpu")
    checks = judge_trial(found)
    statuses = {check.name: check.status for check in checks}
    return Seen(counted, statuses, {c.name: c.detail for c in checks}, Validity.of(checks).status)


@pytest.mark.parametrize(
    ("scenario", "status", "expected"),
    [
        (
            "healthy-8gpu",
            "VALID",
            {
                "throttling": "VALID",
                "clocks_steady": "VALID",
                "foreign_gpu_process": "VALID",
                "ecc": "VALID",
                "xid": "VALID",
            },
        ),
        ("throttling", "SUSPECT", {"throttling": "SUSPECT", "clocks_steady": "SUSPECT"}),
        ("mig", "VALID", {"throttling": "VALID", "foreign_gpu_process": "VALID", "ecc": "UNKNOWN"}),
        ("consumer", "VALID", {"throttling": "VALID", "ecc": "UNKNOWN"}),
        ("lost", "SUSPECT", {"xid": "SUSPECT"}),
        ("energy-reset", "VALID", {"throttling": "VALID"}),
        ("no-permission", "VALID", {"throttling": "UNKNOWN", "foreign_gpu_process": "UNKNOWN", "ecc": "UNKNOWN"}),
        ("mismatch", "VALID", {"counters_nvml": "UNKNOWN"}),
    ],
)
def test_verdict(seen: dict[str, Seen], scenario: str, status: str, expected: dict[str, str]) -> None:
    found = seen[scenario]
    assert {name: found.answers.get(name) for name in expected} == expected, found.details
    assert found.status == status, found.details


def test_a_mismatch_of_driver_and_library_is_named(seen: dict[str, Seen]) -> None:
    assert "different versions" in seen["mismatch"].details["counters_nvml"]
    assert "throttling" not in seen["mismatch"].answers


def test_energy_of_eight_cards_is_their_counters_growth(seen: dict[str, Seen], monkeypatch: pytest.MonkeyPatch) -> None:
    """600 J a second each. Windows under 10 s have no energy; here a shorter one must do."""
    monkeypatch.setattr(energy, "LEAST_S", 1.0)
    window = seen["healthy-8gpu"].counted.window
    series = seen["healthy-8gpu"].counted.series["nvml"]
    for card in range(8):
        told = energy.device_energy(series, f"gpu{card}", window)
        assert told.value == pytest.approx(600 * window.seconds, rel=0.02), told


def test_an_energy_counter_that_was_reset_is_unknown(seen: dict[str, Seen], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "LEAST_S", 1.0)
    counted = seen["energy-reset"].counted
    series = counted.series["nvml"]
    t_ns, _ = series.of([column.name for column in series.columns].index("energy"))
    told = energy.device_energy(series, "gpu0", Window(int(t_ns[0]), int(t_ns[-1])))
    assert told.value is None
    assert "reset" in str(told.reason)


def test_a_card_without_power_is_null_with_a_reason_in_record_json_and_page(seen: dict[str, Seen]) -> None:
    counted = seen["consumer"].counted
    rate = Quantity(value=100.0, unit="images/s", kind="measured", statistic="mean")
    quantities = counters.energy(counted, rate, "image")
    case = Case(workload="vit", preset="micro", per_replica_batch=8)
    made = builder.record(case)
    record = made.model_copy(
        update={"monitors": dict(counted.monitors), "quantities": {**made.quantities, **quantities}}
    )
    column = record.monitors["nvml"].unsampled["gpu0/power"]
    assert column.state == "unsupported"
    document = json.loads(record.model_dump_json(by_alias=True))
    told = document["quantities"]["energy"]
    assert told["value"] is None
    assert told["reason"]
    assert Record.model_validate(document) == record
    page = scaling_report(builder.run_of((case_result([record]),), (record,)), {})
    assert column.reason in page
    assert told["reason"].split(": ")[-1] in page
