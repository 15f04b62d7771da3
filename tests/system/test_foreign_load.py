"""A real busy loop beside a real run makes it SUSPECT, with the process named; alone, that check has no doubt."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tfscale.suite import preparing, running
from tfscale.suite.record import Check, Record

pytestmark = [pytest.mark.system, pytest.mark.tensorflow]
pytest.importorskip("tensorflow")

SUITE = {
    "name": "beside",
    "matrix": {"workload": "vit", "preset": "micro", "per_replica_batch": 8},
    "measure": {"budget_s": 3, "min_s": 1, "trials": 1, "tail_steps": 0},
    "cluster": {"cores_per_device": 1},
    "monitors": ["host", "network"],
}


def record_of(folder: Path) -> Record:
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump(SUITE))
    prepared = preparing.prepare(str(path), expression=None, trials=None, launcher=None)
    finished, _ = running.run(prepared, folder / "results", resume=False, overrides={})
    (record,) = finished.records
    return record


def foreign(record: Record) -> Check:
    (check,) = (check for check in record.validity.checks if check.name == "foreign_cpu")
    return check


def test_a_busy_loop_is_named_and_the_same_case_alone_is_not_suspect(tmp_path: Path) -> None:
    (tmp_path / "loaded").mkdir()
    (tmp_path / "alone").mkdir()
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        loaded = record_of(tmp_path / "loaded")
    finally:
        busy.kill()
        busy.wait()
    check = foreign(loaded)
    assert (check.status, loaded.validity.status) == ("SUSPECT", "SUSPECT"), check.detail
    named = {process["pid"]: process["cores"] for process in check.evidence["processes"]}
    assert named[busy.pid] > 0.3, check.detail

    alone = foreign(record_of(tmp_path / "alone"))
    # Whoever else uses this machine while the test runs is not ours to judge; the loop is gone.
    assert busy.pid not in {process["pid"] for process in alone.evidence["processes"]}
    assert alone.status == ("SUSPECT" if alone.evidence["cores"] > alone.evidence["limit"] else "VALID")
