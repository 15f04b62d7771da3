"""What of the caller's environment reaches a rank, and when a case needs an interpreter of its own."""

from collections.abc import Mapping

from tfscale.suite.plan import RankPlan
from tfscale.suite.spec import ENV_READ_AT_IMPORT

STACKS = "stacks.txt"
"""Where a rank writes its stacks on SIGUSR1, in its folder."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
DEFAULTS = {
    # The line that names the collective implementation is logged at level 0; the level is read once, at the first line.
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "KERAS_BACKEND": "tensorflow",
    # numpy would start a pool of threads at import, which a forked rank would believe in and not have.
    "OPENBLAS_NUM_THREADS": "1",
    # A parent of forks never touches a device; a rank that uses one sets its own value before the driver starts.
    VISIBLE: "-1",
}
ORDER = "CUDA_DEVICE_ORDER"
_ORDERED = {ORDER: "PCI_BUS_ID"}
"""CUDA numbers cards by speed unless told; counters number them by address, and a rank must mean the same card."""
_DROPPED = ("TF_CONFIG",)


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment with DEFAULTS, without TF_CONFIG and proxies (a bad one stops even loopback gRPC).

    Cards are numbered by address unless the caller chose another order.
    """
    kept = {k: v for k, v in environ.items() if not k.lower().endswith("_proxy") and k not in _DROPPED}
    return {**_ORDERED, **kept, **DEFAULTS}


def why_fresh(plan: RankPlan, parent: Mapping[str, str]) -> str | None:
    """Why the rank cannot be forked from a parent that imported TensorFlow under `parent`, or None when it can."""
    if plan.accelerator == "tpu":
        return "a TPU is used"
    if plan.case.xla == "auto":
        return "xla auto sets flags that are read at import"
    read = {k: v for k, v in plan.environment.items() if k.startswith(ENV_READ_AT_IMPORT) and k != VISIBLE}
    changed = [k for k, v in read.items() if parent.get(k) != v]
    return f"{', '.join(sorted(changed))} may be read at import" if changed else None
