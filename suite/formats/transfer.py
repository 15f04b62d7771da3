"""`tfscale export` and `tfscale import`: what touches files. Everything is read and checked before anything is written."""

import csv
import hashlib
import io
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from tfscale.suite import registry
from tfscale.suite.formats.base import Format, Given, Read, Results, Table
from tfscale.suite.formats.forms import ExportAnswer, ImportAnswer, Imported, Origin
from tfscale.suite.rankfiles import write_atomic
from tfscale.suite.runfolder import dump, utc_now

IMPORTED = "imported"
"""Folder of the results that holds what was imported, a folder a file."""
DOCUMENT = "imported.json"
SERIES = "series.csv"
MOST = 256 * 2**20
"""Bytes of the largest file that is read."""
_BEGIN = 4096


def load(name: str, direction: str) -> Format:
    """The format `name`, which can do `direction` ("write" or "read"). Raises UnknownNameError, ValueError."""
    registry.check("formats", name)
    found: Format = registry.load("formats", name)
    if getattr(found, direction) is None:
        able = [other for other in sorted(registry.names("formats")) if _can(other, direction)]
        verb = {"write": "exported", "read": "imported"}[direction]
        raise ValueError(f"--format {name} cannot be {verb}; these can: {', '.join(able)}")
    return found


def _can(name: str, direction: str) -> bool:
    return getattr(registry.load("formats", name), direction) is not None


def export(path: Path, name: str, output: Path) -> ExportAnswer:
    """Write the results at `path` to `output`. Raises ValueError for bad input, OSError where it cannot be written."""
    chosen = load(name, "write")
    assert chosen.write is not None
    _check_target(output, name, chosen)
    results = Results(path)
    written = chosen.write(results)
    if chosen.ending is None:
        write_atomic(output.resolve(), written.files[""])
    else:
        _write_folder(output, written.files)
    return ExportAnswer(
        format=name,
        file=str(output),
        files=len(written.files),
        runs=tuple(dict.fromkeys(record.run for record in written.records)),
        records=tuple(record.id for record in written.records),
        lost=(*chosen.loses, *written.lost),
        skipped=tuple(results.warnings),
    )


def _check_target(output: Path, name: str, chosen: Format) -> None:
    """Only a file of the same format is replaced: a record that was named by mistake is not. Raises ValueError."""
    if not output.exists():
        return
    if chosen.ending is not None:
        if not output.is_dir():
            raise ValueError(f"-o {output} is not a folder; {name} writes a folder of files")
        other = next((path for path in sorted(output.rglob("*")) if not _ours(path, chosen.ending)), None)
        if other is not None:
            raise ValueError(f"-o {output} holds {other.name}, which is no {name} export; name a folder of its own")
        return
    if not output.is_file():
        raise ValueError(f"-o {output} is not a file that can be replaced; name a file")
    with output.open("rb") as stream:
        begin = stream.read(_BEGIN)
    if begin.strip() and not chosen.recognise(begin):
        raise ValueError(f"-o {output} is not a {name} file, and only those are replaced; name another file")


def _ours(path: Path, ending: str) -> bool:
    return path.name.endswith(ending) if path.is_file() else path.is_dir() and not path.is_symlink()


def _write_folder(output: Path, files: Mapping[str, bytes]) -> None:
    """The folder whole or not at all: made beside its place, then moved there."""
    target = output.resolve()
    made = target.with_name(f".{target.name}.tmp")
    if made.exists():
        shutil.rmtree(made)
    for path, data in files.items():
        write_atomic(made / path, data)
    if target.exists():
        shutil.rmtree(target)
    made.rename(target)


def import_(file: Path, name: str, results: Path, options: Mapping[str, str]) -> ImportAnswer:
    """Read `file` into documents under `results`. Raises ValueError for bad input, OSError where it cannot be written."""
    chosen = load(name, "read")
    assert chosen.read is not None
    for option in options:
        if option not in chosen.options:
            raise registry.UnknownNameError(f"--option of {name}", option, list(chosen.options))
    if results.exists() and not results.is_dir():
        raise ValueError(f"--results {results} is not a folder")
    given = _given(file, name, options)
    read = chosen.read(given)
    folder = results / IMPORTED / f"{name}-{given.origin.sha256[:12]}"
    files = {folder / document: dump(content) for document, content in read.documents.items()}
    series = _series(read, folder, name)
    for path, data in {**files, **series}.items():
        write_atomic(path, data)
    return ImportAnswer(
        origin=given.origin,
        files=tuple(map(str, files)),
        series=next(map(str, series), None),
        rows=read.rows,
        lost=read.lost,
        notes=read.notes,
    )


def _given(file: Path, name: str, options: Mapping[str, str]) -> Given:
    if not file.is_file():
        raise ValueError(f"{file} is not a file that can be read" if file.exists() else f"{file} does not exist")
    size = file.stat().st_size
    if size > MOST:
        raise ValueError(f"{file}: {size:,} bytes; at most {MOST:,} are read")
    data = file.read_bytes()
    origin = Origin(
        file=file.name, format=name, size=len(data), sha256=hashlib.sha256(data).hexdigest(), imported=utc_now()
    )
    return Given(data, origin, options)


def _series(read: Read, folder: Path, name: str) -> dict[Path, bytes]:
    """The values over time as CSV: of this file, or of all imports of the format where each is one point."""
    if read.points is None:
        return {}
    documents = [document for document in read.documents.values() if isinstance(document, Imported)]
    if not read.joins:
        return {folder / SERIES: as_csv(read.points(documents))}
    documents = sorted((*_stored(folder, name), *documents), key=lambda each: each.origin.made or each.origin.imported)
    return {folder.with_name(f"{name}.csv"): as_csv(read.points(documents))}


def _stored(folder: Path, name: str) -> Iterator[Imported]:
    """What was imported before, this very file left out. Raises ValueError for a damaged document."""
    for path in sorted(folder.parent.glob(f"{name}-*/{DOCUMENT}")):
        if path.parent == folder:
            continue
        try:
            yield Imported.model_validate_json(path.read_bytes())
        except (ValidationError, OSError) as error:
            raise ValueError(f"{path} is damaged: import its file again, or remove its folder") from error


def as_csv(table: Table) -> bytes:
    """RFC 4180 with line feeds; numbers as the shortest text that reads back to the same float."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(_cells(row) for row in table.rows)
    return buffer.getvalue().encode()


def _cells(row: Sequence[str | float | None]) -> list[str]:
    return ["" if cell is None else repr(cell) if isinstance(cell, float) else str(cell) for cell in row]
