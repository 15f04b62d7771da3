"""The nvml monitor on answers of another machine, one field at a time, as a bundle has them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tfscale.suite.monitors.base import Column, Target
from tfscale.suite.monitors.nvml import FAST, SLOW, Nvml, column
from tfscale.suite.sources.base import Answer, Source, Sources
from tfscale.suite.sources.files import Files
from tfscale.suite.sources.nvmlerrors import KNOWN

LOST = Answer(state="error", reason=KNOWN["NVML_ERROR_GPU_IS_LOST"][1])
UNSUPPORTED = Answer(state="unsupported", reason="the card or its driver does not support this")


class Recorded(Source):
    """Answers by key; every other field of a card is 1."""

    name = "nvml"

    def __init__(self, cards: int, **answers: Any) -> None:
        self.cards = cards
        self.answers: dict[str, Answer] = {
            key.replace("__", "/").removeprefix("gpu"): value if isinstance(value, Answer) else Answer(value)
            for key, value in answers.items()
        }
        self.asked: list[str] = []

    def ask(self, key: str) -> Answer:
        self.asked.append(key)
        if key == "count":
            return Answer(self.cards)
        field = key.partition("/")[2]
        usual: dict[str, Any] = {
            "processes": [],
            "xid": [],
            "mig_instances": [],
            "name": "H100",
            "uuid": f"GPU-{key[0]}",
            "pci": f"00000000:0{key[0]}:00.0",
            "mig_mode": 0,
        }
        return self.answers.get(key, Answer(usual.get(field, 1)))

    def under(self, key: str) -> list[str]:
        return [str(index) for index in range(self.cards)]


def opened(source: Source, folder: Path, **visible: str) -> tuple[Nvml, list[Column], list[Column]]:
    """The monitor, its fast and its slow columns that are ok."""
    monitor = Nvml(Sources(Files(folder), source, source), Target(folder, visible))
    good = [one for one in monitor.columns() if one.state == "ok"]
    return monitor, [one for one in good if not one.slow], [one for one in good if one.slow]


@pytest.mark.parametrize(
    ("name", "wraps_at"), [("energy", 2**64 / 1000), ("nvlink_tx", 2**74), ("pcie_replays", 2**32)]
)
def test_64_bit_counters_do_not_wrap_within_a_run(name: str, wraps_at: float) -> None:
    assert column(name, "gpu0").wraps_at == pytest.approx(wraps_at)


def test_what_is_sampled_when() -> None:
    assert not set(FAST) & set(SLOW)
    assert {"power", "energy", "clock_sm", "clock_reasons", "utilisation_gpu"} <= set(FAST)
    assert {
        "violation_thermal",
        "nvlink_rx",
        "processes",
        "pcie_tx",
        "pcie_replays",
        "ecc_uncorrected",
        "temperature_memory",
        "gpm_tensor",
    } <= set(SLOW)


def test_a_host_without_a_driver_has_nothing_but_a_reason(tmp_path: Path) -> None:
    class Absent(Recorded):
        def ask(self, key: str) -> Answer:
            return Answer(state="absent", reason="no NVIDIA driver")

    monitor = Nvml(Sources(Files(tmp_path), Absent(0), Absent(0)), Target(tmp_path, {}))
    assert {(one.device, one.state, one.reason) for one in monitor.columns()} == {(None, "absent", "no NVIDIA driver")}
    assert monitor.facts() == {}


def test_a_field_that_a_card_lacks_is_never_asked_again(tmp_path: Path) -> None:
    source = Recorded(1, gpu0__power=UNSUPPORTED)
    monitor, fast, _ = opened(source, tmp_path)
    source.asked.clear()
    values = monitor.sample(fast)
    assert len(values) == len(fast) == len(FAST) - 1
    assert "0/power" not in source.asked


def test_a_card_that_is_lost_has_no_values_from_then_on_and_the_other_has(tmp_path: Path) -> None:
    source = Recorded(2)
    monitor, fast, slow = opened(source, tmp_path)
    source.answers |= {"1/power": LOST}
    monitor.sample(fast)
    source.answers.pop("1/power")  # a card that came back would be another one
    source.asked.clear()
    for columns in (fast, slow):
        values = {one.key: value for one, value in zip(columns, monitor.sample(columns), strict=True)}
        assert all(value is None for key, value in values.items() if key.startswith("gpu1/"))
        assert values.get("gpu0/power", values.get("gpu0/processes")) is not None
    facts = monitor.facts()
    # Its events alone are asked on: that which tells why it was lost may come late.
    assert {key for key in source.asked if key.startswith("1/")} <= {"1/mig_instances", "1/xid"}
    assert "GPU is lost" in facts["lost"]["gpu1"]
    assert facts["devices"]["gpu1"]["name"] == "H100"  # asked while it was there


def test_one_value_that_cannot_be_read_costs_no_other(tmp_path: Path) -> None:
    source = Recorded(1)
    monitor, fast, _ = opened(source, tmp_path)
    source.answers["0/power"] = Answer(state="error", reason="NVML code 999: Unknown Error")
    values = {one.name: value for one, value in zip(fast, monitor.sample(fast), strict=True)}
    assert [name for name, value in values.items() if value is None] == ["power"]
    assert "lost" not in monitor.facts()


def test_xid_events_gather(tmp_path: Path) -> None:
    source = Recorded(2, gpu0__xid=UNSUPPORTED)
    monitor, _, _ = opened(source, tmp_path)
    for codes in ([], [13], [79, 48]):
        source.answers["1/xid"] = Answer(codes)
        facts = monitor.facts()
    assert [(event["device"], event["code"]) for event in facts["xid"]] == [("gpu1", 13), ("gpu1", 79), ("gpu1", 48)]
    assert list(facts["xid_reasons"]) == ["gpu0"]


def test_without_any_events_they_are_unknown(tmp_path: Path) -> None:
    monitor, _, _ = opened(Recorded(1, gpu0__xid=UNSUPPORTED), tmp_path)
    assert monitor.facts()["xid"] is None


@pytest.mark.parametrize(
    ("visible", "pid", "used"),
    [
        ({}, None, ["gpu0", "gpu1"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, None, ["gpu1"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-0"}, None, ["gpu0"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, None, []),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, 77, ["gpu1"]),
    ],
)
def test_the_cards_of_the_run(tmp_path: Path, visible: dict[str, str], pid: int | None, used: list[str]) -> None:
    """Those that it sees, and once a rank (77) has a context on some, those."""
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "launch.json").write_text(json.dumps({"pid": 77}))
    listed = [{"pid": 77, "memory": 5}] if pid else []
    monitor, _, slow = opened(Recorded(2, gpu1__processes=listed), tmp_path, **visible)
    monitor.sample(slow)
    assert monitor.facts()["used"] == used
    assert list(monitor.facts()["processes"]) == used


def test_what_blocks_is_read_of_one_card_a_second_and_only_of_the_run_s(tmp_path: Path) -> None:
    monitor, _, slow = opened(Recorded(4), tmp_path, CUDA_VISIBLE_DEVICES="3,1")
    read = []
    for _ in range(4):
        values = zip(slow, monitor.sample(slow), strict=True)
        read.append([one.device for one, value in values if one.name == "pcie_tx" and value is not None])
    assert sorted(read[:2]) == [["gpu1"], ["gpu3"]]
    assert read[2:] == read[:2]
