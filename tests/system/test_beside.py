"""`cluster: {beside: 2}` from end to end: half the machine each, SUSPECT, ended by Ctrl-C, resumed."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
import toy_stub
from toy_kills import assert_nothing_left

from tfscale.suite import store

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two cases beside each other need two cores"),
]
PATIENT = {"launch_s": 30, "join_s": 30, "first_step_s": 30, "step_s": 30}


def suite(tmp_path: Path, cases: int) -> Path:
    path = toy_stub.suite(tmp_path / "suite.yaml", ["good"] * cases, **PATIENT)
    text = path.read_text().replace("devices: 2", "devices: 1").replace("monitors: false", "monitors: false\n%s")
    path.write_text(text % "cluster: {beside: 2}")
    return path


def test_cases_beside_each_other_share_no_core_are_suspect_and_end_and_resume_like_others(tmp_path: Path) -> None:
    path, results = suite(tmp_path, 6), tmp_path / "results"
    harness = toy_stub.start(path, results)
    deadline = time.monotonic() + 60
    while len(list(results.rglob("record.json"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    harness.send_signal(signal.SIGINT)
    _, told = harness.communicate(timeout=60)
    assert harness.returncode == 3, told
    assert_nothing_left(harness.pid, results)
    found = store.find_records(results)
    assert 2 <= len(found.records) < 6 and not found.failures and not found.warnings
    done = toy_stub.run(path, results, "--resume", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert len(document["records"]) == 6
    met = [check for r in document["records"] for check in r["validity"]["checks"] if check["name"] == "neighbours"]
    assert met and {check["status"] for check in met} == {"SUSPECT"}
    cores = {tuple(json.loads(plan.read_text())["cores"]) for plan in results.rglob("plan.json")}
    assert len(cores) == 2 and not set.intersection(*map(set, cores))


def test_what_cannot_be_parted_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = suite(tmp_path, 2)
    path.write_text(path.read_text().replace("beside: 2", "beside: 64"))
    done = toy_stub.run(path, tmp_path / "results")
    assert done.returncode == 2 and "cluster.beside 64: this machine has" in done.stderr
    assert not list((tmp_path / "results").glob("*/suite.yaml"))
    path.write_text(path.read_text().replace("beside: 64", "beside: 2"))
    refused = toy_stub.run(path, tmp_path / "results", "--launcher", "netlab", "--dry-run")
    assert refused.returncode == 2 and "netlab runs one case at a time" in refused.stderr
