"""What `tfscale list` shows: every name a suite may use, with a line about each."""

import inspect
from pathlib import Path
from typing import Any, get_args

from tfscale.suite import registry, workload
from tfscale.suite.matrix import TOPOLOGIES
from tfscale.suite.spec import Precision

SUITES = Path(__file__).resolve().parent.parent / "suites"
WHAT = (
    "workloads", "strategies", "suites", "topologies", "precisions", "exchanges", "launchers", "monitors", "checks",
    "formats",
)  # fmt: skip

PRECISIONS: dict[str, str] = {
    "float32": "32-bit storage and multiplies (TF32 off)",
    "tf32": "32-bit storage, TF32 multiplies (NVIDIA GPUs of compute capability 8.0 or later)",
    "mixed_bfloat16": "bfloat16 activations and multiplies, float32 variables",
    "mixed_float16": "float16 activations and multiplies, float32 variables, dynamic loss scale",
}


def rows(what: str) -> list[dict[str, Any]]:
    """One row a name; raises UnknownNameError for a kind that is not listed."""
    if what == "workloads":
        return [_workload(name) for name in sorted(registry.names("workloads"))]
    if what in ("suites", "topologies"):
        folder = SUITES if what == "suites" else TOPOLOGIES
        return [{"name": path.stem, "description": _first_comment(path)} for path in sorted(folder.glob("*.yaml"))]
    if what == "precisions":
        return [{"name": name, "description": PRECISIONS[name]} for name in get_args(Precision)]
    if what == "formats":
        return [_format(name) for name in sorted(registry.names(what))]
    if what in WHAT:
        return [
            {"name": name, "description": _first_line(registry.load(what, name))}
            for name in sorted(registry.names(what))
        ]
    raise registry.UnknownNameError("list", what, list(WHAT))


def _workload(name: str) -> dict[str, Any]:
    found = workload.load(name)
    presets = {preset: found.parameters(preset) for preset in found.presets}
    return {"name": name, "description": _first_line(type(found)), "presets": presets}


def _format(name: str) -> dict[str, Any]:
    found = registry.load("formats", name)
    ways = " and ".join(way for way, able in (("export", found.write), ("import", found.read)) if able)
    return {"name": name, "description": found.summary, "for": ways, "loses": "; ".join(found.loses)}


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _first_comment(path: Path) -> str:
    first = path.read_text().partition("\n")[0]
    return first.removeprefix("#").strip()


def find_suite(name: str) -> Path:
    """The suite file at `name`, or the ready suite of that name; FileNotFoundError says what there is."""
    path = Path(name)
    if path.is_file():
        return path
    ready = SUITES / f"{path.stem}.yaml"
    if path.parent in (Path(), Path("suites")) and path.suffix in ("", ".yaml", ".yml") and ready.is_file():
        return ready
    known = sorted(p.stem for p in SUITES.glob("*.yaml"))
    unknown = registry.UnknownNameError("suite", path.stem, known)
    raise FileNotFoundError(f"no suite file {name!r}, and {unknown}")
