"""CSV: the long table comes back whole, and series of other tools keep their points."""

from pathlib import Path

import pytest

from tfscale.suite.formats import transfer
from tfscale.suite.formats.base import FormatError
from tfscale.suite.formats.forms import ImportAnswer, Imported
from tfscale.suite.record import Run


def import_text(tmp_path: Path, text: str | bytes, **options: str) -> ImportAnswer:
    file = tmp_path / "series.csv"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return transfer.import_(file, "csv", tmp_path / "results", options)


def document(answer: ImportAnswer) -> Imported:
    return Imported.model_validate_json(Path(answer.files[0]).read_bytes())


def test_a_round_trip_gives_equal_quantities(stored: tuple[Path, Run], tmp_path: Path) -> None:
    results, run = stored
    transfer.export(results, "csv", tmp_path / "all.csv")
    rows = document(transfer.import_(tmp_path / "all.csv", "csv", tmp_path, {})).rows
    found = {(row.labels["case_id"], row.labels["trial"], row.labels["part"]): row.quantities for row in rows}
    assert len(found) == 2 * len(run.records)
    for record in run.records:
        for part, quantities in (("quantities", record.quantities), ("phases", record.phases)):
            assert found[record.case_id, str(record.trial), part] == quantities, "not one bit is lost"


def test_a_series_has_a_column_each_and_empty_cells_are_unknown(tmp_path: Path) -> None:
    answer = import_text(tmp_path, "night,step time [s],throughput (images/s)\n2026-01-01,0.5,10\n2026-01-02,,20\n")
    first, second = document(answer).rows
    assert (first.name, second.name) == ("2026-01-01", "2026-01-02")
    assert (first.quantities["step time"].value, first.quantities["step time"].unit) == (0.5, "s")
    assert second.quantities["step time"].value is None and second.quantities["step time"].reason
    assert second.quantities["throughput"].unit == "images/s"
    assert first.quantities["throughput"].kind == "published" and "does not say" in answer.notes[0]
    assert Path(str(answer.series)).read_text().splitlines()[1:] == ["2026-01-01,0.5,10.0", "2026-01-02,,20.0"]


def test_without_labels_every_column_is_a_series_and_the_kind_may_be_given(tmp_path: Path) -> None:
    answer = import_text(tmp_path, "a,b\n1,2\n3,4\n", kind="measured")
    rows = document(answer).rows
    assert [(row.quantities["a"].value, row.quantities["b"].value) for row in rows] == [(1, 2), (3, 4)]
    assert rows[0].quantities["a"].kind == "measured" and not answer.notes


LONG = "run,case_id,trial,metric,value,unit,kind\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("   \n\n", "empty"),
        (b"\x89PNG\r\n\x1a\n\xff", "not UTF-8 text"),
        (b"a,b\n1,\0\n", "a zero byte"),
        ("a,b\n", "a header and no line"),
        ("a,b\n1,2,3\n", ":2: 3 cells where the header has 2"),
        ("a,b\n1,2\n1\n", ":3: 1 cells where the header has 2"),
        ("a,a\n1,2\n", "two columns are called 'a'"),
        ("time,a\n1,nan\n", ":2: column 'a': 'nan' is not a finite number"),
        ("time,a\n1,inf\n", "'inf' is not a finite number"),
        ("time,a\n1,1e999\n", "not a finite number"),
        ("time,a\n1,2\n2,fast\n", ":3: column 'a': 'fast' is not a number"),
        ("date;a\nx;2\n", "commas separate columns"),
        ('a,b\n"1,2\n', "not CSV"),
        (
            LONG + "r,c,0,step_time,1,s,measure\n",
            ":2: 'step_time': kind 'measure' is not known.*did you mean 'measured'",
        ),
        (LONG + "r,c,0,step_time,x,s,measured\n", ":2: 'step_time': 'x' is not a number"),
        (LONG + "r,c,0,t,1,s,measured\nr,c,0,t,2,s,measured\n", ":3: 't' a second time"),
    ],
)
def test_a_file_that_is_none_is_named_and_nothing_is_written(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(FormatError, match=rf"(?s)^series\.csv.*{said}"):
        import_text(tmp_path, text)
    assert not (tmp_path / "results").exists()


def test_a_kind_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'measured'"):
        import_text(tmp_path, "a\n1\n", kind="measurd")
