"""What each device of a host did: one module a kind of device, tried in this order."""

from tfscale.suite.profiling.devices import cpu, gpu, tpu
from tfscale.suite.profiling.devices.base import Device
from tfscale.suite.profiling.table import HostTrace


def devices_of(trace: HostTrace, *, async_windows: bool = True) -> list[Device]:
    """The devices of a host, never merged. A host without an accelerator's events is a device itself.

    `async_windows=False` leaves TPU windows of asynchronous operations out, for comparison with other tools.
    """
    return gpu.devices(trace) or tpu.devices(trace, async_windows=async_windows) or cpu.devices(trace)
