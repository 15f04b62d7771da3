"""The page cache is measured, not assumed."""

from pathlib import Path

from tfscale.suite import pagecache


def test_warm_and_cold_are_measured(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(1_000_003))
    warm = pagecache.prepare([path], "warm")
    assert (warm.resident_fraction, warm.bytes, warm.reason) == (1.0, 1_000_003, None)
    cold = pagecache.prepare([path], "cold")
    # A file system without a disk behind it (tmpfs) keeps its pages: then the fraction has to say so.
    resident, pages = pagecache.resident_pages(path)
    assert pages == 245
    assert cold.resident_fraction == resident / pages
    assert pagecache.prepare([path], "warm").resident_fraction == 1.0


def test_dropping_works_on_a_real_file_system() -> None:
    path = Path(__file__).parent / ".pagecache-test"
    try:
        path.write_bytes(bytes(1 << 20))
        assert pagecache.prepare([path], "cold").resident_fraction in (0.0, 1.0)
    finally:
        path.unlink()


def test_an_empty_file_and_no_file(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert pagecache.prepare([tmp_path / "empty"], "warm").resident_fraction == 0.0
    assert pagecache.prepare([], "cold").resident_fraction == 0.0
