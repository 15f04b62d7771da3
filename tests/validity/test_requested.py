from typing import Any

import pytest
from judged import evidence, only

from tfscale.suite.validity import requested


@pytest.mark.parametrize(
    ("asked", "effective", "status"),
    [
        ("nccl", {"collective": "nccl"}, "VALID"),
        ("nccl", {"collective": "ring", "collective_reason": "traced as nccl; CPUs have only the ring"}, "INVALID"),
        ("ring", {"collective": None, "collective_reason": "several implementations"}, "UNKNOWN"),
        ("auto", {"collective": "ring"}, None),
        ("ring", {}, None),
    ],
)
def test_collective(asked: str, effective: dict[str, Any], status: str | None) -> None:
    case = {"strategy": "multi_worker_mirrored", "devices": 2, "collective": asked}
    checks = list(requested.collective(evidence(effective=effective, **case)))
    assert [check.status for check in checks] == ([status] if status else [])


@pytest.mark.parametrize(
    ("asked", "effective", "status"),
    [
        ("float32", {"math": "float32"}, "VALID"),
        ("float32", {"math": "bfloat16", "math_reason": "a TPU multiplies so"}, "SUSPECT"),
        ("mixed_bfloat16", {"math": "float32", "math_reason": "this CPU has no bfloat16 products"}, "SUSPECT"),
        ("mixed_bfloat16", {"math": "bfloat16", "math_proof": "oneDNN brg_matmul:avx10_1_512_amx"}, "VALID"),
        ("mixed_bfloat16", {"math": "bfloat16", "math_proof": None, "math_proof_reason": "no line"}, "UNKNOWN"),
        ("mixed_float16", {"math": None, "math_reason": "no capability"}, "UNKNOWN"),
    ],
)
def test_precision(asked: str, effective: dict[str, Any], status: str) -> None:
    assert only(requested.precision(evidence(effective=effective, precision=asked))).status == status


@pytest.mark.parametrize(
    ("asked", "effective", "status"),
    [
        ("none", {"xla": "none"}, "VALID"),
        ("none", {"xla": "auto", "xla_reason": "TF_XLA_FLAGS"}, "INVALID"),
        ("cluster", {"xla": "cluster", "xla_clusters": 2}, "VALID"),
        ("cluster", {"xla": None, "xla_reason": "no function is marked"}, "INVALID"),
        ("auto", {"xla": None, "xla_reason": "not logged"}, "SUSPECT"),
    ],
)
def test_xla(asked: str, effective: dict[str, Any], status: str) -> None:
    assert only(requested.xla(evidence(effective=effective, xla=asked))).status == status
