"""What training costs at a price that the user names: per million samples, and which of two systems is cheaper. Pure."""

import datetime
import re
from collections.abc import Mapping, Sequence

from tfscale.suite.record import Quantity, Strict, unknown

SYNTAX = "SIDE=VALUECURRENCY/device-hour@DATE, such as A=2.50EUR/device-hour@2026-12"
_PRICE = re.compile(
    r"(?P<side>[AB])\s*=\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<currency>[A-Z]{3})(?:/device-hour)?@(?P<date>\d{4}-\d{2}(?:-\d{2})?)"
)
MILLION = 1_000_000
SWAY = 0.2
"""A price is moved by so much either way to see whether the cheaper system stays the cheaper one."""


class Price(Strict):
    """What one device costs an hour, as the user says: who says it, and when it held, is theirs to know."""

    value: float
    currency: str
    """ISO 4217, three letters."""
    date: str
    """Year and month, or a day, at which it held."""


def parse_price(text: str) -> tuple[str, Price]:
    """`A=2.50EUR/device-hour@2026-12` as side and price; the unit may be left out. Raises ValueError."""
    match = _PRICE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"price {text!r} is not {SYNTAX}")
    value, date = float(match["value"]), match["date"]
    if value <= 0:
        raise ValueError(f"price {text!r}: a price of 0 makes no cost; leave it out")
    try:
        datetime.date.fromisoformat(date if date.count("-") == 2 else f"{date}-01")
    except ValueError as error:
        raise ValueError(f"price {text!r}: {date} is no date ({error})") from error
    return match["side"], Price(value=value, currency=match["currency"], date=date)


def parse_prices(texts: Sequence[str]) -> dict[str, Price]:
    """Side -> price. Raises ValueError for a side given twice, or two currencies: what they are worth is not ours."""
    prices: dict[str, Price] = {}
    for text in texts:
        side, price = parse_price(text)
        if side in prices:
            raise ValueError(f"price {text!r}: {side} has a price already; give one a side")
        prices[side] = price
    currencies = sorted({price.currency for price in prices.values()})
    if len(currencies) > 1:
        raise ValueError(f"prices in {' and '.join(currencies)} cannot be compared; give both in one currency")
    return prices


def cost_per_million(price: Price, devices: int, throughput: Quantity) -> Quantity:
    """Cost of a million samples: price x devices x 10^6 / (3600 x throughput), with the throughput's interval.

    `price` an hour and device; `throughput` in samples a second of the whole job of `devices` devices.
    """
    sample = throughput.unit.removesuffix("/s")
    unit, statistic = f"{price.currency}/million {sample}", "price x devices / throughput"
    if throughput.value is None:
        return unknown(unit, "derived", statistic, throughput.reason or "no throughput")
    whole = price.value * devices / 3600 * MILLION
    interval = throughput.ci95 if throughput.ci95 and throughput.ci95[0] > 0 else None
    return throughput.model_copy(
        update={
            "value": whole / throughput.value,
            "unit": unit,
            "kind": "derived" if throughput.kind == "measured" else throughput.kind,
            "statistic": statistic,
            "ci95": (whole / interval[1], whole / interval[0]) if interval else None,
            "ci_method": throughput.ci_method if interval else None,
        }
    )


def swayed(cost_ratio: float, sway: float = SWAY) -> dict[tuple[float, float], float]:
    """(change of A's price, change of B's) -> cost of B over that of A, for changes of -`sway`, 0 and +`sway`.

    `cost_ratio`: cost of B over that of A at the prices given.
    """
    steps = (-sway, 0.0, sway)
    return {(a, b): cost_ratio * (1 + b) / (1 + a) for a in steps for b in steps}


def rank_changes(ratios: Mapping[tuple[float, float], float]) -> bool:
    """Whether the cheaper side is not the same at all prices."""
    return len({ratio < 1 for ratio in ratios.values() if ratio != 1}) > 1
