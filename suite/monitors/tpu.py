"""TPU chips, as `tpu-info` tells of them. Shape from documentation, never run here on a real TPU.

The program prints tables: a title, a row of headings between heavy lines, rows between light ones. While no process
holds the chips it prints no figures; then there is nothing to sample, and the state says so.
"""

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from tfscale.suite.monitors.told import Figure, Telling, Told

_SIZES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_USED = re.compile(r"(\d+(?:\.\d+)?)\s*(B|[KMGT]iB)\s*/\s*(\d+(?:\.\d+)?)\s*(B|[KMGT]iB)")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


class Tpu(Telling):
    """Every TPU device of the host, `tpu<number>`."""

    name: ClassVar[str] = "tpu"
    command = "tpu-info"
    figures = (
        Figure("memory_used", "B"),
        Figure("memory_total", "B"),
        Figure("duty_cycle", "1"),
        Figure("tensorcore_utilisation", "1"),
    )

    def parse(self, output: str) -> Told:
        return figures(output)


def figures(output: str) -> dict[str, dict[str, float | None]]:
    """Device -> figure -> value; devices without any are left out. Raises ValueError where there is no table at all."""
    found: dict[str, dict[str, float | None]] = {}
    tables = 0
    for headings, row in _rows(output):
        tables += 1
        cells = {heading.lower(): cell for heading, cell in zip(headings, row, strict=False)}
        number = next((cells[name] for name in ("device", "chip id", "core id") if name in cells), "")
        if not number.isdecimal():
            continue
        for heading, cell in cells.items():
            told = _told(heading, cell)
            if told:
                found.setdefault(f"tpu{number}", {}).update(told)
    if not tables:
        raise ValueError("it holds no table")
    return found


def _told(heading: str, cell: str) -> dict[str, float | None]:
    if ("memory" in heading or "hbm" in heading) and (sizes := _USED.search(cell)):
        used, unit, total, total_unit = sizes.groups()
        return {"memory_used": float(used) * _SIZES[unit], "memory_total": float(total) * _SIZES[total_unit]}
    if share := _PERCENT.search(cell):
        if "duty" in heading:
            return {"duty_cycle": float(share[1]) / 100}
        if "tensorcore" in heading.replace(" ", ""):
            return {"tensorcore_utilisation": float(share[1]) / 100}
    return {}


def _rows(output: str) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """(headings, cells) of each row of each table."""
    headings: Sequence[str] = ()
    for line in output.splitlines():
        line = line.strip()
        if line.startswith("┃"):
            headings = [cell.strip() for cell in line.strip("┃").split("┃")]
        elif line.startswith("│") and headings:
            yield headings, [cell.strip() for cell in line.strip("│").split("│")]
        elif line.startswith("└"):
            headings = ()
