"""The NVML double through the real binding: each scenario says what its file's first lines say, in NVML's own layouts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import double
import pynvml
import pytest

_PREAMBLE = """
import json, os, sys, time
import pynvml as nvml

def ask(function, *arguments):
    try:
        return getattr(nvml, "nvml" + function)(*arguments)
    except (nvml.NVMLError, nvml.NVMLLibraryMismatchError) as error:
        return type(error).__name__

def fields(handle, *ids):
    return [[value.nvmlReturn, value.value.ullVal, value.valueType] for value in nvml.nvmlDeviceGetFieldValues(handle, ids)]

def reading(read):
    for _ in range(1000):
        told = [time.monotonic(), read(), time.monotonic()]
        if told[2] - told[0] < 0.002:
            return told
    sys.exit("no reading took less than 2 ms: this machine is too busy")

def growth(read):
    first = reading(read)
    time.sleep(0.25)
    second = reading(read)
    return [second[1] - first[1], second[0] - first[2], second[2] - first[0]]

def until(seconds):
    time.sleep(max(0.0, start + seconds - time.monotonic()))

start = time.monotonic()
initialised = ask("Init")
cards = [ask("DeviceGetHandleByIndex", index) for index in range(nvml.nvmlDeviceGetCount())] if not initialised else []
answers = {}
"""


def _answers(library: Path, scenario: str | Path, script: str, **variables: str) -> dict[str, Any]:
    """What `script` put into `answers`, run in a process of its own that loads the double."""
    whole = f"{_PREAMBLE}{script}\nprint(json.dumps(answers, default=vars))"
    settings = {**os.environ, **double.environment(library, scenario), **variables}
    run = subprocess.run([sys.executable, "-c", whole], env=settings, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert not run.stderr
    answers: dict[str, Any] = json.loads(run.stdout)
    return answers


def _grew(growth: list[float], rate: float) -> None:
    """The counter grew by `rate` a second: no less than between the readings, no more than around them; it is whole.

    The two bounds are at most 4 ms of 250 ms apart, 2 %.
    """
    grown, shortest, longest = growth
    assert rate * shortest - 1 <= grown <= rate * longest + 1
    assert longest - shortest <= 0.004


def test_a_healthy_node_names_its_cards_whichever_way_they_are_asked_for(nvml_double: Path) -> None:
    said = _answers(
        nvml_double,
        "healthy-8gpu",
        """
answers["driver"], answers["cuda"] = nvml.nvmlSystemGetDriverVersion(), nvml.nvmlSystemGetCudaDriverVersion_v2()
answers["cards"] = [[nvml.nvmlDeviceGetIndex(card), nvml.nvmlDeviceGetName(card)] for card in cards]
info = nvml.nvmlDeviceGetPciInfo(cards[1])
answers["pci"] = [info.busId, info.busIdLegacy, info.domain, info.bus, info.device]
uuids = [nvml.nvmlDeviceGetUUID(card) for card in cards]
answers["by_uuid"] = [nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByUUID(uuid)) for uuid in uuids]
ids = ["00000000:DF:00.0", "0000:1b:00.0"]
answers["by_pci"] = [nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByPciBusId(id)) for id in ids]
answers["unknown"] = [ask("DeviceGetHandleByIndex", 8), ask("DeviceGetHandleByUUID", "GPU-a"),
                      ask("DeviceGetHandleByPciBusId", "0000:1C:00.0")]
answers["shut"] = [ask("Shutdown"), ask("DeviceGetPowerUsage", cards[0]), ask("Shutdown")]
""",
    )
    assert (said["driver"], said["cuda"]) == ("550.54.15", 12040)
    assert said["cards"] == [[index, "NVIDIA H100 80GB HBM3"] for index in range(8)]
    assert said["pci"] == ["00000000:43:00.0", "0000:43:00.0", 0, 0x43, 0]
    assert said["by_uuid"] == list(range(8))
    assert said["by_pci"] == [7, 0]
    assert said["unknown"] == ["NVMLError_InvalidArgument", "NVMLError_NotFound", "NVMLError_NotFound"]
    assert said["shut"] == [None, "NVMLError_Uninitialized", "NVMLError_Uninitialized"]


def test_a_healthy_node_gives_every_gauge(nvml_double: Path) -> None:
    said = _answers(
        nvml_double,
        "healthy-8gpu",
        """
card = cards[0]
rates = nvml.nvmlDeviceGetUtilizationRates(card)
answers["utilisation"] = [rates.gpu, rates.memory]
one, two = nvml.nvmlDeviceGetMemoryInfo(card), nvml.nvmlDeviceGetMemoryInfo(card, nvml.nvmlMemory_v2)
answers["memory"] = [one.total, one.free, one.used]
answers["memory_v2"] = [two.total, two.reserved, two.free, two.used]
answers["wrong_version"] = ask("DeviceGetMemoryInfo", card, 0x01000028)
answers["power"] = [[nvml.nvmlDeviceGetPowerUsage(card) for card in cards], nvml.nvmlDeviceGetEnforcedPowerLimit(card)]
answers["clocks"] = [[ask("DeviceGetClockInfo", card, kind), ask("DeviceGetMaxClockInfo", card, kind)] for kind in range(4)]
answers["temperature"] = [nvml.nvmlDeviceGetTemperature(card, 0), nvml.nvmlDeviceGetTemperatureV(card, 0)]
answers["reasons"] = [ask(f"DeviceGetCurrentClocks{word}Reasons", cards[7]) for word in ("Event", "Throttle")]
answers["pcie"] = [ask("DeviceGet" + name, card) for name in ("CurrPcieLinkGeneration", "CurrPcieLinkWidth",
    "MaxPcieLinkGeneration", "MaxPcieLinkWidth", "PcieReplayCounter")]
began = time.monotonic()
answers["traffic"] = [nvml.nvmlDeviceGetPcieThroughput(card, 0), nvml.nvmlDeviceGetPcieThroughput(card, 1)]
answers["slept"] = time.monotonic() - began
answers["ecc"] = [[nvml.nvmlDeviceGetTotalEccErrors(card, error, kind) for error in (0, 1)] for kind in (0, 1)]
answers["modes"] = [ask("DeviceGet" + name, card) for name in ("MigMode", "PersistenceMode", "MaxMigDeviceCount")]
""",
    )
    total, used, reserved = 85520809984, 64424509440, 541065216
    assert said["utilisation"] == [97, 41]
    assert said["memory"] == [total, total - used - reserved, used + reserved]
    assert said["memory_v2"] == [total, reserved, total - used - reserved, used]
    assert said["wrong_version"] == "NVMLError_ArgumentVersionMismatch"
    assert said["power"] == [[600000] * 7 + [700000], 700000]
    assert said["clocks"] == [[1755, 1980], [1755, 1980], [2619, 2619], [1545, 1545]]
    assert said["temperature"] == [58, 58]
    assert said["reasons"] == [4, 4]
    assert said["pcie"] == [5, 16, 5, 16, 2]
    assert said["traffic"] == [120000, 340000]
    assert said["slept"] >= 0.04
    assert said["ecc"] == [[0, 0], [3, 0]]
    assert said["modes"] == [[0, 0], 1, 0]


def test_field_values_answer_one_by_one(nvml_double: Path) -> None:
    said = _answers(
        nvml_double,
        "healthy-8gpu",
        """
card, everything = cards[0], 2**32 - 1
answers["ecc"] = fields(card, 3, 4, 5, 6)
answers["mixed"] = fields(card, 82, 1, 186, 94, (185, 1), 190)
answers["links"] = [value[0] for value in fields(card, (138, 0), (138, 17), (138, 18), (138, everything))]
whole, link = fields(card, (139, everything), (139, 3))
answers["share"] = whole[1] / link[1]
value = nvml.nvmlDeviceGetFieldValues(card, [(140, everything)])[0]
answers["echo"] = [value.fieldId, value.scopeId, abs(value.timestamp / 1e6 - time.time())]
answers["none"] = ask("DeviceGetFieldValues", card, [])
""",
    )
    assert said["ecc"] == [[0, 0, 3], [0, 0, 3], [0, 3, 3], [0, 0, 3]]
    assert [value[0] for value in said["mixed"]] == [0, 3, 0, 0, 3, 0]
    assert [said["mixed"][index][1] for index in (0, 2, 3, 5)] == [71, 602000, 2, 700000]
    assert said["links"] == [0, 0, pynvml.NVML_ERROR_INVALID_ARGUMENT, 0]
    assert said["share"] == pytest.approx(18, rel=1e-4)
    assert said["echo"][:2] == [140, 2**32 - 1]
    assert said["echo"][2] < 5
    assert said["none"] == "NVMLError_InvalidArgument"


def test_counters_grow_at_the_stated_rate(nvml_double: Path) -> None:
    reads = {
        "nvml.nvmlDeviceGetTotalEnergyConsumption(cards[0])": 600_000,
        "fields(cards[0], 83)[0][1]": 600_000,
        "fields(cards[0], (138, 2**32 - 1))[0][1]": 1000,
        "fields(cards[7], 74)[0][1]": 200_000_000,
        "nvml.nvmlDeviceGetViolationStatus(cards[7], nvml.NVML_PERF_POLICY_POWER).violationTime": 200_000_000,
        "fields(cards[7], 75)[0][1]": 0,
    }
    script = """
first = [reading(read) for read in reads]
time.sleep(0.25)
second = [reading(read) for read in reads]
answers["all"] = [[b[1] - a[1], b[0] - a[2], b[2] - a[0]] for a, b in zip(first, second)]
"""
    said = _answers(nvml_double, "healthy-8gpu", f"reads = [{', '.join(f'lambda: {read}' for read in reads)}]{script}")
    for rate, grown in zip(reads.values(), said["all"], strict=True):
        _grew(grown, rate)


def test_gpm_needs_two_samples_of_one_card_in_order(nvml_double: Path) -> None:
    said = _answers(
        nvml_double,
        "healthy-8gpu",
        """
answers["supported"] = nvml.nvmlGpmQueryDeviceSupport(cards[0]).isSupportedDevice
samples = [nvml.nvmlGpmSampleAlloc() for _ in range(3)]
def metrics(first, second, *ids, version=1):
    asked = nvml.c_nvmlGpmMetricsGet_t()
    asked.version, asked.numMetrics, asked.sample1, asked.sample2 = version, len(ids), first, second
    for index, id in enumerate(ids):
        asked.metrics[index].metricId = id
    told = ask("GpmMetricsGet", asked)
    return told if isinstance(told, str) else [[told.metrics[i].nvmlReturn, told.metrics[i].value] for i in range(len(ids))]
for sample, card in zip(samples, (cards[0], cards[0], cards[1])):
    nvml.nvmlGpmSampleGet(card, sample)
    time.sleep(0.001)
answers["metrics"] = metrics(samples[0], samples[1], 2, 5, 10, 13)
answers["backwards"] = metrics(samples[1], samples[0], 2)
answers["two_cards"] = metrics(samples[0], samples[2], 2)
answers["version"] = metrics(samples[0], samples[1], 2, version=2)
answers["freed"] = [ask("GpmSampleFree", sample) for sample in samples]
""",
    )
    assert said["supported"] == 1
    assert said["metrics"] == [[0, 96.5], [0, 41.25], [0, 38.5], [3, 0.0]]
    assert said["backwards"] == said["two_cards"] == "NVMLError_InvalidArgument"
    assert said["version"] == "NVMLError_ArgumentVersionMismatch"
    assert said["freed"] == [None] * 3


def test_a_process_is_listed_by_number_by_file_or_not_at_all(nvml_double: Path, tmp_path: Path) -> None:
    script = "answers['running'] = nvml.nvmlDeviceGetComputeRunningProcesses(cards[0])"
    assert _answers(nvml_double, "healthy-8gpu", script)["running"] == []
    listed = {"pid": 4711, "usedGpuMemory": 64_000_000_000, "gpuInstanceId": 2**32 - 1, "computeInstanceId": 2**32 - 1}
    assert _answers(nvml_double, "healthy-8gpu", script, TFSCALE_NVML_PID="4711")["running"] == [listed]
    file = tmp_path / "pid"
    script = f"""
answers["before"] = nvml.nvmlDeviceGetComputeRunningProcesses(cards[0])
open({str(file)!r}, "w").write("4711\\n")
answers["running"] = nvml.nvmlDeviceGetComputeRunningProcesses(cards[0])
"""
    said = _answers(nvml_double, "healthy-8gpu", script, TFSCALE_NVML_PID=str(file))
    assert said == {"before": [], "running": [listed]}


def test_heat_slows_one_card_down_and_is_counted(nvml_double: Path) -> None:
    said = _answers(
        nvml_double,
        "throttling",
        """
def now(card):
    return [nvml.nvmlDeviceGetCurrentClocksEventReasons(card), nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM),
            nvml.nvmlDeviceGetTemperature(card, 0), fields(card, 75)[0][1]]
answers["cool"] = now(cards[0])
until(0.45)
answers["hot"] = now(cards[0])[:3]
answers["growth"] = growth(lambda: fields(cards[0], 75)[0][1])
until(0.85)
answers["brake"] = now(cards[0])[0]
answers["braked"] = growth(lambda: fields(cards[0], 77)[0][1])
answers["other"] = now(cards[1])
""",
    )
    assert said["cool"] == [0, 1410, 84, 0]
    assert said["hot"] == [0x48, 885, 93]
    _grew(said["growth"], 700_000_000)
    assert said["brake"] == 0xC8
    _grew(said["braked"], 300_000_000)
    assert said["other"] == [0, 1410, 64, 0]


def test_mig_devices_say_memory_and_processes_and_nothing_more(nvml_double: Path) -> None:
    said = _answers(
        nvml_double,
        "mig",
        """
parent = cards[0]
answers["modes"] = [nvml.nvmlDeviceGetMigMode(card)[0] for card in cards]
answers["most"] = [nvml.nvmlDeviceGetMaxMigDeviceCount(card) for card in cards]
parts = [nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, index) for index in (0, 1)]
answers["missing"] = [ask("DeviceGetMigDeviceHandleByIndex", *where) for where in ((parent, 2), (cards[1], 0))]
answers["parts"] = [[nvml.nvmlDeviceGetUUID(part), nvml.nvmlDeviceGetMemoryInfo(part).total,
    nvml.nvmlDeviceGetGpuInstanceId(part), nvml.nvmlDeviceIsMigDeviceHandle(part).value,
    nvml.nvmlDeviceGetPciInfo(part).bus] for part in parts]
answers["by_uuid"] = nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByUUID(answers["parts"][1][0]))
answers["up"] = nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(parts[1]))
answers["silent"] = [ask("DeviceGetUtilizationRates", parent)] + [ask("DeviceGet" + name, parts[0]) for name in
    ("UtilizationRates", "PowerUsage", "TotalEnergyConsumption")]
answers["running"] = [[[p.pid, p.gpuInstanceId, p.computeInstanceId] for p in ask("DeviceGetComputeRunningProcesses", card)]
    for card in (parent, *parts)]
answers["power"] = nvml.nvmlDeviceGetPowerUsage(parent)
""",
        TFSCALE_NVML_PID="4711",
    )
    assert (said["modes"], said["most"]) == ([1, 0], [7, 0])
    assert said["missing"] == ["NVMLError_NotFound", "NVMLError_NotSupported"]
    assert said["parts"] == [
        ["MIG-d0000000-0000-5000-8000-000000000000", 42144366592, 1, 1, 0x47],
        ["MIG-d1000000-0000-5000-8000-000000000001", 10468982784, 9, 1, 0x47],
    ]
    assert (said["by_uuid"], said["up"]) == ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 0)
    assert said["silent"] == ["NVMLError_NotSupported"] * 4
    assert said["running"] == [[[4711, 1, 0]], [[4711, 1, 0]], []]
    assert said["power"] == 210000


def test_a_consumer_card_says_what_it_cannot(nvml_double: Path) -> None:
    said = _answers(
        nvml_double,
        "consumer",
        """
card = cards[0]
names = ("PowerUsage", "EnforcedPowerLimit", "TotalEnergyConsumption", "MigMode")
answers["unsupported"] = [ask("DeviceGet" + name, card) for name in names]
answers["unsupported"] += [ask("DeviceGetTotalEccErrors", card, 0, 0), ask("DeviceGetFieldValues", card, [83, 186])]
answers["absent"] = [ask("DeviceGetCurrentClocksEventReasons", card), ask("DeviceGetMemoryInfo", card, nvml.nvmlMemory_v2)]
answers["old"] = [nvml.nvmlDeviceGetCurrentClocksThrottleReasons(card), nvml.nvmlDeviceGetMemoryInfo(card).used]
answers["gpm"] = [nvml.nvmlGpmQueryDeviceSupport(card).isSupportedDevice, ask("GpmSampleGet", card, nvml.nvmlGpmSampleAlloc())]
answers["processes"] = [nvml.nvmlDeviceGetComputeRunningProcesses(card), nvml.nvmlDeviceGetGraphicsRunningProcesses(card)]
answers["events"] = ask("DeviceRegisterEvents", card, nvml.nvmlEventTypeXidCriticalError, nvml.nvmlEventSetCreate())
""",
    )
    assert said["unsupported"] == ["NVMLError_NotSupported"] * 6
    assert said["absent"] == ["NVMLError_FunctionNotFound"] * 2
    assert said["old"] == [0, 2147483648]
    assert said["gpm"] == [0, "NVMLError_NotSupported"]
    none, (screen,) = said["processes"]
    assert (none, screen["pid"], screen["usedGpuMemory"]) == ([], 1, None)
    assert said["events"] == "NVMLError_NotSupported"


def test_a_lost_card_answers_nothing_any_more_and_the_other_does(nvml_double: Path) -> None:
    said = _answers(
        nvml_double,
        "lost",
        """
events = nvml.nvmlEventSetCreate()
for card in cards:
    nvml.nvmlDeviceRegisterEvents(card, nvml.nvmlEventTypeXidCriticalError, events)
late = nvml.nvmlEventSetCreate()
answers["early"] = ask("EventSetWait", events, 1)
event = nvml.nvmlEventSetWait(events, 5000)
answers["xid"] = [event.eventType, event.eventData, nvml.nvmlDeviceGetIndex(event.device), time.monotonic() - start >= 0.3]
nvml.nvmlDeviceRegisterEvents(cards[1], nvml.nvmlEventTypeXidCriticalError, late)
answers["late"] = ask("EventSetWait", late, 1)
answers["calls"] = [ask("DeviceGetPowerUsage", cards[1]) for _ in range(310)]
answers["after"] = [ask("DeviceGetHandleByIndex", 1), ask("DeviceGetFieldValues", cards[1], [83]),
    ask("EventSetWait", events, 1)]
answers["other"] = [nvml.nvmlDeviceGetPowerUsage(cards[0]) for _ in range(50)]
""",
    )
    assert said["early"] == said["late"] == "NVMLError_Timeout"
    assert said["xid"] == [8, 79, 1, True]
    before = 4  # the handle, two registrations and the event's index
    assert said["calls"] == [250000] * (299 - before) + ["NVMLError_GpuIsLost"] * (310 - 299 + before)
    assert said["after"] == ["NVMLError_GpuIsLost"] * 3
    assert said["other"] == [250000] * 50


def test_an_energy_counter_that_starts_again(nvml_double: Path) -> None:
    said = _answers(
        nvml_double,
        "energy-reset",
        """
read = lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(cards[0])
answers["before"], answers["growth"] = read(), growth(read)
until(0.55)
answers["after"], answers["again"] = read(), growth(read)
answers["power"] = nvml.nvmlDeviceGetPowerUsage(cards[0])
""",
    )
    assert said["before"] >= 900_000_000
    _grew(said["growth"], 300_000)
    assert 0 < said["after"] < 900_000_000 / 2
    _grew(said["again"], 300_000)
    assert said["power"] == 300_000


def test_a_library_that_does_not_match_its_driver(nvml_double: Path) -> None:
    said = _answers(
        nvml_double,
        "mismatch",
        """
answers["all"] = [initialised, ask("DeviceGetCount"), ask("SystemGetDriverVersion"), ask("DeviceGetHandleByIndex", 0)]
""",
    )
    assert said["all"] == ["NVMLError_LibRmVersionMismatch"] + ["NVMLError_Uninitialized"] * 3


def test_what_is_not_permitted_is_told_apart_from_what_is_not_supported(nvml_double: Path) -> None:
    said = _answers(
        nvml_double,
        "no-permission",
        """
card = cards[0]
answers["refused"] = [cards[1], ask("DeviceGetTotalEnergyConsumption", card), ask("DeviceGetMigMode", card),
    ask("DeviceGetTotalEccErrors", card, 1, 1), ask("DeviceGetComputeRunningProcesses", card),
    ask("DeviceGetGraphicsRunningProcesses", card), ask("DeviceRegisterEvents", card, 8, nvml.nvmlEventSetCreate())]
answers["values"] = [value[:2] for value in fields(card, 186, 83, 3, 82)]
answers["given"] = [nvml.nvmlDeviceGetPowerUsage(card), nvml.nvmlDeviceGetTemperature(card, 0)]
""",
    )
    assert said["refused"] == ["NVMLError_NoPermission"] * 7
    assert said["values"] == [[0, 181000], [4, 0], [4, 0], [3, 0]]
    assert said["given"] == [180000, 66]


_CARD = "device 0 uuid=GPU-0 pci=00000000:01:00.0 memory=1 name=Card\n"


def test_states_that_no_file_has(nvml_double: Path, tmp_path: Path) -> None:
    """A name that is no UTF-8, a call too new for the driver, our own process, a change after a number of calls."""
    scenario = tmp_path / "odd.txt"
    lines = b"* processes ok at 3calls !13\n* process compute pid=self memory=5\n* energy 10 at 5calls 1+0\n"
    scenario.write_bytes(_CARD.encode().replace(b"Card", b"Card \xff") + lines)
    said = _answers(
        nvml_double,
        scenario,
        """
try:
    answers["name"] = nvml.nvmlDeviceGetName(cards[0])
except UnicodeDecodeError as error:
    answers["name"] = type(error).__name__
""",
    )
    assert said["name"] == "UnicodeDecodeError"
    script = """
answers["energy"] = [nvml.nvmlDeviceGetTotalEnergyConsumption(cards[0])]
answers["processes"] = ask("DeviceGetGraphicsRunningProcesses", cards[0])
answers["energy"] += [nvml.nvmlDeviceGetTotalEnergyConsumption(cards[0]) for _ in range(2)]
answers["driver"] = ask("SystemGetDriverVersion")
"""
    said = _answers(nvml_double, scenario, script)
    assert said["energy"] == [10, 10, 1]
    assert said["processes"] == "NVMLLibraryMismatchError"
    assert said["driver"] == "NVMLError_NotSupported"
    scenario.write_text(f"{_CARD}* processes ok\n* process compute pid=self memory=5\n")
    script = "answers['own'] = [ask('DeviceGetComputeRunningProcesses', cards[0])[0].pid == os.getpid()]"
    assert _answers(nvml_double, scenario, script)["own"] == [True]


@pytest.mark.parametrize(
    "line",
    [
        "* powr 3",
        "* power",
        "* power 3W",
        "* power 1 at 2",
        "* power 1 at 2s",
        "1 power 3",
        "device 0 uuid=a",
        "init",
        "* power !0",
    ],
)
def test_a_line_that_is_not_understood_is_named(nvml_double: Path, tmp_path: Path, line: str) -> None:
    scenario = tmp_path / "wrong.txt"
    scenario.write_text(f"{_CARD}{line}\n")
    command = [sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"]
    settings = {**os.environ, **double.environment(nvml_double, scenario)}
    run = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert f"{scenario}:2 is not understood: {line}" in run.stderr
    assert "NVMLError_Unknown" in run.stderr


def test_every_function_of_the_double_is_one_that_the_binding_asks_for() -> None:
    source = (double.FOLDER / "nvml_double.c").read_text()
    own = set(re.findall(r"^(?:int|const char \*|UINT\(|ULL\(|TEXT\()\s*(nvml\w+)", source, re.MULTILINE))
    binding = Path(pynvml.__file__).read_text()
    asked = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', binding))
    assert len(own) > 50
    assert own - asked == {"nvmlInit_v2"}  # which older bindings ask for


def test_an_unknown_scenario_is_refused_with_the_known_ones(nvml_double: Path) -> None:
    with pytest.raises(FileNotFoundError, match="healthy-8gpu, lost, mig"):
        double.environment(nvml_double, "healty")
