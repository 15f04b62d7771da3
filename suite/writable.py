"""Whether a run folder can still be written. A run ends where it cannot: the next record would be lost as well."""

import errno
import os
import threading
from pathlib import Path

from tfscale.suite.rankfiles import write_atomic
from tfscale.suite.runfolder import SUITE

PROBE = ".probe"
"""Begins the name of a file that is written to see whether one can be."""
PROBE_BYTES = 1 << 20
"""More than a record and its blocks take."""
_ADVICE = {
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some space there, or have the quota raised",
    errno.EROFS: "mount it writable",
    errno.EACCES: "give yourself the right to write there",
}


class ResultsError(OSError):
    """Results cannot be written, or are gone. The message names the folder, the cause and what to do."""


def there(folder: Path) -> None:
    """Raise ResultsError where the run folder is gone. Cheap: one look."""
    if not (folder / SUITE).is_file():
        raise ResultsError(
            f"the run folder {folder} is gone: it was deleted, moved or unmounted while the run went on. "
            "Nothing more is written. Bring it back, and `--resume` runs what is missing"
        )


def check(folder: Path) -> None:
    """Raise ResultsError unless a record can be written into the run folder: one of its size is, and is removed."""
    there(folder)
    probe = folder / f"{PROBE}-{threading.get_ident()}"
    try:
        write_atomic(probe, os.urandom(PROBE_BYTES))  # a disk that compresses would find room for zeros
        probe.unlink()
    except OSError as error:
        raise unwritable(folder, error) from error


def unwritable(folder: Path, error: OSError) -> ResultsError:
    """What to say where `folder` cannot be written because of `error`."""
    advice = _ADVICE.get(error.errno or 0, "see that the disk works")
    return ResultsError(
        f"results cannot be written to {folder}: {error.strerror}. What is there is whole; {advice}, "
        "and `--resume` runs what is missing"
    )


def explained(folder: Path, error: OSError) -> OSError:
    """The trouble of the run folder that is behind `error`, or `error` itself where the folder is well."""
    if isinstance(error, ResultsError):
        return error
    try:
        check(folder)
    except ResultsError as trouble:
        return trouble
    return error
