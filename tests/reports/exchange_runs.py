"""A made-up run of exchanges over networks, with trainings to a target loss: every number invented. Not a test module.

python tests/reports/exchange_runs.py example.html
"""

import sys
from pathlib import Path
from typing import Any

import builder

from tfscale.suite.caseresult import case_result
from tfscale.suite.record import Curve, Quantity, Record, Run
from tfscale.suite.spec import Case

PAYLOAD = 45_000_000
SENT = {"none": 1, "fp16": 2, "int8": 4, "topk(ratio=0.01)": 50, "powersgd(rank=4)": 60}
CODING = {
    "fp16": (0.011, 0.009),
    "int8": (0.09, 0.03),
    "topk(ratio=0.01)": (0.31, 0.02),
    "powersgd(rank=4)": (0.05, 0.04),
}
COMPUTE_S = 0.44
LINKS = {"100Mbit": 100e6, "1Gbit": 1e9, None: 40e9}
STEPS = {"none": 300, "fp16": 300, "int8": 306, "topk(ratio=0.01)": None, "powersgd(rank=4)": 318}
RACK = {"link": "1Gbit", "uplink": "200Mbit"}
TWO_RACKS = {"name": "two-racks", "racks": {"a": RACK, "b": RACK}, "hosts": ["a", "a", "b", "b"]}


def case(exchange: str, link: str | None, **axes: Any) -> Case:
    topology = {"hosts": 2, **({"link": link} if link else {})}
    head = {"workload": "bert", "preset": "mini", "strategy": "multi_worker_mirrored", "devices": 2}
    return Case.model_validate({**head, "per_replica_batch": 8, "exchange": exchange, "topology": topology, **axes})


def step_s(one: Case, rate: float) -> float:
    coding = sum(CODING.get(one.exchange, (0.0, 0.0)))
    return COMPUTE_S + coding + 8 * PAYLOAD / SENT.get(one.exchange, 1) / rate


def records(one: Case, seconds: float, trials: int = 3) -> list[Record]:
    """`trials` records of one case, slightly apart, with the quantities of its exchange."""
    sent = PAYLOAD // SENT.get(one.exchange, 1)
    coding = CODING.get(one.exchange)

    def derived(value: float, unit: str) -> Quantity:
        return builder.quantity(value, unit, "invented")

    made = []
    for trial in range(trials):
        record = builder.record(one, trial=trial, step_s=seconds * (1 + 0.004 * (trial - 1)))
        own = {"exchange_bytes": derived(sent, "bytes"), "exchange_ratio": derived(PAYLOAD / sent, "1")}
        for place, name in enumerate(("encode_time", "decode_time")):
            own[name] = (
                derived(coding[place], "s")
                if coding
                else Quantity(
                    value=None, unit="s", kind="simulated", statistic="invented", reason="none sends as it is"
                )
            )
        kind = "gather" if one.exchange.startswith("topk") else "sum"
        effective = {"exchange_exact": one.exchange in ("none", "hierarchical"), "exchange_handed": {kind: sent}}
        made.append(record.model_copy(update={"quantities": record.quantities | own, "effective": effective}))
    if one.exchange == "fp16":
        parts = {
            "compute": 3,
            "exposed_communication": 5,
            "exposed_copy": 0,
            "input_wait": 0,
            "host_overhead": 1,
            "idle": 1,
        }
        told = {name: share * round(seconds * 1e11) for name, share in parts.items()}
        breakdown = {
            "span_ps": sum(told.values()),
            "parts": told,
            "totals": {},
            "kind": "simulated",
            "distorted": False,
        }
        breakdown |= {"step_source": "markers", "exchange": {"encode_ps": 12_000_000_000, "decode_ps": 8_000_000_000}}
        made[0] = made[0].model_copy(update={"breakdown": breakdown})
    return made


def curve(one: Case, seed: int, reached: int | None, base: Case | None, stands_for: tuple[str, ...]) -> Curve:
    seeded = one.model_copy(update={"seed": seed, "topology": None, "hosts": 1})
    held = base.model_copy(update={"seed": seed, "topology": None, "hosts": 1}).id if base else None
    stale = one.strategy == "parameter_server"
    return Curve(
        id=f"r/curves/{seeded.id}", run="20250301-0200", created="2025-03-01T02:00:00Z", case_id=seeded.id,
        case=seeded.axes(), seed=seed, stands_for=stands_for, base=held, target=7.9, target_steps=300, smoothing=20,
        limit=900, steps=reached or 900, reached=reached, smoothed=7.9, files={"losses": "rank0/losses.npz"},
        staleness=builder.quantity(0.93, "updates") if stale else None,
    )  # fmt: skip


def example(trained: bool = True) -> Run:
    """Five exchanges on three networks and two on two racks, trained with five seeds each."""
    cases = [case(exchange, link) for link in LINKS for exchange in SENT]
    racks = [case(each, None, devices=4, hosts=4, topology=TWO_RACKS) for each in ("none", "hierarchical")]
    server = case("none", "100Mbit", strategy="parameter_server")
    rates = [LINKS[link] for link in LINKS for _ in SENT] + [150e6, 400e6, 80e6]
    made = [records(one, step_s(one, rate)) for one, rate in zip([*cases, *racks, server], rates, strict=True)]
    curves = []
    for seed in range(5) if trained else ():
        for exchange, steps in STEPS.items():
            twins = tuple(one.id for one in cases if one.exchange == exchange)
            base = None if exchange == "none" else cases[0]
            late = None if steps is None and seed == 3 else (steps or 420) + (seed if base else 0)
            curves.append(curve(case(exchange, None), seed, late, base, twins))
        curves.append(curve(server, seed, 655 + seed, cases[0], (server.id,)))
    results = tuple(case_result(each) for each in made)
    return builder.run_of(results, tuple(record for each in made for record in each), curves=tuple(curves))


if __name__ == "__main__":
    from tfscale.reports.page import scaling_report

    Path(sys.argv[1]).write_text(scaling_report(example(), {}), encoding="utf-8")
