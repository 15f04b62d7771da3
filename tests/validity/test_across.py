import builder
import pytest
from judged import only

from tfscale.suite.caseresult import case_result
from tfscale.suite.record import Quantity, Record, unknown
from tfscale.suite.spec import Case
from tfscale.suite.validity import across

CASE = Case(workload="bert", preset="tiny", per_replica_batch=8)


def trials(*seconds: float) -> list[Record]:
    return [
        builder.record(CASE, trial=number, step_s=step_s).model_copy(update={"target": 0.01})
        for number, step_s in enumerate(seconds)
    ]


@pytest.mark.parametrize(
    ("seconds", "width", "status"),
    [
        # Half-width of a Student interval by hand: t(2, 0.975) = 4.3027 times s / sqrt(3) of the logarithms.
        ((1.0, 1.0, 1.0), 0.0, "VALID"),
        ((0.98, 1.0, 1.02), 0.0497, "VALID"),
        ((0.94, 1.0, 1.06), 0.1498, "SUSPECT"),
    ],
)
def test_only_a_wide_interval_is_suspect(seconds: tuple[float, ...], width: float, status: str) -> None:
    check = only(across.interval(trials(*seconds)))
    assert check.status == status
    assert check.evidence["half_width"] == pytest.approx(width, abs=2e-4)


def test_a_missed_target_is_a_note_with_the_width() -> None:
    check = only(across.interval(trials(0.99, 1.0, 1.01)))
    assert check.status == "VALID"
    assert "wider than the target of 1.0%" in check.detail


@pytest.mark.parametrize(("blocks", "status"), [(29, "UNKNOWN"), (30, "SUSPECT")])
def test_one_short_trial_tells_nothing_of_its_spread(blocks: int, status: str) -> None:
    (record,) = trials(1.0)
    wide = record.quantities["step_time"].model_copy(update={"ci95": (0.5, 2.0), "n_samples": blocks})
    told = record.model_copy(update={"quantities": {**record.quantities, "step_time": wide}})
    assert only(across.interval([told])).status == status


def test_a_step_time_without_interval_is_unknown() -> None:
    (record,) = trials(1.0)
    told = {**record.quantities, "step_time": unknown("s", "measured", "mean", "no block")}
    assert only(across.interval([record.model_copy(update={"quantities": told})])).status == "UNKNOWN"


@pytest.mark.parametrize(("seconds", "status"), [((1.0, 1.09), "VALID"), ((1.0, 1.3, 1.01), "SUSPECT")])
def test_trials_must_agree_and_the_odd_one_is_named(seconds: tuple[float, ...], status: str) -> None:
    check = only(across.trials_agree(trials(*seconds)))
    assert check.status == status
    assert check.evidence["spread"] == pytest.approx(max(seconds) / min(seconds) - 1)
    assert "slowest is trial 1" in check.detail


def test_a_case_holds_the_checks_over_its_trials() -> None:
    result = case_result(trials(1.0, 1.5))
    assert result.validity.status == "SUSPECT"
    assert {"interval", "trials_agree"} <= {check.name for check in result.validity.checks}


def test_an_energy_that_trials_found_in_different_ways_is_unknown_over_them() -> None:
    one, two = trials(1.0, 1.0)
    counter = Quantity(value=50.0, unit="J", kind="measured", statistic="growth of the energy counter")
    power = Quantity(value=60.0, unit="J", kind="derived", statistic="integral of sampled power")
    missing = unknown("J", "measured", "sum", "lost")

    def result(first: Quantity, second: Quantity) -> Quantity:
        told = zip((one, two), (first, second), strict=True)
        return case_result(
            [r.model_copy(update={"quantities": {**r.quantities, "energy": q}}) for r, q in told]
        ).quantities["energy"]

    assert result(counter, power).value is None
    assert "different ways" in str(result(counter, power).reason)
    assert result(counter, missing).value == 50.0
