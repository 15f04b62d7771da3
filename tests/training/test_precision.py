"""Loss scaling, and which arithmetic is said to be in force."""

import pytest

tf = pytest.importorskip("tensorflow")

from tfscale.suite.training import precision  # noqa: E402
from tfscale.suite.training.precision import LossScale, all_finite  # noqa: E402

pytestmark = pytest.mark.tensorflow


def after(scale: float, good: float, finite: bool) -> tuple[float, float]:
    new_scale, new_good = LossScale.next(tf.constant(scale), tf.constant(good), tf.constant(finite))
    return float(new_scale), float(new_good)


def test_scale_halves_on_overflow_and_starts_counting_anew() -> None:
    assert after(1024.0, 7.0, False) == (512.0, 0.0)


def test_scale_doubles_after_2000_good_steps() -> None:
    assert after(1024.0, 1998.0, True) == (1024.0, 1999.0)
    assert after(1024.0, 1999.0, True) == (2048.0, 0.0)


def test_scale_goes_below_one_but_never_to_zero() -> None:
    assert after(1.0, 0.0, False) == (0.5, 0.0)
    assert after(LossScale.LEAST, 0.0, False) == (LossScale.LEAST, 0.0)


def test_a_nan_in_a_sparse_gradient_is_found() -> None:
    slices = tf.IndexedSlices(tf.constant([[float("nan")]]), tf.constant([0]))
    assert not bool(all_finite([tf.constant([1.0]), slices]))
    assert bool(all_finite([tf.constant([1.0])]))


def test_math_of_a_cpu_says_what_it_is_not() -> None:
    assert precision.cpu_math("float32", frozenset()) == {"math": "float32"}
    assert "no TF32" in precision.cpu_math("tf32", frozenset())["math_reason"]
    assert precision.cpu_math("mixed_bfloat16", frozenset({"amx_bf16"})) == {"math": "bfloat16"}
    emulated = precision.cpu_math("mixed_bfloat16", frozenset({"avx2"}))
    assert emulated["math"] == "float32"
    assert "bfloat16" in emulated["math_reason"]


def test_math_of_a_gpu_follows_its_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    enabled = tf.config.experimental.tensor_float_32_execution_enabled
    assert precision._gpu("mixed_bfloat16", (8, 0)) == {"math": "bfloat16"}
    assert precision._gpu("mixed_bfloat16", (7, 0))["math"] == "float32"
    assert precision._gpu("mixed_float16", (7, 0)) == {"math": "float16"}
    monkeypatch.setattr(tf.config.experimental, "tensor_float_32_execution_enabled", lambda: True)
    assert precision._gpu("float32", (9, 0)) == {"math": "tf32"}, "a float32 that is not must be said to be so"
    assert precision._gpu("tf32", (7, 0))["math"] == "float32"
    assert precision._gpu("tf32", None)["math"] is None
    del enabled
