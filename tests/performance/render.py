"""The page of measurements, in Markdown."""

import platform
from collections.abc import Sequence

from rows import Part, Row

from tfscale.suite import environment
from tfscale.suite.display import number

COMMAND = "python tests/performance/measure.py --write docs/measurements.md"
VERDICTS = {"kept": "kept", "open": "open", "missed": "**missed**", None: ""}


def page(parts: Sequence[Part], *, quick: bool) -> str:
    head = ["# Measurements", "", f"Made by `{COMMAND}` (`tox -e performance`)."]
    if quick:
        head += ["", "**Made with `--quick`: too few pairs to prove anything.**"]
    head += [
        "",
        "Intervals are 95 %. A bound is *kept* or *missed* where the whole interval lies on one side of it, else *open*.",
        "",
        *machine(),
    ]
    return "\n".join(head) + "\n\n" + "\n\n".join(part(p) for p in parts) + "\n"


def machine() -> list[str]:
    """What it was measured on, as a table."""
    found = environment.capture()
    cpu = found["cpu"]
    packages = {name: found["packages"].get(name) for name in ("tensorflow", "tensorflow-cpu", "keras", "numpy")}
    lines = {
        "CPU": f"{cpu['model']}, {cpu['usable']} of {cpu['threads']} threads usable",
        "memory": f"{found['memory_bytes'] / 1e9:.1f} GB",
        "kernel": found["kernel"],
        "Python": platform.python_version(),
        "packages": ", ".join(
            [*(f"{name} {v}" for name, v in packages.items() if v), f"keras-hub {keras_hub_version()}"]
        ),
        "tfscale": found["tfscale"]["git"] or found["tfscale"]["version"],
    }
    return ["| machine | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in lines.items())]


def keras_hub_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("keras-hub")
    except PackageNotFoundError:
        return "not installed"


def part(p: Part) -> str:
    lines = [f"## {p.title}", "", p.method, "", f"{p.created}, {p.seconds:.0f} s.", ""]
    lines += ["| what | value | 95 % interval | n | kind | required | verdict | note |", "| --- " * 8 + "|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in p.rows]
    for title, table in p.tables.items():
        lines += ["", f"### {title}", "", "| " + " | ".join(table[0]) + " |", "| --- " * len(table[0]) + "|"]
        lines += ["| " + " | ".join(line) + " |" for line in table[1:]]
    return "\n".join(lines)


def cells(row: Row) -> list[str]:
    value = "unknown" if row.value is None else show(row.value, row.unit)
    interval = f"{show(row.ci95[0], row.unit)} to {show(row.ci95[1], row.unit)}" if row.ci95 else ""
    required = str(row.bound) if row.bound else ""
    return [row.what, value, interval, str(row.n), row.kind, required, VERDICTS[row.verdict], row.note]


def show(value: float, unit: str) -> str:
    """Seconds and rates with SI prefixes; a plain number as it is."""
    if unit in ("1", "") or unit.startswith("samples"):
        return f"{value:.4g}{' ' + unit if unit not in ('1', '') else ''}"
    return number(value, unit) if value else f"0 {unit}"
