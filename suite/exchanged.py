"""From what the ranks tell of their exchange to the quantities of a record. Pure."""

from collections.abc import Sequence
from typing import Any

from tfscale.suite.exchange.parse import parse
from tfscale.suite.rankfiles import RankResult
from tfscale.suite.record import Quantity, unknown
from tfscale.suite.timing.statistics import quantity

BYTES = "handed to collectives by one replica in a step, the most over ranks"
RATIO = "bytes of `none` / bytes"
TIME = "median of a loop without collectives, the largest over ranks"
NOT_EXCHANGED = "no gradient is exchanged"
NAMES = ("exchange_bytes", "exchange_ratio", "encode_time", "decode_time")


def quantities(ranks: Sequence[RankResult], exchange: str) -> dict[str, Quantity]:
    """exchange_bytes and _ratio (counted at the collectives' inputs), encode_time and decode_time (s); all derived."""
    told = [rank.exchange for rank in ranks]
    if not all(told):
        units = ("bytes", "1", "s", "s")
        statistics = (BYTES, RATIO, TIME, TIME)
        return {
            name: unknown(unit, "derived", statistic, NOT_EXCHANGED)
            for name, unit, statistic in zip(NAMES, units, statistics, strict=True)
        }
    most = max(told, key=lambda one: int(one["bytes"]))
    return {
        "exchange_bytes": quantity(most["bytes"], "bytes", BYTES, kind="derived"),
        "exchange_ratio": quantity(most["none_bytes"] / most["bytes"], "1", RATIO, kind="derived"),
        "encode_time": _time(told, "encode_s", exchange),
        "decode_time": _time(told, "decode_s", exchange),
    }


def _time(told: Sequence[dict[str, Any]], name: str, exchange: str) -> Quantity:
    known = [one[name] for one in told if one.get(name) is not None]
    if len(known) == len(told):
        repeats = sum(one["repeats"] for one in told)
        return quantity(max(known), "s", TIME, kind="derived", n_samples=repeats)
    reasons = [one["reason"] for one in told if one.get("reason")]
    plain = parse(exchange).name == "none"
    return unknown(
        "s", "derived", TIME, "none sends gradients as they are" if plain else next(iter(reasons), "not timed")
    )


def effective(ranks: Sequence[RankResult]) -> dict[str, Any]:
    """Whether the exchange is exact, and the bytes that rank 0 handed to each kind of collective; {} without one."""
    told = ranks[0].exchange
    return {"exchange_exact": told["exact"], "exchange_handed": told["handed"]} if told else {}
