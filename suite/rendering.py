"""`tfscale run SUITE --render`: what starts a run elsewhere, as text. Nothing is started, and no machine is looked at."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import yaml
from pydantic import ConfigDict, Field

from tfscale.suite import catalogue, only, registry, suitefile, topology
from tfscale.suite.matrix import TOPOLOGIES
from tfscale.suite.record import Strict
from tfscale.suite.spec import Suite

SCHEMA: Literal["tfscale.rendered/1"] = "tfscale.rendered/1"


@dataclass(frozen=True)
class Wanted:
    """What is to be rendered."""

    suite: Suite
    """With the cases that `--only` left."""
    document: dict[str, Any]
    """The suite file's data, with topologies of files written out: nothing beside it is needed to run it."""
    path: str
    """Where the suite file lies."""
    options: tuple[str, ...] = ()
    """Options of `tfscale run` to repeat where the run is started."""


class Rendered(Strict):
    """The document of `tfscale run --render`."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Annotated[Literal["tfscale.rendered/1"], Field(alias="schema")] = SCHEMA
    launcher: str
    notes: tuple[str, ...] = ()
    """What somebody who uses this has to know."""
    documents: tuple[dict[str, Any], ...] = ()
    """Kubernetes objects, in the order to make them."""
    commands: tuple[tuple[str, ...], ...] = ()
    """Words of each command."""

    def text(self) -> str:
        """Notes as comments, then documents as YAML, then commands as lines of a shell."""
        notes = "".join(f"# {note}\n" for note in self.notes)
        return notes + (dump(*self.documents) if self.documents else "") + "".join(map(_line, self.commands))


class Renderer(Protocol):
    """What is registered as `tfscale.renderers`, under the name of a launcher."""

    def __call__(self, wanted: Wanted) -> Rendered:
        """Raises ValueError naming the setting where the suite does not fit."""


def render(
    name: str, *, launcher: str | None, expression: str | None = None, trials: int | None = None, resume: bool = False
) -> Rendered:
    """Render the suite `name` (a file or a ready suite) for `launcher`, or for the one that it names itself.

    ValueError or OSError says what is wrong.
    """
    path = catalogue.find_suite(name)
    suite = suitefile.read(path)
    renderer: Renderer = registry.load("renderers", launcher or suite.cluster.launcher)
    if expression is not None:
        suite = suite.model_copy(update={"cases": tuple(only.chosen(suite.cases, expression))})
    told = {"--only": expression, "--trials": trials}
    options = [word for option, value in told.items() if value is not None for word in (option, str(value))]
    document = suitefile.parse(path.read_text(encoding="utf-8"), str(path)).data
    return renderer(
        Wanted(
            suite=suite,
            document=written_out(document, path.parent),
            path=str(path),
            options=(*options, *(("--resume",) if resume else ())),
        )
    )


def written_out(data: Any, beside: Path) -> Any:
    """`data` with each topology that is the name of a file replaced by what the file says."""
    if isinstance(data, list):
        return [written_out(item, beside) for item in data]
    if not isinstance(data, dict):
        return data
    return {
        key: _topology(value, beside) if key == "topology" else written_out(value, beside)
        for key, value in data.items()
    }


def _topology(value: Any, beside: Path) -> Any:
    if isinstance(value, list):
        return [_topology(item, beside) for item in value]
    if not isinstance(value, str) or not value.endswith((".yaml", ".yml")):
        return value
    return topology.load(value, beside, TOPOLOGIES).model_dump(mode="json", exclude_defaults=True)


def not_for_tpu(suite: Suite) -> str | None:
    """Why not every case of `suite` runs on a TPU slice, or None."""
    if suite.cluster.accelerator != "tpu":
        return f"cluster.accelerator is {suite.cluster.accelerator}: a TPU slice needs accelerator: tpu"
    other = next((case for case in suite.cases if case.strategy != "tpu"), None)
    return f"case {other.title}: only the strategy tpu runs on a TPU slice; see --only" if other is not None else None


class _Dumper(yaml.SafeDumper):
    """SafeDumper whose text means the same to readers of YAML 1.1 and 1.2."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    # A word that starts with a letter is a number to nobody; `1e3` or `0o17` is one to some readers.
    plain = value[:1].isascii() and value[:1].isalpha() and value.lower() not in _WORDS
    style = "|" if "\n" in value else None if plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump(*documents: Any) -> str:
    """YAML of `documents`, one behind the other; the keys stay in their order."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, explicit_start=len(documents) > 1, width=10**6)


def _line(words: tuple[str, ...]) -> str:
    return shlex.join(words) + "\n"
