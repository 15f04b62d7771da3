"""A rank's checkpoints on disk: only whole ones count, whatever was interrupted."""

from pathlib import Path

import pytest

from tfscale.suite.checkpoints import Checkpoints, NoCheckpointError, Progress


def saved(folder: Path, *steps: int, world: int = 2) -> Checkpoints:
    checkpoints = Checkpoints(folder)
    for step in steps:
        data = folder / f"data-{step}"
        data.write_bytes(b"x" * step)
        progress = Progress(step=step, samples=8 * step, skipped=0, losses=[1 / n for n in range(1, step + 1)])
        assert checkpoints.commit([data], world, progress) == step
    return checkpoints


def test_what_was_saved_comes_back_exactly(tmp_path: Path) -> None:
    saved(tmp_path / "rank0", 10, 20)
    again = Checkpoints(tmp_path / "rank0")
    assert again.kept() == [10, 20]
    assert again.read(20, 2).progress.losses == [1 / n for n in range(1, 21)]


def test_half_written_ones_are_never_whole(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 10, 20, 30, 40, 50)
    (tmp_path / "data-20").write_bytes(b"short")
    (tmp_path / "data-30").unlink()
    text = (tmp_path / "step-40.json").read_bytes()
    (tmp_path / "step-40.json").write_bytes(text[: len(text) // 2])
    (tmp_path / "step-60.json").write_bytes(b"")
    (tmp_path / "step-70.json").write_bytes((tmp_path / "step-10.json").read_bytes())  # of another step
    (tmp_path / "data-80").write_bytes(b"without a manifest")
    (tmp_path / ".step-90.json.1.tmp").write_bytes(text)
    assert checkpoints.kept() == [10, 50]
    with pytest.raises(NoCheckpointError, match=r"no whole checkpoint of step 20 .*whole: \[10, 50\]"):
        checkpoints.read(20, 2)


def test_a_manifest_names_files_of_its_own_folder_only(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"12345")
    checkpoints = saved(tmp_path / "rank0", 5)
    manifest = tmp_path / "rank0/step-5.json"
    manifest.write_text(manifest.read_text().replace("data-5", "../secret"))
    assert checkpoints.kept() == []


def test_what_is_forgotten_is_gone_with_its_data(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 10, 20, 30)
    checkpoints.forget([20, 30, 31])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data-10", "step-10.json"]


def test_another_number_of_ranks_is_another_job(tmp_path: Path) -> None:
    with pytest.raises(NoCheckpointError, match="is of 2 ranks, not 4"):
        saved(tmp_path, 10).read(10, 4)
