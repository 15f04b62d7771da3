"""The measured matmul peak of this machine, per precision and XLA value: what a step's share of the peak is judged by.

    python -m tfscale.workloads.micro.gemm --json --cores 0,1 --budget-s 60

A call runs a chain y = ((a b) c) b) c ... of equal-sized products, each on the result of the one before, so none can be
folded, shared or left out; the chain's own result is checked against numpy in float64. The process pins itself before
TensorFlow starts, because TensorFlow sizes its thread pools once.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np

from tfscale.suite.record import Quantity, unknown
from tfscale.suite.spec import Precision, Xla
from tfscale.suite.workload import random

PRECISIONS: tuple[str, ...] = ("float32", "tf32", "mixed_bfloat16", "mixed_float16")
XLAS: tuple[str, ...] = ("none", "cluster")
_MOST_MATMULS, _CALL_FLOPS = 16, 2**35
_BLOCK_S, _LEAST_BLOCKS, _MOST_BLOCKS = 0.02, 6, 50
"""Six blocks are the fewest that have a 95 % interval of the median."""
_CHECKED_ROWS = 8
_DTYPES = {"float32": "float32", "tf32": "float32", "mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}
_ROUNDOFF = {"float32": 2.0**-24, "tf32": 2.0**-11, "mixed_bfloat16": 2.0**-9, "mixed_float16": 2.0**-11}


@dataclass(frozen=True)
class Size:
    """An m x k matrix times a k x n matrix, and where such a product comes from."""

    m: int
    n: int
    k: int
    origin: str = "square"


SIZES: tuple[Size, ...] = (
    Size(1576, 192, 192, "ViT Ti/16, 8 x 197 tokens, projection"),
    Size(1576, 768, 192, "ViT Ti/16, 8 x 197 tokens, feed-forward"),
    Size(1024, 512, 512, "BERT small, 8 x 128 tokens, projection"),
    Size(1024, 2048, 512, "BERT small, 8 x 128 tokens, feed-forward"),
    *(Size(side, side, side) for side in (256, 512, 1024, 2048, 4096)),
)


@dataclass(frozen=True)
class GemmRow:
    """One size under one precision and XLA value. `flops_per_s` is the rate of all `cores`, or of one accelerator."""

    precision: str
    xla: str
    size: Size | None
    """None where the precision is missing altogether."""
    flops_per_s: Quantity
    best: bool
    """Whether this is the fastest size of its precision and XLA value."""
    device: str
    cores: int
    """Cores this process may use."""
    error: float | None
    """Largest error of the checked rows of the chain's result against float64, relative to their root mean square."""
    tolerance: float | None
    matmuls: int
    """Products in one call."""


Measured = tuple[Size, Quantity, float | None, float | None]


class WrongResultError(RuntimeError):
    """The chain's result differs from float64 by more than rounding explains: its speed means nothing."""


def gemm_flops(m: int, n: int, k: int) -> int:
    """Floating-point operations of one m x k by k x n product; a multiply-add counts 2."""
    return 2 * m * n * k


def chain_length(size: Size) -> int:
    """Products in one call: enough that the call's own cost vanishes beside them; even, so that the chain closes."""
    return max(2, min(_MOST_MATMULS, 2 * (_CALL_FLOPS // gemm_flops(size.m, size.n, size.k) // 2)))


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """95 % interval of the median from order statistics (binomial, no assumption on the distribution); None below 6."""
    ordered, n = sorted(values), len(values)
    below, rank = 0.0, -1
    while (below := below + math.comb(n, rank + 1) / 2.0**n) <= 0.025:
        rank += 1
    return (ordered[rank], ordered[n - 1 - rank]) if rank >= 0 else None


def measure(
    budget_s: float, precisions: Sequence[str] = PRECISIONS, xlas: Sequence[str] = XLAS, sizes: Sequence[Size] = SIZES
) -> list[GemmRow]:
    """Rates of all combinations, in about `budget_s` seconds (compilation and checks included, import not).

    A combination that this device does not have (tf32), or that its share of the budget cannot hold, gets a row with an
    unknown rate and the reason. Raises WrongResultError.
    """
    device, cores = _device(), len(os.sched_getaffinity(0))
    deadline = time.perf_counter() + budget_s  # after the import of TensorFlow
    absent = {precision: reason for precision in precisions if (reason := _missing(precision, device))}
    cells = [cell for cell in itertools.product(precisions, xlas) if cell[0] not in absent]
    rows: list[GemmRow] = []
    for number, (precision, xla) in enumerate(cells):
        share = (deadline - time.perf_counter()) / (len(cells) - number)
        measured = _cell(precision, xla, sizes, share)
        fastest = max((flops.value or 0.0 for _, flops, _, _ in measured), default=0.0)
        for size, flops, error, tolerance in measured:
            best = bool(fastest) and flops.value == fastest
            rows.append(GemmRow(precision, xla, size, flops, best, device, cores, error, tolerance, chain_length(size)))
    for (precision, reason), xla in itertools.product(absent.items(), xlas):
        flops = unknown("FLOP/s", "measured", "median", reason)
        rows.append(GemmRow(precision, xla, None, flops, False, device, cores, None, None, 0))
    return rows


def _cell(precision: str, xla: str, sizes: Sequence[Size], share_s: float) -> list[Measured]:
    deadline, rate = time.perf_counter() + share_s, 0.0
    measured: list[Measured] = []
    for number, size in enumerate(sizes):
        left = deadline - time.perf_counter()
        call = chain_length(size) * gemm_flops(size.m, size.n, size.k)
        # Three calls are the least: one compiles and is checked, one tells the size of a block, one is timed.
        if left <= 0 or (rate > 0 and 3 * call / rate > left):
            quantity = unknown("FLOP/s", "measured", "median", "the time budget does not hold it")
            measured.append((size, quantity, None, None))
            continue
        quantity, error, tolerance = _one(precision, xla, size, left / (len(sizes) - number))
        rate = quantity.value or rate
        measured.append((size, quantity, error, tolerance))
    return measured


def _one(precision: str, xla: str, size: Size, share_s: float) -> tuple[Quantity, float, float]:
    """(rate, error, tolerance) of one size."""
    started = time.perf_counter()
    operands = _operands(size, precision)
    chain = _chain(precision, xla, chain_length(size))
    error, tolerance = _checked(chain(*operands), operands, precision, size)
    calls = max(1, round(_BLOCK_S / _block(chain, operands, 1)))
    seconds: list[float] = []
    while len(seconds) < _MOST_BLOCKS:
        # A size may overrun its share for the sake of an interval, but not without end.
        patience = share_s if len(seconds) >= _LEAST_BLOCKS else 2 * share_s
        if seconds and time.perf_counter() - started > patience:
            break
        seconds.append(_block(chain, operands, calls) / calls)
    return _rate(size, seconds), error, tolerance


def _block(chain: Callable[..., Any], operands: tuple[Any, Any, Any], calls: int) -> float:
    """Seconds of `calls` calls in a row; the last one's result is fetched, so that an accelerator has finished."""
    began = time.perf_counter()
    for _ in range(calls):
        result = chain(*operands)
    float(result[0, 0])
    return time.perf_counter() - began


def _rate(size: Size, seconds: Sequence[float]) -> Quantity:
    work, interval = chain_length(size) * gemm_flops(size.m, size.n, size.k), median_interval(seconds)
    return Quantity(
        value=work / statistics.median(seconds),
        unit="FLOP/s",
        kind="measured",
        statistic="median",
        n_samples=len(seconds),
        ci95=(work / interval[1], work / interval[0]) if interval else None,
        ci_method="order statistics of the blocks of one process" if interval else None,
    )


def _operands(size: Size, precision: str) -> tuple[Any, Any, Any]:
    """a (m x k), b (k x n), c (n x k), scaled so that every product of the chain keeps the size of its entries."""
    import tensorflow as tf

    draw = random(0, size.m, size.n, size.k)
    shapes = ((size.m, size.k, 1.0), (size.k, size.n, size.k**-0.5), (size.n, size.k, size.n**-0.5))
    arrays = (draw.standard_normal((rows, columns), np.float32) * np.float32(scale) for rows, columns, scale in shapes)
    a, b, c = (tf.cast(tf.constant(array), _DTYPES[precision]) for array in arrays)
    return a, b, c


def _chain(precision: str, xla: str, matmuls: int) -> Callable[..., Any]:
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")

    def chain(a: Any, b: Any, c: Any) -> Any:
        for number in range(matmuls):
            a = tf.matmul(a, c if number % 2 else b)
        return a

    # The operands stay arguments: constants of the graph could be folded.
    compiled: Callable[..., Any] = tf.function(chain, jit_compile=xla == "cluster" or None, autograph=False)
    return compiled


def _checked(result: Any, operands: tuple[Any, Any, Any], precision: str, size: Size) -> tuple[float, float]:
    """(error, tolerance). A row of the result needs only the same row of `a`, so a few rows are checked at any size."""
    rows, b, c = (np.asarray(operand, np.float64) for operand in (operands[0][:_CHECKED_ROWS], *operands[1:]))
    for number in range(chain_length(size)):
        rows = rows @ (c if number % 2 else b)
    error = float(np.abs(np.asarray(result[:_CHECKED_ROWS], np.float64) - rows).max() / np.sqrt(np.mean(rows**2)))
    # Each product rounds its result, and sums of up to max(n, k) terms in float32. Some CPU kernels cut bfloat16 off
    # instead of rounding it, so errors add up rather than average out; the largest of the entries is some 5 deviations.
    one = 2 * _ROUNDOFF[precision] + _ROUNDOFF["float32"] * max(size.n, size.k) ** 0.5
    tolerance = 5 * one * chain_length(size)
    if not error <= tolerance:
        what = f"matmul {size.m}x{size.n}x{size.k} in {precision}"
        raise WrongResultError(f"{what} is off by {error:.2g} (allowed {tolerance:.2g})")
    return error, tolerance


def _device() -> str:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    return str(tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")) if gpus else "CPU"


def _missing(precision: str, device: str) -> str | None:
    """Why this device cannot run `precision`, or None."""
    if precision != "tf32":
        return None
    if device == "CPU":
        return "TF32 is a format of NVIDIA GPUs; on a CPU it would be float32 again"
    import tensorflow as tf

    details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
    capable = details.get("compute_capability", (0, 0)) >= (8, 0)
    return None if capable else "TF32 needs an NVIDIA GPU of compute capability 8.0 or later"


def as_json(row: GemmRow) -> dict[str, Any]:
    """A row of the `tfscale.gemm/1` document; m, n and k are null where the precision is missing altogether."""
    size = asdict(row.size) if row.size else dict.fromkeys(("m", "n", "k", "origin"))
    rest = {name: value for name, value in vars(row).items() if name != "size"}
    return {**rest, **size, "flops_per_s": row.flops_per_s.model_dump(mode="json")}


def parse_size(text: str) -> Size:
    """`1024` or `1024x2048x512` (m x n x k). Raises ValueError."""
    sides = [int(side) for side in text.split("x")]
    if len(sides) not in (1, 3) or min(sides) < 1:
        raise ValueError(f"size {text!r} is neither one side nor MxNxK")
    m, n, k = sides if len(sides) == 3 else sides * 3
    return Size(m, n, k, "given")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tfscale.workloads.micro.gemm", description="Measured matmul peak.")
    parser.add_argument("--json", action="store_true", help="print the rows as a JSON list")
    parser.add_argument("--budget-s", type=float, default=60.0, help="seconds in all")
    parser.add_argument("--precision", nargs="+", choices=get_args(Precision), default=PRECISIONS)
    parser.add_argument("--xla", nargs="+", choices=[name for name in get_args(Xla) if name in XLAS], default=XLAS)
    parser.add_argument("--size", nargs="+", type=parse_size, default=SIZES, help="side, or MxNxK")
    parser.add_argument("--cores", help="cores to use, such as 0,1; default: all that this process may use")
    chosen = parser.parse_args(arguments)
    if chosen.cores:
        os.sched_setaffinity(0, {int(core) for core in chosen.cores.split(",")})
    rows = measure(chosen.budget_s, chosen.precision, chosen.xla, chosen.size)
    print(json.dumps([as_json(row) for row in rows]) if chosen.json else "\n".join(map(_line, rows)))


def _line(row: GemmRow) -> str:
    size = f"{row.size.m:5} x {row.size.n:5} x {row.size.k:5}" if row.size else "all sizes"
    head = f"{row.precision:15} {row.xla:8} {size:21}"
    if row.flops_per_s.value is None:
        return f"{head}  -  {row.flops_per_s.reason}"
    low, high = (f"{value / 1e9:.1f}" for value in row.flops_per_s.ci95) if row.flops_per_s.ci95 else ("?", "?")
    rate = f"{row.flops_per_s.value / 1e9:10.1f} GFLOP/s [{low}, {high}]"
    return f"{head}  {rate}, {row.cores} cores{'  best' if row.best else ''}"


if __name__ == "__main__":
    main()
