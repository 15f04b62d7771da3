"""What labs of dead owners left behind: found by name, told from those of living owners, removed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tfscale.suite.launchers import procfs
from tfscale.suite.netlab import namespaces
from tfscale.suite.netlab.lab import remove_namespaces
from tfscale.suite.netlab.layout import LabName, owner_of

Started = Callable[[int], int | None]
"""When the living process of an id started, in clock ticks after boot; None where there is none."""


@dataclass(frozen=True)
class Cleaned:
    """What cleaning did: namespaces removed; those that stayed, with why; owners that live and keep their labs."""

    removed: tuple[str, ...]
    failed: dict[str, str]
    in_use: tuple[str, ...]


def labs(folder: Path = namespaces.RUN) -> dict[LabName, list[str]]:
    """Every lab of which something is there, with its namespaces."""
    found: dict[LabName, list[str]] = {}
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    for name in names:
        if (owner := owner_of(name)) is not None:
            found.setdefault(owner, []).append(name)
    return found


def orphaned(found: dict[LabName, list[str]], started: Started = procfs.started) -> dict[LabName, list[str]]:
    """Those of `found` whose owner has ended. A later process with the same id started at another time."""
    return {owner: names for owner, names in found.items() if started(owner.pid) != owner.started}


def clean() -> Cleaned:
    """Remove what dead owners left. Labs of living ones stay."""
    found = labs()
    dead = orphaned(found)
    names = [name for each in dead.values() for name in each]
    failed = remove_namespaces(names)
    kept = tuple(name for owner, each in found.items() if owner not in dead for name in each)
    return Cleaned(tuple(name for name in names if name not in failed), failed, kept)
