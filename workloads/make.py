"""`tfscale data make`: turn a user's own data into a folder of TFRecord files, without TensorFlow.

What is particular to a workload is in `source.py` beside its model: `Options` (a pydantic model) and
`convert(source, writer, shape, options, seed, progress)`, which writes records and returns `Converted`.
"""

import importlib
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from tfscale.suite import workload as workloads
from tfscale.workloads.records import DataError, Manifest, RecordWriter, write_manifest

Progress = Callable[[int, int, str], None]
"""Called with (done, total, unit) now and then."""
DEFAULT_FILES = 16
"""Divisible by the usual numbers of pipelines, so that each opens only its own files."""


@dataclass
class Converted:
    """What a conversion tells about its data, for the manifest."""

    shape: dict[str, int]
    facts: dict[str, Any] = field(default_factory=dict)
    skipped: int = 0


def silent(done: int, total: int, unit: str) -> None:
    """A progress callback that shows nothing."""


def make(
    workload: str,
    source: Path,
    out: Path,
    *,
    preset: str | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    files: int = DEFAULT_FILES,
    progress: Progress = silent,
) -> Manifest:
    """Convert `source` for `preset` of `workload` into the new folder `out`, which appears whole or not at all.

    Without a preset it is the smallest one. The same source, preset, options, seed and number of files give the same
    bytes. Raises DataError for a source that cannot be used, with the place in it, and for an `out` already in use.
    """
    named = workloads.load(workload)
    preset = preset or next(iter(named.presets))
    module, shape = sibling_module(workload, "source"), named.shape(preset)
    chosen = _options(module, named.name, dict(options or {}))
    if not source.exists():
        raise DataError(f"--from {source} does not exist")
    _refuse_used(out)
    with _appearing_whole(out) as directory, RecordWriter(directory, files) as writer:
        converted: Converted = module.convert(source, writer, shape, chosen, seed, progress)
        manifest = writer.manifest(
            workload=named.name,
            skipped=converted.skipped,
            seed=seed,
            source=source.resolve().name,
            shape=converted.shape,
            facts={"preset": preset, **converted.facts},
        )
        write_manifest(directory, manifest)
    return manifest


def sibling_module(workload: str, name: str) -> ModuleType:
    """The module `name` beside a workload's model module. Raises DataError where the workload has none."""
    full = f"{workloads.load(workload).model_module.rpartition('.')[0]}.{name}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name == full:
            raise DataError(f"workload {workload} has no module {full}, so there are no data of it to make") from None
        raise


def _options(module: ModuleType, workload: str, options: dict[str, Any]) -> Any:
    try:
        return module.Options(**options)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        allowed = ", ".join(module.Options.model_fields) or "none"
        raise DataError(f"option {name} of {workload} data: {first['msg']} (options: {allowed})") from None


def _refuse_used(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"--out {out} already holds something; name a new folder, or remove this one")


@contextmanager
def _appearing_whole(out: Path) -> Iterator[Path]:
    """A temporary folder beside `out` that takes its name when the block ends well, and vanishes when it does not."""
    out.parent.mkdir(parents=True, exist_ok=True)
    directory = out.parent / f".{out.name}.{secrets.token_hex(4)}.tmp"
    directory.mkdir()  # not by tempfile, whose folders are for one user only, whatever the umask says
    try:
        yield directory
        directory.replace(out)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def require(package: str) -> ModuleType:
    """Import an optional package of the `data` extra, or raise DataError saying how to install it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError:
        raise DataError(f"this needs the package {package}; install it with: pip install 'tfscale[data]'") from None


def files_below(source: Path, suffixes: Iterable[str], what: str) -> list[Path]:
    """The files of a folder (or the one file given) that end in `suffixes`, sorted; hidden ones left out.

    Raises DataError when there is none, with what was found instead.
    """
    wanted = tuple(suffixes)
    if source.is_file():
        return [source]
    everything = [path for path in source.rglob("*") if path.is_file() and not path.name.startswith(".")]
    found = sorted(path for path in everything if path.name.lower().endswith(wanted))
    if not found:
        others = ", ".join(sorted({path.suffix or path.name for path in everything})[:5])
        held = f"it holds {len(everything)} other files ({others})" if everything else "it is empty"
        raise DataError(f"{source} holds no {what} ({', '.join(wanted)}): {held}")
    return found
