"""Encoding and decoding of an exchange in a trace whose answer is known by construction."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
from toy_timeline import PS, E, Timeline

from tfscale.suite.profiling.analysed import analyse
from tfscale.suite.profiling.readers import xplane
from tfscale.suite.profiling.scopes import exchange_times

CPU = "/host:CPU"


def two_steps(prefix: str) -> Timeline:
    """Each step of 100 us: encoding on two threads at once from 10 to 40 and 30 to 50, decoding from 70 to 75."""
    timeline = Timeline()
    timeline.line(CPU, "python", [E("train", n * 100, 100, step_num=n, _r=1) for n in range(2)])
    first = [E(f"{prefix}exchange/encode/Cast:Cast", n * 100 + 10, 30) for n in range(2)]
    first += [E(f"{prefix}exchange/decode/Cast_1:Cast", n * 100 + 70, 5) for n in range(2)]
    other = [E(f"{prefix}exchange/encode_1/concat:ConcatV2", n * 100 + 30, 20) for n in range(2)]
    other += [E("my_exchange/encoder/MatMul:MatMul", n * 100 + 60, 40) for n in range(2)]
    after = [E(f"{prefix}exchange/encode/Cast:Cast", 205, 30)]  # outside of the marked steps
    return timeline.line(CPU, "tf_Compute/1", first).line(CPU, "tf_Compute/2", [*other, *after])


@pytest.mark.parametrize("prefix", ["", "replica_1/", "while/body/_1/while/"])
def test_threads_at_once_count_once_and_only_within_steps(prefix: str) -> None:
    found = analyse([xplane.read(two_steps(prefix).bytes(), "f")])
    assert exchange_times(found) == {"encode_ps": 40 * PS, "decode_ps": 5 * PS}
    assert exchange_times(found, optimizer_steps=10) == {"encode_ps": 4 * PS, "decode_ps": 500_000}


def test_a_trace_without_the_scopes_has_no_times() -> None:
    timeline = Timeline().line(CPU, "python", [E("train", 0, 100, step_num=0, _r=1)])
    timeline.line(CPU, "tf_Compute/1", [E("dense/MatMul:MatMul", 10, 50)])
    assert exchange_times(analyse([xplane.read(timeline.bytes(), "f")])) is None
