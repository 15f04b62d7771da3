"""What NVML tells of the cards themselves: names, memory, bus addresses, driver. Asked once, not sampled."""

import ctypes
from collections.abc import Callable
from typing import Any, ClassVar

from tfscale.suite.sources.base import Answer, Source, State

LIBRARY = "libnvidia-ml.so.1"


class Nvml(Source):
    """Keys: `driver`, `cuda_driver`, `count`, `<index>/name`, `<index>/pci`, `<index>/memory_total` (bytes).

    Field names and codes are those of the NVML API reference. Never run here on a real card.
    """

    name: ClassVar[str] = "nvml"

    def __init__(self) -> None:
        self._binding: Any = None
        self._missing: Answer | None = None

    def ask(self, key: str) -> Answer:
        closed = self._open()
        if closed is not None:
            return closed
        index, _, field = key.rpartition("/")
        read = (_DEVICE if index else _HOST).get(field)
        if read is None:
            return Answer(state="unsupported", reason=f"{key} is not something that is read from NVML here")
        try:
            handle = [self._binding.nvmlDeviceGetHandleByIndex(int(index))] if index else []
            return Answer(read(self._binding, *handle))
        except self._binding.NVMLError as error:
            return _refusal(self._binding, error)

    def under(self, key: str) -> list[str]:
        count = self.ask("count")
        return sorted(str(index) for index in range(count.value)) if count.ok and not key else []

    def _open(self) -> Answer | None:
        """None once NVML is initialised, else the answer to everything."""
        if self._binding is not None or self._missing is not None:
            return self._missing
        try:
            ctypes.CDLL(LIBRARY)  # asked first: the binding takes longer to import than most commands run
        except OSError:
            self._missing = Answer(state="absent", reason=f"{LIBRARY} is not there: no NVIDIA driver")
            return self._missing
        import pynvml

        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self._missing = _refusal(pynvml, error)
            return self._missing
        self._binding = pynvml
        return None


def _refusal(nvml: Any, error: Any) -> Answer:
    states: dict[int, State] = {
        nvml.NVML_ERROR_LIBRARY_NOT_FOUND: "absent",
        nvml.NVML_ERROR_DRIVER_NOT_LOADED: "absent",
        nvml.NVML_ERROR_NOT_SUPPORTED: "unsupported",
        nvml.NVML_ERROR_FUNCTION_NOT_FOUND: "unsupported",
        nvml.NVML_ERROR_NO_PERMISSION: "no_permission",
    }
    return Answer(state=states.get(error.value, "error"), reason=str(error))


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


_HOST: dict[str, Callable[..., Any]] = {
    "driver": lambda nvml: _text(nvml.nvmlSystemGetDriverVersion()),
    "cuda_driver": lambda nvml: int(nvml.nvmlSystemGetCudaDriverVersion_v2()),
    "count": lambda nvml: int(nvml.nvmlDeviceGetCount()),
}
_DEVICE: dict[str, Callable[..., Any]] = {
    "name": lambda nvml, handle: _text(nvml.nvmlDeviceGetName(handle)),
    "pci": lambda nvml, handle: _text(nvml.nvmlDeviceGetPciInfo(handle).busId),
    "memory_total": lambda nvml, handle: int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
}
