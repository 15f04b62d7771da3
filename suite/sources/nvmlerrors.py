"""What NVML's return codes mean for whoever asked: a state, and a reason with what to do about it."""

from typing import Any

from tfscale.suite.sources.base import Answer, State

OLD_BINDING = "the installed pynvml is too old for this: install nvidia-ml-py 12.560 or later"
_NO_MODULE = "load it (modprobe nvidia); in a container, start that with its GPUs (docker run --gpus all)"
KNOWN: dict[str, tuple[State, str]] = {
    "NVML_ERROR_NOT_SUPPORTED": ("unsupported", "the card or its driver does not support this"),
    "NVML_ERROR_FUNCTION_NOT_FOUND": ("unsupported", "the driver is older than the call"),
    "NVML_ERROR_ARGUMENT_VERSION_MISMATCH": ("unsupported", "the driver knows another version of this call only"),
    "NVML_ERROR_DEPRECATED": ("unsupported", "the driver has given this call up"),
    "NVML_ERROR_INVALID_ARGUMENT": ("unsupported", "the driver does not know this (invalid argument)"),
    "NVML_ERROR_NOT_FOUND": ("absent", "NVML does not find it"),
    "NVML_ERROR_NO_PERMISSION": ("no_permission", "this user may not read it"),
    "NVML_ERROR_GPU_IS_LOST": (
        "error",
        "GPU is lost: it fell off the bus; look for Xid 79 in the kernel's log, and reset the card or reboot",
    ),
    "NVML_ERROR_LIBRARY_NOT_FOUND": ("absent", "libnvidia-ml.so.1 is not there: no NVIDIA driver"),
    "NVML_ERROR_DRIVER_NOT_LOADED": ("absent", f"the NVIDIA kernel module is not loaded: {_NO_MODULE}"),
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": (
        "error",
        "the NVIDIA library and the kernel module are of different versions, as after an update of the driver: "
        "reboot, or reload the module; in a container, use the host's library",
    ),
}
"""Name of a return code -> state and reason. Codes as documented for nvmlReturn_t; the others are errors."""


def refusal(nvml: Any, code: int) -> Answer:
    """The answer where NVML returned `code`, anything but success."""
    for name, (state, reason) in KNOWN.items():
        if code == getattr(nvml, name, None):
            return Answer(state=state, reason=reason)
    try:
        said = str(nvml.NVMLError(code))
    except UnicodeDecodeError:
        said = "a text that is no UTF-8"
    return Answer(state="error", reason=f"NVML code {code}: {said}")


def is_lost(answer: Answer) -> bool:
    """Whether the card is gone for good."""
    return answer.state == "error" and str(answer.reason).startswith("GPU is lost")


def failure(nvml: Any, error: Exception) -> Answer:
    """The answer where a call raised: a return code, or what the binding itself makes of an answer."""
    if isinstance(error, nvml.NVMLError):
        return refusal(nvml, int(error.value))
    if isinstance(error, NotImplementedError):
        return Answer(state="unsupported", reason=str(error))
    if isinstance(error, AttributeError):
        return Answer(state="unsupported", reason=f"{OLD_BINDING} ({error})")
    return Answer(state="error", reason=f"{type(error).__name__}: {error}")
