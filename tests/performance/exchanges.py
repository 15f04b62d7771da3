"""Exchanges over a slow link: step times with their parts, steps and time to a target loss, bytes on the wire."""

import json
import tempfile
from pathlib import Path
from typing import Any

import processes
import stats
from exchanges_wire import wire_rows
from rows import Bound, Part, Row, from_quantity

from tfscale.suite import registry
from tfscale.suite.analysis import convergence
from tfscale.suite.exchange.parse import parse
from tfscale.suite.record import Curve, Quantity
from tfscale.suite.timing.trials import paired_ratio

EXCHANGES = (
    "none", "pack", "priority", "fp16", "bf16", "int8", "onebit", "topk", "dgc", "randomk", "powersgd(rank=4)",
)  # fmt: skip
FASTER = {"fp16": 1.75, "int8": 2.5, "powersgd(rank=4)": 7.0}
SOONER = {"powersgd(rank=4)": 5.0}
NETWORKS: dict[str, dict[str, Any]] = {"100Mbit": {"hosts": 2, "link": "100Mbit"}, "unshaped": {"hosts": 2}}
CASE = {"workload": "bert", "preset": "mini", "strategy": "multi_worker_mirrored", "devices": 2, "per_replica_batch": 8}
METHOD = (
    "BERT mini, batch 8, sequence 128, 20 predictions, float32, 2 ranks of one core each, in namespaces of their own "
    "(netlab), on links of 100 Mbit/s and on links that are not limited. Steps: rounds run every exchange once in fresh "
    "processes; the ratio to `none` is Student's over rounds (log ratios). Parts come from a profiled pass of the first "
    "round. Target: the smoothed loss (mean of 20) of `none` at step 300 on the sample files, for each of 5 seeds; steps "
    "counted off the network, time = steps x the step time at 100 Mbit/s (derived). Wire: bytes that the rank's interface "
    "sent in the timed steps, over what the exchange reports, for two ranks."
)
Steps = dict[str, list[float]]
"""Exchange -> mean step time of each round, seconds."""


def run(quick: bool, out: Path, cells: str = "") -> Part:
    """`cells`: a part of `steps 100Mbit`, `steps unshaped`, `target EXCHANGE` or `wire`."""
    rows: list[Row] = []
    tables: dict[str, list[list[str]]] = {}
    for network in NETWORKS:
        if cells in f"steps {network}":
            found, parts = step_times(network, quick)
            rows += step_rows(network, found)
            tables[f"Parts of a step, {network}"] = parts
    chosen = [name for name in registered() if name != "none" and cells in f"target {name}"]
    if chosen:
        rows += target_rows(trained(chosen, quick, out), chosen)
    if cells in "wire":
        rows += wire_rows(registered(), {**CASE, "topology": NETWORKS["100Mbit"]}, quick)
    return Part("exchanges", "Exchanges over a slow link", METHOD, rows, tables=tables)


def registered() -> list[str]:
    """The exchanges that this version has."""
    return [name for name in EXCHANGES if parse(name).name in registry.names("exchanges")]


def suite(network: str, quick: bool, **more: Any) -> dict[str, Any]:
    budget = 2 if quick else 30
    return {
        "name": "exchanges",
        "matrix": {**CASE, "exchange": registered(), "topology": [NETWORKS[network]], **more.pop("axes", {})},
        "measure": {"budget_s": budget, "min_s": budget / 3, "trials": 1, "tail_steps": 0, "target": 0.01},
        "monitors": False,
        "cluster": {"launcher": "netlab", "accelerator": "cpu", "cores_per_device": 1},
        **more,
    }


def step_times(network: str, quick: bool) -> tuple[Steps, list[list[str]]]:
    """Step times over rounds, and the parts of the first round's profiles. Raises RuntimeError where a case fails."""
    found: Steps = {name: [] for name in registered()}
    parts: list[list[str]] = [
        ["exchange", "step, profiled", "compute", "exposed communication", "host overhead", "idle"]
    ]
    for number in range(2 if quick else 3):
        profile = {"steps": 4, "warm_up_steps": 2} if number == 0 else False
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "suite.yaml"
            path.write_text(json.dumps(suite(network, quick, profile=profile)))  # JSON is YAML
            document = processes.tfscale("run", str(path), "--results", str(Path(folder) / "results"))
        if document["failed"]:
            raise RuntimeError(
                f"{network}: {document['failed'][0]['case']['exchange']}: {document['failed'][0]['reason']}"
            )
        for record in document["records"]:
            found[record["case"]["exchange"]].append(record["quantities"]["step_time"]["value"])
            if record["breakdown"]:
                parts.append(part_cells(record))
    return found, parts


def part_cells(record: dict[str, Any]) -> list[str]:
    told = record["breakdown"]
    names = ("compute", "exposed_communication", "host_overhead", "idle")
    spans = [told["span_ps"], *(told["parts"][name] for name in names)]
    return [record["case"]["exchange"], *(f"{span / 1e9:,.0f} ms" for span in spans)]


def step_rows(network: str, found: Steps) -> list[Row]:
    rows = []
    for name in dict.fromkeys([*found, *FASTER]):
        head, bound = f"{network}: {name}", _bound(FASTER.get(name) if network == "100Mbit" else None)
        if name not in found:
            rows.append(
                Row(f"{head}, none / its step time", None, "1", "derived", 0, bound=bound, note="not registered")
            )
            continue
        rows.append(from_quantity(f"{head}, step", stats.mean(found[name], "s")))
        if name != "none":
            ratio = paired_ratio(found[name], found["none"])
            rows.append(from_quantity(f"{head}, none / its step time", ratio, n=len(found[name]), bound=bound))
    return rows


def _bound(value: float | None) -> Bound | None:
    return Bound("at_least", value) if value else None


def trained(chosen: list[str], quick: bool, out: Path) -> dict[str, Any]:
    """The document of the run that trains; it is gone on with where `out` holds it, so that exchanges can be added."""
    told = {"steps": 20, "limit": 60, "seeds": 2, "smoothing": 5} if quick else {}
    text = json.dumps(suite("100Mbit", quick, axes={"input": "files"}, target_loss=told or True))
    path, results = out / "exchanges-target.yaml", out / "exchanges-target"
    begun = path.exists() and path.read_text() == text and results.exists()
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    only = f"exchange={'|'.join(['none', *chosen])}"
    more = ["--resume"] if begun else []
    document: dict[str, Any] = processes.tfscale("run", str(path), "--results", str(results), "--only", only, *more)
    if document["failed"]:
        raise RuntimeError(document["failed"][0]["reason"])
    return document


def target_rows(document: dict[str, Any], chosen: list[str]) -> list[Row]:
    curves = [Curve.model_validate(curve) for curve in document["curves"]]
    bases = {curve.case_id: curve for curve in curves if curve.base is None}
    steps = {record["case"]["exchange"]: record["quantities"]["step_time"]["value"] for record in document["records"]}
    rows = []
    for name in chosen:
        mine = [curve for curve in curves if curve.base is not None and curve.case["exchange"] == name]
        if not mine:
            rows.append(Row(f"target: {name}", None, "1", "derived", 0, note="exact: as many steps as none"))
            continue
        pairs = [convergence.Paired(curve.seed, bases[curve.base or ""].reached or 0, curve.reached) for curve in mine]
        found = convergence.convergence(pairs, mine[0].limit)
        faster = Quantity(value=steps["none"] / steps[name], unit="1", kind="derived", statistic="ratio of step times")
        rows.append(from_quantity(f"target: {name}, steps / those of none", found.ratio, n=found.seeds))
        whole = convergence.gain(found.ratio, faster)
        note = convergence.sentence(faster, found)
        bound = _bound(SOONER.get(name))
        rows.append(
            from_quantity(f"target: {name}, time of none / its time", whole, n=found.seeds, bound=bound, note=note)
        )
    return rows
