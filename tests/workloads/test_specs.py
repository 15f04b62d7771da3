"""What a dry run sees of the workloads: shapes, parameter counts and synthetic batches, without TensorFlow."""

import subprocess
import sys
import time

import numpy as np
import pytest

from tfscale.suite.registry import UnknownNameError
from tfscale.suite.workload import load
from tfscale.workloads import presets
from tfscale.workloads.recommender.spec import adagrad
from tfscale.workloads.recommender.synthetic import ZIPF_EXPONENT, _indices

PUBLISHED = {
    ("bert", "tiny"): 4_433_468,
    ("bert", "base"): 110_106_428,
    ("bert", "large"): 336_226_108,
    ("vit", "ti_16"): 5_717_416,
    ("vit", "s_16"): 22_050_664,
    ("vit", "b_16"): 86_567_656,
    ("vit", "l_16"): 304_326_632,
}
WORKLOADS = ["bert", "vit", "recommender"]


def _same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


def test_importing_the_specs_imports_no_framework() -> None:
    modules = [f"tfscale.workloads.{name}.spec" for name in WORKLOADS]
    heavy = ("tensorflow", "keras", "pandas", "scipy")
    code = f"import sys, {', '.join(modules)}; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(("workload", "preset"), PUBLISHED)
def test_parameters_are_the_published_ones(workload: str, preset: str) -> None:
    assert load(workload).parameters(preset) == PUBLISHED[workload, preset]


@pytest.mark.parametrize("name", WORKLOADS)
def test_presets_are_ordered_by_size_and_named_in_errors(name: str) -> None:
    workload = load(name)
    sizes = [workload.parameters(preset) for preset in workload.presets]
    assert sizes == sorted(sizes)
    with pytest.raises(UnknownNameError, match="did you mean"):
        workload.shape(next(iter(workload.presets)) + "x")


def test_recommender_tables_are_criteo_capped() -> None:
    large = load("recommender").shape("large")
    assert len(large.tables) == 26
    assert sum(large.tables) == 204_184_588  # as in the MLPerf benchmark, which caps at 40 million rows
    assert large.bottom_layers == [(13, 512), (512, 256), (256, 128)]
    assert large.top_layers[0] == (128 + 27 * 26 // 2, 1024)


@pytest.mark.parametrize("name", WORKLOADS)
def test_synthetic_batches_match_the_features_and_repeat(name: str) -> None:
    workload = load(name)
    preset = next(iter(workload.presets))
    batch = workload.synthetic(preset, seed=1, index=3, batch=4, options={})
    features = workload.features(preset)
    assert {key: (value.shape, value.dtype.name) for key, value in batch.items()} == {
        key: ((4, *feature.shape), feature.dtype) for key, feature in features.items()
    }
    assert _same(batch, workload.synthetic(preset, seed=1, index=3, batch=4, options={}))
    assert not _same(batch, workload.synthetic(preset, seed=1, index=4, batch=4, options={}))
    assert not _same(batch, workload.synthetic(preset, seed=2, index=3, batch=4, options={}))


def test_bert_predictions_are_distinct_masked_positions() -> None:
    batch = load("bert").synthetic("tiny", seed=0, index=0, batch=16, options={})
    positions = batch["mlm_positions"]
    assert (np.diff(positions, axis=1) > 0).all()
    assert positions.min() >= 1
    assert (np.take_along_axis(batch["token_ids"], positions, axis=1) == 103).all()
    assert (batch["mlm_ids"] >= 999).all()


def test_zipf_follows_its_exponent_within_every_table() -> None:
    tables = (3, 1000, 40_000_000)
    uniform = np.random.default_rng(0).random((200_000, 3))
    indices = _indices(uniform, tables, "zipf")
    assert (indices >= 0).all()
    assert (indices < np.array(tables)).all()
    assert set(indices[:, 0]) == {0, 1, 2}
    counts = np.sort(np.bincount(indices[:, 1], minlength=1000))[::-1]
    slope = np.polyfit(np.log(np.arange(10, 200)), np.log(counts[10:200]), 1)[0]
    assert slope == pytest.approx(-ZIPF_EXPONENT, abs=0.05)


def test_an_unknown_index_distribution_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="uniform, zipf"):
        load("recommender").synthetic("micro", seed=0, index=0, batch=2, options={"index": "normal"})


def test_labels_depend_on_the_inputs_and_the_seed_only() -> None:
    spec = load("recommender")
    uniform, zipf = (
        spec.synthetic("micro", seed=5, index=1, batch=4096, options={"index": distribution})
        for distribution in ("uniform", "zipf")
    )
    assert _same({"dense": uniform["dense"]}, {"dense": zipf["dense"]})
    for batch in (uniform, zipf):
        assert 0.2 < batch["label"].mean() < 0.8
        # The teacher is partly linear in the dense columns, so a least-squares fit must beat the majority class.
        x = np.c_[batch["dense"], np.ones(4096)]
        fit, *_ = np.linalg.lstsq(x, batch["label"] - 0.5, rcond=None)
        majority = max(batch["label"].mean(), 1 - batch["label"].mean())
        assert ((x @ fit > 0) == (batch["label"] > 0.5)).mean() > majority + 0.02


def test_a_pool_of_recommender_batches_is_made_fast() -> None:
    spec = load("recommender")
    assert spec.synthetic_pool("small") >= 256
    for distribution in ("uniform", "zipf"):
        start = time.process_time()
        for index in range(256):
            spec.synthetic("small", seed=0, index=index, batch=512, options={"index": distribution})
        assert time.process_time() - start < 2.0  # 0.3 s on an idle core


def test_adagrad_is_a_factory_of_the_same_workload() -> None:
    workload = load("tfscale.workloads.recommender.spec:adagrad")
    assert (workload.name, workload.optimizer.name) == ("recommender", "adagrad")
    assert adagrad().parameters("micro") == load("recommender").parameters("micro")


def test_a_preset_with_wrong_keys_is_named(tmp_path) -> None:
    (tmp_path / "presets.yaml").write_text("presets: {odd: {image_size: 1, hiden: 2}}\n")
    from tfscale.workloads.vit.spec import VitShape

    with pytest.raises(ValueError, match=r"'odd'.*hiden"):
        presets.read(str(tmp_path / "spec.py"), VitShape)
