"""What a rank says of the error that ends it, on messages that TensorFlow really wrote."""

import errno
import os
import signal
import time
from pathlib import Path

import pytest

from tfscale.suite import faults


class ResourceExhaustedError(Exception):
    """Named as TensorFlow's."""


class InvalidArgumentError(Exception):
    """Named as TensorFlow's."""


class UnknownError(Exception):
    """Named as TensorFlow's."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "oom"),
        (ResourceExhaustedError("OOM when allocating tensor with shape[8192,8192]"), "oom"),
        (ResourceExhaustedError("/data/x: No space left on device"), "disk_full"),
        (OSError(errno.ENOSPC, "No space left on device"), "disk_full"),
        (OSError(errno.EADDRINUSE, "Address already in use"), "port_in_use"),
        (UnknownError("Could not start gRPC server"), "port_in_use"),
        (
            InvalidArgumentError(
                "Detected unsupported operations when trying to compile graph __inference_f_10[] on XLA_CPU_JIT: Unique"
            ),
            "xla_unsupported",
        ),
        (ValueError("loss is odd\nsecond line"), "ValueError: loss is odd"),
        (ValueError(), "ValueError: "),
    ],
)
def test_reason(error: Exception, reason: str) -> None:
    assert faults.describe(error)[0] == reason


def test_the_cause_counts() -> None:
    try:
        try:
            raise MemoryError
        except MemoryError as cause:
            raise RuntimeError("building failed") from cause
    except RuntimeError as error:
        reason, detail = faults.describe(error)
    assert reason == "oom"
    assert "building failed" in detail
    assert "MemoryError" in detail


def test_sigusr1_writes_stacks(tmp_path: Path) -> None:
    faults.dump_stacks_on_signal(tmp_path)
    os.kill(os.getpid(), signal.SIGUSR1)
    deadline = time.monotonic() + 2
    while not (text := (tmp_path / faults.STACKS).read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "test_sigusr1_writes_stacks" in text
