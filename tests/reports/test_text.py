"""Numbers and foreign words as text, by hand."""

import pytest

from tfscale.reports import text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (0.08121, "0.08121"),
        (1.5, "1.500"),
        (98.034, "98.03"),
        (1234.5, "1,234"),
        (12_345_678.0, "12,345,678"),
        (-3.14159, "-3.142"),
        (2.5e-7, "2.500e-07"),
    ],
)
def test_numbers_have_four_significant_digits(value: float, shown: str) -> None:
    assert text.number(value) == shown


def test_units() -> None:
    assert text.seconds(0.0412) == "41.20 ms"
    assert text.seconds(2.5e-5) == "25.00 µs"
    assert text.seconds(75.0) == "75.00 s"
    assert text.size(1.62e9) == "1.62 GB"
    assert text.quantity(64, "sequences") == "64 sequences"
    assert text.quantity(123.4, "images/s") == "123.4 images/s"
    assert text.quantity(7.999999999999, "sequences") == "8 sequences"
    assert text.interval(0.0805, 0.0827, "s") == "80.50 – 82.70 ms"
    assert text.interval(0.0009, 0.0011, "s") == "900.0 µs – 1.100 ms"
    assert text.percent_range(0.694, 0.731) == "69–73\u202f%"


def test_printable_drops_colours_and_shows_what_else_cannot_be_shown() -> None:
    assert text.printable("\x1b[31mred\x1b[0m plain") == "red plain"
    assert text.printable("a\x00b\x1bc") == "a\ufffdb\ufffdc"
    assert text.printable("rm \u202ecod.exe") == "rm \ufffdcod.exe"
    assert text.printable("half \ud800 pair") == "half \ufffd pair"
    assert text.printable("lines\n\tstay") == "lines\n\tstay"


def test_flatten_says_unknown_and_none_but_never_zero() -> None:
    tree = {"gpus": [], "cpu": {"model": None, "usable": 2}, "memory_bytes": 2_000_000_000, "disks": [{"name": "a"}]}
    assert text.flatten(tree) == {
        "gpus": "none",
        "cpu.model": "unknown",
        "cpu.usable": "2",
        "memory_bytes": "2.00 GB (2,000,000,000)",
        "disks[0].name": "a",
    }
