"""The built models: weights, precisions, XLA, recomputation, sparse gradients, and that each learns."""

import importlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

import keras  # noqa: E402

from tfscale.suite.workload import BuildContext, Workload, load  # noqa: E402
from tfscale.workloads import graph_flops  # noqa: E402

SMALLEST = {"bert": "tiny", "vit": "micro", "recommender": "micro"}


@pytest.fixture(autouse=True)
def policy() -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    yield
    keras.config.set_dtype_policy(before)


def _batch(workload: Workload, preset: str, size: int, index: int = 0) -> dict:
    arrays = workload.synthetic(preset, seed=0, index=index, batch=size, options={})
    return {key: tf.constant(value) for key, value in arrays.items()}


def _gradients(model, batch, training: bool = True):
    with tf.GradientTape() as tape:
        loss = model.loss(batch, training)
    return loss, tape.gradient(loss, model.variables)


def _build_small(name: str, preset: str, context: BuildContext):
    """The preset with one block and little tables, which compiles in a fraction of the time."""
    workload = load(name)
    little = {"bert": {"layers": 1, "vocabulary_size": 2000}, "vit": {"layers": 1}, "recommender": {"max_rows": 50}}
    shape = replace(workload.shape(preset), **little[name])
    return importlib.import_module(workload.model_module).build(shape, context)


def _small_batch(name: str, size: int) -> dict:
    batch = _batch(load(name), SMALLEST[name], size)
    folded = {"token_ids": 2000, "mlm_ids": 2000, "indices": tf.minimum(50, load("recommender").shape("micro").tables)}
    return {key: value % folded[key] if key in folded else value for key, value in batch.items()}


def _dense(gradient):
    return tf.convert_to_tensor(gradient)


@pytest.mark.parametrize("name", SMALLEST)
def test_weights_exist_after_build_and_depend_on_the_seed_only(name: str) -> None:
    workload, preset = load(name), SMALLEST[name]
    one, same, other = (workload.build(preset, BuildContext(seed=seed)).variables for seed in (7, 7, 8))
    assert sum(int(np.prod(v.shape)) for v in one) == workload.parameters(preset)
    assert all(v.dtype == tf.float32 and v.trainable for v in one)
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(one, same, strict=True))
    random_weights = [(a, b) for a, b in zip(one, other, strict=True) if np.std(a.numpy()) > 0]
    assert len(random_weights) > 5
    assert not any(np.array_equal(a.numpy(), b.numpy()) for a, b in random_weights)
    drawn = {a.numpy().ravel()[:2].tobytes() for a, _ in random_weights if np.prod(a.shape) > 2}
    assert len(drawn) == sum(1 for a, _ in random_weights if np.prod(a.shape) > 2)


@pytest.mark.parametrize("name", ["bert", "vit"])
def test_parameters_of_larger_presets(name: str) -> None:
    preset = {"bert": "mini", "vit": "ti_16"}[name]
    model = load(name).build(preset, BuildContext(seed=0))
    assert sum(int(np.prod(v.shape)) for v in model.variables) == load(name).parameters(preset)


@pytest.mark.parametrize(
    ("policy_name", "jit"),
    [("float32", True), ("mixed_bfloat16", False), ("mixed_bfloat16", True), ("mixed_float16", False)],
)
@pytest.mark.parametrize("name", SMALLEST)
def test_every_precision_and_xla_agree_with_plain_float32(name: str, policy_name: str, jit: bool) -> None:
    batch, context = _small_batch(name, 3), BuildContext(seed=1, dropout=0.0)
    expected, _ = _gradients(_build_small(name, SMALLEST[name], context), batch)
    keras.config.set_dtype_policy(policy_name)
    model = _build_small(name, SMALLEST[name], context)
    loss, gradients = tf.function(_gradients, jit_compile=jit)(model, batch)
    assert loss.dtype == tf.float32
    assert loss.shape == ()
    assert float(loss) == pytest.approx(float(expected), rel=1e-5 if policy_name == "float32" else 5e-3)
    assert all(bool(tf.reduce_all(tf.math.is_finite(_dense(g)))) for g in gradients)


@pytest.mark.parametrize("policy_name", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("name", SMALLEST)
def test_analytic_flops_equal_those_of_the_training_graph(name: str, policy_name: str) -> None:
    keras.config.set_dtype_policy(policy_name)
    workload, preset = load(name), SMALLEST[name]
    model = workload.build(preset, BuildContext(seed=0))
    for size in (2, 3):
        batch = _batch(workload, preset, size)
        forward = tf.function(lambda batch: model.loss(batch, True)).get_concrete_function(batch)
        both = tf.function(lambda batch: _gradients(model, batch)).get_concrete_function(batch)
        expected = workload.flops(preset, size)
        assert sum(graph_flops.count(forward).values()) == expected.forward
        assert sum(graph_flops.count(both).values()) == expected.total


@pytest.mark.parametrize(("name", "preset"), [("bert", "small"), ("vit", "ti_16"), ("recommender", "small")])
def test_analytic_flops_of_published_shapes(name: str, preset: str) -> None:
    workload = load(name)
    shape = workload.shape(preset)
    if name == "recommender":
        shape = replace(shape, max_rows=100)  # lookups count nothing, and these tables fit everywhere
    model = importlib.import_module(workload.model_module).build(shape, BuildContext(seed=0))
    both = tf.function(lambda batch: _gradients(model, batch)).get_concrete_function(_batch(workload, preset, 2))
    assert sum(graph_flops.count(both).values()) == workload.flops(preset, 2).total


@pytest.mark.parametrize(("name", "jit"), [("bert", False), ("bert", True), ("vit", False)])
def test_recomputation_gives_the_same_gradients(name: str, jit: bool) -> None:
    batch = _small_batch(name, 2)
    step = tf.function(_gradients, jit_compile=jit)
    plain, again = (
        step(_build_small(name, SMALLEST[name], BuildContext(seed=1, dropout=0.0, recompute=recompute)), batch)
        for recompute in (False, True)
    )
    assert float(again[0]) == pytest.approx(float(plain[0]), rel=1e-6)
    for one, other in zip(again[1], plain[1], strict=True):
        np.testing.assert_allclose(_dense(one), _dense(other), atol=1e-6 + 1e-4 * float(tf.reduce_max(tf.abs(other))))


def test_recomputation_draws_the_same_dropout_masks() -> None:
    """The loss is a function of the weights once the step's seed is fixed, so its gradient is a finite difference."""
    workload = load("vit")
    model = workload.build("micro", BuildContext(seed=1, dropout=0.3, recompute=True))
    batch = _batch(workload, "micro", 4)
    kernel = next(v for v in model.variables if "qkv_kernel" in v.name)
    tf.random.set_seed(3)
    _, gradients = _gradients(model, batch)
    gradient = gradients[[v is kernel for v in model.variables].index(True)]
    start, losses, step = kernel.numpy(), [], 1e-3 * gradient / tf.norm(gradient)
    for sign in (1.0, -1.0):
        kernel.assign(start + 20 * sign * step)
        tf.random.set_seed(3)
        losses.append(float(model.loss(batch, True)))
    assert (losses[0] - losses[1]) / (2 * 20 * 1e-3) == pytest.approx(float(tf.norm(gradient)), rel=0.05)


@pytest.mark.parametrize("name", SMALLEST)
def test_the_loss_falls_under_plain_gradient_descent(name: str) -> None:
    workload, preset = load(name), SMALLEST[name]
    rate, steps, size = {"bert": (0.05, 40, 4), "vit": (0.1, 40, 8), "recommender": (0.5, 150, 256)}[name]
    model = workload.build(preset, BuildContext(seed=0))

    @tf.function
    def train(batch):
        loss, gradients = _gradients(model, batch)
        for variable, gradient in zip(model.variables, gradients, strict=True):
            variable.assign_sub(rate * _dense(gradient))
        return loss

    pool = [_batch(workload, preset, size, index) for index in range(min(workload.synthetic_pool(preset), steps))]
    losses = [float(train(pool[step % len(pool)])) for step in range(steps)]
    first, last = losses[: steps // 5], losses[-steps // 5 :]
    assert np.mean(last) < np.mean(first) - 2 * np.hypot(np.std(first), np.std(last)) / np.sqrt(steps / 5)


def test_embedding_gradients_stay_sparse() -> None:
    workload = load("recommender")
    model = workload.build("micro", BuildContext(seed=0))
    _, gradients = tf.function(_gradients)(model, _batch(workload, "micro", 4))
    assert [isinstance(g, tf.IndexedSlices) for g in gradients] == [True] * 26 + [False] * 12


def test_embedding_tables_can_be_sharded() -> None:
    """As ParameterServerStrategy does it: the parts of a table start as the whole table would."""
    from tensorflow.python.distribute.sharded_variable import ShardedVariable

    def shard(initial_value, *, name, shape, dtype, trainable):
        rows, width = shape
        half = rows // 2
        parts = [(0, half), (half, rows - half)] if half else [(0, rows)]
        return ShardedVariable(
            [
                tf.Variable(
                    initial_value(partition_shape=(count, width), partition_offset=(first, 0)),
                    name=f"{name}/part_{number}",
                )
                for number, (first, count) in enumerate(parts)
            ]
        )

    workload = load("recommender")
    batch = _batch(workload, "micro", 8)
    whole = workload.build("micro", BuildContext(seed=0))
    sharded = workload.build("micro", BuildContext(seed=0, embedding_variable=shard))
    assert len(sharded.variables) == len(whole.variables) + 26
    assert float(sharded.loss(batch, True)) == pytest.approx(float(whole.loss(batch, True)), rel=1e-6)
    _, gradients = _gradients(sharded, batch)
    assert all(isinstance(g, tf.IndexedSlices) for g in gradients[:52])


def test_bert_ignores_padding_and_predictions_of_weight_zero() -> None:
    workload = load("bert")
    model = workload.build("tiny", BuildContext(seed=0))
    batch = _batch(workload, "tiny", 2)
    mask = np.ones((2, 128), np.int32)
    mask[:, 100:] = 0
    tokens = batch["token_ids"].numpy()
    tokens[:, 100:] = 5
    positions = np.minimum(batch["mlm_positions"].numpy(), 99)
    padded = {**batch, "padding_mask": tf.constant(mask), "mlm_positions": tf.constant(positions)}
    changed = {**padded, "token_ids": tf.constant(tokens)}
    assert float(model.loss(padded, False)) == pytest.approx(float(model.loss(changed, False)), rel=1e-6)
    labels = batch["mlm_ids"].numpy()
    labels[:, 10:] = 1
    weights = np.float32(np.arange(20) < 10) * np.ones((2, 1), np.float32)
    half = {**batch, "mlm_weights": tf.constant(weights)}
    assert float(model.loss(half, False)) == pytest.approx(
        float(model.loss({**half, "mlm_ids": tf.constant(labels)}, False)), rel=1e-6
    )
    none = {**batch, "mlm_weights": tf.zeros([2, 20])}
    assert np.isfinite(float(model.loss(none, False)))


def test_dropout_acts_in_training_only_and_can_be_overridden() -> None:
    workload = load("bert")
    batch = _batch(workload, "tiny", 2)
    model, without = (workload.build("tiny", BuildContext(seed=0, dropout=rate)) for rate in (None, 0.0))
    evaluated = float(model.loss(batch, False))
    assert float(without.loss(batch, True)) == evaluated
    assert len({float(model.loss(batch, True)) for _ in range(3)} | {evaluated}) == 4


def test_vit_patches_are_what_a_convolution_reads() -> None:
    workload = load("vit")
    model = workload.build("micro", BuildContext(seed=0))
    image = _batch(workload, "micro", 2)["image"]
    kernel, bias = model.variables[:2]
    convolved = tf.nn.conv2d(image, tf.reshape(kernel, [8, 8, 3, 64]), 8, "VALID") + bias
    rows = model.patch_embedding(model._patches(image))
    np.testing.assert_allclose(rows, tf.reshape(convolved, [-1, 64]), atol=1e-5)
