"""Published peaks of devices, for MFU. A device or a math that is not in the table has none, never a guess."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Peak:
    """Dense FLOP/s of one device in one math, and who published it."""

    flops_per_s: float
    source: str


@cache
def _table() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("peaks.yaml").read_text())
    return sorted(rows, key=lambda row: -len(row["name"]))


def published(device: str, math: str) -> Peak | None:
    """The peak of `device` (its NVML name) for products in `math`; None where it is not known."""
    for row in _table():
        # The name must end there or go on with a separator: an L40 is no L4.
        if device.startswith(row["name"]) and not device[len(row["name"]) :][:1].isalnum():
            return Peak(row[math] * 1e12, row["source"]) if math in row else None
    return None


def of_record(environment: dict[str, Any], effective: dict[str, Any]) -> Peak | None:
    """The peak per replica of a record: of its GPUs, when they are all of one kind, in the math that really ran."""
    names = {gpu["name"] for gpu in environment.get("gpus") or []}
    math = effective.get("math")
    return published(names.pop(), math) if len(names) == 1 and math else None
