"""The measured matmul peak per precision and XLA value, as `tfscale bench gemm` prints it."""

import processes
from rows import Part, from_quantity

from tfscale.suite.record import Quantity


def run(quick: bool) -> Part:
    document = processes.tfscale("bench", "gemm", "--budget-s", "40" if quick else "180")
    rows = []
    measured = {row["precision"] for row in document["rows"] if row["best"]}
    for row in document["rows"]:
        rate = Quantity.model_validate(row["flops_per_s"])
        if not row["best"] and row["precision"] in measured:
            continue
        size = f"{row['m']} x {row['n']} x {row['k']}" if row.get("m") else "no size"
        rows.append(
            from_quantity(f"{row['precision']} xla {row['xla']}", rate, note=rate.reason or f"fastest size: {size}")
        )
    method = (
        f"`tfscale bench gemm` on {document['cores']} cores: the fastest of its sizes, median of blocks in one process."
    )
    return Part("gemm", "Matmul peak", method, rows)


def peaks(part: Part) -> dict[tuple[str, str], float]:
    """FLOP/s by (precision, xla)."""
    found: dict[tuple[str, str], float] = {}
    for row in part.rows:
        precision, _, xla = row.what.partition(" xla ")
        if row.value is not None:
            found[precision, xla] = row.value
    return found
