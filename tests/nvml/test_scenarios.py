"""The nvml monitor on every scenario: which columns it has, in which state, with which values in base units."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import double
import pytest

Run = Callable[..., dict[str, Any]]

USE = {"utilisation_gpu", "utilisation_memory", "memory_used", "memory_reserved"}
ALWAYS = {*USE, "clock_sm", "clock_reasons", "temperature"}
PCIE = {"pcie_generation", "pcie_width", "pcie_tx", "pcie_rx"}
ECC = {"ecc_corrected", "ecc_uncorrected", "ecc_corrected_lifetime", "ecc_uncorrected_lifetime"}
VIOLATIONS = {f"violation_{name}" for name in ("power", "thermal", "sync_boost", "board_limit", "reliability")}
GPM = {"gpm_tensor", "gpm_dram", "gpm_nvlink_rx", "gpm_nvlink_tx"}
OTHERS = {"energy", "power", "power_limit", "power_instant", "power_average", "processes"}
OTHERS |= {"clock_memory", "temperature_memory", "pcie_replays", "nvlink_tx", "nvlink_rx"}
ALL = ALWAYS | PCIE | ECC | VIOLATIONS | GPM | OTHERS
"""What the issue asks to be sampled; a column that is neither ok nor not permitted below is unsupported."""
V100 = ALWAYS | {"energy", "power", "power_limit", "processes"}

STATES: list[tuple[str, str, set[str], set[str]]] = [
    *[("healthy-8gpu", f"gpu{index}", ALL, set()) for index in range(8)],
    *[
        ("throttling", card, V100 | VIOLATIONS | {"clock_memory", "temperature_memory"}, set())
        for card in ("gpu0", "gpu1")
    ],
    ("mig", "gpu0", (V100 | {"clock_memory"}) - {"utilisation_gpu", "utilisation_memory"}, set()),
    ("mig", "gpu1", V100 | {"clock_memory"}, set()),
    ("consumer", "gpu0", ALWAYS - {"memory_reserved"} | PCIE | {"clock_memory", "processes"}, set()),
    ("lost", "gpu0", V100, set()),
    ("lost", "gpu1", V100, set()),
    ("energy-reset", "gpu0", V100, set()),
    ("no-permission", "gpu0", ALWAYS | {"power", "power_instant", "power_limit"}, {"energy", "processes", *ECC}),
    ("no-permission", "gpu1", set(), ALL),
]
SAMPLES = {"throttling": (4, 0.3), "lost": (60, 0.02), "energy-reset": (8, 0.12)}
"""How many samples and how far apart, where three at once will not do."""
VISIBLE = {"healthy-8gpu": {"CUDA_VISIBLE_DEVICES": "GPU-a6000000-0000-4000-8000-000000000006,GPU-a3"}}
"""What the ranks see, where a test says nothing of it."""


@pytest.fixture(scope="module")
def monitored(nvml_double: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What the monitor said of a scenario, which runs once for each set of arguments."""
    known: dict[str, dict[str, Any]] = {}

    def run(scenario: str, visible: dict[str, str] | None = None, rank: int | None = None) -> dict[str, Any]:
        visible = VISIBLE.get(scenario, {}) if visible is None else visible
        key = json.dumps([scenario, visible, rank])
        if key in known:
            return known[key]
        folder = tmp_path_factory.mktemp("trial")
        settings = {**os.environ, **double.environment(nvml_double, scenario)}
        if rank is not None:
            (folder / "rank0").mkdir()
            (folder / "rank0" / "launch.json").write_text(json.dumps({"pid": rank}))
            settings["TFSCALE_NVML_PID"] = str(rank)
        samples, period_s = SAMPLES.get(scenario, (3, 0.05))
        script = str(double.FOLDER / "monitored.py")
        command = [sys.executable, script, str(folder), str(samples), str(period_s), json.dumps(visible)]
        done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        known[key] = json.loads(done.stdout)
        return known[key]

    return run


def _series(said: dict[str, Any], key: str) -> list[Any]:
    """The values of a column, sample by sample."""
    group = "slow" if said["columns"][key]["slow"] else "fast"
    return [values[key] for _, _, values in said[group]]


def _grew(said: dict[str, Any], key: str, first: int, last: int, rate: float, step: float) -> None:
    """A column grew by `rate` a second between two samples; `step` is one of the counter's own units."""
    group = "slow" if said["columns"][key]["slow"] else "fast"
    (a0, a1, one), (b0, b1, other) = said[group][first], said[group][last]
    assert rate * (b0 - a1) - 1.01 * step <= other[key] - one[key] <= rate * (b1 - a0) + 1.01 * step


@pytest.mark.parametrize(("scenario", "card", "ok", "refused"), STATES)
def test_each_column_has_the_state_that_the_card_gives(
    monitored: Run, scenario: str, card: str, ok: set[str], refused: set[str]
) -> None:
    columns = {c["name"]: c for c in monitored(scenario)["columns"].values() if c["device"] == card}
    assert set(columns) >= ALL
    states = {name: columns[name]["state"] for name in ALL}
    expected = {name: "ok" if name in ok else "no_permission" if name in refused else "unsupported" for name in ALL}
    assert states == expected
    assert all((column["reason"] is None) == (column["state"] == "ok") for column in columns.values())
    assert all(column["reason"] is None or len(column["reason"]) > 10 for column in columns.values())


@pytest.mark.parametrize("scenario", [file.stem for file in sorted(double.SCENARIOS.glob("*.txt"))])
def test_a_column_that_is_not_ok_is_never_sampled_and_an_ok_one_always_has_a_value(
    monitored: Run, scenario: str
) -> None:
    said = monitored(scenario)
    ok = {key for key, column in said["columns"].items() if column["state"] == "ok"}
    sampled = {key for group in ("fast", "slow") for _, _, values in said[group] for key in values}
    assert sampled == ok
    if scenario == "lost":
        return
    in_turn = ("/pcie_tx", "/pcie_rx")
    assert all(None not in _series(said, key) for key in ok if not key.endswith(in_turn))


def test_the_values_of_a_healthy_card_are_in_base_units(monitored: Run) -> None:
    said = monitored("healthy-8gpu")
    expected = {
        "utilisation_gpu": (0.97, "1"),
        "utilisation_memory": (0.41, "1"),
        "memory_used": (64424509440, "B"),
        "memory_reserved": (541065216, "B"),
        "power": (600, "W"),
        "power_average": (598, "W"),
        "power_instant": (602, "W"),
        "power_limit": (700, "W"),
        "clock_sm": (1755, "MHz"),
        "clock_memory": (2619, "MHz"),
        "clock_reasons": (0, "bits"),
        "temperature": (58, "C"),
        "temperature_memory": (71, "C"),
        "pcie_generation": (5, "1"),
        "pcie_width": (16, "lanes"),
        "pcie_replays": (2, "1"),
        "ecc_corrected": (0, "1"),
        "ecc_corrected_lifetime": (3, "1"),
        "gpm_tensor": (0.4125, "1"),
        "gpm_dram": (0.385, "1"),
        "gpm_nvlink_rx": (2**20, "B/s"),
        "processes": (0, "1"),
    }
    last = {name: (_series(said, f"gpu3/{name}")[-1], said["columns"][f"gpu3/{name}"]["unit"]) for name in expected}
    assert last == {name: (pytest.approx(value), unit) for name, (value, unit) in expected.items()}
    assert _series(said, "gpu7/clock_reasons") == [4, 4, 4]
    counters = {column["name"] for column in said["columns"].values() if column["kind"] == "counter"}
    assert counters >= {"energy", "nvlink_tx", "nvlink_rx", "pcie_replays", *VIOLATIONS, *ECC}
    assert not counters & {"power", "temperature", "utilisation_gpu", "memory_used", "clock_reasons"}


def test_pcie_throughput_is_read_of_one_card_at_a_time(monitored: Run) -> None:
    said = monitored("healthy-8gpu")
    for _, _, values in said["slow"]:
        read = [values[f"gpu{index}/pcie_tx"] for index in range(8)]
        assert sorted(filter(None, read)) == [120_000_000]
        assert [values[f"gpu{index}/pcie_rx"] for index in range(8)] == [value and 340_000_000 for value in read]


def test_the_counters_of_a_healthy_card_grow_at_the_stated_rates(monitored: Run) -> None:
    said = monitored("healthy-8gpu")
    for card in ("gpu0", "gpu7"):
        _grew(said, f"{card}/energy", 0, -1, 600, 1e-3)
        _grew(said, f"{card}/nvlink_tx", 0, -1, 1000 * 1024, 1024)  # the sum of 18 links
        _grew(said, f"{card}/violation_thermal", 0, -1, 0, 1e-9)
    _grew(said, "gpu7/violation_power", 0, -1, 0.2, 1e-9)
    _grew(said, "gpu6/violation_power", 0, -1, 0, 1e-9)


def test_the_cards_are_described(monitored: Run) -> None:
    devices = monitored("healthy-8gpu")["facts"][-1]["devices"]
    assert list(devices) == [f"gpu{index}" for index in range(8)]
    one = devices["gpu1"]
    assert one["name"] == "NVIDIA H100 80GB HBM3"
    assert one["uuid"] == "GPU-a1000000-0000-4000-8000-000000000001"
    assert (one["pci"], one["memory_total"]) == ("00000000:43:00.0", 85520809984)
    assert (one["clock_sm_max"], one["pcie_generation_max"], one["pcie_width_max"]) == (1980, 5, 16)


def test_a_card_that_slows_down_from_heat(monitored: Run) -> None:
    said = monitored("throttling")
    masks, clocks = _series(said, "gpu0/clock_reasons"), _series(said, "gpu0/clock_sm")
    assert masks == sorted(masks)
    assert set(masks) <= {0, 0x48, 0xC8}
    assert masks[-1] == 0xC8
    assert clocks == [885 if mask else 1410 for mask in masks]
    _grew(said, "gpu0/violation_thermal", -2, -1, 0.7, 1e-9)
    assert set(_series(said, "gpu1/clock_reasons")) == {0}
    assert set(_series(said, "gpu1/violation_thermal")) == {0}


def test_a_divided_card_has_power_of_the_whole_and_no_utilisation(monitored: Run) -> None:
    said = monitored("mig")
    assert "MIG" in said["columns"]["gpu0/utilisation_gpu"]["reason"]
    assert set(_series(said, "gpu0/power")) == {210}
    facts = said["facts"][-1]["devices"]
    assert [facts[card]["mig_mode"] for card in ("gpu0", "gpu1")] == [1, 0]
    assert "MIG" in facts["gpu0"]["scope"]
    assert "scope" not in facts["gpu1"]


@pytest.mark.parametrize(
    ("scenario", "wanted", "used"),
    [
        ("mig", "MIG-d1000000-0000-5000-8000-000000000001", ["gpu0"]),
        ("mig", "GPU-c1", ["gpu1"]),
        ("mig", "1,0", ["gpu0", "gpu1"]),
        ("mig", "-1", []),
        ("healthy-8gpu", None, ["gpu3", "gpu6"]),
    ],
)
def test_the_run_s_own_cards_are_found_by_what_it_sees(
    monitored: Run, scenario: str, wanted: str | None, used: list[str]
) -> None:
    visible = None if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    assert monitored(scenario, visible)["facts"][-1]["used"] == used


def test_a_rank_on_an_instance_is_the_run_s_own(monitored: Run) -> None:
    facts = monitored("mig", rank=os.getpid())["facts"][-1]
    assert facts["used"] == ["gpu0"]
    ((process,),) = facts["processes"].values()
    assert (process["pid"], process["own"], process["memory"]) == (os.getpid(), True, 21_000_000_000)


def test_a_consumer_card_lists_a_process_that_hides_its_memory(monitored: Run) -> None:
    said = monitored("consumer")
    (process,) = said["facts"][-1]["processes"]["gpu0"]
    assert (process["pid"], process["memory"], process["own"]) == (1, None, False)
    described = said["facts"][-1]["devices"]["gpu0"]
    assert described["power_limit"] is None
    assert described["reasons"]["power_limit"]
    assert said["facts"][-1]["xid"] is None


def test_a_lost_card_has_no_values_any_more_and_the_other_goes_on(monitored: Run) -> None:
    said = monitored("lost")
    power = _series(said, "gpu1/power")
    gone = power.index(None)
    assert power[:gone] == [250] * gone
    assert gone > 1
    after = [values for _, _, values in said["fast"][gone + 1 :] + said["slow"][gone + 1 :]]
    assert after
    assert {value for values in after for key, value in values.items() if key.startswith("gpu1/")} == {None}
    assert _series(said, "gpu0/power") == [250] * len(power)
    facts = said["facts"][-1]
    assert list(facts["lost"]) == ["gpu1"]
    assert "lost" in facts["lost"]["gpu1"]
    assert [(event["device"], event["code"]) for event in facts["xid"]] == [("gpu1", 79)]


@pytest.mark.parametrize("told_at", ["0.2s", "0.4s"])
def test_why_a_card_was_lost_is_told_with_or_after_the_loss(nvml_double: Path, tmp_path: Path, told_at: str) -> None:
    """Lost at 0.2 s; its Xid comes with that, or when a sample has already found it lost."""
    scenario = tmp_path / "late.txt"
    text = (double.SCENARIOS / "lost.txt").read_text()
    scenario.write_text(text.replace("1 all ok at 300calls", "1 all ok at 0.2s").replace("at 0.3s", f"at {told_at}"))
    settings = {**os.environ, **double.environment(nvml_double, scenario)}
    command = [sys.executable, str(double.FOLDER / "monitored.py"), str(tmp_path), "12", "0.05", "{}"]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout)["facts"][-1]
    assert list(last["lost"]) == ["gpu1"]
    assert [(event["device"], event["code"]) for event in last["xid"]] == [("gpu1", 79)]


def test_an_energy_counter_that_starts_again_is_told_as_it_is(monitored: Run) -> None:
    said = monitored("energy-reset")
    energy = _series(said, "gpu0/energy")
    falls = [index for index in range(1, len(energy)) if energy[index] < energy[index - 1]]
    assert len(falls) == 1
    assert energy[falls[0] - 1] >= 900_000
    assert energy[-1] < 3000
    _grew(said, "gpu0/energy", falls[0], -1, 300, 1e-3)
    # An integer of 64 bits never comes back to 0 by counting at this rate.
    assert said["columns"]["gpu0/energy"]["wraps_at"] > 1e15


def test_without_a_matching_library_there_is_a_reason_and_no_card(monitored: Run) -> None:
    said = monitored("mismatch")
    columns = said["columns"].values()
    assert columns
    assert {(column["device"], column["state"]) for column in columns} == {(None, "error")}
    assert all("version" in column["reason"] for column in columns)
    assert said["facts"][-1] == {}
