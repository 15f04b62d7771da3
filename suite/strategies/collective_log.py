"""Reading back which collective implementation TensorFlow really used, from the lines it logs while it traces.

NCCL asked for on CPUs runs as something else without an error, and AUTO is used for some groups even when NCCL is
asked for, so the request proves nothing.
"""

import re
from collections import Counter
from typing import Any

_LINE = re.compile(
    r"Collective (?P<kind>[a-z_]+)(?: (?P<what>tensors|IndexedSlices))?: \d+ all-?_?(?:reduces|gathers), ?"
    r"num_devices ?= ?(?P<devices>\d+), ?group_size = (?P<group>\d+), ?"
    r"implementation = (?:CommunicationImplementation\.)?(?P<implementation>[A-Z]+)"
)


def implementations(log: str) -> dict[str, int]:
    """Implementation in lower case -> number of collective groups traced with it, groups of one member left out."""
    found: Counter[str] = Counter()
    for match in _LINE.finditer(log):
        if int(match["group"]) > 1:
            found[match["implementation"].lower()] += 1
    return dict(found)


def effective(log: str | None, devices: str) -> dict[str, Any]:
    """`collective`: the implementation in force, or None with `collective_reason`.

    Args:
        log: the rank's own log, or None.
        devices: cpu or gpu. On CPUs TensorFlow runs its own ring whatever the line says, on GPUs AUTO means that the
            runtime chose, which only a trace can tell.
    """
    if log is None:
        return {"collective": None, "collective_reason": "this rank has no log"}
    found = implementations(log)
    if not found:
        return {"collective": None, "collective_reason": "TensorFlow logged no collective"}
    if devices == "cpu":
        named = ", ".join(sorted(found))
        note = {} if set(found) == {"ring"} else {"collective_reason": f"traced as {named}; CPUs have only the ring"}
        return {"collective": "ring", **note}
    if len(found) > 1:
        counts = ", ".join(f"{name} for {count}" for name, count in sorted(found.items()))
        return {"collective": None, "collective_reason": f"several implementations: {counts} groups"}
    name = next(iter(found))
    if name == "auto":
        return {"collective": None, "collective_reason": "traced as auto: the runtime chose, a trace's kernels tell"}
    return {"collective": name}
