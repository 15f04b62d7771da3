"""Step time of BERT small and ViT Ti/16 against keras-hub's own models through `fit`, after showing equal losses."""

import math
import statistics
from itertools import product
from typing import Any

import processes
import stats
from rows import Bound, Part, Row, from_quantity

from tfscale.suite import workload
from tfscale.suite.timing.trials import paired_ratio

MODELS, PRECISIONS, XLAS = ("bert", "vit"), ("float32", "mixed_bfloat16"), ("none", "cluster")
TITLES = {"bert": "BERT small, batch 8, sequence 128", "vit": "ViT Ti/16, batch 8, 224 px"}
FIRST_LOSS = {"float32": 1e-5, "mixed_bfloat16": 2e-3}
LAST_LOSS = {"float32": 2e-3, "mixed_bfloat16": 1e-2}
"""Relative. Rounding grows from step to step (Adam's first updates are near +-rate whatever a gradient's size), and
for BERT the two may clip differently: Keras seems not to sum repeated rows of a sparse gradient in the norm (not tested)."""
METHOD = (
    "Both train the same cached batch in one process, in alternating segments A B B A; a cell is several processes, and "
    "the interval is Student's over them (t on paired log ratios, one ratio a process). keras-hub: BertBackbone with "
    "MaskedLMHead and a Dense for the next sentence, ViTBackbone with ViTImageClassifier, `fit` on a repeated, prefetched "
    "dataset, AdamW with our rate, decay and clipping, jit_compile for xla cluster, no metrics or progress bar; timed from "
    "the end of a fit's first step to its last fetch. Dropout as in the preset (BERT 0.1, ViT 0) on both sides. Ours: what "
    "`tfscale run` trains under one_device."
)


def run(quick: bool, peaks: dict[tuple[str, str], float], cells: str = "") -> Part:
    """`peaks`: measured GEMM FLOP/s by (precision, xla), where they are known. `cells`: a part of the names of those wanted."""
    rows: list[Row] = []
    tables: dict[str, list[list[str]]] = {}
    for model, precision, xla in product(MODELS, PRECISIONS, XLAS):
        if cells not in f"{model} {precision} {xla}":
            continue
        rows += losses(model, precision, xla)
        rows += speed(model, precision, xla, quick, peaks)
        if precision == "float32":  # the other precision moves the products, not where the time goes
            title = f"Where the time goes: {model}, {precision}, xla {xla} (ms a step by type of operation)"
            tables[title] = where(model, precision, xla)
    return Part("peers", "Step time against keras-hub", METHOD, rows, tables=tables)


def losses(model: str, precision: str, xla: str) -> list[Row]:
    """Loss before the first update, and after some, from equal weights with dropout 0."""
    found = processes.script("peers_cell.py", "equal", model, precision, xla)
    rows = []
    for when, index, limits in (("first", 0, FIRST_LOSS), ("fifth", -1, LAST_LOSS)):
        ours, theirs = found["ours"][index], found["theirs"][index]
        rows.append(
            Row(
                f"{model} {precision} xla {xla}: relative difference of the {when} loss",
                abs(ours - theirs) / abs(theirs),
                "1",
                "derived",
                1,
                bound=Bound("at_most", limits[precision]),
                note=f"ours {ours:.7g}, theirs {theirs:.7g}; {found['parameters_ours']:,} parameters on both sides",
            )
        )
    if found["parameters_ours"] != found["parameters_theirs"]:
        raise ValueError(f"{model}: {found['parameters_ours']} parameters here, {found['parameters_theirs']} there")
    return rows


def speed(model: str, precision: str, xla: str, quick: bool, peaks: dict[tuple[str, str], float]) -> list[Row]:
    """Step times, their ratio, and the share of the GEMM peak."""
    pairs, seconds = ("2", "1") if quick else ("2", "3")
    documents: list[dict[str, Any]] = []

    def one(_: int) -> tuple[float, float]:
        document = processes.script(
            "peers_cell.py", "speed", model, precision, xla, "--pairs", pairs, "--seconds", seconds
        )
        documents.append(document)
        return centre(document["ours"]["step_s"]), centre(document["theirs"]["step_s"])

    least, most = (2, 2) if quick else (4, 8)
    ours, theirs, ratio = stats.pairs_until(
        one,
        least=least,
        most=most,
        enough=lambda r: r.ci95 is not None and r.ci95[0] > 1 and stats.half_width(r) < 0.05,
    )
    cell = f"{model} {precision} xla {xla}"
    cpu = paired_ratio(*([centre(d[side]["cpu_s"]) for d in documents] for side in ("ours", "theirs")))
    rows = [
        from_quantity(f"{cell}: step time, ours", stats.mean(ours, "s"), note=TITLES[model]),
        from_quantity(f"{cell}: step time, keras-hub fit", stats.mean(theirs, "s")),
        from_quantity(
            f"{cell}: keras-hub / ours", ratio, n=len(ours), bound=Bound("above", 1.0, strict=True),
            note=f"ratio of CPU seconds a step {cpu.value:.3f}",
        ),
    ]  # fmt: skip
    return [*rows, share_of_peak(model, precision, xla, centre(ours), peaks)]


def share_of_peak(model: str, precision: str, xla: str, step_s: float, peaks: dict[tuple[str, str], float]) -> Row:
    from peers_cell import case_of

    case = case_of(model, precision, xla)
    flops = workload.load(model).flops(case.preset, case.step_batch).total
    peak = peaks.get((precision, xla))
    note = (
        f"{flops / 1e9:.1f} GFLOP a step; peak {peak / 1e9:.1f} GFLOP/s" if peak else "run gemm first: no peak is known"
    )
    value = flops / step_s / peak if peak else None
    return Row(f"{model} {precision} xla {xla}: ours, share of the GEMM peak", value, "1", "derived", 1, note=note)


def centre(values: list[float]) -> float:
    """Geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def where(model: str, precision: str, xla: str) -> list[list[str]]:
    """The largest types of operation of both sides, one a line, side by side."""
    found = processes.script("peers_cell.py", "profile", model, precision, xla)
    table = [["type (ours)", "ms", "share", "type (keras-hub)", "ms", "share"]]
    sides = [list(found[name].items()) for name in ("ours", "theirs")]
    totals = [sum(seconds for _, seconds in side) for side in sides]
    for line in range(10):
        cells: list[str] = []
        for side, total in zip(sides, totals, strict=True):
            name, seconds = side[line] if line < len(side) else ("", 0.0)
            cells += [name, f"{1e3 * seconds:.1f}", f"{seconds / total:.0%}"] if name else ["", "", ""]
        table.append(cells)
    return [*table, ["sum", f"{1e3 * totals[0]:.1f}", "", "sum", f"{1e3 * totals[1]:.1f}", ""]]
