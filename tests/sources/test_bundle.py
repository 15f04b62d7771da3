"""A machine that was recorded answers the same afterwards; folders that are no bundle are refused by name."""

import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tfscale.suite import environment
from tfscale.suite.environment import Process
from tfscale.suite.environment.diff import differences
from tfscale.suite.sources import bundle
from tfscale.suite.sources.base import Answer, Source, Sources
from tfscale.suite.sources.here import here
from tfscale.suite.sources.redact import Redactor


class Fixed(Source):
    name: ClassVar[str] = "fixed"

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def ask(self, key: str) -> Answer:
        found = self.answers.get(key, Answer(state="absent", reason=f"{key} is not there on n1zq"))
        return found if isinstance(found, Answer) else Answer(found)

    def under(self, key: str) -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self.answers if name.rpartition("/")[0] == key)


UUID = "GPU-af7b61d8-0123-4567-89ab-0123456789ab"


def _recorded() -> Sources:
    files = {"sys/class/net/enx525400123456": "sys/devices/x/net/enx525400123456", "proc/sys/kernel/hostname": "n1zq"}
    commands = {"nvidia-smi -L": {"rc": 0, "stdout": f"GPU 0 (UUID: {UUID})", "stderr": "from 10.9.8.7"}}
    nvml = {"count": 1, "0/uuid": UUID, "0/power": Answer(state="no_permission", reason="not on n1zq")}
    return bundle.recording(Sources(Fixed(files), Fixed(commands), Fixed(nvml)))


def _written(folder: Path) -> Path:
    sources = _recorded()
    sources.files.under("sys/class/net")
    sources.files.ask("sys/class/net/enx525400123456")
    sources.files.ask("proc/sys/kernel/hostname")
    sources.files.ask("sys/absent")
    sources.commands.ask("nvidia-smi -L")
    sources.nvml.under("0")
    for key in ("count", "0/uuid", "0/power"):
        sources.nvml.ask(key)
    bundle.write(folder, sources, {"packages": {"numpy": "2.0"}}, Redactor(["n1zq"], []))
    return folder


def test_what_was_recorded_is_replayed_under_other_names(tmp_path: Path) -> None:
    found = bundle.read(_written(tmp_path / "b"))
    sources = found.sources
    (name,) = sources.files.under("sys/class/net")
    assert name == "enxMAC-0001"
    assert sources.files.ask(f"sys/class/net/{name}").value == f"sys/devices/x/net/{name}"
    assert sources.files.ask("proc/sys/kernel/hostname").value == "HOST-0001"
    assert sources.files.ask("sys/absent") == Answer(state="absent", reason="sys/absent is not there on HOST-0001")
    assert sources.commands.ask("nvidia-smi -L").value == {
        "rc": 0,
        "stdout": "GPU 0 (UUID: GPU-0001)",
        "stderr": "from IPV4-0001",
    }
    assert sources.nvml.ask("0/uuid").value == "GPU-0001"
    assert sources.nvml.ask("count").value == 1
    assert sources.nvml.ask("0/power") == Answer(state="no_permission", reason="not on HOST-0001")
    assert sources.nvml.under("0") == ["power", "uuid"]
    assert found.facts == {"packages": {"numpy": "2.0"}}


def test_what_nobody_asked_is_an_error_not_absent(tmp_path: Path) -> None:
    sources = bundle.read(_written(tmp_path / "b")).sources
    answer = sources.files.ask("sys/other")
    assert answer.state == "error"
    assert "was not asked" in (answer.reason or "")
    assert sources.files.under("sys/other") == []


def test_the_folder_holds_the_index_and_one_file_a_source_and_no_original(tmp_path: Path) -> None:
    folder = _written(tmp_path / "b")
    assert sorted(path.name for path in folder.iterdir()) == ["bundle.json", "commands.json", "files.json", "nvml.json"]
    index = json.loads((folder / "bundle.json").read_text())
    assert index["schema"] == "tfscale.bundle/1"
    assert index["asked"] == {"files": 3, "commands": 1, "nvml": 3}
    text = "".join(path.read_text() for path in folder.iterdir())
    assert not [secret for secret in ("n1zq", "af7b61d8", "525400123456", "10.9.8.7") if secret in text]
    with pytest.raises(FileExistsError, match="not empty"):
        _written(folder)


def test_tables_of_addresses_are_left_out(tmp_path: Path) -> None:
    sources = bundle.recording(
        Sources(Fixed({"proc/net/tcp": "0100007F:1F90", "proc/7/cmdline": "x"}), Fixed({}), Fixed({}))
    )
    sources.files.ask("proc/net/tcp")
    sources.files.ask("proc/7/cmdline")
    bundle.write(tmp_path / "b", sources, {})
    files = bundle.read(tmp_path / "b").sources.files
    assert "left out" in (files.ask("proc/net/tcp").reason or "")
    assert not files.ask("proc/7/cmdline").ok


def test_this_machine_replayed_has_this_machines_environment(tmp_path: Path) -> None:
    sources, process = bundle.recording(here()), Process.here()
    before = environment.capture(sources, process)
    bundle.write(tmp_path / "b", sources, process.document())
    found = bundle.read(tmp_path / "b")
    after = environment.capture(found.sources, Process.of(found.facts))
    different = {change.path.partition(".")[0] for change in differences(before, after)}
    # Names were taken out, and with them what is called like this host or its user; nothing else changed.
    assert different <= {"host", "variables", "scheduler", "directory", "tfscale", "container"}
    assert after["cpu"] == before["cpu"]
    assert after["nics"] == before["nics"] or "enx" in str(before["nics"])


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("bundle.json", None, r"bundle\.json: No such file"),
        ("nvml.json", None, r"nvml\.json: No such file"),
        ("bundle.json", "{", r"bundle\.json: not JSON"),
        ("bundle.json", b"\xff\xfe", r"bundle\.json: not JSON"),
        ("bundle.json", {"schema": "tfscale.bundle/2"}, r"bundle\.json: schema tfscale\.bundle/2 .*newer tfscale"),
        ("bundle.json", {"schema": "tfscale.record/1"}, r"bundle\.json: .*not a file of a bundle"),
        ("bundle.json", [], r"bundle\.json: .*not a file of a bundle"),
        ("bundle.json", {"schema": "tfscale.bundle/1", "facts": [], "created": "x"}, r"bundle\.json: `facts`"),
        ("files.json", {"schema": "tfscale.bundle_source/1", "answers": []}, r"files\.json: `answers` and `names`"),
        ("files.json", {"schema": "tfscale.bundle_source/1", "answers": {}, "names": {"a": "b"}}, r"`names` of 'a'"),
        ("files.json", {"schema": "tfscale.bundle_source/1", "answers": {"a": 1}, "names": {}}, r"answer to 'a'"),
        (
            "files.json",
            {"schema": "tfscale.bundle_source/1", "answers": {"a": {"state": "odd", "reason": "r"}}, "names": {}},
            r"files\.json: the answer to 'a'",
        ),
    ],
)
def test_what_is_no_bundle_is_refused_by_the_name_of_the_file(
    tmp_path: Path, file: str, content: Any, message: str
) -> None:
    folder = tmp_path / "b"
    shutil.copytree(_written(tmp_path / "whole"), folder)
    path = folder / file
    if content is None:
        path.unlink()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError, match=message):
        bundle.read(folder)


def test_facts_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="not the facts of a process"):
        Process.of({"pyhton": "3"})
