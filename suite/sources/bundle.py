"""A recorded machine: every answer of its sources in a folder, redacted, and sources that answer from such a folder.

DIR/bundle.json     {"schema": "tfscale.bundle/1", "tfscale", "created" (UTC), "asked": {source: answers}, "facts"}
DIR/<source>.json   {"schema": "tfscale.bundle_source/1", "source", "answers": {key: ANSWER}, "names": {key: [name]}}
ANSWER              {"value": plain data} | {"state", "reason"}
"""

import getpass
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, get_args

from tfscale.suite.rankfiles import write_atomic
from tfscale.suite.sources import identities
from tfscale.suite.sources.base import Answer, Source, Sources, State
from tfscale.suite.sources.redact import Redactor

SCHEMA, SOURCE_SCHEMA = "tfscale.bundle/1", "tfscale.bundle_source/1"
INDEX = "bundle.json"
NAMES = ("files", "commands", "nvml")
"""The sources of a machine, and the names of their files."""


class BundleError(ValueError):
    """A folder that is no bundle, or one of another version; the message names the file and says what is wrong."""


@dataclass
class Told:
    """What one source was asked, and what it said; of what was asked again, the last."""

    answers: dict[str, Answer] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)


class Recording(Source):
    """A source that passes everything on, and notes it in `told`."""

    name: ClassVar[str] = "recording"

    def __init__(self, source: Source) -> None:
        self._source = source
        self.told = Told()

    def ask(self, key: str) -> Answer:
        answer = self._source.ask(key)
        self.told.answers[key] = answer
        return answer

    def under(self, key: str) -> list[str]:
        names = self._source.under(key)
        self.told.names[key] = names
        return names


class Replayed(Source):
    """Answers as they were recorded. What was not asked then is an error, not absent: nobody looked."""

    name: ClassVar[str] = "replayed"

    def __init__(self, told: Told, where: str = "the bundle") -> None:
        self._told = told
        self._where = where

    def ask(self, key: str) -> Answer:
        missing = Answer(state="error", reason=f"{key} was not asked when {self._where} was recorded")
        return self._told.answers.get(key, missing)

    def under(self, key: str) -> list[str]:
        return list(self._told.names.get(key, ()))


def recording(sources: Sources) -> Sources:
    """The same sources, each noting what it is asked."""
    return Sources(*(Recording(getattr(sources, name)) for name in NAMES))


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read."""

    sources: Sources
    facts: dict[str, Any]
    """What no source tells: packages, variables (the document of an `environment.Process`)."""
    created: str
    tfscale: str | None


def write(folder: Path, recorded: Sources, facts: Mapping[str, Any], redactor: Redactor | None = None) -> None:
    """Write what `recorded` (see `recording`) was asked so far into the new folder `folder`, redacted.

    Raises FileExistsError where the folder holds anything, OSError where it cannot be written.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty: a bundle goes into a folder of its own")
    folder.mkdir(parents=True, exist_ok=True)
    redactor = redactor or Redactor([platform.node()], _users())
    told = {name: _told(getattr(recorded, name)) for name in NAMES}
    for source in told.values():
        for key, answer in source.answers.items():
            redactor.learn(key, [answer.value, answer.reason])
            redactor.learn(key, answer.value)
        for key, names in source.names.items():
            redactor.learn(key, dict.fromkeys(names))
    redactor.learn("facts", facts)
    for name, source in told.items():
        _write(folder / f"{name}.json", {"schema": SOURCE_SCHEMA, "source": name, **_redacted(source, redactor)})
    index = {
        "schema": SCHEMA,
        "tfscale": _version(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": {name: len(source.answers) for name, source in told.items()},
        "facts": {name: redactor.value(f"facts/{name}", value) for name, value in facts.items()},
    }
    _write(folder / INDEX, index)  # last: a folder without it was never finished


def _users() -> list[str]:
    try:
        return [getpass.getuser()]
    except (KeyError, OSError):  # a container with a user id that has no name
        return []


def _told(source: Source) -> Told:
    if not isinstance(source, Recording):
        raise TypeError(f"{source.name} was not recorded: wrap the sources with recording() first")
    return source.told


def _redacted(told: Told, redactor: Redactor) -> dict[str, Any]:
    answers = {}
    for key, answer in told.answers.items():
        if identities.LEFT_OUT.match(key) and answer.ok:
            answer = Answer(state="error", reason="left out of the bundle: it holds addresses, or what users typed")
        answers[redactor.key(key)] = (
            {"value": redactor.value(key, answer.value)}
            if answer.ok
            else {"state": answer.state, "reason": redactor.value("", answer.reason)}
        )
    names = {
        redactor.key(key): sorted(redactor.name_under(key, name) for name in listed)
        for key, listed in told.names.items()
    }
    return {"answers": answers, "names": names}


def _write(path: Path, document: dict[str, Any]) -> None:
    write_atomic(path, json.dumps(document, indent=1, allow_nan=False).encode())


def _version() -> str | None:
    try:
        return version("tfscale")
    except PackageNotFoundError:
        return None


def read(folder: Path) -> Bundle:
    """The bundle in `folder`. Raises BundleError, a ValueError, that names the file and what is wrong with it."""
    index = _document(folder / INDEX, SCHEMA)
    facts, created, made_by = index.get("facts"), index.get("created"), index.get("tfscale")
    if not isinstance(facts, dict) or not isinstance(created, str) or not isinstance(made_by, str | None):
        raise BundleError(f"{folder / INDEX}: `facts` has to be an object, `created` a text, `tfscale` a text or null")
    sources = {name: Replayed(_source(folder / f"{name}.json"), str(folder)) for name in NAMES}
    return Bundle(Sources(**sources), facts, created, made_by)


def _source(path: Path) -> Told:
    document = _document(path, SOURCE_SCHEMA)
    answers, names = document.get("answers"), document.get("names")
    if not isinstance(answers, dict) or not isinstance(names, dict):
        raise BundleError(f"{path}: `answers` and `names` have to be objects")
    for key, listed in names.items():
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise BundleError(f"{path}: `names` of {key!r} has to be a list of texts")
    return Told({key: _answer(path, key, answer) for key, answer in answers.items()}, names)


def _answer(path: Path, key: str, found: Any) -> Answer:
    if isinstance(found, dict) and set(found) == {"value"}:
        return Answer(found["value"])
    if isinstance(found, dict) and set(found) == {"state", "reason"}:
        state, reason = found["state"], found["reason"]
        if state in get_args(State) and state != "ok" and isinstance(reason, str | None):
            return Answer(state=state, reason=reason)
    raise BundleError(f"{path}: the answer to {key!r} is neither a value nor a state with its reason: {found!r:.200}")


def _document(path: Path, schema: str) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror}; `tfscale doctor --record DIR` writes a bundle") from error
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path}: not JSON ({error})") from error
    got = document.get("schema") if isinstance(document, dict) else None
    if got == schema:
        return dict(document)
    name, _, number = str(got).rpartition("/")
    if name == schema.rpartition("/")[0] and number.isdecimal():
        raise BundleError(f"{path}: schema {got} was written by a newer tfscale; this one reads {schema}")
    raise BundleError(f"{path}: schema {got!r}, {schema!r} is expected: not a file of a bundle")
