"""The environment that a run or a record was made in, read from disk."""

from pathlib import Path
from typing import Any

from tfscale.suite import store
from tfscale.suite.runfolder import StoreError


def environment_of(path: Path) -> tuple[str, dict[str, Any]]:
    """The name of the run or record at `path` and its environment; of a results folder, the newest run's.

    Raises ValueError (StoreError, UnreadableError) where there is none.
    """
    if path.is_file():
        record = store.read_record(path)
        return record.id, record.environment
    found = store.load_run(path).run
    kept = found.environment or next((record.environment for record in found.records if record.environment), {})
    if not kept:
        raise StoreError(f"{path}: neither the run {found.run} nor one of its records holds an environment")
    return found.run, kept
