"""Documents of other schema versions: brought up to date where a migration exists, else refused by name."""

import re
from collections.abc import Callable
from typing import Any

Document = dict[str, Any]
MIGRATIONS: dict[str, Callable[[Document], Document]] = {}
"""Schema name -> a function that returns the document under the next version's schema, `schema` included."""
_NAME = re.compile(r"^(?P<kind>tfscale\.[a-z]+)/(?P<version>[0-9]{1,9})$")


class SchemaError(ValueError):
    """A document under a schema that this version does not read."""


def migrate(document: Document, wanted: str) -> Document:
    """`document` under the schema `wanted`. Raises SchemaError for another kind, a newer version, or a gap."""
    while (found := document.get("schema")) != wanted:
        kind, version = _parts(found)
        wanted_kind, wanted_version = _parts(wanted)
        if kind != wanted_kind:
            raise SchemaError(f"schema {found!r} is not a {wanted_kind} document")
        if version > wanted_version:
            raise SchemaError(f"schema {found!r} is newer than {wanted!r}, the newest that is read here")
        if found not in MIGRATIONS:
            raise SchemaError(f"schema {found!r} is older than {wanted!r} and there is no migration from it")
        document = MIGRATIONS[found](document)
    return document


def _parts(name: Any) -> tuple[str, int]:
    match = _NAME.match(name) if isinstance(name, str) else None
    if match is None:
        raise SchemaError(f"schema {name!r} is not one of tfscale's")
    return match["kind"], int(match["version"])
