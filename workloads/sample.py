"""A small realistic data folder of each workload, made from a seed: for tests and for files input without a path.

It goes the whole way that a user's data go: source files are written, then converted by make.py. What a workload's
source looks like is in `sample.py` beside its model.
"""

import tempfile
from pathlib import Path

from tfscale.suite import workload as workloads
from tfscale.workloads.make import make, sibling_module
from tfscale.workloads.records import DataError, read_manifest

VERSION = 1
"""Raised when the same seed gives other data, so that an older folder is not taken for a new one."""
FILES = 8


def write_sample(workload: str, preset: str, directory: Path, seed: int) -> Path:
    """The sample folder of (workload, preset, seed) inside `directory`, made now unless it is there already.

    Safe when several processes ask at once: each makes its own and the first to finish gives the folder its name.
    Does not import TensorFlow. Raises DataError for a workload without a sample.
    """
    name = f"{workloads.load(workload).name}-{preset}-seed{seed}-v{VERSION}"
    folder = directory / name
    if folder.exists():
        read_manifest(folder)
        return folder
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=directory) as scratch:
        source = Path(scratch) / "sample"
        source.mkdir()
        made = write_source(workload, preset, source, seed)
        try:
            make(workload, made, folder, preset=preset, seed=seed, files=FILES)
        except (OSError, DataError):
            if not folder.exists():
                raise
        read_manifest(folder)  # whoever made it: a folder appears whole
    return folder


def write_source(workload: str, preset: str, directory: Path, seed: int) -> Path:
    """Write source files for `tfscale data make` into the existing `directory`; the path to pass as `--from`."""
    shape = workloads.load(workload).shape(preset)
    path: Path = sibling_module(workload, "sample").write_source(shape, directory, seed)
    return path
