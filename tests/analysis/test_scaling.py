import math
from typing import Any

import numpy as np
import pytest

from tfscale.suite.analysis.scaling import PROPAGATED, MixedCurveError, ThroughputPoint, curve, efficiency, mfu
from tfscale.suite.record import Quantity, unknown
from tfscale.suite.timing.statistics import quantity
from tfscale.suite.timing.trials import WELCH, welch_half_width

KEY = {
    "workload": "bert",
    "strategy": "mirrored",
    "per_replica_batch": 8,
    "effective_math": "float32",
    "xla": "none",
    "exchange": "none",
}


def point(devices: int, rate: float, *, trials: tuple[float, ...] = (), **more: Any) -> ThroughputPoint:
    fields = {"ci95": (rate / 1.02, rate * 1.02), **more.pop("quantity", {})}
    return ThroughputPoint(
        devices=devices,
        throughput=quantity(rate, "samples/s", "mean", **fields),
        key={**KEY, "global_batch": 8 * devices, **more},
        trials=trials,
    )


def bounds(result: Quantity) -> tuple[float, float]:
    assert result.ci95 is not None
    return result.ci95


def test_efficiency_is_the_definition() -> None:
    found = efficiency(point(2, 200.0), point(8, 600.0), mode="weak")
    assert found.value.value == pytest.approx(600 * 2 / (200 * 8))
    assert (found.mode, found.baseline, found.baseline_devices, found.devices) == ("weak", "2 devices", 2, 8)
    assert (found.per_replica_batch, found.superlinear) == (8, False)
    assert found.value.kind == "derived"


def test_intervals_of_both_ends_add_in_quadrature() -> None:
    found = efficiency(point(1, 100.0), point(4, 400.0), mode="weak").value
    assert bounds(found) == pytest.approx((1.02 ** -math.sqrt(2), 1.02 ** math.sqrt(2)))
    assert (found.ci_method, found.scope) == (PROPAGATED, "within_trial")


def test_trials_give_welch() -> None:
    first, second = (99.0, 100.0, 101.0), (380.0, 400.0, 410.0)
    found = efficiency(point(1, 100.0, trials=first), point(4, 400.0, trials=second), mode="weak").value
    half = welch_half_width(np.log(first), np.log(second))
    assert bounds(found) == pytest.approx((math.exp(-half), math.exp(half)))
    assert (found.ci_method, found.scope) == (WELCH, "across_trials")


def test_coverage_of_the_efficiency_interval() -> None:
    rng, hits, n = np.random.default_rng(1), 0, 1500
    for _ in range(n):
        one, eight = np.exp(rng.normal(0, 0.01, 5)) * 100, np.exp(rng.normal(0, 0.03, 5)) * 640
        ends = [point(d, math.exp(np.log(x).mean()), trials=tuple(x)) for d, x in ((1, one), (8, eight))]
        low, high = bounds(efficiency(*ends, mode="weak").value)
        hits += low <= 0.8 <= high
    assert 0.93 <= hits / n <= 0.97


def test_one_end_within_a_trial_makes_the_whole_within_a_trial() -> None:
    across = point(1, 100.0, quantity={"scope": "across_trials"})
    assert efficiency(across, point(4, 400.0), mode="weak").value.scope == "within_trial"
    both = efficiency(across, point(4, 400.0, quantity={"scope": "across_trials"}), mode="weak")
    assert both.value.scope == "across_trials"


def test_an_end_without_interval_leaves_none() -> None:
    found = efficiency(point(1, 100.0, quantity={"ci95": None}), point(4, 400.0), mode="weak").value
    assert (found.ci95, found.ci_method) == (None, None)


def test_more_than_perfect_is_flagged_not_clipped() -> None:
    found = efficiency(point(1, 100.0), point(2, 230.0), mode="weak")
    assert found.value.value == pytest.approx(1.15)
    assert found.superlinear


@pytest.mark.parametrize(
    "other",
    [{"strategy": "parameter_server"}, {"xla": "cluster"}, {"exchange": "fp16"}, {"effective_math": "tf32"},
     {"per_replica_batch": 16}, {"hardware": "other"}],
)  # fmt: skip
def test_a_curve_never_mixes(other: dict[str, Any]) -> None:
    with pytest.raises(MixedCurveError, match=next(iter(other))):
        efficiency(point(1, 100.0), point(2, 200.0, **other), mode="weak")
    with pytest.raises(ValueError, match=next(iter(other))):
        curve([point(1, 100.0), point(2, 190.0), point(4, 380.0, **other)], mode="weak")


def test_strong_scaling_fixes_the_global_batch() -> None:
    strong = [point(n, rate, global_batch=64, per_replica_batch=64 // n) for n, rate in ((1, 100.0), (4, 300.0))]
    assert efficiency(*strong, mode="strong").value.value == pytest.approx(0.75)
    with pytest.raises(MixedCurveError, match="per_replica_batch"):
        efficiency(*strong, mode="weak")
    with pytest.raises(MixedCurveError, match="global_batch"):
        efficiency(point(1, 100.0), point(4, 300.0), mode="strong")


def test_accumulated_scaling_fixes_both_batches() -> None:
    ends = [point(1, 100.0, global_batch=64, accumulation=8), point(4, 390.0, global_batch=64, accumulation=2)]
    assert efficiency(*ends, mode="accumulated").value.value == pytest.approx(0.975)
    with pytest.raises(MixedCurveError, match="accumulation"):
        efficiency(*ends, mode="strong")


def test_a_batch_that_nobody_knows_is_refused() -> None:
    with pytest.raises(MixedCurveError, match="to know per_replica_batch"):
        efficiency(point(1, 1.0, per_replica_batch=None), point(2, 2.0, per_replica_batch=None), mode="weak")


def test_points_of_another_mode_are_refused() -> None:
    with pytest.raises(MixedCurveError, match="point of strong scaling"):
        efficiency(point(1, 100.0), point(2, 200.0, mode="strong"), mode="weak")


def test_named_baselines_may_have_another_strategy_but_no_other_math() -> None:
    one = point(1, 100.0, strategy="one_device")
    found = efficiency(one, point(4, 300.0, exchange="fp16"), mode="weak", name="one_device")
    assert (found.baseline, found.value.value) == ("one_device", pytest.approx(0.75))
    with pytest.raises(MixedCurveError, match="xla"):
        efficiency(one, point(4, 300.0, xla="cluster"), mode="weak", name="one_device")
    with pytest.raises(MixedCurveError, match="measured with strategy 'mirrored'"):
        efficiency(point(1, 100.0), point(4, 300.0), mode="weak", name="one_device")
    with pytest.raises(ValueError, match="one_node"):
        efficiency(one, point(4, 300.0), mode="weak", name="two_nodes")


def test_contention_times_distribution_is_the_whole_loss() -> None:
    one, many = point(1, 100.0, strategy="one_device"), point(4, 360.0, strategy="independent")
    job = point(4, 300.0)
    contention = efficiency(one, many, mode="weak", name="one_device").value.value
    distribution = efficiency(many, job, mode="weak", name="independent").value.value
    whole = efficiency(one, job, mode="weak", name="one_device").value.value
    assert contention is not None and distribution is not None
    assert contention * distribution == pytest.approx(whole)


def test_a_curve_is_sorted_and_starts_at_one() -> None:
    found = curve([point(4, 360.0), point(1, 100.0), point(2, 190.0)], mode="weak")
    assert [one.devices for one in found] == [1, 2, 4]
    assert [one.value.value for one in found] == pytest.approx([1.0, 0.95, 0.9])
    assert found[0].value.ci95 == (1.0, 1.0)
    with pytest.raises(ValueError, match="at least one"):
        curve([], mode="weak")


def test_no_throughput_no_efficiency() -> None:
    lost = ThroughputPoint(4, unknown("samples/s", "measured", "mean", "rank 3 died"), point(4, 1.0).key)
    found = efficiency(point(1, 100.0), lost, mode="weak").value
    assert (found.value, found.reason) == (None, "no throughput at 4 devices: rank 3 died")


def test_kinds_are_not_mixed_in_one_number() -> None:
    found = efficiency(point(1, 100.0), point(4, 1.0, quantity={"kind": "simulated"}), mode="weak").value
    assert found.value is None
    assert "simulated" in (found.reason or "")


def test_mfu_by_hand() -> None:
    """6e12 FLOPs in 0.1 s on 4 replicas of 100 TFLOP/s: 15 %."""
    step_time = quantity(0.1, "s", "mean", ci95=(0.08, 0.125), ci_method="t")
    found = mfu(6e12, step_time, 4, 1e14)
    assert found.value == pytest.approx(0.15)
    assert bounds(found) == pytest.approx((0.12, 0.1875))
    assert (found.unit, found.kind, found.statistic) == ("1", "derived", "mfu")


def test_no_peak_no_mfu() -> None:
    found = mfu(1e12, quantity(0.1, "s", "mean"), 1, None, reason="no peak listed for this CPU")
    assert (found.value, found.reason) == (None, "no peak listed for this CPU")
    assert mfu(1e12, unknown("s", "measured", "mean", "died"), 1, 1e12).reason == "died"
