"""The command itself: which sources are read, and whether what they said is kept."""

from collections.abc import Callable
from pathlib import Path

from tfscale.suite.doctor.examine import examine
from tfscale.suite.doctor.findings import Examination
from tfscale.suite.environment import Process
from tfscale.suite.sources import bundle
from tfscale.suite.sources.here import here


def run(suite: str | None, *, seconds: float, record: Path | None, tell: Callable[[str], None]) -> Examination:
    """Examine this machine; with `record`, write every answer of its sources, redacted, into that new folder.

    Raises ValueError or OSError for a suite that cannot be read or a folder that cannot be written.
    """
    process = Process.here()
    if record is None:
        return examine(here(), process, suite=suite, seconds=seconds, tell=tell)
    if record.exists() and (not record.is_dir() or any(record.iterdir())):
        raise FileExistsError(f"--record {record} is there already: a bundle goes into a new folder")
    recorded = bundle.recording(here())
    found = examine(recorded, process, suite=suite, seconds=seconds, tell=tell)
    bundle.write(record, recorded, process.document())
    return found
