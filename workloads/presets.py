"""Reads the presets.yaml beside a workload's spec into that workload's frozen shape dataclass."""

from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

Shape = TypeVar("Shape")


def read(spec_file: str, shape: type[Shape]) -> dict[str, Shape]:
    """Preset name -> `shape`, in the order of the file (smallest first).

    The file has a map `common` (keys that every preset shares) and a map `presets`. Lists become tuples, so that
    shapes stay hashable. Raises ValueError that names the preset when a key is unknown or missing.
    """
    text = Path(spec_file).with_name("presets.yaml").read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    known = {field.name for field in fields(shape)}  # type: ignore[arg-type]
    presets: dict[str, Shape] = {}
    for name, own in document["presets"].items():
        keys: dict[str, Any] = {**document.get("common", {}), **own}
        if set(keys) != known:
            raise ValueError(f"preset {name!r} beside {spec_file}: keys {sorted(set(keys) ^ known)} do not match")
        presets[name] = shape(**{key: tuple(v) if isinstance(v, list) else v for key, v in keys.items()})
    return presets
