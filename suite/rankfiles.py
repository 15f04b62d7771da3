"""What one rank leaves in its folder: `result.json` and `blocks.npz`, each written to a temporary name and renamed."""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESULT = "result.json"
BLOCKS = "blocks.npz"
LOG = "log.txt"
LOSSES = "losses.npz"


class SelfCheck(BaseModel):
    """Whether one step really combined the replicas' gradients; `passed` is None where there is nothing to combine."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    passed: bool | None
    detail: str


class RankResult(BaseModel):
    """One rank's own account of a timed pass. Durations in seconds, memory in bytes."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    rank: int
    replicas: int
    """Replicas in sync that this rank's strategy counted; asserted against the plan before training."""
    phases: dict[str, float]
    """import, join, build, check, trace, compile, first_step, ...: seconds spent in each."""
    effective: dict[str, Any]
    """What was really used, read back; a null has `<name>_reason` beside it."""
    counts: dict[str, int]
    """steps, samples, retraces, skipped_steps, parameters, gradient_bytes, ..."""
    self_check: SelfCheck
    memory_peak_bytes: dict[str, int | None]
    """host: peak resident set of the process; device: the allocator's peak, None on a CPU."""
    tail_s: list[float]
    """Durations of single steps from the stamped pass; empty where it was left out."""
    final_loss_scale: float | None = None
    exchange: dict[str, Any] = {}
    """How gradients travelled, where they did: bytes, none_bytes, handed (bytes by kind of collective), exact; encode_s
    and decode_s with repeats, or reason."""


TEMPORARY = ".tmp"
"""Ending of a file that is being written."""


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to a temporary name beside `path`, sync it to disk, and rename it into place.

    Raises OSError that names a file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except OSError as error:
        if error.filename is None:  # of a write, which knows a descriptor only
            error.filename = str(path)
        with contextlib.suppress(OSError):  # the folder may be gone, or read-only by now: the first error counts
            temporary.unlink(missing_ok=True)
        raise


def write_result(directory: Path, result: RankResult) -> None:
    write_atomic(directory / RESULT, result.model_dump_json(indent=1).encode())


def read_result(directory: Path) -> RankResult:
    return RankResult.model_validate_json((directory / RESULT).read_bytes())


def write_arrays(path: Path, arrays: "dict[str, NDArray[Any]]") -> None:
    """Write named arrays as a compressed npz, atomically."""
    import io

    import numpy as np

    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_atomic(path, buffer.getvalue())


def read_arrays(path: Path) -> "dict[str, NDArray[Any]]":
    import numpy as np

    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
