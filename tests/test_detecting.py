"""Series from files, and `tfscale detect`: every form, every mistake, as a user meets them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import validate

from tfscale.suite import detecting
from tfscale.suite.schemas import schemas

STEP = [100.0, 101.0, 99.0, 100.5] * 8 + [110.0, 111.0, 109.0, 110.5] * 3


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tfscale.harness", "detect", *words], capture_output=True, text=True)


def test_a_step_is_a_finding_in_its_direction(tmp_path: Path) -> None:
    file = tmp_path / "nights.json"
    file.write_text(json.dumps({"step time": STEP, "flat": STEP[:32], "gap": [*STEP[:31], None]}))
    told = command(str(file), "--json", "--direction", "lower_is_better")
    assert told.returncode == 1, told.stderr
    answer = json.loads(told.stdout)
    validate(answer, schemas()["tfscale.detect/1"])
    verdicts = {one["name"]: one["verdict"] for one in answer["series"]}
    assert verdicts == {"step time": "changed", "flat": "unchanged", "gap": "missing"}
    (change,) = answer["series"][0]["changes"]
    assert change["index"] == 32 and change["outcome"] == "regressed"
    assert change["ratio"] == pytest.approx(1.0999, abs=0.002)
    higher = command(str(file), "--direction", "higher_is_better")
    assert "from point 32" in higher.stdout and "improved" in higher.stdout


def test_columns_of_a_csv_file(tmp_path: Path) -> None:
    file = tmp_path / "nights.csv"
    file.write_text(
        "date,a,b\n" + "".join(f"2026-11-{i % 30 + 1:02},{v},{'' if i == 3 else 2 * v}\n" for i, v in enumerate(STEP))
    )
    found = detecting.read(file)
    assert found["a"] == STEP and list(found) == ["a", "b"] and found["b"][3] is None
    file.write_text("".join(f"{v}\n" for v in STEP))
    assert detecting.read(file) == {"column 1": STEP}
    file.write_text("x\n1\nnan\n3\n")
    assert detecting.read(file) == {"x": [1.0, None, 3.0]}


BAD = {
    "empty.csv": (b"", "an empty file"),
    "binary.csv": (b"\xff\xfe\x00", "no text in UTF-8"),
    "words.csv": (b"a,b\n1,2\n3,four\n", "row 3, column 2: 'four' is no number"),
    "ragged.csv": (b"a,b\n1,2\n3\n", "row 3 has 1 cells, the first has 2"),
    "names.csv": (b"a,b\n", "a row of names and no points"),
    "twice.csv": (b"a,a\n1,2\n", "two columns have the same name"),
    "infinite.csv": (b"a\n1\ninf\n", "'inf' is no number"),
    "broken.json": (b"[1, 2", "no JSON"),
    "scalar.json": (b"3", "a list of numbers, or an object"),
    "nothing.json": (b"{}", "a list of numbers, or an object"),
    "nested.json": (b'{"a": [[1]]}', "point 0: '[1]' is no number"),
    "true.json": (b"[true]", "'True' is no number"),
    "huge.json": (b"[1e999]", "the value is infinite"),
    "list.json": (b"[]", "has no points"),
    "deep.json": (b"[" * 100_000, "no JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_without_series_is_named(name: str, tmp_path: Path) -> None:
    content, words = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(detecting.SeriesError) as error:
        detecting.read(tmp_path / name)
    assert words in str(error.value) and name in str(error.value)


def test_bad_input_is_exit_code_2(tmp_path: Path) -> None:
    told = command(str(tmp_path / "absent.csv"))
    assert told.returncode == 2 and "absent.csv: No such file" in told.stderr and not told.stdout
