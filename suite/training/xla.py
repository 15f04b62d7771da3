"""XLA values of a case: what selects each, and what proves afterwards that it was in force.

none: XLA compiles nothing of the model. cluster: each replica's forward and backward pass is one compiled function,
and gradients travel after it has ended. auto: TensorFlow clusters what it likes, everywhere in the step.
"""

import os
import re
from typing import Any

from tfscale.suite.spec import Xla

AUTO_FLAGS = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
COMPILED_LINE = "Compiled cluster using XLA!"
"""TensorFlow logs this at level 0, at most once in a process, when the first compilation has succeeded."""


def environment(xla: Xla, current: str = "") -> dict[str, str]:
    """Variables to set before TensorFlow starts; `current` is the value of TF_XLA_FLAGS so far."""
    return {"TF_XLA_FLAGS": f"{current} {AUTO_FLAGS}".strip()} if xla == "auto" else {}


def effective(xla: Xla, must_compile: int, log: str | None) -> dict[str, Any]:
    """What was in force.

    Args:
        xla: as requested.
        must_compile: functions of the traced step that TensorFlow must compile or refuse to run (no updates, no exchanges).
        log: the rank's log, or None where there is none.
    """
    if xla == "none":
        if must_compile:
            return {"xla": "cluster", "xla_clusters": must_compile}
        if automatic():
            return {"xla": "auto", "xla_reason": "TF_XLA_FLAGS in the environment turns clustering on"}
        return {"xla": "none"}
    if xla == "cluster":
        if must_compile:
            return {"xla": "cluster", "xla_clusters": must_compile}
        return {"xla": None, "xla_reason": "no function of the traced step is marked for compilation"}
    if log is None:
        return {"xla": None, "xla_reason": "no log to look for TensorFlow's line about a compiled cluster"}
    if COMPILED_LINE in log:
        return {"xla": "auto"}
    return {"xla": None, "xla_reason": "TensorFlow did not log that it compiled a cluster"}


def automatic() -> bool:
    """Whether flags in the environment make TensorFlow cluster by itself."""
    return bool(re.search(r"tf_xla_auto_jit=[12]", os.environ.get("TF_XLA_FLAGS", "")))


def count_must_compile(graph: Any, *but: str) -> int:
    """Functions in the library of a traced graph that are marked for compilation, those named like any of `but` left out."""
    functions = graph.as_graph_def().library.function
    return sum(f.attr["_XlaMustCompile"].b and not any(part in f.signature.name for part in but) for f in functions)
