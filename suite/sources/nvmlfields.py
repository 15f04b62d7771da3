"""What is read of a card through NVML: each field's call, unit and scale, as data.

Names, ids and units are those of the NVML API reference and of nvml.h; values answer in base units (`factor` turns
NVML's mW, mJ, ns, KiB into W, J, s, B). None of this was ever run here on a real card: a double of the library stands in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

ALL_LINKS = 0xFFFFFFFF
"""scopeId of the NVLink throughput fields for the sum over all links of the card."""
KIB, MIB = 1024.0, 1024.0**2


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Field:
    """One field: either a `call` of CALLS (one call can answer several fields), or a field id of nvmlDeviceGetFieldValues."""

    unit: str
    """Of the answer; empty where it is no number."""
    call: str = ""
    pick: Callable[[Any], Any] = _same
    """What of the call's answer this field is."""
    id: str = ""
    """Name of the field id; all that are asked for together are read in one call."""
    scope: int = 0
    factor: float | None = None
    """What NVML's number is multiplied by; None leaves it as it is."""


def text_of(read: Callable[..., Any], *arguments: Any) -> str:
    """A string of NVML, which bindings give as bytes or str; one that is no UTF-8 has its odd bytes replaced.

    The official binding decodes inside a wrapper and raises there (seen on WSL), so the function under it is asked again.
    """
    try:
        value = read(*arguments)
    except UnicodeDecodeError:
        value = getattr(read, "__wrapped__", read)(*arguments)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _memory(nvml: Any, handle: Any) -> Any:
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError as error:
        # Before driver 510 there was only version 1, which counts what the driver reserves as used.
        if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        return nvml.nvmlDeviceGetMemoryInfo(handle)


def _clock_reasons(nvml: Any, handle: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:  # its name before driver 535
            raise
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def _temperature(nvml: Any, handle: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU))
    except AttributeError:  # a binding that only has the older call, which is to go with CUDA 14
        return int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        return int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))


def _processes(nvml: Any, handle: Any) -> list[dict[str, int | None]]:
    """Processes with a compute or a graphics context: pid, and bytes of the card's memory (None where it is hidden)."""
    found: dict[int, int | None] = {}
    listed = _listed(
        nvml, handle, nvml.nvmlDeviceGetComputeRunningProcesses_v3, "nvmlDeviceGetComputeRunningProcesses_v2"
    )
    try:
        drawing = nvml.nvmlDeviceGetGraphicsRunningProcesses_v3
        listed = [*listed, *_listed(nvml, handle, drawing, "nvmlDeviceGetGraphicsRunningProcesses_v2")]
    except nvml.NVMLError as error:
        if error.value not in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
            raise  # a card without a display engine has compute processes only, which is no failure
    for process in listed:
        memory = process.usedGpuMemory
        found[int(process.pid)] = int(memory) if memory is not None else found.get(int(process.pid))
    return [{"pid": pid, "memory": memory} for pid, memory in sorted(found.items())]


def _listed(nvml: Any, handle: Any, newest: Callable[[Any], Sequence[Any]], older: str) -> Sequence[Any]:
    try:
        return newest(handle)
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        found: Sequence[Any] = getattr(nvml, older)(handle)
        return found


def _instances(nvml: Any, handle: Any) -> list[str]:
    """Identifiers (`MIG-...`) of the instances that a card is divided into."""
    found = []
    for number in range(int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_INVALID_ARGUMENT):
                continue  # numbers have gaps
            raise
        found.append(text_of(nvml.nvmlDeviceGetUUID, instance))
    return found


def _reserved(memory: Any) -> int:
    if not hasattr(memory, "reserved"):
        raise NotImplementedError("the driver is older than version 2 of nvmlDeviceGetMemoryInfo (510)")
    return int(memory.reserved)


HOST: dict[str, Callable[[Any], Any]] = {
    "driver": lambda nvml: text_of(nvml.nvmlSystemGetDriverVersion),
    "cuda_driver": lambda nvml: int(nvml.nvmlSystemGetCudaDriverVersion_v2()),
    "count": lambda nvml: int(nvml.nvmlDeviceGetCount()),
}

Call = Callable[[Any, Any], Any]
"""From the binding and a card's handle to what NVML answers."""

CALLS: dict[str, Call] = {
    "name": lambda nvml, handle: text_of(nvml.nvmlDeviceGetName, handle),
    "uuid": lambda nvml, handle: text_of(nvml.nvmlDeviceGetUUID, handle),
    "pci": lambda nvml, handle: text_of(lambda: nvml.nvmlDeviceGetPciInfo(handle).busId),
    "utilisation": lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle),
    "memory": _memory,
    "power": lambda nvml, handle: nvml.nvmlDeviceGetPowerUsage(handle),
    "power_limit": lambda nvml, handle: nvml.nvmlDeviceGetEnforcedPowerLimit(handle),
    "energy": lambda nvml, handle: nvml.nvmlDeviceGetTotalEnergyConsumption(handle),
    "clock_sm": lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
    "clock_memory": lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
    "clock_sm_max": lambda nvml, handle: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
    "clock_memory_max": lambda nvml, handle: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM),
    "clock_reasons": _clock_reasons,
    "temperature": _temperature,
    "pcie_generation": lambda nvml, handle: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
    "pcie_width": lambda nvml, handle: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
    "pcie_generation_max": lambda nvml, handle: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle),
    "pcie_width_max": lambda nvml, handle: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle),
    "pcie_tx": lambda nvml, handle: nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_TX_BYTES),
    "pcie_rx": lambda nvml, handle: nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_RX_BYTES),
    "mig_mode": lambda nvml, handle: int(nvml.nvmlDeviceGetMigMode(handle)[0]),
    "mig_instances": _instances,
    "persistence": lambda nvml, handle: int(nvml.nvmlDeviceGetPersistenceMode(handle)),
    "processes": _processes,
}

FIELDS: dict[str, Field] = {
    "name": Field("", "name"),
    "uuid": Field("", "uuid"),
    "pci": Field("", "pci"),
    "memory_total": Field("B", "memory", lambda memory: int(memory.total)),
    "memory_used": Field("B", "memory", lambda memory: int(memory.used)),
    "memory_free": Field("B", "memory", lambda memory: int(memory.free)),
    "memory_reserved": Field("B", "memory", _reserved),
    # Share of the last 1/6 to 1 s, by card, in which a kernel ran (the memory was accessed): no measure of how full it was.
    "utilisation_gpu": Field("1", "utilisation", lambda rates: rates.gpu, factor=1e-2),
    "utilisation_memory": Field("1", "utilisation", lambda rates: rates.memory, factor=1e-2),
    # A mean over the last second on Ampere (GA100 excepted) and later, the present draw before and on A100.
    "power": Field("W", "power", factor=1e-3),
    "power_instant": Field("W", id="NVML_FI_DEV_POWER_INSTANT", factor=1e-3),
    "power_average": Field("W", id="NVML_FI_DEV_POWER_AVERAGE", factor=1e-3),
    "power_limit": Field("W", "power_limit", factor=1e-3),
    "energy": Field("J", "energy", factor=1e-3),
    "clock_sm": Field("MHz", "clock_sm"),
    "clock_memory": Field("MHz", "clock_memory"),
    "clock_sm_max": Field("MHz", "clock_sm_max"),
    "clock_memory_max": Field("MHz", "clock_memory_max"),
    "clock_reasons": Field("bits", "clock_reasons"),
    "temperature": Field("C", "temperature"),
    "temperature_memory": Field("C", id="NVML_FI_DEV_MEMORY_TEMP"),
    "violation_power": Field("s", id="NVML_FI_DEV_PERF_POLICY_POWER", factor=1e-9),
    "violation_thermal": Field("s", id="NVML_FI_DEV_PERF_POLICY_THERMAL", factor=1e-9),
    "violation_sync_boost": Field("s", id="NVML_FI_DEV_PERF_POLICY_SYNC_BOOST", factor=1e-9),
    "violation_board_limit": Field("s", id="NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT", factor=1e-9),
    "violation_reliability": Field("s", id="NVML_FI_DEV_PERF_POLICY_RELIABILITY", factor=1e-9),
    "pcie_generation": Field("1", "pcie_generation"),
    "pcie_width": Field("lanes", "pcie_width"),
    "pcie_generation_max": Field("1", "pcie_generation_max"),
    "pcie_width_max": Field("lanes", "pcie_width_max"),
    "pcie_replays": Field("1", id="NVML_FI_DEV_PCIE_REPLAY_COUNTER"),
    # Measured over 20 ms, for which each call blocks; NVML's KB are taken as 1000 bytes.
    "pcie_tx": Field("B/s", "pcie_tx", factor=1e3),
    "pcie_rx": Field("B/s", "pcie_rx", factor=1e3),
    "nvlink_tx": Field("B", id="NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", scope=ALL_LINKS, factor=KIB),
    "nvlink_rx": Field("B", id="NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", scope=ALL_LINKS, factor=KIB),
    "ecc_corrected": Field("1", id="NVML_FI_DEV_ECC_SBE_VOL_TOTAL"),
    "ecc_uncorrected": Field("1", id="NVML_FI_DEV_ECC_DBE_VOL_TOTAL"),
    "ecc_corrected_lifetime": Field("1", id="NVML_FI_DEV_ECC_SBE_AGG_TOTAL"),
    "ecc_uncorrected_lifetime": Field("1", id="NVML_FI_DEV_ECC_DBE_AGG_TOTAL"),
    "mig_mode": Field("", "mig_mode"),
    "mig_instances": Field("", "mig_instances"),
    "persistence": Field("", "persistence"),
    "processes": Field("", "processes"),
}

GPM: dict[str, tuple[str, str, float]] = {
    "gpm_tensor": ("NVML_GPM_METRIC_ANY_TENSOR_UTIL", "1", 1e-2),
    "gpm_dram": ("NVML_GPM_METRIC_DRAM_BW_UTIL", "1", 1e-2),
    "gpm_nvlink_rx": ("NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", "B/s", MIB),
    "gpm_nvlink_tx": ("NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", "B/s", MIB),
}
"""Field -> (metric of the GPU performance monitor, Hopper and later; unit; factor). Means between two samples."""
XID = "xid"
"""Field: the Xid codes of the errors that the driver reported since it was last asked."""
