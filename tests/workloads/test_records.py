"""TFRecord files and manifests, written here and read by TensorFlow as the independent tool."""

import json
from pathlib import Path

import numpy as np
import pytest

from tfscale.suite.crc32c import crc32c, crc32c_rows
from tfscale.workloads.records import (
    DataError,
    Manifest,
    RecordWriter,
    open_folder,
    read_manifest,
    read_records,
    write_manifest,
)


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        # RFC 3720, appendix B.4, and the check value of the CRC catalogue.
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"", 0),
        (b"a", 0xC1D04330),
    ],
)
def test_crc32c_of_published_vectors(data: bytes, checksum: int) -> None:
    assert crc32c(data) == checksum


@pytest.mark.parametrize("length", [1, 3, 4, 5, 63, 64, 65, 127, 128, 129, 1000, 4096, 4097])
def test_crc32c_of_any_length_is_the_bitwise_definition(length: int) -> None:
    rows = np.random.default_rng(length).integers(0, 256, (3, length), dtype=np.uint8)
    assert crc32c_rows(rows).tolist() == [_bitwise(row.tobytes()) for row in rows]


def _bitwise(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            state = (state >> 1) ^ (0x82F63B78 if (state ^ (byte >> bit)) & 1 else 0)
    return state ^ 0xFFFFFFFF


def _written(directory: Path, files: int, rows: list[np.ndarray]) -> Manifest:
    directory.mkdir(exist_ok=True)
    with RecordWriter(directory, files) as writer:
        for block in rows:
            writer.rows(block)
        manifest = writer.manifest(
            workload="bert", skipped=0, seed=0, source="s", shape={"sequence_length": 8}, facts={}
        )
    write_manifest(directory, manifest)
    return manifest


def _numbered(count: int, start: int = 0) -> np.ndarray:
    return np.arange(start, start + count, dtype="<i4")[:, None].view(np.uint8)


def test_records_go_round_robin_whatever_the_blocks(tmp_path: Path) -> None:
    whole = _written(tmp_path / "a", 3, [_numbered(11)])
    parts = _written(tmp_path / "b", 3, [_numbered(2), _numbered(5, 2), _numbered(1, 7), _numbered(3, 8)])
    assert (whole.records, whole.dropped) == (9, 2)
    assert whole == parts
    for folder in ("a", "b"):
        for number, path in enumerate(whole.paths(tmp_path / folder)):
            values = [int.from_bytes(record, "little") for record in read_records(path)]
            assert values == [number, number + 3, number + 6]


def test_digest_tells_content_apart(tmp_path: Path) -> None:
    assert _written(tmp_path / "a", 2, [_numbered(4)]).digest != _written(tmp_path / "b", 2, [_numbered(4, 1)]).digest


@pytest.mark.tensorflow
def test_tensorflow_reads_what_was_written(tmp_path: Path) -> None:
    import tensorflow as tf

    records = [b"x", b"", b"abcd" * 1000, bytes(range(256))]
    with RecordWriter(tmp_path, 1) as writer:
        for record in records:
            writer.record(record)
    path = tmp_path / writer.names[0]
    assert [item.numpy() for item in tf.data.TFRecordDataset(str(path))] == records
    assert list(read_records(path)) == records


@pytest.mark.tensorflow
def test_what_tensorflow_wrote_is_read(tmp_path: Path) -> None:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(tmp_path / "t")) as writer:
        writer.write(b"one")
        writer.write(b"two" * 99)
    assert list(read_records(tmp_path / "t")) == [b"one", b"two" * 99]


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    manifest = _written(tmp_path, 1, [_numbered(3)])
    path = manifest.paths(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[20 + 13] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="record at byte 20 is damaged"):
        list(read_records(path))
    path.write_bytes(data[:15])
    with pytest.raises(DataError, match="record at byte 0 is damaged"):
        list(read_records(path))


def test_too_few_records_for_the_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"2 samples do not fill 3 files .* fewer --files"):
        _written(tmp_path, 3, [_numbered(2)])


@pytest.mark.parametrize(
    ("workload", "limits", "message"),
    [
        ("vit", {}, "holds data of bert; make those of vit: tfscale data make vit"),
        ("bert", {"exactly": {"sequence_length": 128}}, "sequence_length 8, but the preset needs 128"),
        ("bert", {"at_most": {"sequence_length": 4}}, "sequence_length 8, but the preset needs at most 4"),
        ("bert", {"at_least": {"sequence_length": 9}}, "sequence_length 8, but the preset needs at least 9"),
        ("bert", {"exactly": {"tables": 26}}, "tables None, but the preset needs 26"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(
    tmp_path: Path, workload: str, limits: dict[str, dict[str, int]], message: str
) -> None:
    _written(tmp_path, 2, [_numbered(4)])
    with pytest.raises(DataError, match=message):
        open_folder(tmp_path, workload, **limits)


def test_a_folder_that_fits_is_opened(tmp_path: Path) -> None:
    manifest = _written(tmp_path, 2, [_numbered(4)])
    assert open_folder(tmp_path, "bert", exactly={"sequence_length": 8}, at_most={"sequence_length": 8}) == manifest
    manifest.paths(tmp_path)[1].unlink()
    with pytest.raises(DataError, match=r"lacks data-00001-of-00002.tfrecord"):
        open_folder(tmp_path, "bert")


def test_no_manifest_and_a_foreign_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no manifest.json; make a data folder with: tfscale data make"):
        read_manifest(tmp_path)
    manifest = _written(tmp_path, 2, [_numbered(4)]).model_dump(mode="json", by_alias=True)
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "schema": "tfscale.data/2"}))
    with pytest.raises(DataError, match=r"not a tfscale.data/1 manifest: schema: .*make the data again"):
        read_manifest(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"not a tfscale.data/1 manifest"):
        read_manifest(tmp_path)
