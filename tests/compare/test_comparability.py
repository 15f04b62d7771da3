"""What differs, and what each difference does to a comparison."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import made

from tfscale.suite.compare.comparability import comparability, part_of
from tfscale.suite.compare.forms import Comparability, Difference
from tfscale.suite.compare.matching import Matched
from tfscale.suite.record import Check, Record

NEW_CARD = {"gpus": made.gpus("H200", 8)}
OLD_CARD = {"gpus": made.gpus("A100", 8)}


def judged(a: Record, b: Record, by: Sequence[str] = (), proved: Sequence[str] = ()) -> Comparability:
    return comparability([Matched((a,), (b.model_copy(update={"run": "other"}),))], by, proved)


def weighed(found: Comparability) -> dict[str, str]:
    return {difference.what: difference.weighs for difference in found.differences}


def only(found: Comparability) -> Difference:
    (difference,) = found.differences
    return difference


def on(**changes: Any) -> Record:
    return made.record(made.case(), 100, facts=made.environment(**changes))


def test_the_same_twice_differs_in_nothing() -> None:
    found = judged(on(), on())
    assert (found.things, found.fair, found.differences) == ((), True, ())


def test_other_hardware_is_what_is_compared_where_nothing_else_is_named() -> None:
    found = judged(on(cpu__model="Processor 9000"), on(cpu__model="Processor 9001"))
    assert found.things == ("hardware",) and found.fair
    assert only(found).weighs == "compared"


def test_software_and_clocks_beside_other_hardware_are_unfair_but_not_what_cards_bring() -> None:
    newer = {"packages": {"tensorflow-cpu": "2.21.0", "keras": "3.16.0"}, "cpu__governor": "powersave"}
    found = judged(on(**OLD_CARD, driver__version="550"), on(**NEW_CARD, driver__version="570", **newer))
    assert found.things == ("hardware",) and not found.fair
    assert weighed(found) == {
        "environment.gpus.*.name": "compared",
        "environment.packages.keras": "unfair",
        "environment.cpu.governor": "unfair",
        "environment.driver.version": "note",
    }


def test_software_is_what_is_compared_where_the_hardware_is_the_same() -> None:
    newer = {"packages": {"tensorflow-cpu": "2.22.0", "keras": "3.15.1"}}
    found = judged(on(), on(**newer))
    assert found.things == ("software",) and found.fair
    named = judged(on(**OLD_CARD), on(**NEW_CARD, **newer), by=["software"])
    assert named.things == ("software",) and not named.fair
    assert weighed(named)["environment.gpus.*.name"] == "unfair"
    assert weighed(named)["environment.packages.tensorflow-cpu"] == "compared"


def test_what_one_side_does_not_tell_is_a_note() -> None:
    found = judged(on(), on(cpu__governor=None))
    assert only(found).weighs == "note" and only(found).why == "only A tells it"


def test_hosts_and_load_are_notes() -> None:
    assert weighed(judged(on(), on(host="two"))) == {"environment.host": "note"}


def test_a_named_axis_is_compared_and_other_hardware_beside_it_is_unfair() -> None:
    a = made.record(made.case(exchange="none"), 100, facts=made.environment(**OLD_CARD))
    b = made.record(made.case(exchange="pack"), 100, facts=made.environment(**NEW_CARD))
    found = judged(a, b, by=["exchange"])
    assert found.things == ("exchange",) and not found.fair
    assert weighed(found) == {"exchange": "compared", "environment.gpus.*.name": "unfair"}


@pytest.mark.parametrize(
    ("axes", "by", "weighs"),
    [
        ({"per_replica_batch": 16}, [], "unfair"),
        ({"per_replica_batch": 16}, ["per_replica_batch"], "compared"),
        ({"preset": "small"}, ["preset"], "unfair"),
        ({"input": {"kind": "files"}}, [], "unfair"),
        ({"strategy": "multi_worker_mirrored"}, [], "compared"),
        ({"xla": "cluster"}, [], "compared"),
    ],
)
def test_another_model_never_compares_and_another_work_only_if_named(
    axes: dict[str, Any], by: list[str], weighs: str
) -> None:
    found = judged(made.record(made.case(), 100), made.record(made.case(**axes), 100), by)
    assert weighed(found)[next(iter(axes))] == weighs


def test_the_arithmetic_that_ran_is_compared_where_the_same_was_asked_for() -> None:
    same = made.case()
    a, b = made.record(same, 1), made.record(same, 1, effective={"math": "tf32"})
    assert weighed(judged(a, b)) == {"effective.math": "unfair"}
    unknown = made.record(same, 1, effective={"math": None})
    assert weighed(judged(a, unknown)) == {"effective.math": "note"}
    other = made.record(made.case(precision="mixed_bfloat16"), 1, effective={"math": "bfloat16"})
    assert weighed(judged(a, other, by=["precision"])) == {"precision": "compared"}, (
        "it was asked for, and is told once"
    )


def test_a_lossy_exchange_without_trainings_buys_speed_with_what_nobody_knows() -> None:
    a = made.record(made.case(), 1, effective={"exchange_exact": True})
    b = made.record(made.case(exchange="fp16"), 1, effective={"exchange_exact": False})
    found = judged(a, b, by=["exchange"])
    assert weighed(found) == {"exchange": "compared", "effective.exchange_exact": "unfair"}
    assert judged(a, b, by=["exchange"], proved=[a.case_id, b.case_id]).fair


def test_losses_that_do_not_fall_or_end_elsewhere() -> None:
    def end(mean: float, steps: int = 500, verdict: str = "falling") -> Record:
        last = {"mean": mean, "standard_error": 0.001}
        return made.record(made.case(), 1, loss={"verdict": verdict, "steps": steps, "last_fifth": last})

    assert weighed(judged(end(1.0), end(1.0, verdict="no_learning"))) == {"loss.verdict": "unfair"}
    assert weighed(judged(end(1.0), end(1.2))) == {"loss.last_fifth": "unfair"}
    assert judged(end(1.0), end(1.03)).differences == (), "within 5 %"
    assert judged(end(1.0), end(1.2, steps=900)).differences == (), "after other numbers of steps nobody can say"


def test_a_load_beside_one_side_only_is_unfair_and_a_wide_interval_is_not() -> None:
    doubts = {name: Check(name=name, status="SUSPECT", detail=name) for name in ("foreign_cpu", "interval")}
    quiet, loud = made.record(made.case(), 1), made.record(made.case(), 1, checks=tuple(doubts.values()))
    assert weighed(judged(quiet, loud)) == {"validity.foreign_cpu": "unfair", "validity.interval": "note"}
    assert judged(loud, loud).differences == ()


def test_a_difference_of_some_cases_names_them() -> None:
    cases = [made.case(), made.case(devices=4)]
    slow = made.record(cases[1], 1, effective={"math": "tf32"}, run="other")
    matched = [Matched((made.record(one, 1),), (made.record(one, 1, run="other"),)) for one in cases[:1]]
    matched.append(Matched((made.record(cases[1], 1),), (slow,)))
    assert only(comparability(matched, (), ())).cases == (cases[1].id,)


def test_parts_of_an_environment() -> None:
    assert [part_of(path) for path in ("gpus.0.name", "cpu.governor", "packages.keras", "load_average", "gpus.*.pci")] == [
        "hardware", "clocks", "software", None, None,
    ]  # fmt: skip
