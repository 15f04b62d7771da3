"""What NVML tells only over time: the GPU performance monitor between two samples, and Xid events as they come.

By the NVML API reference; never run here on a real card. Samples and event sets live as long as the process.
"""

import time
from typing import Any

from tfscale.suite.sources.nvmlfields import GPM

LEAST_BETWEEN_S = 0.1
"""The reference advises at least 100 ms between two samples."""


class Gpm:
    """The metrics of GPM of one card: means since the last time they were asked for."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        """Raises NVMLError; NotImplementedError where the card has no GPM."""
        self._nvml, self._handle = nvml, handle
        if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            raise NotImplementedError("the card has no GPU performance monitor (GPM), which came with Hopper")
        self._samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
        self._taken = 0.0
        self._take()

    def read(self) -> dict[str, tuple[int, float]]:
        """Field -> (NVML's return code, value in the unit of GPM). Waits 0.1 s only right after the first sample."""
        time.sleep(max(0.0, self._taken + LEAST_BETWEEN_S - time.monotonic()))
        self._take()
        nvml = self._nvml
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(GPM)
        asked.sample1, asked.sample2 = self._samples
        for number, (metric, _, _) in enumerate(GPM.values()):
            asked.metrics[number].metricId = getattr(nvml, metric)
        nvml.nvmlGpmMetricsGet(asked)
        found = [asked.metrics[number] for number in range(len(GPM))]
        return {
            field: (int(metric.nvmlReturn), float(metric.value) * factor)
            for (field, (_, _, factor)), metric in zip(GPM.items(), found, strict=True)
        }

    def _take(self) -> None:
        """A new sample in place of the older of the two, and behind the other."""
        older, newer = self._samples
        self._nvml.nvmlGpmSampleGet(self._handle, older)
        self._samples = [newer, older]
        self._taken = time.monotonic()


class Xids:
    """Critical errors of one card, as the driver reports them."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        """Raises NVMLError, where the card reports none for one."""
        self._nvml = nvml
        self._set = nvml.nvmlEventSetCreate()
        try:
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._set)
        except nvml.NVMLError:
            nvml.nvmlEventSetFree(self._set)
            raise

    def read(self) -> list[int]:
        """The codes of the events since it was last asked, without waiting for any."""
        nvml = self._nvml
        codes: list[int] = []
        while len(codes) < 100:  # a card in trouble can report faster than anybody reads
            try:
                event = nvml.nvmlEventSetWait_v2(self._set, 0)
            except nvml.NVMLError as error:
                if codes or error.value == nvml.NVML_ERROR_TIMEOUT:
                    break  # what else went wrong comes again with the next question; these codes do not
                raise
            codes.append(int(event.eventData))
        return codes
