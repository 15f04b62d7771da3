"""`tfscale run suites/quick.yaml` with its report: wall time, cases, failures."""

import tempfile
import time
from pathlib import Path

import processes
from rows import Bound, Part, Row

from tfscale.suite import environment

SUITE = processes.HERE.parent.parent / "suites" / "quick.yaml"
METHOD = (
    "`tfscale run suites/quick.yaml` from a shell, into an empty folder: from the command to its end, report written."
)


def run(quick: bool) -> Part:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        arguments = ["run", str(SUITE), "--results", str(Path(folder) / "results"), "--report", str(report)]
        began = time.perf_counter()
        document = processes.tfscale(*arguments, *(["--only", "workload=vit"] if quick else []))
        seconds = time.perf_counter() - began
        page = report.stat().st_size if report.exists() else 0
    cores = len(environment.host_cores())
    cases, failed, pruned = (len(document[name]) for name in ("cases", "failed", "pruned"))
    statuses = [case["validity"]["status"] for case in document["cases"]]
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in ("VALID", "SUSPECT", "INVALID"))
    profiles = sum("profile" in record["files"] for record in document["records"])
    least = None if quick else Bound("at_least", 16, "cases")
    rows = [
        Row("wall time", seconds, "s", "measured", 1, bound=Bound("at_most", 300, "s"), note=f"{cores} cores"),
        Row("cases that ran", float(cases), "1", "measured", 1, bound=least, note=f"{counts}; {pruned} pruned"),
        Row("cases that failed", float(failed), "1", "measured", 1, bound=Bound("at_most", 0)),
        Row("profiles", float(profiles), "1", "measured", 1, bound=Bound("at_least", 1 if quick else 3)),
        Row("report", float(page), "B", "measured", 1, bound=Bound("at_least", 1, "B")),
    ]
    return Part("quick_suite", "The quick suite", METHOD, rows)
