"""`cluster.tpu_vm` of a suite: the slice that the commands make and remove."""

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

from tfscale.suite.document import Document
from tfscale.suite.launchers.kubernetes.names import SetName


def _like(pattern: str, example: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{value!r} is not of the form of {example}")
        return value

    return check


class TpuVm(Document):
    """A slice of Cloud TPU VMs. Words: https://cloud.google.com/sdk/gcloud/reference/compute/tpus/tpu-vm/create."""

    name: SetName = "tfscale"
    zone: Annotated[str, AfterValidator(_like(r"[a-z]+-[a-z]+[0-9]+-[a-z]", "us-central2-b"))]
    project: Annotated[str, AfterValidator(_like(r"[a-z][-a-z0-9.:]{4,61}[a-z0-9]", "my-project"))] | None = None
    accelerator_type: Annotated[str, AfterValidator(_like(r"v[0-9]+[a-z]*-[0-9]{1,5}", "v4-32 or v5litepod-16"))]
    version: Annotated[str, AfterValidator(_like(r"tpu-vm-tf-[a-z0-9.-]{1,60}", "tpu-vm-tf-2.18.0-pod-pjrt"))]
    """The image of the VMs; `-pod` for a slice of several hosts
    (https://cloud.google.com/tpu/docs/runtimes)."""
