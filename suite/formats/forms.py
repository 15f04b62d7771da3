"""The documents of `tfscale export` and `tfscale import`."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from tfscale.suite.record import Quantity, Strict

IMPORTED_SCHEMA: Literal["tfscale.imported/1"] = "tfscale.imported/1"
EXPORT_SCHEMA: Literal["tfscale.export/1"] = "tfscale.export/1"
IMPORT_SCHEMA: Literal["tfscale.import/1"] = "tfscale.import/1"


class Origin(Strict):
    """Where imported numbers come from: they were not measured here."""

    file: str
    """Name without its folder."""
    format: str
    size: int
    """Bytes."""
    sha256: str
    tool: str | None = None
    """Who wrote the file, as it says itself."""
    made: str | None = None
    """When, as it says itself."""
    imported: str
    """UTC, ISO 8601."""


class ImportedRow(Strict):
    """What the file says of one thing: a benchmark's repetition, a trial, a point of a series."""

    name: str
    labels: dict[str, str] = Field(default_factory=dict)
    quantities: dict[str, Quantity]


class Imported(Strict):
    """Another tool's numbers. No record of ours: there are no blocks, no steady state and no checks behind them."""

    schema_: Annotated[Literal["tfscale.imported/1"], Field(alias="schema")] = IMPORTED_SCHEMA
    origin: Origin
    facts: dict[str, Any] = Field(default_factory=dict)
    """What the file says of the machine and of itself."""
    rows: tuple[ImportedRow, ...]
    lost: tuple[str, ...] = ()

    model_config = ConfigDict(populate_by_name=True)


class ExportAnswer(Strict):
    """The answer of `tfscale export --json`."""

    schema_: Annotated[Literal["tfscale.export/1"], Field(alias="schema")] = EXPORT_SCHEMA
    format: str
    file: str
    files: int
    """Files written: several where the format is a folder."""
    runs: tuple[str, ...]
    records: tuple[str, ...]
    """Ids of what is in it."""
    lost: tuple[str, ...]
    """What the format cannot hold."""
    skipped: tuple[str, ...] = ()
    """Files of the results that could not be read."""

    model_config = ConfigDict(populate_by_name=True)


class ImportAnswer(Strict):
    """The answer of `tfscale import --json`."""

    schema_: Annotated[Literal["tfscale.import/1"], Field(alias="schema")] = IMPORT_SCHEMA
    origin: Origin
    files: tuple[str, ...]
    """Documents written."""
    series: str | None = None
    """A CSV file of the values over time, for `tfscale detect`; None where the file holds no series."""
    rows: int
    lost: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What looks odd in the file."""

    model_config = ConfigDict(populate_by_name=True)
