from pathlib import Path

import numpy as np
import pytest

from tfscale.suite.timing.series import BlockSeries


def made(first: int, stop: int) -> BlockSeries:
    """Groups of 1, 4, 4, 4 and 4 steps of 10 ms and 8 samples, after a compilation of 1 s; the last is the drain."""
    size = np.array([1, 4, 4, 4, 4])
    return BlockSeries(
        begin_ns=10**15,
        first=first,
        stop=stop,
        group_size=size,
        group_end_ns=10**15 + 10**9 + 10**7 * np.cumsum(size),
        group_step=np.cumsum(size),
        group_samples=8 * np.cumsum(size),
        group_loss=np.array([5.0, 4.0, 3.0, 2.0, 1.0]),
        group_skipped=np.array([0, 1, 1, 3, 3]),
    )


def test_blocks_are_what_lies_between_the_stamps() -> None:
    series = made(1, 4)
    assert len(series) == 3
    np.testing.assert_allclose(series.seconds, [0.04] * 3)
    np.testing.assert_allclose(series.step_seconds, [0.01] * 3)
    assert series.steps.tolist() == [4, 4, 4]
    assert series.samples.tolist() == [32, 32, 32]
    assert series.skipped.tolist() == [1, 0, 2]
    assert series.loss.tolist() == [4.0, 3.0, 2.0]
    assert series.elapsed_s == pytest.approx(0.12)
    assert (series.block_steps, series.pilot_steps, series.pilot_s) == (4, 1, pytest.approx(1.01))


@pytest.mark.parametrize("bounds", [(0, 0), (4, 4), (1, 1)])
def test_a_series_without_blocks_is_empty(bounds: tuple[int, int]) -> None:
    series = made(*bounds)
    assert (len(series), series.elapsed_s, series.block_steps) == (0, 0.0, 0)
    assert {x.size for x in (series.start_ns, series.end_ns, series.seconds, series.steps, series.samples)} == {0}


def test_a_series_survives_npz(tmp_path: Path) -> None:
    series = made(1, 4)
    np.savez(tmp_path / "blocks.npz", **series.arrays())
    with np.load(tmp_path / "blocks.npz", allow_pickle=False) as loaded:
        back = BlockSeries.from_arrays(loaded)
    assert (back.begin_ns, back.first, back.stop) == (series.begin_ns, 1, 4)
    for name, array in series.arrays().items():
        np.testing.assert_array_equal(getattr(back, name), array)
    assert back.end_ns.dtype == np.int64


def test_a_missing_array_is_named() -> None:
    with pytest.raises(KeyError, match="group_loss"):
        BlockSeries.from_arrays({name: a for name, a in made(1, 4).arrays().items() if name != "group_loss"})
