"""Quantities and records refuse what they must not hold."""

import pytest
from pydantic import ValidationError

from tfscale.suite.record import Check, Quantity, Validity, unknown


def test_a_quantity_has_a_value_or_a_reason() -> None:
    with pytest.raises(ValidationError, match="reason"):
        Quantity(value=None, unit="s", kind="measured", statistic="mean")
    with pytest.raises(ValidationError, match="reason"):
        Quantity(value=1.0, unit="s", kind="measured", statistic="mean", reason="because")
    assert unknown("1", "derived", "mean", "no peak is known").value is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_quantity_is_finite(value: float) -> None:
    with pytest.raises(ValidationError):
        Quantity(value=value, unit="s", kind="measured", statistic="mean")


def test_a_quantity_without_kind_is_refused() -> None:
    with pytest.raises(ValidationError, match="kind"):
        Quantity(value=1.0, unit="s", statistic="mean")  # type: ignore[call-arg]


def test_validity_is_the_worst_of_its_checks() -> None:
    good, odd, bad = (Check(name="c", status=s, detail="d") for s in ("VALID", "SUSPECT", "INVALID"))
    assert Validity.of(()).status == "VALID"
    assert Validity.of((good, odd)).status == "SUSPECT"
    assert Validity.of((odd, bad, good)).status == "INVALID"
