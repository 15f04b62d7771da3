"""The matmul peak: its arithmetic, its interval, and one short measurement."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tfscale.workloads.micro import gemm


def test_flops_of_a_product() -> None:
    assert gemm.gemm_flops(2, 3, 5) == 60
    assert gemm.gemm_flops(4096, 4096, 4096) == 137_438_953_472


def test_chain_is_even_and_shorter_for_large_sizes() -> None:
    lengths = [gemm.chain_length(size) for size in gemm.SIZES]
    assert all(length % 2 == 0 and 2 <= length <= 16 for length in lengths)
    assert gemm.chain_length(gemm.Size(256, 256, 256)) == 16
    assert gemm.chain_length(gemm.Size(4096, 4096, 4096)) == 2


def test_interval_of_the_median() -> None:
    assert gemm.median_interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None
    # Order statistics from the binomial distribution with p = 1/2: n = 6 has its range (96.9 %), n = 20 has 6..15.
    assert gemm.median_interval([6.0, 1.0, 2.0, 3.0, 4.0, 5.0]) == (1.0, 6.0)
    assert gemm.median_interval([float(value) for value in range(1, 21)]) == (6.0, 15.0)


def test_interval_covers_the_median() -> None:
    draw = np.random.default_rng(0)
    covered = []
    for _ in range(2000):
        interval = gemm.median_interval(draw.exponential(size=25).tolist())
        assert interval is not None
        covered.append(interval[0] <= np.log(2) <= interval[1])
    assert 0.94 <= sum(covered) / len(covered) <= 0.98


@pytest.mark.parametrize("text", ["", "x", "1x2", "0", "1x2x3x4", "1x-2x3"])
def test_bad_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        gemm.parse_size(text)


@pytest.mark.tensorflow
@pytest.mark.system
def test_a_short_measurement() -> None:
    command = [sys.executable, "-m", "tfscale.workloads.micro.gemm", "--json", "--budget-s", "4", "--cores", "0"]
    command += ["--precision", "float32", "tf32", "--size", "128", "64x96x32", "--xla", "none", "cluster"]
    everything = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    rows = [row for row in everything if row["precision"] == "float32"]
    cells = [(row["xla"], row["n"]) for row in rows]
    assert cells == [("none", 128), ("none", 96), ("cluster", 128), ("cluster", 96)]
    for row in rows:
        assert row["flops_per_s"]["unit"] == "FLOP/s" and row["flops_per_s"]["kind"] == "measured"
        assert 1e7 < row["flops_per_s"]["value"] < 1e15
        assert row["error"] <= row["tolerance"] < 1e-3
        assert row["cores"] == 1
    assert sum(row["best"] for row in rows) == 2
    if rows[0]["device"] == "CPU":
        missing = [row for row in everything if row["precision"] == "tf32"]
        assert [(row["xla"], row["m"]) for row in missing] == [("none", None), ("cluster", None)]
        assert "NVIDIA" in missing[0]["flops_per_s"]["reason"]


@pytest.mark.tensorflow
def test_a_wrong_result_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "_chain", lambda precision, xla, matmuls: lambda a, b, c: a)
    with pytest.raises(gemm.WrongResultError, match="matmul 64x64x64 in float32 is off by"):
        gemm.measure(5.0, ["float32"], ["none"], [gemm.Size(64, 64, 64)])
