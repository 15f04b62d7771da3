"""Names of exchanges."""

import pytest

from tfscale.suite.exchange.base import create
from tfscale.suite.exchange.none import NoCompression
from tfscale.suite.exchange.parse import ExchangeSpec, parse
from tfscale.suite.registry import UnknownNameError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", ExchangeSpec("none")),
        ("none()", ExchangeSpec("none")),
        ("powersgd(rank=4)", ExchangeSpec("powersgd", {"rank": 4})),
        ("topk(ratio=1e-3, feedback=true)", ExchangeSpec("topk", {"ratio": 0.001, "feedback": True})),
        ("my.module:Mine(kind=ring)", ExchangeSpec("my.module:Mine", {"kind": "ring"})),
        ("two(cross=fp16, chunks=4)", ExchangeSpec("two", {"cross": "fp16", "chunks": 4})),
        (
            "two(cross=topk(ratio=0.1, feedback=true), chunks=4)",
            ExchangeSpec("two", {"cross": "topk(ratio=0.1, feedback=true)", "chunks": 4}),
        ),
        ("two(cross=two(cross=fp16()),last=1)", ExchangeSpec("two", {"cross": "two(cross=fp16())", "last": 1})),
    ],
)
def test_reads(text: str, expected: ExchangeSpec) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not of the form"),
        ("power sgd", "not of the form"),
        ("powersgd(4)", "'4'"),
        ("powersgd(rank=4", "not of the form"),
        ("powersgd(rank=4, rank=5)", "twice"),
        ("powersgd(rank=__import__('os'))", "not of the form"),
        ("powersgd(rank=(1))", "not of the form"),
        ("two(cross=topk(0.1))", "'0.1'"),
        ("two(cross=topk(ratio=0.1)", "not of the form"),
        ("two(cross=topk(ratio=0.1)))", "not of the form"),
        ("two(cross=topk(ratio=0.1)(x=1))", "not of the form"),
        ("two)cross=1(", "not of the form"),
        ("two(x=" * 5000 + "one" + ")" * 5000, "not of the form"),
    ],
)
def test_refuses_and_names_the_part(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        parse(text)


def test_create() -> None:
    assert isinstance(create("none(pack_mib=4)"), NoCompression)
    with pytest.raises(ValueError, match="pack"):
        create("none(pack_mb=4)")
    with pytest.raises(ValueError, match="must be a number of MiB"):
        create("none(pack_mib=-1)")
    with pytest.raises(UnknownNameError, match="did you mean 'none'"):
        create("nome")
