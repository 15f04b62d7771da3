"""The command, as a person runs it: findings with their fixes, exit codes, a bundle without names."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tfscale.suite.doctor import reading
from tfscale.suite.doctor.fabric import fabric
from tfscale.suite.doctor.findings import Examination
from tfscale.suite.monitors.base import Column
from tfscale.suite.sources.base import Answer, Source, Sources
from tfscale.suite.sources.bundle import read
from tfscale.suite.sources.files import Files


class Said(Source):
    """Answers from a table; everything else is absent."""

    name = "said"

    def __init__(self, **answers: Answer) -> None:
        self._answers = answers

    def ask(self, key: str) -> Answer:
        return self._answers.get(key, Answer(state="absent", reason=f"{key} is not there"))

    def under(self, key: str) -> list[str]:
        return []


def sources(**files: Answer) -> Sources:
    return Sources(files=Said(**files), commands=Said(), nvml=Said())


def tfscale(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "harness.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=120)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer("EnableMSI: 1\nRmProfilingAdminOnly: 1"), "fails"),
        (Answer("EnableMSI: 1\nRmProfilingAdminOnly: 0"), "works"),
        (Answer(state="no_permission", reason="/proc/driver/nvidia/params may not be read"), "unknown"),
    ],
)
def test_who_may_profile_a_card(answer: Answer, told: str) -> None:
    (finding,) = reading.profiler(sources(**{reading.PROFILING: answer}))
    assert finding.answer == told
    assert (finding.fix is not None) == (told == "fails")


def test_without_the_driver_there_is_nothing_to_say() -> None:
    assert not list(reading.profiler(sources()))


def test_counters_name_what_is_missing_and_why() -> None:
    finding = reading.of_columns("nvml", [Column("power", "W", "gauge", "gpu0", "unsupported", "Not Supported")])
    assert (finding.answer, finding.detail) == ("unknown", "Not Supported")
    both = [Column("power", "W", "gauge", "gpu0", "unsupported", "Not Supported"), Column("busy", "s", "counter")]
    assert reading.of_columns("nvml", both).answer == "works"


def test_a_fabric_is_judged_and_shown(tmp_path: Path) -> None:
    """An adapter with an error counter above zero, laid out as the kernel does."""
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    for name, text in {
        "link_layer": "InfiniBand",
        "state": "4: ACTIVE",
        "rate": "100 Gb/sec (4X EDR)",
        "counters/symbol_error": "17",
        "counters/link_downed": "0",
    }.items():
        (port / name).parent.mkdir(parents=True, exist_ok=True)
        (port / name).write_text(text + "\n")
    found = {f.name: f for f in fabric(Sources(files=Files(tmp_path), commands=Said(), nvml=Said()))}
    assert found["errors"].answer == "fails"
    assert "17" in found["errors"].detail
    assert found["errors"].fix
    assert found["port mlx5_0/1"].answer == "shown"
    assert "EDR" in found["port mlx5_0/1"].detail


def test_a_host_without_rdma_says_so() -> None:
    (finding,) = fabric(sources())
    assert (finding.answer, finding.name) == ("shown", "rdma")


def test_the_document_and_a_bundle_without_names(root: Path, tmp_path: Path) -> None:
    done = tfscale(root, "doctor", "--seconds", "0", "--json", "--record", str(tmp_path / "bundle"))
    assert done.returncode == 0, done.stderr
    found = Examination.model_validate_json(done.stdout)
    by_name = {(finding.topic, finding.name): finding for finding in found.findings}
    assert by_name["counters", "host"].answer == "works"
    assert by_name["strategy", "tpu"].answer == "fails"
    assert by_name["strategy", "mirrored"].answer == "unknown", "nothing was tried"
    kept = read(tmp_path / "bundle")
    assert kept.sources.files.ask("proc/meminfo").ok
    name = platform.node()
    for path in (tmp_path / "bundle").iterdir():
        # A name such as `vm` is also a word of the kernel's; only names that can be told from words are looked for.
        assert len(name) < 4 or name not in path.read_text()


def test_a_bundle_is_not_written_over_anything(root: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    done = tfscale(root, "doctor", "--seconds", "0", "--record", str(tmp_path))
    assert done.returncode == 2
    assert str(tmp_path) in done.stderr.replace("\n", "")


def test_a_suite_with_a_case_that_cannot_run_here_is_a_finding(root: Path, tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "name: far\nmatrix: {workload: vit, preset: micro, per_replica_batch: 1, strategy: [one_device, tpu]}\n"
    )
    done = tfscale(root, "doctor", str(suite), "--seconds", "0", "--json")
    assert done.returncode == 1
    told = [f for f in json.loads(done.stdout)["findings"] if f["topic"] == "suite"]
    assert [f["answer"] for f in told] == ["works", "fails"]
    assert "TPU" in told[1]["detail"]
    assert told[1]["fix"]


def test_an_unknown_suite_is_a_mistake(root: Path) -> None:
    assert tfscale(root, "doctor", "nightli", "--seconds", "0").returncode == 2


def test_init_writes_a_suite_that_plans_and_never_over_a_file(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    assert tfscale(root, "init", "-o", str(path)).returncode == 0
    planned = tfscale(root, "run", str(path), "--dry-run", "--json")
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["cases"]
    path.write_text("mine")
    again = tfscale(root, "init", "-o", str(path))
    assert (again.returncode, path.read_text()) == (2, "mine")
    assert tfscale(root, "init", "-o", str(path), "--force").returncode == 0


@pytest.mark.tensorflow
@pytest.mark.system
def test_what_is_tried_really_runs(root: Path) -> None:
    pytest.importorskip("tensorflow")
    done = tfscale(root, "doctor", "--json", "--seconds", "8")
    assert done.returncode == 0, done.stderr
    found = Examination.model_validate_json(done.stdout)
    tried = [f for f in found.findings if f.topic == "strategy" and f.basis == "measured"]
    assert tried, "not even one_device within 8 s"
    assert all(finding.answer == "works" for finding in tried), [f.detail for f in tried]
