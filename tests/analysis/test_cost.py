"""Cost from a price that the user names, against figures worked out by hand."""

import pytest

from tfscale.suite.analysis.cost import (
    Price,
    cost_per_million,
    parse_price,
    parse_prices,
    rank_changes,
    swayed,
)
from tfscale.suite.record import unknown
from tfscale.suite.timing.statistics import quantity

EUR = Price(value=2.5, currency="EUR", date="2026-12")


@pytest.mark.parametrize(
    ("text", "side", "price"),
    [
        ("A=2.50EUR/device-hour@2026-12", "A", EUR),
        ("B=3USD@2026-12-31", "B", Price(value=3, currency="USD", date="2026-12-31")),
        (" A = 2.5 EUR@2026-12 ", "A", EUR),
    ],
)
def test_a_price_is_read(text: str, side: str, price: Price) -> None:
    assert parse_price(text) == (side, price)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2.5EUR@2026-12", "such as A=2.50EUR/device-hour@2026-12"),
        ("C=2.5EUR@2026-12", "is not SIDE="),
        ("A=2.5@2026-12", "is not SIDE="),
        ("A=2.5EUR", "is not SIDE="),
        ("A=2.5eur@2026-12", "is not SIDE="),
        ("A=-2EUR@2026-12", "is not SIDE="),
        ("A=2.5EUR/hour@2026-12", "is not SIDE="),
        ("A=0EUR@2026-12", "leave it out"),
        ("A=1EUR@2026-13", "2026-13 is no date"),
        ("A=1EUR@2026-02-30", "2026-02-30 is no date"),
    ],
)
def test_a_price_that_does_not_say_all_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_price(text)


def test_prices_of_two_currencies_or_twice_of_one_side_are_refused() -> None:
    assert set(parse_prices(["A=1EUR@2026-12", "B=2EUR@2026-11"])) == {"A", "B"}
    with pytest.raises(ValueError, match="EUR and USD cannot be compared"):
        parse_prices(["A=1EUR@2026-12", "B=1USD@2026-12"])
    with pytest.raises(ValueError, match="A has a price already"):
        parse_prices(["A=1EUR@2026-12", "A=2EUR@2026-12"])


def test_cost_of_a_million_samples_by_hand() -> None:
    """8 devices at 2.5 EUR an hour cost 20 EUR; at 1,000 samples/s an hour gives 3.6 million: 5.5556 EUR each."""
    speed = quantity(1000.0, "samples/s", "mean", ci95=(900.0, 1100.0), ci_method="t")
    cost = cost_per_million(EUR, 8, speed)
    assert cost.value == pytest.approx(20 / 3.6)
    assert cost.ci95 == pytest.approx((20 / 3.96, 20 / 3.24))
    assert (cost.unit, cost.kind, cost.ci_method) == ("EUR/million samples", "derived", "t")
    assert cost_per_million(EUR, 1, unknown("samples/s", "measured", "mean", "died")).reason == "died"


def test_prices_that_move_by_a_fifth() -> None:
    ratios = swayed(0.9)
    assert len(ratios) == 9
    assert ratios[0.0, 0.0] == pytest.approx(0.9)
    assert ratios[-0.2, 0.2] == pytest.approx(1.35)
    assert ratios[0.2, -0.2] == pytest.approx(0.6)
    assert rank_changes(ratios)
    assert not rank_changes(swayed(0.6)), "0.6 x 1.2 / 0.8 is 0.9: B is the cheaper one at all of them"
    assert rank_changes(swayed(0.7))
