"""The checkpoints of one rank on disk: which are whole, and how one becomes so. No TensorFlow.

A checkpoint of step s is some files of data and, written last, `step-<s>.json`: the manifest that names them with their
sizes and holds what is no tensor. Data is on disk before the manifest is renamed into place, so a rank that dies at any
moment leaves either a whole checkpoint or none of that step. What has no manifest, or not the sizes in it, is never used.
"""

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tfscale.suite.rankfiles import write_atomic

_MANIFEST = re.compile(r"^step-([0-9]{1,15})\.json$")


class Progress(BaseModel):
    """What is no tensor: counts since the start of training, and the loss of every step until then."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    step: int
    samples: int
    skipped: int
    losses: list[float]
    """Of each call, which is a step unless the case has several a call."""


class Manifest(BaseModel):
    """The last-written file of a checkpoint. `files`: name -> bytes."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    world: int
    """Ranks of the job that saved: another number has other state."""
    files: dict[str, int]
    progress: Progress


class NoCheckpointError(RuntimeError):
    """A checkpoint that should be gone on from is not there, not whole, or of another job."""


class Checkpoints:
    """The folder of one rank's checkpoints."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def kept(self) -> list[int]:
        """Steps of which there is a whole checkpoint, ascending."""
        steps = (int(match[1]) for path in self.folder.iterdir() if (match := _MANIFEST.match(path.name)))
        return sorted(step for step in steps if self._whole(step) is not None)

    def commit(self, files: Iterable[Path], world: int, progress: Progress) -> int:
        """Make `files`, which are in the folder, the checkpoint of that step; its bytes. Raises OSError."""
        sizes = {}
        for file in files:
            _sync(file)
            sizes[file.name] = file.stat().st_size
        manifest = Manifest(world=world, files=sizes, progress=progress)
        write_atomic(self._path(progress.step), manifest.model_dump_json().encode())
        _sync(self.folder)
        return sum(sizes.values())

    def read(self, step: int, world: int) -> Manifest:
        """The manifest of the whole checkpoint of `step` by a job of `world` ranks. Raises NoCheckpointError."""
        found = self._whole(step)
        if found is None:
            raise NoCheckpointError(
                f"no whole checkpoint of step {step} in {self.folder} (whole: {self.kept() or 'none'}); a host must see "
                "in later launches what its ranks saved in earlier ones"
            )
        if found.world != world:
            raise NoCheckpointError(
                f"the checkpoint of step {step} in {self.folder} is of {found.world} ranks, not {world}"
            )
        return found

    def forget(self, steps: Iterable[int]) -> None:
        """Remove the checkpoints of `steps`, each manifest before its data."""
        for step in steps:
            found = self._whole(step)
            self._path(step).unlink(missing_ok=True)
            for name in found.files if found else ():
                (self.folder / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder: the training is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step}.json"

    def _whole(self, step: int) -> Manifest | None:
        try:
            manifest = Manifest.model_validate_json(self._path(step).read_bytes())
            sizes = {name: (self.folder / name).stat().st_size for name in manifest.files if name == Path(name).name}
        except (OSError, ValidationError):
            return None
        return manifest if sizes == manifest.files and manifest.progress.step == step else None


def _sync(path: Path) -> None:
    """Have the kernel put a file, or a folder's entries, on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
