"""Which case stands against which."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import made

from tfscale.suite.compare.forms import Pair, Pairing
from tfscale.suite.compare.matching import (
    against_first,
    check_by,
    differing,
    match,
    names_of,
    nothing_matches,
    pairs,
    shared_title,
)
from tfscale.suite.record import Record
from tfscale.suite.spec import Case


def cases(*of: Case) -> dict[str, list[Record]]:
    return {case.id: [made.record(case, 100)] for case in of}


def matched_axes(
    a: dict[str, list[Record]], b: dict[str, list[Record]], by: list[str], same: bool
) -> list[list[object]]:
    found = match(a, b, by, same=same)
    return [[one.a[0].case[axis] for axis in by] + [one.b[0].case[axis] for axis in by] for one in found]


def test_without_axes_cases_of_one_id_match_and_hardware_is_no_axis() -> None:
    here, there = cases(made.case(), made.case(devices=4)), cases(made.case(devices=4), made.case(devices=8))
    for by in ([], ["hardware"]):
        (one,) = match(here, there, by)
        assert one.a[0].case_id == one.b[0].case_id == made.case(devices=4).id


def test_with_axes_cases_match_that_differ_in_exactly_those() -> None:
    plain, packed = made.case(), made.case(exchange="pack")
    both = made.case(exchange="pack", xla="cluster")
    assert matched_axes(cases(plain), cases(packed, both), ["exchange"], False) == [["none", "pack"]]
    assert matched_axes(cases(plain), cases(packed, both), ["exchange", "xla"], False) == [
        ["none", "none", "pack", "cluster"]
    ]


def test_within_one_result_every_case_stands_against_the_first() -> None:
    three = cases(*(made.case(precision=name) for name in ("float32", "mixed_bfloat16", "mixed_float16")))
    assert matched_axes(three, three, ["precision"], True) == [
        ["float32", "mixed_bfloat16"],
        ["float32", "mixed_float16"],
    ]
    assert against_first([made.case().model_dump(mode="json")], {"xla"}) == []


def test_pairs_come_as_they_ran_and_a_lost_launch_costs_its_pair_only() -> None:
    a, b = made.case(), made.case(exchange="pack")
    records = {a.id: made.trials(a, [100, 101, 102]), b.id: made.trials(b, [110, 112])}
    turns = tuple(Pair(first="A", case_a=a.id, trial_a=n, case_b=b.id, trial_b=n) for n in range(3))
    found, notes = pairs(records, Pairing(a="none", b="pack", by=(), pairs=turns))
    (one,) = found
    assert one.paired and [record.trial for record in one.a] == [record.trial for record in one.b] == [0, 1]
    assert notes == ["1 of 3 pairs lack a launch and are left out"]


def test_a_hint_where_nothing_matches() -> None:
    words = nothing_matches(cases(made.case()), cases(made.case(xla="cluster", devices=4)), [])
    assert words == (
        "no two cases have one id (1 cases of A, 1 of B); the nearest two differ in devices, xla: --by devices,xla"
    )
    assert "differ in exactly seed" in nothing_matches(cases(made.case()), cases(made.case()), ["seed"], same=True)


def test_what_may_be_compared() -> None:
    assert check_by(["exchange, xla", "hardware", "xla"]) == ("exchange", "xla", "hardware")
    with pytest.raises(ValueError, match="did you mean 'exchange'"):
        check_by(["exchnge"])


def test_titles_and_names_tell_what_is_shared_and_what_is_not() -> None:
    a = made.case(precision="mixed_bfloat16", exchange="pack").model_dump(mode="json")
    b = made.case(precision="mixed_bfloat16", exchange="fp16").model_dump(mode="json")
    assert shared_title(a, b) == "vit micro mirrored x2 per_replica_batch=8 precision=mixed_bfloat16"
    assert shared_title(a, {**a, "devices": 4}).startswith("vit micro mirrored per_replica_batch=8")
    assert names_of([differing(a, b)]) == ("pack", "fp16")
    assert names_of([differing(a, b), differing(b, a)]) == names_of([{}]) == ("A", "B")
