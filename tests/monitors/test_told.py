"""Programs of other vendors. The fixtures have the shape of their documentation; neither was ever run here."""

import json
from pathlib import Path
from typing import Any

import pytest

from tfscale.suite.monitors import told
from tfscale.suite.monitors.amdsmi import AmdSmi
from tfscale.suite.monitors.base import Column, Target
from tfscale.suite.monitors.told import Telling
from tfscale.suite.monitors.tpu import Tpu
from tfscale.suite.sources.base import Answer, Source, Sources

CARD = {
    "gpu": 0,
    "usage": {
        "gfx_activity": {"value": 93, "unit": "%"},
        "umc_activity": {"value": 40, "unit": "%"},
        "mm_activity": "N/A",
    },
    "power": {"socket_power": {"value": 512, "unit": "W"}, "throttle_status": "UNTHROTTLED"},
    "clock": {
        "gfx_0": {"clk": {"value": 2100, "unit": "MHz"}, "max_clk": {"value": 2100, "unit": "MHz"}},
        "mem_0": {"clk": {"value": 1300, "unit": "MHz"}},
    },
    "temperature": {"edge": "N/A", "hotspot": {"value": 71, "unit": "C"}, "mem": "N/A"},
    "pcie": {"width": 16, "replay_count": 3},
    "ecc": {"total_correctable_count": 2, "total_uncorrectable_count": 0},
    "energy": {"total_energy_consumption": {"value": 8110.5, "unit": "J"}},
    "mem_usage": {"total_vram": {"value": 196288, "unit": "MB"}, "used_vram": {"value": 1024, "unit": "MB"}},
}
AMD = {
    "utilisation_gpu": 0.93,
    "utilisation_memory": 0.40,
    "memory_used": 2**30,
    "power": 512,
    "energy": 8110.5,
    "clock_gfx": 2100,
    "clock_memory": 1300,
    "temperature": 71,
    "temperature_memory": None,
    "ecc_corrected": 2,
    "ecc_uncorrected": 0,
    "pcie_replays": 3,
}
TPU_INFO = """
TPU Chips
┏━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━┳━━━━━━┓
┃ Chip        ┃ Type         ┃ Devices ┃ PID  ┃
┡━━━━━━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━╇━━━━━━┩
│ /dev/vfio/0 │ TPU v6e chip │ 1       │ 4711 │
│ /dev/vfio/1 │ TPU v6e chip │ 1       │ 4711 │
└─────────────┴──────────────┴─────────┴──────┘
TPU Runtime Utilization
┏━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━┓
┃ Device ┃ HBM usage            ┃ Duty cycle ┃
┡━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━┩
│ 0      │ 16.00 GiB / 32.00 GiB │    99.50% │
│ 1      │ 0.50 GiB / 32.00 GiB  │       N/A │
└────────┴──────────────────────┴────────────┘
TensorCore Utilization
┏━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━┓
┃ Chip ID ┃ TensorCore Utilization ┃
┡━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━┩
│ 0       │ 13.60%                 │
│ 1       │ 0.00%                  │
└─────────┴────────────────────────┘
"""
IDLE = TPU_INFO.partition("TPU Runtime")[0]


class Commands(Source):
    """One answer to every command; the commands that were asked."""

    name = "commands"

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def ask(self, key: str) -> Answer:
        self.asked.append(key)
        return self.answer

    def under(self, key: str) -> list[str]:
        return []


def printed(stdout: str, rc: int = 0, stderr: str = "") -> Answer:
    return Answer({"rc": rc, "stdout": stdout, "stderr": stderr})


def monitor(kind: type[Telling], answer: Answer) -> tuple[Telling, Commands]:
    commands = Commands(answer)
    return kind(Sources(commands, commands, commands), Target(Path(), {})), commands


def sampled(kind: type[Telling], answer: Answer) -> tuple[dict[str, Column], dict[str, float | None]]:
    """Columns by key, and the second reading of those that are ok."""
    one, _ = monitor(kind, answer)
    columns = {column.key: column for column in one.columns()}
    one._asked = None
    good = [column for column in columns.values() if column.state == "ok"]
    return columns, dict(zip([column.key for column in good], one.sample(good), strict=True))


@pytest.mark.parametrize("document", [[CARD], {"gpu_data": [CARD]}])
def test_an_amd_card(document: Any) -> None:
    columns, values = sampled(AmdSmi, printed(json.dumps(document)))
    assert values == pytest.approx({f"amd0/{name}": value for name, value in AMD.items() if value is not None})
    missing = columns["amd0/temperature_memory"]
    assert (missing.state, bool(missing.reason)) == ("unsupported", True)
    units = {column.name: (column.unit, column.kind) for column in columns.values()}
    assert units["energy"] == ("J", "counter")
    assert units["memory_used"] == ("B", "gauge")


def test_a_tpu_at_work() -> None:
    columns, values = sampled(Tpu, printed(TPU_INFO))
    assert values == pytest.approx(
        {
            "tpu0/memory_used": 2**34,
            "tpu0/memory_total": 2**35,
            "tpu0/duty_cycle": 0.995,
            "tpu0/tensorcore_utilisation": 0.136,
            "tpu1/memory_used": 2**29,
            "tpu1/memory_total": 2**35,
            "tpu1/tensorcore_utilisation": 0.0,
        }
    )
    assert columns["tpu1/duty_cycle"].state == "unsupported"


@pytest.mark.parametrize("kind", [AmdSmi, Tpu])
@pytest.mark.parametrize(
    ("answer", "state", "word"),
    [
        (Answer(state="absent", reason="it is not installed"), "absent", "not installed"),
        (printed("", 255, "Traceback\nno driver"), "error", "no driver"),
        (printed("Segmentation fault"), "error", "not understood"),
    ],
)
def test_without_figures_there_is_one_column_with_the_reason(
    kind: type[Telling], answer: Answer, state: str, word: str
) -> None:
    columns, values = sampled(kind, answer)
    (column,) = columns.values()
    assert (column.state, column.device, values) == (state, None, {})
    assert word in str(column.reason)


@pytest.mark.parametrize(("kind", "stdout"), [(AmdSmi, "[]"), (Tpu, IDLE)])
def test_no_device_with_figures_is_unsupported(kind: type[Telling], stdout: str) -> None:
    (column,) = sampled(kind, printed(stdout))[0].values()
    assert (column.state, "names no device" in str(column.reason)) == ("unsupported", True)


def test_json_of_another_shape_is_an_error() -> None:
    (column,) = sampled(AmdSmi, printed('{"gpus": 3}'))[0].values()
    assert column.state == "error"


def test_the_program_is_not_run_at_each_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    one, commands = monitor(Tpu, printed(TPU_INFO))
    now = [100.0]
    monkeypatch.setattr(told.time, "monotonic", lambda: now[0])
    columns = [column for column in one.columns() if column.state == "ok"]
    told_at = []
    for now[0] in range(101, 125):
        if None not in one.sample(columns):
            told_at.append(now[0])
    assert told_at == [110, 120]
    assert commands.asked == ["tpu-info"] * 3
