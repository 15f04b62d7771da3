"""Criteo's format: parsing, its edges, and the reader's folding into tables."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from tfscale.suite import workload as workloads
from tfscale.suite.spec import Input
from tfscale.workloads.make import make
from tfscale.workloads.recommender.source import parse
from tfscale.workloads.records import DataError, read_manifest

SHAPE = workloads.load("recommender").shape("micro")


def _line(
    label: str = "1", dense: tuple[str, ...] = ("3",) * 13, categories: tuple[str, ...] = ("68fd1e64",) * 26
) -> bytes:
    return "\t".join([label, *dense, *categories]).encode()


def test_a_line_as_in_the_public_sample() -> None:
    dense = ("1", "1", "5", "0", "1382", "4", "15", "2", "181", "1", "2", "", "2")
    (row,) = parse([_line("0", dense, ("68fd1e64", "80e26c9b", *["ffffffff"] * 22, "", "00000000"))], 1)
    assert row["label"] == 0
    expected = [np.log1p(float(value or 0)) for value in dense]
    np.testing.assert_allclose(row["dense"], expected, rtol=1e-6)
    assert row["categorical"][[0, 1, 2, 24, 25]].tolist() == [0x68FD1E64, 0x80E26C9B, 0xFFFFFFFF, 0, 0]


def test_empty_fields_negative_numbers_and_both_cases_of_letters() -> None:
    (row,) = parse([_line("1", ("",) * 12 + ("-3",), ("",) * 25 + ("ABCDEFab",))], 1)
    assert row["dense"].tolist() == [0.0] * 13
    assert row["categorical"].tolist() == [0] * 25 + [0xABCDEFAB]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "line 8: 1 tab-separated fields, 40 expected"),
        (_line() + b"\tx", "line 8: 41 tab-separated fields, 40 expected"),
        (_line(label="2"), "line 8: label '2', 0 or 1 expected"),
        (_line(label=""), "line 8: label '', 0 or 1 expected"),
        (_line(dense=("1",) * 12 + ("1.5",)), "line 8: field 14 is '1.5', an integer or nothing expected"),
        (_line(dense=("1_0",) * 13), "line 8: field 2 is '1_0', an integer"),
        (_line(categories=("68fd1e64",) * 25 + ("0x12",)), "line 8: field 40 is '0x12', up to 8 hexadecimal digits"),
        (_line(categories=("123456789",) * 26), "line 8: field 15 is '123456789', up to 8"),
        (_line(categories=("\xe9",) * 26), "line 8: field 15 is 'é'"),
    ],
)
def test_a_bad_line_is_named_with_its_value(line: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse([_line(), line], 7)


def test_packed_and_plain_files_give_the_same_records(tmp_path: Path) -> None:
    text = b"\n".join([_line(), _line("0"), _line(categories=("",) * 26)]) + b"\r\n"
    (tmp_path / "a.tsv").write_bytes(text)
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(text))
    seen: list[tuple[int, int, str]] = []
    plain, packed = (
        make("recommender", tmp_path / name, tmp_path / f"out-{name}", files=1, progress=lambda *at: seen.append(at))
        for name in ("a.tsv", "a.tsv.gz")
    )
    assert plain.records == packed.records == 3
    assert plain.digest == packed.digest
    assert seen[0] == (len(text), len(text), "bytes")
    assert plain.facts["clicked"] == pytest.approx(2 / 3)


def test_a_bad_line_in_a_file_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"\n".join([_line()] * 8200 + [b"oops"]))
    with pytest.raises(DataError, match="line 8201: 1 tab-separated fields"):
        make("recommender", tmp_path / "a.tsv", tmp_path / "out", preset="micro")
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress(_line())[:-9])
    with pytest.raises(DataError, match="not a whole gzip file"):
        make("recommender", tmp_path / "b.tsv.gz", tmp_path / "out", preset="micro")
    (tmp_path / "c.tsv").write_bytes(b"")
    with pytest.raises(DataError, match="holds no line"):
        make("recommender", tmp_path / "c.tsv", tmp_path / "out", preset="micro")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tsv", "b.tsv.gz", "c.tsv"]


@pytest.mark.tensorflow
def test_categories_are_unsigned_and_folded_into_the_tables(tmp_path: Path) -> None:
    from tfscale.workloads.recommender import data

    (tmp_path / "a.tsv").write_bytes(_line(categories=("ffffffff",) * 25 + ("",)))
    make("recommender", tmp_path / "a.tsv", tmp_path / "out", preset="large", files=1)
    settings = Input(kind="files")
    dataset = data.dataset(SHAPE, tmp_path / "out", input=settings, seed=0, shards=1, index=0, batch=2)
    batch = next(dataset.as_numpy_iterator())
    assert batch["indices"][0].tolist() == [0xFFFFFFFF % rows for rows in SHAPE.tables[:25]] + [0]
    np.testing.assert_allclose(batch["dense"], np.log1p(3.0), rtol=1e-6)
    assert batch["label"].tolist() == [1.0, 1.0]


def test_the_sample_can_be_learned_and_is_skewed(sample_folders: dict[str, Path]) -> None:
    """A linear fit on the integers alone ranks held-out clicks above the others more often than chance."""
    from tfscale.workloads.recommender.source import RECORD

    paths = read_manifest(sample_folders["recommender"]).paths(sample_folders["recommender"])
    framed = np.concatenate([np.fromfile(path, np.uint8) for path in paths]).reshape(-1, RECORD.itemsize + 16)
    table = np.ascontiguousarray(framed[:, 12:-4]).view(RECORD)[:, 0]
    assert 0.15 < table["label"].mean() < 0.45
    assert 0.15 < (table["dense"] == 0).mean() < 0.45
    values, counts = np.unique(table["categorical"][:, 0], return_counts=True)
    assert counts.max() > 5 * np.median(counts) or len(values) < 10
    dense = np.column_stack([np.ones(len(table)), table["dense"]])
    train, test = slice(0, 12000), slice(12000, None)
    weights = np.linalg.lstsq(dense[train], table["label"][train].astype(float), rcond=None)[0]
    score, label = dense[test] @ weights, table["label"][test] == 1
    better = (score[label][:, None] > score[~label][None, :]).mean()
    assert better > 0.6, "area under the ROC curve"
