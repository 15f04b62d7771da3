"""Reading a suite file: YAML with line numbers, so that every complaint names file, line, value and what is allowed."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from tfscale.suite import matrix, registry
from tfscale.suite.cluster import Cluster
from tfscale.suite.document import Document
from tfscale.suite.profiled import profiled_cases
from tfscale.suite.spec import MONITORS, Case, Measure, Profile, Recovery, Suite, TargetLoss

KEYS = (
    "name", "description", "matrix", "include", "exclude", "measure", "profile", "target_loss", "recovery", "monitors",
    "cluster",
)  # fmt: skip
LARGEST_FILE = 4 * 2**20
"""Bytes; a suite is written by people."""


class SuiteError(ValueError):
    """A suite file that cannot be used; the message starts with `file:line:`."""


@dataclass(frozen=True)
class Source:
    """A parsed YAML document and the line of every node, by its path of keys and indices."""

    name: str
    data: Any
    lines: Mapping[tuple[str | int, ...], int]

    def error(self, path: Iterable[str | int], message: str) -> SuiteError:
        """An error at `path`, or at the nearest enclosing node that has a line."""
        where = tuple(path)
        while where and where not in self.lines:
            where = where[:-1]
        return SuiteError(f"{self.name}:{self.lines.get(where, 1)}: {message}")


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses duplicate keys and aliases (a few aliases can expand to gigabytes)."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not allowed", event.start_mark)
        return super().compose_node(parent, index)


_INTEGER = "tag:yaml.org,2002:int"
_PLAIN_INTEGER = re.compile(r"^[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0b[01_]+)$")
"""YAML 1.1 also reads 012 as ten and 1:30 as ninety; nobody who writes those in a suite means that."""
_Loader.yaml_implicit_resolvers = {
    first: [(tag, _PLAIN_INTEGER if tag == _INTEGER else pattern) for tag, pattern in resolvers]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def parse(text: str, name: str) -> Source:
    """Parse YAML text. Raises SuiteError with the line where it is not YAML, repeats a key, or is no mapping."""
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        lines: dict[tuple[str | int, ...], int] = {}
        if node is not None:
            _number(node, (), lines, name)
        data = loader.construct_document(node) if node is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SuiteError(f"{name}:{mark.line + 1 if mark else 1}: not valid YAML: {problem}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, SuiteError):
            raise
        raise SuiteError(f"{name}:1: not usable YAML: {error}") from error
    finally:
        if loader is not None:
            loader.dispose()
    return Source(name, data, lines)


def _number(node: yaml.Node, path: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int], name: str) -> None:
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            if here in lines:
                raise SuiteError(f"{name}:{key.start_mark.line + 1}: key {key.value!r} is given twice")
            _number(value, here, lines, name)
            lines[here] = key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _number(value, (*path, index), lines, name)


def read(path: Path) -> Suite:
    """Read and expand the suite file at `path`; SuiteError tells what is wrong and where."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise SuiteError(f"{path}:1: larger than {LARGEST_FILE} bytes: not a suite")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"{path}: cannot be read as a suite file: {error}") from error
    return build(parse(text, str(path)))


def build(source: Source) -> Suite:
    """Check the document against the suite's form and expand its matrix."""
    if not isinstance(source.data, dict):
        raise source.error((), f"a suite is a mapping with the keys {', '.join(KEYS)}; got {_kind(source.data)}")
    for key in source.data:
        if key not in KEYS:
            raise source.error((str(key),), unknown_key(str(key), KEYS, "suite"))
    if "name" not in source.data:
        raise source.error((), "the suite has no name; add `name: my-suite`")
    for key in ("measure", "cluster"):
        if not isinstance(source.data.get(key, {}), dict):
            raise source.error((key,), f"{key} must be a mapping, got {_kind(source.data[key])}")
    cases = matrix.expand(source)
    settings = {
        "measure": _document(source, ("measure",), Measure),
        "cluster": _document(source, ("cluster",), Cluster),
        "profile": _optional(source, "profile", Profile),
        "target_loss": _optional(source, "target_loss", TargetLoss),
        "recovery": _optional(source, "recovery", Recovery),
        "monitors": _monitors(source),
    }
    _check_profile_only(source, cases, settings["profile"])
    try:
        return Suite(
            name=source.data["name"], description=source.data.get("description", ""), cases=tuple(cases), **settings
        )
    except ValidationError as error:
        raise explain(source, (), Suite, error) from error


def _monitors(source: Source) -> tuple[str, ...]:
    """`monitors: false`, a name, or a list of names of the registry."""
    told = source.data.get("monitors", True)
    if told is True or told is False:
        return MONITORS if told else ()
    chosen = told if isinstance(told, list) else [told]
    for index, name in enumerate(chosen):
        try:
            if not isinstance(name, str):
                raise ValueError(f"monitors: got {_kind(name)}; false, true or names of monitors are wanted")
            registry.check("monitors", name)
        except ValueError as error:
            raise source.error(("monitors", index), str(error)) from error
    return tuple(dict.fromkeys(chosen))


def _check_profile_only(source: Source, cases: list[Case], profile: Profile | None) -> None:
    """A filter that names no axis, or no case of the suite, would leave out the profiles without a word."""
    if profile is None:
        return
    for axis in profile.only:
        if axis not in AXES:
            raise source.error(("profile", "only", axis), unknown_key(axis, AXES, "profile.only"))
    if not profiled_cases(cases, profile):
        raise source.error(("profile", "only"), f"profile.only {profile.only!r}: no case of the suite has these values")


def _index(values: Any, value: Any) -> tuple[int, ...]:
    """Where in an axis' list the value stands that was refused, so that the line is the value's own."""
    return (values.index(value),) if isinstance(values, list) and value in values else ()


def _optional(source: Source, key: str, model: type[Document]) -> Any:
    """None for `key: false` or no such key; `true` for all defaults."""
    told = source.data.get(key, False)
    if not isinstance(told, bool | dict):
        raise source.error((key,), f"{key} must be false, true or a mapping, got {_kind(told)}")
    return None if told is False else _document(source, (key,), model)


def _document(source: Source, path: tuple[str, ...], model: type[Document]) -> Any:
    value = source.data.get(path[0], {})
    try:
        return model.model_validate({} if value is True else value)
    except ValidationError as error:
        raise explain(source, path, model, error) from error


def explain(source: Source, path: tuple[str | int, ...], model: type[Document], error: ValidationError) -> SuiteError:
    """The first of pydantic's complaints as one line: where, the value got, what is allowed, the nearest match."""
    first = error.errors()[0]
    location = tuple(part for part in first["loc"] if not str(part).startswith("function-"))
    message, given = first["msg"].removeprefix("Value error, "), first["input"]
    named = message.partition(": ")[0]
    if first["type"] == "value_error" and isinstance(given, dict) and named in given:
        # A check over the whole mapping names the key that it is about.
        location, given, message = (*location, named), given[named], message.removeprefix(f"{named}: ")
    where = (*path, *location)
    if path == ("matrix",) and location:
        where = (*where[:2], *_index(source.data["matrix"].get(location[0]), given), *where[2:])
    name = ".".join(str(part) for part in (*path, *location)) or "suite"
    if first["type"] == "extra_forbidden":
        known = list(_owner(model, location[:-1]).model_fields)
        return source.error(where, unknown_key(str(location[-1]), known, name.rpartition(".")[0]))
    if first["type"] == "missing":
        return source.error(where, f"{name} is missing; {name.rpartition('.')[0] or 'the suite'} needs it")
    if first["type"] == "literal_error":
        return source.error(where, not_allowed(name, first["input"], allowed_values(model, location)))
    if first["type"] == "value_error":
        return source.error(where, f"{name}: {message}")
    return source.error(where, f"{name}: got {first['input']!r}: {message}")


def _owner(model: type[Document], location: tuple[Any, ...]) -> type[Document]:
    """The innermost document of `model` on the way to `location`."""
    for part in location:
        field = model.model_fields.get(str(part))
        inner = field.annotation if field else None
        for kind in (inner, *get_args(inner)):
            if isinstance(kind, type) and issubclass(kind, Document):
                model = kind
    return model


def allowed_values(model: type[Document], location: tuple[Any, ...]) -> list[str]:
    """The words that the literal field at `location` may hold."""
    field: Any = None
    for part in location:
        field = model.model_fields.get(str(part))
        inner = getattr(field, "annotation", None)
        if isinstance(inner, type) and issubclass(inner, Document):
            model = inner
    return [str(value) for value in get_args(field.annotation)] if field is not None else []


def not_allowed(name: str, value: Any, allowed: list[str]) -> str:
    hint = " (YAML reads a bare off/no as false: write none)" if value is False and "none" in allowed else ""
    return f"{name}: {value!r} is not allowed (allowed: {', '.join(allowed)}){nearest(str(value), allowed)}{hint}"


def unknown_key(key: str, known: Iterable[str], where: str) -> str:
    known = list(known)
    return f"unknown key {key!r} in {where or 'suite'} (known: {', '.join(known)}){nearest(key, known)}"


def nearest(value: str, known: Iterable[str]) -> str:
    match = difflib.get_close_matches(value, list(known), n=1)
    return f"; did you mean {match[0]!r}?" if match else ""


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r}"[:80]


AXES = tuple(Case.model_fields)
