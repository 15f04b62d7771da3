"""The NVML source over the real binding, whose functions are replaced one by one where no card can answer."""

import ast
import ctypes
import inspect
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from tfscale.suite.sources import nvml, nvmlerrors, nvmlevents, nvmlfields
from tfscale.suite.sources.base import Answer, Source
from tfscale.suite.sources.nvmlfields import FIELDS, GPM, HOST

KEYS = [*HOST, *(f"0/{field}" for field in (*FIELDS, *GPM, "xid"))]


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> nvml.Nvml:
    """A source whose library opens; every function that a test does not replace answers `Uninitialized`."""
    monkeypatch.setattr(nvml.ctypes, "CDLL", lambda name: None)
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: f"card {index}")
    return nvml.Nvml()


def raising(error: Exception) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        raise error

    return call


def refused(code: int) -> Callable[..., Any]:
    return raising(pynvml.NVMLError(code))


def names_used() -> Iterator[str]:
    """Attributes of the binding in the source's modules, and its names in their strings."""
    for module in (nvml, nvmlerrors, nvmlevents, nvmlfields):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in (
                "nvml",
                "pynvml",
                "self._binding",
                "self._nvml",
            ):
                yield node.attr
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and re.fullmatch(r"(c_)?nvml[A-Z]\w+|NVML_\w+", node.value)
            ):
                yield node.value


def test_every_name_that_is_used_exists_in_the_binding() -> None:
    names = set(names_used())
    assert {
        "nvmlDeviceGetPowerUsage",
        "NVML_FI_DEV_MEMORY_TEMP",
        "c_nvmlGpmMetricsGet_t",
        "NVML_ERROR_TIMEOUT",
    } <= names
    assert len(names) > 70
    assert [name for name in sorted(names) if not hasattr(pynvml, name)] == []


@pytest.mark.parametrize(
    ("field", "number"),
    [
        *[("power_instant", 186), ("power_average", 185), ("temperature_memory", 82), ("pcie_replays", 94)],
        *[("violation_power", 74), ("violation_thermal", 75), ("violation_sync_boost", 76)],
        *[("violation_board_limit", 77), ("violation_reliability", 79), ("nvlink_tx", 138), ("nvlink_rx", 139)],
        *[("ecc_corrected", 3), ("ecc_uncorrected", 4), ("ecc_corrected_lifetime", 5), ("ecc_uncorrected_lifetime", 6)],
    ],
)
def test_field_ids_are_those_of_the_header(field: str, number: int) -> None:
    """NVML_FI_DEV_* in nvml.h."""
    assert getattr(pynvml, FIELDS[field].id) == number


def test_whatever_a_card_does_asking_does_not_raise(source: nvml.Nvml) -> None:
    for key in KEYS:
        answer = source.ask(key)
        assert (answer.value, answer.state) == (None, "error")
        assert "Uninitialized" in str(answer.reason)


@pytest.mark.parametrize("key", ["", "frobnication", "0/frobnication", "x/power", "0/0/power", "-1/power", "/power"])
def test_keys_that_mean_nothing_are_unsupported(source: nvml.Nvml, key: str) -> None:
    assert source.ask(key).state == "unsupported"


@pytest.mark.parametrize(
    ("code", "state", "word"),
    [
        (pynvml.NVML_ERROR_NOT_SUPPORTED, "unsupported", "does not support"),
        (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, "unsupported", "older than the call"),
        (pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "unsupported", "version"),
        (pynvml.NVML_ERROR_DEPRECATED, "unsupported", "given"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "no_permission", "may not"),
        (pynvml.NVML_ERROR_GPU_IS_LOST, "error", "GPU is lost"),
        (pynvml.NVML_ERROR_UNKNOWN, "error", "999"),
        (4242, "error", "4242"),
    ],
)
def test_codes(source: nvml.Nvml, monkeypatch: pytest.MonkeyPatch, code: int, state: str, word: str) -> None:
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", refused(code))
    answer = source.ask("0/power")
    assert (answer.state, answer.value) == (state, None)
    assert word in str(answer.reason)
    assert nvmlerrors.is_lost(answer) == (code == pynvml.NVML_ERROR_GPU_IS_LOST)


@pytest.mark.parametrize(
    ("code", "state", "word"),
    [
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "absent", "modprobe"),
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "absent", "no NVIDIA driver"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "error", "reboot"),
    ],
)
def test_a_driver_that_does_not_answer_is_told_for_everything(
    source: nvml.Nvml, monkeypatch: pytest.MonkeyPatch, code: int, state: str, word: str
) -> None:
    monkeypatch.setattr(pynvml, "nvmlInit", refused(code))
    answers = {source.ask(key) for key in KEYS}
    (answer,) = answers
    assert answer.state == state
    assert word in str(answer.reason)
    assert source.under("") == []


def test_values_are_in_base_units(source: nvml.Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", lambda handle: 123_456)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", lambda handle: 5_000)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPcieThroughput", lambda handle, which: 1000 * (which + 1))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", lambda handle: SimpleNamespace(gpu=97, memory=41))
    fields = ["power", "energy", "pcie_tx", "pcie_rx", "utilisation_gpu", "utilisation_memory"]
    found = [answer.value for answer in source.ask_many(0, fields)]
    assert found == pytest.approx([123.456, 5.0, 1e6, 2e6, 0.97, 0.41])


@pytest.mark.parametrize("name", ["Tesla V100", b"Tesla V100"])
def test_names_may_be_bytes_or_text(source: nvml.Nvml, monkeypatch: pytest.MonkeyPatch, name: str | bytes) -> None:
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda handle: name)
    assert source.ask("0/name").value == "Tesla V100"


def test_a_name_that_is_no_utf8_is_told_as_far_as_it_is_one(source: nvml.Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """The binding's own wrapper decodes and raises, as it did on WSL (gpuopenanalytics/pynvml issue 53)."""
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", pynvml.convertStrBytes(lambda handle: b"Tesla \xf8"))
    assert source.ask("0/name").value == "Tesla \N{REPLACEMENT CHARACTER}"


def field_values(given: dict[int, tuple[int, str, float]], calls: list[Any]) -> Callable[..., Any]:
    """nvmlDeviceGetFieldValues: id -> (return code, member of the union, value)."""
    kinds = ["dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal"]  # nvmlValueType_t of nvml.h, from 0

    def call(handle: Any, ids: Any) -> Any:
        calls.append(ids)
        values = (pynvml.c_nvmlFieldValue_t * len(ids))()
        for value, (number, _) in zip(values, ids, strict=True):
            value.nvmlReturn, member, found = given[number]
            value.valueType = kinds.index(member)
            setattr(value.value, member, found)
        return values

    return call


def test_field_ids_are_read_in_one_call_and_each_has_its_own_state(
    source: nvml.Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        186: (0, "uiVal", 602_000),
        185: (3, "uiVal", 7),
        82: (0, "siVal", -5),
        75: (0, "ullVal", 3_000_000_000),
        138: (0, "ullVal", 2**40),
        94: (4, "usVal", 0),
        6: (0, "dVal", 2.0),
        139: (0, "sllVal", 1),
        3: (0, "ulVal", 9),
        4: (0, "usVal", 8),
    }
    calls: list[Any] = []
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", field_values(given, calls))
    fields = ["power_instant", "power_average", "temperature_memory", "violation_thermal", "nvlink_tx", "pcie_replays"]
    fields += ["ecc_uncorrected_lifetime", "nvlink_rx", "ecc_corrected", "ecc_uncorrected"]
    answers = source.ask_many(0, fields)
    assert len(calls) == 1
    assert calls[0][4] == (138, 0xFFFFFFFF)  # all links: scopeId UINT_MAX, by nvml.h
    assert [answer.value for answer in answers] == [602.0, None, -5, 3.0, 2.0**50, None, 2.0, 1024.0, 9, 8]
    assert [answers[1].state, answers[5].state] == ["unsupported", "no_permission"]


def test_a_field_that_is_all_ones_is_no_value(source: nvml.Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML_VALUE_NOT_AVAILABLE, -1 in an unsigned number; a signed -1 is a number."""
    given = {82: (0, "uiVal", 2**32 - 1), 138: (0, "ullVal", 2**64 - 1), 139: (0, "ullVal", 2**32 - 1)}
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", field_values({**given, 3: (0, "siVal", -1)}, []))
    answers = source.ask_many(0, ["temperature_memory", "nvlink_tx", "nvlink_rx", "ecc_corrected"])
    assert [answer.state for answer in answers] == ["unsupported", "unsupported", "ok", "ok"]
    assert [answer.value for answer in answers] == [None, None, (2**32 - 1) * 1024, -1]
    assert answers[0].reason


@pytest.mark.parametrize("missing", ["in the driver", "in the binding"])
def test_temperature_by_the_call_that_is_there(
    source: nvml.Nvml, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """The older call goes with CUDA 14, the newer came with driver 570 or so."""
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTemperatureV", lambda handle, sensor: 61)
    assert source.ask("0/temperature").value == 61
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTemperature", lambda handle, sensor: 60)
    if missing == "in the driver":
        monkeypatch.setattr(pynvml, "nvmlDeviceGetTemperatureV", refused(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND))
    else:
        monkeypatch.delattr(pynvml, "nvmlDeviceGetTemperatureV")
    assert source.ask("0/temperature").value == 60


def test_a_call_that_answers_several_fields_is_made_once(source: nvml.Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def memory(handle: Any, version: Any = None) -> Any:
        calls.append(version)
        return SimpleNamespace(total=10, used=6, free=3, reserved=1)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", memory)
    fields = ["memory_total", "memory_used", "memory_free", "memory_reserved"]
    assert [answer.value for answer in source.ask_many(0, fields)] == [10, 6, 3, 1]
    assert calls == [pynvml.nvmlMemory_v2]


def test_older_drivers(source: nvml.Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the second version of the memory call, the newer name of the reasons, the third of process lists."""
    missing = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND

    def memory(handle: Any, version: Any = None) -> Any:
        return SimpleNamespace(total=10, used=7, free=3) if version is None else refused(missing)()

    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", memory)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", refused(missing))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", lambda handle: 0x44)
    for kind, pids in (("Compute", (7, 8)), ("Graphics", (8, 9))):
        listed = [
            SimpleNamespace(pid=pid, usedGpuMemory=None if pid == 8 and kind == "Graphics" else pid) for pid in pids
        ]
        monkeypatch.setattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses_v3", refused(missing))
        monkeypatch.setattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses_v2", lambda handle, found=listed: found)
    used, reserved, reasons, processes = source.ask_many(
        0, ["memory_used", "memory_reserved", "clock_reasons", "processes"]
    )
    assert (used.value, reserved.state, reasons.value) == (7, "unsupported", 0x44)
    assert processes.value == [{"pid": pid, "memory": pid} for pid in (7, 8, 9)]


def test_an_old_binding_is_named(source: nvml.Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """The PyPI package pynvml 11.4 once shadowed the official module."""
    monkeypatch.delattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption")
    monkeypatch.delattr(pynvml, "NVML_FI_DEV_POWER_INSTANT")
    for answer in source.ask_many(0, ["energy", "power_instant"]):
        assert answer.state == "unsupported"
        assert "nvidia-ml-py" in str(answer.reason)


def test_devices_are_listed_in_their_order(source: nvml.Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 11)
    assert source.under("") == [str(index) for index in range(11)]
    assert source.under("0") == []


class Recorded(Source):
    """Another machine's answers, by key."""

    name = "recorded"

    def ask(self, key: str) -> Answer:
        return Answer(key)

    def under(self, key: str) -> list[str]:
        return []


def test_a_recorded_machine_is_asked_one_field_at_a_time() -> None:
    assert [answer.value for answer in nvml.ask_many(Recorded(), 3, ["power", "xid"])] == ["3/power", "3/xid"]


def test_field_values_are_unpacked_as_the_binding_lays_them_out() -> None:
    value = pynvml.c_nvmlFieldValue_t()
    value.fieldId, value.scopeId, value.timestamp, value.latencyUsec = 1, 2, -3, -4
    value.valueType, value.nvmlReturn, value.value.ullVal = 5, 6, 7
    assert nvml._FIELD_VALUE.size == ctypes.sizeof(value)
    assert nvml._FIELD_VALUE.unpack(bytes(value)) == (1, 2, -3, -4, 5, 6, b"\x07" + bytes(7))
