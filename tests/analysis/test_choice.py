"""Which of predicted exchanges is taken, and what is said of it."""

import pytest

from tfscale.suite.analysis.choice import Candidate, choose


def test_the_fastest_is_taken() -> None:
    found = choose(
        [Candidate("none", True, 4.0), Candidate("hierarchical", True, 2.0), Candidate("priority", True, 3.0)]
    )
    assert found.name == "hierarchical"
    assert "hierarchical is predicted to add 2 s" in found.reason
    assert "next priority 3 s, none 4 s" in found.reason


def test_encoding_counts() -> None:
    found = choose([Candidate("none", True, 1.0), Candidate("int8", False, 0.25, codec_s=1.0)])
    assert found.name == "none"
    found = choose([Candidate("none", True, 2.0), Candidate("int8", False, 0.5, codec_s=1.0)])
    assert found.name == "int8"
    assert "1 s of it encoding and decoding" in found.reason


def test_near_equals_exact_before_lossy_then_the_one_that_leaves_sooner() -> None:
    near = [Candidate("none", True, 1.0), Candidate("pack(mib=4)", True, 1.03, collectives=9)]
    found = choose(near)
    assert found.name == "pack(mib=4)"
    assert "none is 1 s, too close to tell, and pack(mib=4) is sooner on its way" in found.reason
    assert choose([*near, Candidate("fp16", False, 0.99)]).name == "pack(mib=4)"
    assert choose([*near, Candidate("fp16", False, 0.5)]).name == "fp16"
    assert choose([Candidate("none", True, 1.0), Candidate("pack(mib=1)", True, 1.06, collectives=50)]).name == "none"


def test_nothing_to_choose_from() -> None:
    with pytest.raises(ValueError, match="no exchange"):
        choose([])
