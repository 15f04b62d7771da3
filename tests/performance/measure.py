"""The side-by-side measurements: every number with its kind, count and interval, judged against the required bounds.

    python tests/performance/measure.py [--write docs/measurements.md] [--only NAME ...] [--quick]
    python tests/performance/measure.py --out DIR --render-only --write docs/measurements.md

Each measurement leaves its result as JSON in --out, so that a partial run can be gone on with: --resume skips what is
there. Exits 1 when a required bound is missed beyond its interval, 3 when a measurement fails. Wants a quiet machine.
"""

import argparse
import datetime
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import auto
import collectives
import comparisons
import detector
import exchanges
import gating
import gemm
import launch
import launchers
import link
import monitors
import peers
import quick_suite
import racks
import render
import rows
import timer
import traces
import weak

Measurement = Callable[[bool, Path, str], rows.Part]


def _peers(quick: bool, out: Path, cells: str) -> rows.Part:
    known = out / "gemm.json"
    return peers.run(quick, gemm.peaks(rows.read(known)) if known.exists() else {}, cells)


MEASUREMENTS: dict[str, Measurement] = {
    "quick_suite": lambda quick, out, cells: quick_suite.run(quick),
    "launch": lambda quick, out, cells: launch.run(quick),
    "launchers": lambda quick, out, cells: launchers.run(quick),
    "link": lambda quick, out, cells: link.run(quick),
    "collectives": lambda quick, out, cells: collectives.run(quick),
    "racks": lambda quick, out, cells: racks.run(quick),
    "auto": lambda quick, out, cells: auto.run(quick, cells),
    "timer": lambda quick, out, cells: timer.run(quick, cells),
    "monitors": lambda quick, out, cells: monitors.run(quick, cells),
    "gemm": lambda quick, out, cells: gemm.run(quick),
    "peers": _peers,
    "weak": lambda quick, out, cells: weak.run(quick),
    "trace": lambda quick, out, cells: traces.run(quick),
    "exchanges": exchanges.run,
    "detector": lambda quick, out, cells: detector.run(quick),
    "gate": lambda quick, out, cells: gating.run(quick),
    "compare": lambda quick, out, cells: comparisons.run(quick),
}
"""In the order of the page; peers needs the peaks of gemm. (quick, folder of the parts, cells): '' is every cell."""

IN_CELLS = ("auto", "timer", "monitors", "peers", "exchanges")
"""Measurements that can be taken cell by cell."""


def take(name: str, quick: bool, out: Path, cells: str) -> rows.Part:
    """Measure; with `cells`, into what the folder has of the others."""
    began = time.perf_counter()
    part = MEASUREMENTS[name](quick, out, cells)
    if cells and (out / f"{name}.json").exists():
        part = part.over(rows.read(out / f"{name}.json"))
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return replace(part, seconds=time.perf_counter() - began, created=now)


def run(names: list[str], quick: bool, out: Path, resume: bool, cells: str) -> list[str]:
    """Take the measurements and print each as it comes; the names of those that failed."""
    failed = []
    for name in names:
        if resume and (out / f"{name}.json").exists():
            continue
        print(f"== {name}", file=sys.stderr, flush=True)
        try:
            part = take(name, quick, out, cells)
        except Exception:  # the others are still worth having; the exit code tells
            traceback.print_exc()
            failed.append(name)
            continue
        part.save(out)
        print(render.part(part), flush=True)
    return failed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Side-by-side measurements.")
    parser.add_argument("--write", type=Path, help="write the page here")
    parser.add_argument("--only", nargs="+", choices=list(MEASUREMENTS), default=list(MEASUREMENTS), metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="few pairs: tries the machinery, proves nothing")
    parser.add_argument("--out", type=Path, help="folder of the JSON parts (default: a temporary one)")
    parser.add_argument("--resume", action="store_true", help="skip measurements whose JSON is in --out")
    parser.add_argument("--render-only", action="store_true", help="measure nothing: the page from the parts in --out")
    parser.add_argument("--cells", default="", help="only cells whose name holds this, into the parts in --out")
    chosen = parser.parse_args()
    if chosen.cells and not set(chosen.only) <= set(IN_CELLS):
        parser.error(f"--cells goes with --only {', '.join(IN_CELLS)}")
    if (chosen.render_only or chosen.resume) and chosen.out is None:
        parser.error("--render-only and --resume need --out")
    return chosen


def main() -> int:
    chosen = arguments()
    out = chosen.out or Path(tempfile.mkdtemp(prefix="tfscale-performance-"))
    failed = [] if chosen.render_only else run(chosen.only, chosen.quick, out, chosen.resume, chosen.cells)
    parts = [rows.read(out / f"{name}.json") for name in MEASUREMENTS if (out / f"{name}.json").exists()]
    print(f"parts: {out}", file=sys.stderr)
    if chosen.write:
        chosen.write.parent.mkdir(parents=True, exist_ok=True)
        chosen.write.write_text(render.page(parts, quick=chosen.quick))
    missed = [f"{part.name}: {row.what}" for part in parts for row in part.rows if row.fails]
    for what in missed:
        print(f"bound missed: {what}", file=sys.stderr)
    return 3 if failed else 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
