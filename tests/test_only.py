"""The --only filter, against cases chosen by hand."""

import pytest

from tfscale.suite.only import OnlyError, parse
from tfscale.suite.spec import Case

CASES = [
    Case(workload="bert", preset="tiny", per_replica_batch=8),
    Case(workload="bert", preset="tiny", per_replica_batch=8, strategy="mirrored", devices=2),
    Case(workload="vit", preset="micro", per_replica_batch=8, strategy="mirrored", devices=4, recompute=True),
    Case(workload="vit", preset="micro", per_replica_batch=8, exchange="powersgd(rank=4,warm=1)", input="files"),
    Case(
        workload="vit", preset="pico", per_replica_batch=8, exchange="two(chunks=4,cross=topk(ratio=0.1,all=true),x=1)"
    ),
]


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("strategy=mirrored", [1, 2]),
        ("strategy=mirrored,devices>=3", [2]),
        ("devices<2", [0, 3, 4]),
        ("workload!=bert", [2, 3, 4]),
        ("strategy = one_device|mirrored , devices <= 2", [0, 1, 3, 4]),
        ("recompute=true", [2]),
        ("exchange=powersgd(rank=4,warm=1)", [3]),
        ("preset=pico,exchange=two(chunks=4,cross=topk(ratio=0.1,all=true),x=1),devices=1", [4]),
        ("exchange=powersgd(rank=4,warm=1)|two(chunks=4,cross=topk(ratio=0.1,all=true),x=1)", [3, 4]),
        ("input=files", [3]),
        (f"id={CASES[1].id}", [1]),
        ("global_batch>1", []),
    ],
)
def test_chosen_cases(text: str, chosen: list[int]) -> None:
    keep = parse(text)
    assert [i for i, case in enumerate(CASES) if keep(case)] == chosen


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not AXIS OP VALUE"),
        ("devices", "is not AXIS OP VALUE"),
        ("device=2", "did you mean 'devices'"),
        ("devices>=two", "compares numbers"),
        ("__import__('os')=1", "is not AXIS OP VALUE"),
    ],
)
def test_what_is_no_filter_says_why(text: str, words: str) -> None:
    with pytest.raises(OnlyError, match=words):
        parse(text)
