"""The global batch of step k is the same set of samples, with the same content, however many pipelines share it."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfscale.suite import workload as workloads
from tfscale.suite.spec import Input
from tfscale.suite.workload import Workload
from tfscale.workloads.records import DataError

pytestmark = pytest.mark.tensorflow

WORKLOADS = {"bert": "tiny", "vit": "micro", "recommender": "micro"}
GLOBAL_BATCH = 24
Batches = list[dict[str, np.ndarray]]


def _read(
    folder: Path,
    name: str,
    batches: int,
    *,
    shards: int = 1,
    index: int = 0,
    batch: int = GLOBAL_BATCH,
    seed: int = 0,
    **how: Any,
) -> Batches:
    workload = workloads.load(name)
    module = importlib.import_module(f"tfscale.workloads.{name}.data")
    settings = Input(kind="files", **how)
    shape = workload.shape(WORKLOADS[name])
    dataset = module.dataset(shape, folder, input=settings, seed=seed, shards=shards, index=index, batch=batch)
    _matches_features(dataset, workload, WORKLOADS[name], batch)
    return list(dataset.take(batches).as_numpy_iterator())


def _matches_features(dataset: Any, workload: Workload, preset: str, batch: int) -> None:
    spec = {name: (tuple(value.shape), value.dtype.name) for name, value in dataset.element_spec.items()}
    assert spec == {name: ((batch, *what.shape), what.dtype) for name, what in workload.features(preset).items()}


def _samples(batches: list[dict[str, np.ndarray]]) -> list[bytes]:
    """The samples of some batches as sorted bytes, every feature included."""
    rows = [zip(*(batch[name] for name in sorted(batch)), strict=True) for batch in batches]
    return sorted(b"".join(value.tobytes() for value in row) for batch in rows for row in batch)


@pytest.fixture(scope="module")
def whole(sample_folders: dict[str, Path]) -> dict[str, Batches]:
    """Workload -> the first global batches, read by one pipeline."""
    return {name: _read(sample_folders[name], name, 3) for name in WORKLOADS}


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("shards", [2, 3, 4])  # the sample has 8 files: 2 and 4 pipelines share them out, 3 cannot
def test_layouts_share_out_the_same_global_batches(
    name: str, shards: int, whole: dict[str, Batches], sample_folders: dict[str, Path]
) -> None:
    assert len(set(_samples(whole[name]))) == 3 * GLOBAL_BATCH
    parts = [
        _read(sample_folders[name], name, 3, shards=shards, index=index, batch=GLOBAL_BATCH // shards)
        for index in range(shards)
    ]
    for step in range(3):
        assert _samples([part[step] for part in parts]) == _samples([whole[name][step]])


@pytest.mark.parametrize("how", [{"cache": "memory"}, {"parallel": 0, "prefetch": 0}, {"parallel": 3, "prefetch": 2}])
def test_settings_of_the_pipeline_do_not_change_the_batches(
    how: dict[str, Any], whole: dict[str, Batches], sample_folders: dict[str, Path]
) -> None:
    for one, two in zip(whole["bert"], _read(sample_folders["bert"], "bert", 3, **how), strict=True):
        assert all(np.array_equal(one[feature], two[feature]) for feature in one)


def test_epochs_hold_every_sample_once_in_another_order(sample_folders: dict[str, Path]) -> None:
    """Layouts agree beyond the first epoch too, with batches that do not divide it."""
    batch = 3000
    steps = [np.concatenate([b["dense"] for b in _read(sample_folders["recommender"], "recommender", 12, batch=batch)])]
    epoch = 16384
    first, second = steps[0][:epoch], steps[0][epoch : 2 * epoch]
    assert not np.array_equal(first, second)
    assert sorted(map(bytes, first)) == sorted(map(bytes, second))
    halves = [
        _read(sample_folders["recommender"], "recommender", 12, batch=batch // 2, shards=2, index=index)
        for index in range(2)
    ]
    for step in (0, 5, 6, 11):
        union = np.concatenate([half[step]["dense"] for half in halves])
        assert sorted(map(bytes, union)) == sorted(map(bytes, steps[0][step * batch : (step + 1) * batch]))


def test_another_seed_gives_other_batches(whole: dict[str, Batches], sample_folders: dict[str, Path]) -> None:
    for name in WORKLOADS:
        assert _samples(_read(sample_folders[name], name, 1, seed=6)) != _samples(whole[name][:1])


def test_augmentation_of_a_sample_changes_from_epoch_to_epoch(sample_folders: dict[str, Path]) -> None:
    # 512 images: with batches of 256 every label comes back two steps later, under another crop.
    batches = _read(sample_folders["vit"], "vit", 4, batch=256)
    first, second = (np.concatenate([batch["image"] for batch in pair]) for pair in (batches[:2], batches[2:]))
    assert not set(map(bytes, first)) & set(map(bytes, second))


def test_an_index_beyond_the_pipelines_is_refused(sample_folders: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match=r"index 2 is not in \[0, 2\)"):
        _read(sample_folders["bert"], "bert", 1, shards=2, index=2)


@pytest.mark.parametrize(
    ("folder", "name", "message"),
    [
        ("vit", "bert", "holds data of vit; make those of bert"),
        ("bert", "recommender", "holds data of bert; make those of recommender"),
    ],
)
def test_a_folder_of_another_workload_is_refused(
    folder: str, name: str, message: str, sample_folders: dict[str, Path]
) -> None:
    with pytest.raises(DataError, match=message):
        _read(sample_folders[folder], name, 1)


def test_images_smaller_than_the_preset_are_refused(sample_folders: dict[str, Path]) -> None:
    from tfscale.workloads.vit import data

    with pytest.raises(DataError, match="but the preset needs at least 224"):
        data.open_data(workloads.load("vit").shape("ti_16"), sample_folders["vit"])
