"""The detector on series with known steps: F1, recall of clear steps, flat series flagged, night by night, time."""

import importlib.util
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import stats
from rows import Bound, Part, Row, from_quantity

from tfscale.suite.analysis.judging import judge
from tfscale.suite.timing.trials import student_half_width

SEEDS = (8101, 8102, 8103, 8104, 8105)
"""Nobody tuned on these: the settings were chosen on seeds 1-8, 11-20 and 7001-7005."""
MARGIN = 5
"""Points by which a change that is found may be off; one found counts for one true step."""
CLEAR_SD = 1.5
FIRST_NIGHT, RECENT, SAME = 20, 20, 5
METHOD = (
    "Series of synth.py (60-200 nights, steps of 2-20 %, 1 % outliers), 200 a seed, seeds "
    f"{', '.join(map(str, SEEDS))}: a true step is found where a change is told within {MARGIN} points, one for one. Clear "
    f"steps are of at least {CLEAR_SD} sd of the noise. Night by night: every prefix of flat iid series from {FIRST_NIGHT} "
    f"points on; an alert is the verdict changed with a change in the last {RECENT} points and none told within {SAME} "
    "points before. Delay: nights from a clear step until it is told, iid series. Means over the seeds with Student's interval."
)
TARGETS: dict[str, dict[str, Bound]] = {
    "iid": {
        "F1": Bound("at_least", 0.87), "precision": Bound("at_least", 0.95), "recall of clear steps": Bound("at_least", 0.95),
        "flat series flagged": Bound("at_most", 0.025),
    },
    "ar1": {"F1": Bound("at_least", 0.80), "precision": Bound("at_least", 0.87)},
    "bimodal": {"F1": Bound("at_least", 0.82), "precision": Bound("at_least", 0.90)},
}  # fmt: skip


def generator() -> ModuleType:
    """synth.py of the recorded data. Raises RuntimeError where TFSCALE_TEST_DATA is not set."""
    folder = os.environ.get("TFSCALE_TEST_DATA")
    if not folder:
        raise RuntimeError("TFSCALE_TEST_DATA is not set: no synth.py here")
    path = Path(folder) / "changepoint/synth.py"
    spec = importlib.util.spec_from_file_location("synth", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["synth"] = module
    spec.loader.exec_module(module)
    return module


def found_changes(values: Sequence[float]) -> list[int]:
    return [change.index for change in judge(list(values)).changes]


def matched(found: Sequence[int], true: Sequence[int]) -> dict[int, int]:
    """True step -> change that tells of it, nearest first, one for one."""
    pairs = sorted((abs(f - t), t, f) for t in true for f in found if abs(f - t) <= MARGIN)
    taken: dict[int, int] = {}
    for _, t, f in pairs:
        if t not in taken and f not in taken.values():
            taken[t] = f
    return taken


def scores(
    series: Sequence[dict[str, Any]], detect: Callable[[Sequence[float]], list[int]] = found_changes
) -> dict[str, float]:
    hits = told = true = clear = clear_hits = flat = flagged = 0
    for one in series:
        steps = {int(step["index"]): abs(float(step["size_sd"])) for step in steps_of(one)}
        found = detect(one["y"])
        taken = matched(found, list(steps))
        hits, told, true = hits + len(taken), told + len(found), true + len(steps)
        clear += sum(size >= CLEAR_SD for size in steps.values())
        clear_hits += sum(steps[t] >= CLEAR_SD for t in taken)
        flat, flagged = flat + (not steps), flagged + (not steps and bool(found))
    precision, recall = hits / max(told, 1), hits / true
    return {
        "F1": 2 * precision * recall / (precision + recall),
        "precision": precision,
        "recall": recall,
        "recall of clear steps": clear_hits / clear,
        "flat series flagged": flagged / flat,
    }


def steps_of(one: dict[str, Any]) -> list[dict[str, float]]:
    """Index and size, in standard deviations of the noise, of each true step."""
    return [{"index": step["index"], "size_sd": abs(step["ratio"] - 1) / one["cv"]} for step in one["steps"]]


def nightly_alerts(values: Sequence[float], detect: Callable[[Sequence[float]], Any] = judge) -> tuple[int, list[int]]:
    """Nights looked at, and the nights of alerts."""
    told: list[int] = []
    alerts = []
    for n in range(FIRST_NIGHT, len(values) + 1):
        judgement = detect(list(values[:n]))
        if judgement.verdict != "changed":
            continue
        index = judgement.changes[-1].index
        if index >= n - RECENT and not any(abs(index - known) <= SAME for known in told):
            alerts.append(n)
        told.append(index)
    return len(values) + 1 - FIRST_NIGHT, alerts


def delays(one: dict[str, Any]) -> list[float]:
    """Nights until each clear step is told, infinite where it is not before the next one or the end."""
    found = []
    edges = [int(step["index"]) for step in steps_of(one)] + [len(one["y"])]
    for place, step in enumerate(steps_of(one)):
        if abs(step["size_sd"]) < CLEAR_SD or step["index"] < FIRST_NIGHT:
            continue
        begin, end = int(step["index"]), edges[place + 1]
        delay = math.inf
        for n in range(begin + 1, end + 1):
            judgement = judge(list(one["y"][:n]))
            if judgement.verdict == "changed" and abs(judgement.changes[-1].index - begin) <= MARGIN:
                delay = n - begin
                break
        found.append(delay)
    return found


def run(quick: bool) -> Part:
    synth = generator()
    seeds, count = (SEEDS[:2], 60) if quick else (SEEDS, 200)
    rows: list[Row] = []
    for noise, targets in TARGETS.items():
        each = [scores(synth.dataset(count, seed, noise)) for seed in seeds]
        for name in each[0]:
            rows.append(share(f"{noise}: {name}", [one[name] for one in each], targets.get(name)))
    rows += nights(synth, seeds, 12 if quick else 25)
    rows += times(synth)
    return Part("detector", "The detector", METHOD, rows)


def share(what: str, values: Sequence[float], bound: Bound | None) -> Row:
    """Arithmetic mean over seeds with Student's interval: a share may be 0, which has no logarithm."""
    array = np.asarray(values)
    centre, half = float(array.mean()), student_half_width(array)
    return Row(what, centre, "1", "simulated", array.size, (centre - half, centre + half), bound)


def nights(synth: ModuleType, seeds: Sequence[int], flat_a_seed: int) -> list[Row]:
    looked, alerts, late = 0, 0, list[float]()
    for seed in seeds:
        series = synth.dataset(200, seed, "iid")
        flat = [one for one in series if not one["steps"]][:flat_a_seed]
        for one in flat:
            n, told = nightly_alerts(one["y"])
            looked, alerts = looked + n, alerts + len(told)
        stepped = [one for one in series if one["steps"]][:flat_a_seed]
        late += [delay for one in stepped for delay in delays(one)]
    return [
        Row(
            "false alerts per 1,000 nights",
            1000 * alerts / looked,
            "1",
            "simulated",
            looked,
            None,
            Bound("at_most", 1.0),
        ),
        Row(
            "median delay of clear steps",
            float(np.median(late)),
            "nights",
            "simulated",
            len(late),
            None,
            Bound("at_most", 3.0),
        ),
    ]


def times(synth: ModuleType) -> list[Row]:
    rows = []
    for n, most in ((100, 0.003), (1000, 0.030)):
        values = synth.long_series(n)
        judge(values)
        seconds = []
        for _ in range(20):
            began = time.process_time()
            judge(values)
            seconds.append(time.process_time() - began)
        rows.append(
            from_quantity(f"{n} points, process time", stats.mean(seconds, "s"), bound=Bound("at_most", most, "s"))
        )
    return rows
