"""`tfscale compare` as it is typed: what stands on stdout, the table file, and the exit codes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import made

from tfscale.suite.compare.forms import Comparison


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two systems: B is 20 % faster, on another processor with another Keras."""
    folder = tmp_path_factory.mktemp("results")
    newer = made.environment(cpu__model="Processor 9001", packages={"tensorflow-cpu": "2.21.0", "keras": "3.16.0"})
    a = made.stored(folder / "a", made.trials(made.case(), [100.0, 101.0, 99.0]))
    b = made.stored(folder / "b", made.trials(made.case(), [120.0, 121.0, 119.0], facts=newer))
    return a, b


def compare(root: Path, *args: Any, code: int = 0) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "harness.py", "compare", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_comparability_comes_before_the_numbers(root: Path, results: tuple[Path, Path]) -> None:
    told = compare(root, *results, "--price", "A=2EUR@2026-12", "--price", "B=3EUR@2026-12").stdout
    marks = ["compared: hardware; NOT FAIR: 1 difference", "Processor 9001", "3.16.0", "1.2 [", "B is faster",
             "geometric mean of 1 case: 1.2 [", "cost of a sample, B / A over all rows: 1.25 [", "1.2 times A's"]  # fmt: skip
    places = [told.find(mark) for mark in marks]
    assert -1 not in places, (marks[places.index(-1)], told)
    assert places[0] < places[4] < places[5] < places[6]


def test_json_and_csv_and_strict(root: Path, results: tuple[Path, Path], tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    done = compare(root, *results, "--json", "--csv", table, "--strict", code=1)
    found = Comparison.model_validate(json.loads(done.stdout))
    assert found.rows[0].verdict == "faster" and not found.comparability.fair
    assert table.read_text().startswith("title,case_a,")
    compare(root, *results, "--csv", table)
    record = results[0] / made.case().id / "0" / "record.json"
    kept = record.read_bytes()
    assert "name another file" in compare(root, *results, "--csv", record, code=2).stderr
    assert record.read_bytes() == kept
    assert compare(root, results[0], results[0], "--strict").stdout.count("no difference is known")


def test_a_result_alone_needs_axes_or_pairs(root: Path, results: tuple[Path, Path]) -> None:
    assert "stands alone: name B, or --by" in compare(root, results[0], code=2).stderr
    assert "no two cases differ in exactly xla" in compare(root, results[0], "--by", "xla", code=2).stderr
