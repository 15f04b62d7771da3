"""JUnit, Markdown and CSV of a gate, with the readers that others use."""

import csv
import io
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import histories as made

from tfscale.suite.nightly import gate, outputs
from tfscale.suite.nightly.forms import Cause, Finding, Gate, Judged

CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase", "system-out", "system-err"},
    "testcase": {"properties", "skipped", "error", "failure", "system-out", "system-err"},
    "properties": {"property"},
}
REQUIRED = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "testcase": {"name", "classname", "time"},
    "property": {"name", "value"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Gate:
    """One regressed, one missing, one unchanged, one with too little data."""
    path = tmp_path_factory.mktemp("results")
    results = made.Results(path)
    names = made.cases(4)
    made.steady(results, dict.fromkeys(names[:3], 100.0), 25)
    made.steady(results, {names[0]: 90.0, names[1]: 100.0, names[2]: 100.0}, 5, seed=3)
    results.night({name: made.trials(level, 7) for name, level in zip(names, (90.0, 100.0), strict=False)} | {names[3]: [1.0]},
                  failed={names[2]: "no memory"})  # fmt: skip
    return gate.answer(path, gate.Options()).gate


def test_junit_has_the_structure_that_readers_take(found: Gate) -> None:
    root = ElementTree.fromstring(outputs.junit(found))
    assert root.tag == "testsuites"
    for element in root.iter():
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set()), element.tag
        assert REQUIRED.get(element.tag, set()) <= element.attrib.keys(), element.tag
    [suite] = root
    cases = suite.findall("testcase")
    assert {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": 4,
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
    }
    ended = {case.attrib["classname"]: [c.tag for c in case if c.tag != "properties"] for case in cases}
    ids = [f"tfscale.{made.case_id(f'case{n}')}" for n in (1, 2, 3, 4)]
    assert [ended[each] for each in ids] == [["failure"], [], ["error"], ["skipped"]]
    # In an xsd sequence, properties come before what ended the case.
    assert all(next(iter(case)).tag == "properties" for case in cases)
    failure = suite.find("testcase/failure")
    assert failure is not None and " % [" in failure.attrib["message"] and "first bad" in (failure.text or "")


def test_the_summary_leads_with_the_verdict(found: Gate) -> None:
    lines = outputs.markdown(found).splitlines()
    assert lines[0].startswith("### tfscale: 1 regressed, 1 without data, 1 unchanged, 1 not enough data")
    rows = [line for line in lines if line.startswith(("| regressed", "| without data"))]
    assert len(rows) == 2 and "-9." in rows[0]
    assert sum(line.startswith("<details>") for line in lines) == lines.count("</details>") == 2


@pytest.mark.parametrize("room", [0, 100, 900, 1200, 1500, 100_000])
def test_the_summary_keeps_to_its_room(found: Gate, room: int) -> None:
    text = outputs.markdown(found, room)
    assert len(text.encode()) <= room
    assert text.count("<details>") == text.count("</details>")
    assert room in (0, 100) or text.startswith("### tfscale")


def test_csv_has_a_row_a_series(found: Gate) -> None:
    rows = list(csv.DictReader(io.StringIO(outputs.as_csv(found))))
    assert [row["verdict"] for row in rows] == [one.verdict for one in found.series]
    regressed = next(row for row in rows if row["verdict"] == "regressed")
    assert float(regressed["low"]) < float(regressed["ratio"]) < float(regressed["high"]) < 1
    assert regressed["since"] and not rows[-1]["since"] if rows[-1]["verdict"] == "unchanged" else True


HOSTILE = "=cmd|' /C calc'!A0\x1b[31m\u202e<script>alert(1)</script> | ``` \x00 ]]> &"


def hostile() -> Gate:
    finding = Finding(
        case_id="c", title=HOSTILE, machine=HOSTILE, metric="throughput", verdict="missing", reason=HOSTILE,
        causes=(Cause(kind="failure", what=HOSTILE, before=None, after=None, why=HOSTILE),), reproduce=HOSTILE,
    )  # fmt: skip
    judged = Judged(
        case_id="c", title=HOSTILE, machine=HOSTILE, metric="throughput", unit=HOSTILE, verdict="missing", reason=HOSTILE,
        nights=1, last_run=None, level=None, noise=None,
    )  # fmt: skip
    head: dict[str, Any] = {
        "results": "r",
        "last_run": HOSTILE,
        "created": "2026-01-01T00:00:00",
        "baseline": "rolling",
    }
    return Gate(
        **head, min_effect=0.02, false_discovery_rate=0.05, summary={"missing": 1}, findings=(finding,), series=(judged,),
        machines=(HOSTILE,), expected_false_alarms=None,
    )  # fmt: skip


def test_hostile_words_stay_words() -> None:
    told = hostile()
    case = ElementTree.fromstring(outputs.junit(told)).find("testsuite/testcase")
    assert case is not None and "<script>" in case.attrib["name"] and "\\x1b" in case.attrib["name"]
    text = outputs.markdown(told)
    assert "<script>" not in text.replace("`", "\x00").split("again")[0] and "\x1b" not in text and "\u202e" not in text
    [row] = list(csv.DictReader(io.StringIO(outputs.as_csv(told))))
    assert row["title"].startswith("'=cmd")
