"""OpenMetrics text for Prometheus' textfile collector: the newest run, one sample a case and quantity.

Format: github.com/prometheus/OpenMetrics, specification 1.0. Units are base units and end the metric's name; there are
no time stamps, so that a scrape's own time counts.
"""

import datetime
import re
from collections.abc import Iterable, Mapping

from tfscale.suite.formats.base import Format, Results, Written
from tfscale.suite.record import CaseResult, Quantity, Run

_UNITS = {"s": "seconds", "bytes": "bytes", "B": "bytes", "1": "ratio", "J": "joules", "W": "watts", "C": "celsius"}
_AXES = ("workload", "preset", "strategy", "devices", "hosts", "precision", "xla", "exchange")
_STATES = ("VALID", "SUSPECT", "INVALID", "FAILED")
Labels = Mapping[str, object]


def write(results: Results) -> Written:
    """Families of the newest run's case results; a case that failed has a state and no number."""
    run = results.run.run
    lines = [*_about(run), *_states(run), *_quantities(run.cases), "# EOF"]
    missing = sum(q.value is None for case in run.cases for q in case.quantities.values())
    lost = (f"{missing} quantities without a value, with their reasons",) if missing else ()
    text = "\n".join(lines) + "\n"
    return Written({"": text.encode("utf-8", "backslashreplace")}, run.records, lost)


def _about(run: Run) -> Iterable[str]:
    yield from _head("tfscale_run", "info", "The run that all samples are of.")
    yield _sample("tfscale_run_info", {"run": run.run, "suite": run.suite, "host": run.environment.get("host", "")}, 1)
    try:
        begun = datetime.datetime.fromisoformat(run.created).timestamp()
    except ValueError:  # the run's own document was lost, and its time with it
        return
    yield from _head("tfscale_run_created_seconds", "gauge", "When the run began, seconds since 1970.", "seconds")
    yield _sample("tfscale_run_created_seconds", {"run": run.run}, begun)


def _states(run: Run) -> Iterable[str]:
    yield from _head("tfscale_case_state", "stateset", "Verdict on each case; FAILED has no number.")
    stated = [(case.case_id, case.case, case.validity.status) for case in run.cases]
    known = {case_id for case_id, _, _ in stated}
    failed = {failure.case_id: failure.case for failure in run.failed if failure.case_id not in known}
    for case_id, axes, status in [*stated, *((case_id, axes, "FAILED") for case_id, axes in failed.items())]:
        for state in _STATES:
            labels = {**_case(case_id, axes), "tfscale_case_state": state}
            yield _sample("tfscale_case_state", labels, int(state == status))


def _quantities(cases: Iterable[CaseResult]) -> Iterable[str]:
    families: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        for name, quantity in case.quantities.items():
            if quantity.value is None:
                continue
            unit = unit_of(quantity.unit)
            labels = {**_case(case.case_id, case.case), "kind": quantity.kind, "statistic": quantity.statistic}
            for part, value in _values(quantity):
                family = f"tfscale_{_name(name)}{part}_{unit}"
                families.setdefault((family, unit), []).append(_sample(family, labels, value))
    for (family, unit), samples in families.items():
        yield from _head(family, "gauge", "Of each case, over its trials.", unit)
        yield from samples


def _values(quantity: Quantity) -> Iterable[tuple[str, float]]:
    if quantity.value is not None:
        yield "", quantity.value
    if quantity.ci95 is not None:
        yield "_ci95_low", quantity.ci95[0]
        yield "_ci95_high", quantity.ci95[1]


def unit_of(unit: str) -> str:
    """`sequences/s` -> `sequences_per_second`: the unit's full name in the characters that a metric may have."""
    whole, slash, per = unit.partition("/")
    name = _UNITS.get(whole, _name(whole) or "ratio")
    return f"{name}_per_{_UNITS.get(per, per).removesuffix('s')}" if slash else name


def _name(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "_", text).strip("_").lower()


def _case(case_id: str, axes: Mapping[str, object]) -> dict[str, object]:
    return {"case_id": case_id, **{axis: _axis(axes[axis]) for axis in _AXES if axes.get(axis) is not None}}


def _axis(value: object) -> object:
    return value.get("name", "described") if isinstance(value, dict) else value


def _head(family: str, kind: str, text: str, unit: str | None = None) -> Iterable[str]:
    yield f"# TYPE {family} {kind}"
    if unit is not None:
        yield f"# UNIT {family} {unit}"
    yield f"# HELP {family} {text}"


def _sample(name: str, labels: Labels, value: float) -> str:
    inner = ",".join(f'{label}="{_escaped(str(text))}"' for label, text in labels.items())
    return f"{name}{{{inner}}} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


FORMAT = Format(
    "OpenMetrics text for Prometheus, one sample a case and quantity of the newest run",
    write=write,
    loses=("single trials", "n_trials and n_samples", "phases", "checks but the verdict", "blocks", "monitors"),
    recognise=lambda begin: begin.startswith(b"# TYPE tfscale_"),
)
