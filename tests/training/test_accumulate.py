"""Accumulation equals one large batch, dense and sparse, compiled or not."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_model  # noqa: E402
from toy_workload import SGD, ToyShape  # noqa: E402

from tfscale.suite.training.accumulate import accumulate, differentiate  # noqa: E402
from tfscale.suite.training.step import flat_variables  # noqa: E402
from tfscale.suite.workload import BuildContext  # noqa: E402

pytestmark = pytest.mark.tensorflow

BATCH = {k: tf.constant(v) for k, v in SGD.synthetic("tiny", seed=3, index=0, batch=12, options={}).items()}


def loss_and_gradients(parts: int, compiled: bool) -> tuple[Any, list[Any]]:
    model = toy_model.build(ToyShape(), BuildContext(seed=0))
    variables = flat_variables(model)

    def whole(batch: dict[str, Any]) -> Any:
        return accumulate(lambda part: differentiate(model, part, tf.constant(1.0 / parts), variables), batch, parts)

    loss, gradients = tf.function(whole, jit_compile=compiled, autograph=False)(BATCH)
    assert isinstance(gradients[0], tf.IndexedSlices), "gradients of tables stay sparse"
    return loss / parts, [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("parts", [2, 3, 12])
def test_micro_batches_add_up_to_the_batch(parts: int, compiled: bool) -> None:
    loss, gradients = loss_and_gradients(parts, compiled)
    whole_loss, whole = loss_and_gradients(1, False)
    np.testing.assert_allclose(loss, whole_loss, rtol=1e-5)
    for got, want in zip(gradients, whole, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_a_variable_that_the_loss_ignores_is_named() -> None:
    model = toy_model.build(ToyShape(), BuildContext(seed=0))
    forgotten = tf.Variable(1.0, name="forgotten")
    with pytest.raises(ValueError, match="forgotten"):
        differentiate(model, BATCH, tf.constant(1.0), [forgotten])
