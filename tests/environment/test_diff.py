"""What changed between two environments, and in which order it is told."""

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfscale.suite import environment
from tfscale.suite.environment.diff import MIDDLE, differences, flatten, importance
from tfscale.suite.record import Run
from tfscale.suite.schemas import schemas

BEFORE: dict[str, Any] = {
    "host": "n1",
    "cpu": {"model": "A", "governor": "performance", "usable": 8, "turbo": None, "turbo_reason": "not read"},
    "memory_bytes": 1 << 30,
    "gpus": [{"index": i, "name": "V", "memory_bytes": 16 << 30, "pci": f"0000:0{i}:00.0"} for i in range(8)],
    "driver": {"version": "535", "cuda": "12.2"},
    "nics": [{"name": "eth0", "mtu": 1500}],
    "kernel": "5.10",
    "packages": {"tensorflow": "2.20", "scipy": "1.0"},
    "variables": {"NCCL_ALGO": "Ring"},
    "load_average": [0.1, 0.2, 0.3],
    "scheduler": {"kind": "slurm", "variables": {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "8"}},
}


def _changed(**paths: Any) -> dict[str, Any]:
    after = deepcopy(BEFORE)
    for path, value in paths.items():
        *parents, last = path.split("__")
        where = after
        for parent in parents:
            where = where[parent]
        where[last] = value
    return after


def test_what_matters_for_speed_comes_first_and_what_always_changes_last() -> None:
    after = _changed(
        load_average=[9, 9, 9], kernel="6.1", cpu__governor="powersave", packages__tensorflow="2.21",
        driver__version="550", packages__scipy="1.1", scheduler__variables={"SLURM_JOB_ID": "2", "SLURM_NTASKS": "8"},
    )  # fmt: skip
    for gpu in after["gpus"]:
        gpu["name"] = "H"
    after["strange"] = {"new": 1}
    changes = [change for change in differences(BEFORE, after) if change.known == "both"]
    assert [change.path for change in changes] == [
        "gpus.*.name",
        "driver.version",
        "packages.tensorflow",
        "cpu.governor",
        "kernel",
        "packages.scipy",
        "load_average",
        "scheduler.variables.SLURM_JOB_ID",
    ]
    assert (changes[0].before, changes[0].after) == ("V", "H")
    (strange,) = [change for change in differences(BEFORE, after) if change.known != "both"]
    assert (strange.path, strange.known, strange.before) == ("strange.new", "after", None)


def test_one_card_of_eight_is_named_and_all_eight_are_one_line() -> None:
    after = deepcopy(BEFORE)
    after["gpus"][3]["memory_bytes"] = 8 << 30
    assert [change.path for change in differences(BEFORE, after)] == ["gpus.3.memory_bytes"]
    for gpu in after["gpus"]:
        gpu["memory_bytes"] = 8 << 30
    assert [change.path for change in differences(BEFORE, after)] == ["gpus.*.memory_bytes"]


def test_lost_cards_are_a_change_and_a_silent_driver_is_not() -> None:
    lost = differences(BEFORE, _changed(gpus=BEFORE["gpus"][:7]))
    assert {change.path for change in lost} == {"gpus.7.index", "gpus.7.name", "gpus.7.memory_bytes", "gpus.7.pci"}
    assert all(change.known == "both" for change in lost)
    assert {change.known for change in differences(BEFORE, _changed(gpus=None))} == {"before"}


def test_a_variable_that_is_not_set_is_told_and_an_unread_setting_is_not() -> None:
    (unset,) = differences(BEFORE, _changed(variables={}))
    assert (unset.path, unset.after, unset.known, unset.weight) == ("variables.NCCL_ALGO", None, "both", 78)
    (read,) = differences(BEFORE, _changed(cpu__turbo=True, cpu__turbo_reason="x"))
    assert (read.path, read.known) == ("cpu.turbo", "after")
    assert read.weight < importance("load_average")[0]


def test_unknown_paths_are_in_the_middle() -> None:
    assert importance("strange.new")[0] == MIDDLE
    assert importance("load_average")[0] < MIDDLE < importance("cpu.model")[0]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=6), values, max_size=4))
def test_nothing_differs_from_itself(found: dict[str, Any]) -> None:
    assert differences(found, deepcopy(found)) == []


@given(st.dictionaries(st.sampled_from(["cpu", "gpus", "kernel"]), values, max_size=3), values)
def test_both_directions_tell_the_same(found: dict[str, Any], other: Any) -> None:
    there, back = differences(found, {"cpu": other}), differences({"cpu": other}, found)
    assert {(change.path, repr(change.before), repr(change.after)) for change in there} == {
        (change.path, repr(change.after), repr(change.before)) for change in back
    }


def test_reasons_are_no_differences() -> None:
    assert "cpu.turbo_reason" not in flatten(BEFORE)


def _run(folder: Path, found: dict[str, Any]) -> Path:
    folder.mkdir(parents=True)
    run = Run(run=folder.name, suite="s", created="t", cases=(), records=(), failed=(), pruned=(), environment=found)
    (folder / "run.json").write_text(run.model_dump_json(by_alias=True))
    return folder


def _tfscale(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "harness.py", *args], cwd=root, capture_output=True, text=True, timeout=60)


@pytest.mark.system
def test_the_commands(root: Path, tmp_path: Path) -> None:
    one = _run(tmp_path / "one", BEFORE)
    other = _run(tmp_path / "other", _changed(cpu__governor="[bold]powersave", memory_bytes=2 << 30))
    told = json.loads(_tfscale(root, "diff", str(one), str(other), "--json").stdout)
    assert told["schema"] == "tfscale.environment_diff/1"
    assert [change["path"] for change in told["changes"]] == ["cpu.governor", "memory_bytes"]
    lines = _tfscale(root, "diff", str(one), str(other)).stdout.splitlines()
    assert lines[0] == "one -> other: 2 differences"
    assert "[bold]powersave" in lines[2]
    assert "1.074 GB" in lines[3] and "2.147 GB" in lines[3]
    shown = json.loads(_tfscale(root, "show", "--environment", str(one), "--json").stdout)
    assert shown == {"schema": "tfscale.environment/1", "of": "one", "environment": BEFORE}
    text = _tfscale(root, "show", "--environment", str(one)).stdout
    assert "turbo: unknown (not read)" in text
    here = json.loads(_tfscale(root, "show", "--environment", "--json").stdout)
    assert here["environment"]["kernel"] == environment.capture()["kernel"]
    empty = _tfscale(root, "diff", str(_run(tmp_path / "none", {})), str(one))
    assert empty.returncode == 2
    assert "holds an environment" in empty.stderr
    assert "tfscale.environment_diff/1" in schemas()
