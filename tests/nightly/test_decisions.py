"""What people decided: whole files, readable ones, and a word where they are damaged."""

from pathlib import Path

import pytest
import yaml

from tfscale.suite.nightly import decisions


def one(since: str = "r1", reason: str = "meant: 100 %") -> decisions.Accepted:
    return decisions.Accepted(
        case_id="abc", title="bert mini", machine="m", since=since, level=95.5, unit="sequences/s", reason=reason,
        accepted="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


def test_what_is_written_is_read_and_newer_words_take_the_place_of_older(tmp_path: Path) -> None:
    assert decisions.accepted(tmp_path) == [] and decisions.baselines(tmp_path) == {}
    decisions.accept(tmp_path, [one(), one("r2")])
    path = decisions.accept(tmp_path, [one(reason="seen again")])
    assert decisions.accepted(tmp_path) == [one("r2"), one(reason="seen again")]
    assert path.read_text().startswith("# ") and yaml.safe_load(path.read_text())[0]["since"] == "r2"
    decisions.save_baseline(tmp_path, "release 2.0", "r1")
    decisions.save_baseline(tmp_path, "release 2.0", "r2")
    assert {name: base.run for name, base in decisions.baselines(tmp_path).items()} == {"release 2.0": "r2"}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["accepted.yaml", "baselines.yaml"]


@pytest.mark.parametrize(
    "text", ["- [", "- {}", "x", "{a: 1}", "- !!python/object/apply:os.system ['true']", "- {level: -1}", "[" * 5000]
)
def test_a_damaged_file_is_named_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / decisions.ACCEPTED
    path.write_text(text)
    with pytest.raises(decisions.DecisionsError, match=r"accepted\.yaml"):
        decisions.accept(tmp_path, [one()])
    assert path.read_text() == text


def test_an_empty_file_decides_nothing(tmp_path: Path) -> None:
    (tmp_path / decisions.ACCEPTED).write_text("# nothing yet\n")
    assert decisions.accepted(tmp_path) == []


def test_results_that_cannot_be_written_say_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(decisions.DecisionsError, match="cannot be"):
        decisions.accept(tmp_path / "file", [one()])
