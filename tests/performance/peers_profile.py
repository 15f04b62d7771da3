"""Where the time of a step goes, by type of operation, from TensorFlow's own profile of both sides."""

import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

STEPS = 5
_OPERATION = re.compile(r"^[^:]+:([A-Z_][A-Za-z0-9_]*)$")
_COMPILED = re.compile(r"^([a-z][a-z0-9_-]*?)(?:\.\d+)*$")
_CONTAINERS = {
    "PartitionedCall",
    "StatefulPartitionedCall",
    "While",
    "StatelessWhile",
    "If",
    "StatelessIf",
    "_Retval",
    "_Arg",
}
_NOT_KERNELS = {"train", "train_step", "fit", "multi_step_on_iterator", "convert_to_tensor"}


def both(ours: Any, theirs: Any) -> dict[str, Any]:
    """Seconds a step by type, for both sides."""
    return {"ours": by_type(ours), "theirs": by_type(theirs)}


def by_type(side: Any) -> dict[str, float]:
    """Seconds a step in each type of operation, longest first. Operations that run at once are each counted whole."""
    import tensorflow as tf

    side.segment(3)
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        side.segment(STEPS)
        tf.profiler.experimental.stop()
        totals = _totals(next(Path(folder).rglob("*.xplane.pb")))
    # A fit runs one step before its stamps, and it is in the profile too.
    steps = STEPS + (1 if hasattr(side, "stamps") else 0)
    return {name: picoseconds / 1e12 / steps for name, picoseconds in totals.most_common()}


def _totals(path: Path) -> Counter[str]:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    space.ParseFromString(path.read_bytes())
    totals: Counter[str] = Counter()
    for plane in space.planes:
        if plane.name != "/host:CPU":
            continue
        kinds = {key: _kind(metadata.name.split("#")[0]) for key, metadata in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                kind = kinds.get(event.metadata_id)
                if kind is not None:
                    totals[kind] += event.duration_ps
    return totals


def _kind(name: str) -> str | None:
    """Type of an operation (`node:Type`), or name without number of a kernel that XLA made; None for all else."""
    if found := _OPERATION.match(name):
        kind = found[1].removeprefix("_MklNative").removeprefix("_Mkl").lstrip("_")
        return None if found[1] in _CONTAINERS or "Xla" in kind else kind
    if (found := _COMPILED.match(name)) and name not in _NOT_KERNELS:
        return f"xla {_family(found[1])}"
    return None


def _family(name: str) -> str:
    """`broadcast_multiply_fusion` and its like differ in every model: they are all one family."""
    if name.endswith("fusion"):
        return "fusion"
    return name.removeprefix("wrapped_")
