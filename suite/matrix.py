"""From the lists of a suite's matrix to its cases: the product of all axes, plus `include`, less `exclude`."""

import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tfscale.suite import registry, topology, workload
from tfscale.suite.exchange import base as exchange
from tfscale.suite.spec import Case

if TYPE_CHECKING:
    from tfscale.suite.suitefile import Source

MOST_CASES = 10_000
TOPOLOGIES = Path(__file__).resolve().parent.parent / "suites" / "topologies"
Point = dict[str, Any]
Where = tuple[str | int, ...]


def expand(source: "Source") -> list[Case]:
    """All cases of the suite in matrix order, then the included ones; raises SuiteError naming the line."""
    excluded = _points(source, "exclude")
    points: list[tuple[Point, Where]] = []
    if source.data.get("matrix") is not None:
        points = [(point, ("matrix",)) for point in _product(source)]
    points = [(point, where) for point, where in points if not any(_matches(point, e) for e, _ in excluded)]
    points += _points(source, "include")
    if not points:
        raise source.error((), "the suite has no case: give `matrix` (lists over axes) or `include` (whole cases)")
    cases: dict[str, Case] = {}
    for point, where in points:
        case = _case(source, point, where)
        if case.id in cases:
            raise source.error(where, f"duplicate case: {case.title} (id {case.id}) comes up twice")
        cases[case.id] = case
    return list(cases.values())


def _product(source: "Source") -> Iterator[Point]:
    """Points of the matrix. An axis may be a map by workload; `input` and `env` are maps of their own."""
    from tfscale.suite.suitefile import AXES, unknown_key

    matrix = source.data["matrix"]
    if not isinstance(matrix, dict):
        raise source.error(("matrix",), f"matrix must be a mapping of axes to lists, got {type(matrix).__name__}")
    for axis in matrix:
        if axis not in AXES:
            raise source.error(("matrix", str(axis)), unknown_key(str(axis), AXES, "matrix"))
    if "workload" not in matrix:
        raise source.error(("matrix",), "matrix names no workload")
    workloads = _values(source, "workload", matrix["workload"], None)
    for index, name in enumerate(workloads):
        try:
            registry.check("workloads", str(name))
        except ValueError as error:
            raise source.error(("matrix", "workload", index), str(error)) from error
    per_workload = []
    for name in workloads:
        axes = {axis: _values(source, axis, matrix[axis], name) for axis in matrix if axis != "workload"}
        per_workload.append({"workload": [name], **axes})
    total = sum(math.prod(len(values) for values in axes.values()) for axes in per_workload)
    if total > MOST_CASES:
        sizes = " x ".join(f"{axis} {len(values)}" for axis, values in per_workload[0].items() if len(values) > 1)
        raise source.error(("matrix",), f"the matrix has {total:,} cases ({sizes}); at most {MOST_CASES:,} are allowed")
    for axes in per_workload:
        for values in itertools.product(*axes.values()):
            yield dict(zip(axes, values, strict=True))


def _values(source: "Source", axis: str, value: Any, workload_name: str | None) -> list[Any]:
    """The list of one axis, for one workload where the axis is a map by workload."""
    if isinstance(value, dict) and axis not in ("input", "env", "topology"):
        known = _values(source, "workload", source.data["matrix"]["workload"], None)
        for key in value:
            if key not in known:
                raise source.error(
                    ("matrix", axis, str(key)), f"{axis} is a map by workload, and {key!r} is not in workload {known}"
                )
        if workload_name not in value:
            raise source.error(("matrix", axis), f"{axis} has no entry for workload {workload_name!r}")
        value = value[workload_name]
    values = value if isinstance(value, list) else [value]
    if not values:
        raise source.error(("matrix", axis), f"axis {axis} is empty: give at least one value, or leave the axis out")
    return values


def _points(source: "Source", key: str) -> list[tuple[Point, Where]]:
    """The mappings listed under `include` or `exclude`, each with where it stands."""
    from tfscale.suite.suitefile import AXES, unknown_key

    items = source.data.get(key) or []
    if not isinstance(items, list):
        raise source.error((key,), f"{key} must be a list of mappings, got {type(items).__name__}")
    points: list[tuple[Point, Where]] = []
    for index, item in enumerate(items):
        if not isinstance(item, dict) or not item:
            raise source.error((key, index), f"{key}[{index}] must be a mapping of axes to values, got {item!r}")
        for axis in item:
            if axis not in AXES:
                raise source.error((key, index, str(axis)), unknown_key(str(axis), AXES, f"{key}[{index}]"))
        points.append((item, (key, index)))
    return points


def _matches(point: Point, pattern: Mapping[str, Any]) -> bool:
    """Whether a point has every value of an exclude pattern (a list there means any of its values)."""

    def value(axis: str) -> Any:
        field = Case.model_fields[axis]
        return point.get(axis, field.get_default(call_default_factory=True))

    return all(
        value(axis) in wanted if isinstance(wanted, list) else value(axis) == wanted for axis, wanted in pattern.items()
    )


def _placed(source: "Source", point: Point, where: Where) -> Point:
    """`point` with its topology read: its own, or the one that `cluster` names for all cases."""
    cluster = source.data.get("cluster") or {}
    named = point.get("topology", cluster.get("topology") if isinstance(cluster, dict) else None)
    if isinstance(named, str):
        try:
            named = topology.load(named, Path(source.name).parent, TOPOLOGIES)
        except ValueError as error:
            raise source.error((*where, "topology"), str(error)) from error
    return point if named is None else {**point, "topology": named}


def _case(source: "Source", point: Point, where: Where) -> Case:
    from tfscale.suite.suitefile import explain

    try:
        case = Case.model_validate(_placed(source, point, where))
    except ValidationError as error:
        raise explain(source, where, Case, error) from error
    try:
        registry.check("strategies", case.strategy)
        exchange.create(case.exchange)
        workload.check(case.workload, case.preset)
    except (ValueError, ImportError, TypeError, AttributeError) as error:
        axis = next((a for a in ("workload", "strategy", "exchange", "preset") if a in str(error)), "workload")
        raise source.error((*where, axis), str(error)) from error
    return case
