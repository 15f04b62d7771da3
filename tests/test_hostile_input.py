"""What broke once, by kind: foreign secrets, flags behind our back, users' modules, damaged results, odd outputs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tfscale.suite import environment, matrix, preparing, pruning, store, suitefile, workload
from tfscale.suite.record import Run
from tfscale.suite.runfolder import RunFolder
from tfscale.suite.running import exit_code
from tfscale.suite.spec import Case, recordable
from tfscale.suite.strategies.base import Machine
from tfscale.suite.training import xla


@pytest.mark.parametrize(
    "name",
    [
        "TF_VAR_db_password",
        "TF_TOKEN_app_terraform_io",
        "TF_CLI_CONFIG_FILE",
        "TF_API_TOKEN",
        "NCCL_SECRET",
        "TF_CONFIG",
    ],
)
def test_a_variable_that_may_hold_a_secret_is_neither_recorded_nor_set(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "hunter2")
    assert "hunter2" not in json.dumps(environment.capture())
    with pytest.raises(ValueError, match="may not be set"):
        Case(workload="bert", preset="tiny", per_replica_batch=1, env={name: "x"})


@pytest.mark.parametrize("name", ["NCCL_ALGO", "TF_XLA_FLAGS", "OMP_NUM_THREADS", "TF_NUM_INTEROP_THREADS"])
def test_settings_are_recorded(name: str) -> None:
    assert recordable(name)


@pytest.mark.parametrize("env", [{"NCCL_ALGO": "a\0b"}, {"NCCL_=x": "1"}])
def test_what_no_process_can_be_given_is_refused_in_the_suite(env: dict) -> None:
    with pytest.raises(ValueError, match="NCCL_"):
        Case(workload="bert", preset="tiny", per_replica_batch=1, env=env)


@pytest.mark.parametrize(("kind", "words"), [("gpu", "no GPU is visible"), ("tpu", "no TPU here")])
def test_an_accelerator_that_is_not_there_prunes(kind: str, words: str) -> None:
    case = Case(workload="bert", preset="tiny", per_replica_batch=1)
    reason = pruning.refusal(case, Machine(cores=2, gpus=0, tpus=0, kind=kind), "local")  # type: ignore[arg-type]
    assert reason is not None
    assert words in reason


def test_clustering_flags_of_the_environment_show_in_what_was_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit")
    assert xla.effective("none", 0, None)["xla"] == "auto"
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_auto_jit=0")
    assert xla.effective("none", 0, None) == {"xla": "none"}


@pytest.mark.parametrize(
    "body", ["raise KeyError('x')", "import sys; sys.exit(0)", "def factory(:", "1 / 0", "def factory(): return 3"]
)
def test_whatever_a_users_module_does_is_a_mistake_in_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    name = f"users_{abs(hash(body))}"
    (tmp_path / f"{name}.py").write_text(f"print('noise')\n{body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = f"name: n\ninclude: [{{workload: '{name}:factory', preset: a, per_replica_batch: 1}}]\n"
    with pytest.raises(suitefile.SuiteError, match=rf"^s\.yaml:2: .*{name}"):
        suitefile.build(suitefile.parse(text, "s.yaml"))


def test_what_a_users_module_prints_stays_off_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "users_loud.py").write_text("print('noise')\ndef factory(): return 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="users_loud"):
        workload.load("users_loud:factory")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("exchange", ["none(", "none(pack_mib=x)", "none(pack_mib=-1)", "none(size=3)", "nine"])
def test_a_malformed_exchange_is_refused_when_the_suite_is_read(exchange: str) -> None:
    text = f"name: n\ninclude: [{{workload: bert, preset: tiny, per_replica_batch: 1, exchange: '{exchange}'}}]\n"
    with pytest.raises(suitefile.SuiteError, match=r"^s\.yaml:2: "):
        matrix.expand(suitefile.parse(text, "s.yaml"))


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        ("devices: true", "devices: got True, a bool"),
        ("devices: '2'", "devices: got '2', a str"),
        ("seed: 012", "seed: got '012', a str"),
        ("seed: 1:30", "seed: got '1:30', a str"),
        ("steps_per_call: yes", "steps_per_call: got True"),
        ("input: {kind: synthetic, cache: memory}", "cache means nothing for synthetic input"),
        ("input: {kind: files, index: zipf}", "index means nothing for files input"),
        ("input: {kind: files, prefetch: true}", "prefetch: got True"),
    ],
)
def test_a_value_that_yaml_or_we_would_have_to_guess_is_refused(axis: str, words: str) -> None:
    text = f"name: n\ninclude:\n  - {{workload: bert, preset: tiny, per_replica_batch: 1, {axis}}}\n"
    with pytest.raises(suitefile.SuiteError, match=r"^s\.yaml:3: ") as found:
        suitefile.build(suitefile.parse(text, "s.yaml"))
    assert words in str(found.value)


@pytest.mark.parametrize(("number", "value"), [("0", 0), ("17", 17), ("0x10", 16), ("1_000", 1000)])
def test_plain_integers_are_read(number: str, value: int) -> None:
    assert suitefile.parse(f"seed: {number}\n", "s.yaml").data == {"seed": value}


@pytest.mark.parametrize(
    ("only", "words"),
    [
        ("{strateggy: mirrored}", "unknown key 'strateggy' in profile.only.*did you mean 'strategy'"),
        ("{devices: 7}", "no case of the suite has these values"),
    ],
)
def test_a_profile_filter_that_selects_nothing_is_refused(only: str, words: str) -> None:
    text = "name: n\ninclude: [{workload: bert, preset: tiny, per_replica_batch: 1}]\nprofile:\n  only: " + only + "\n"
    with pytest.raises(suitefile.SuiteError, match=rf"^s\.yaml:4: .*{words}"):
        suitefile.build(suitefile.parse(text, "s.yaml"))


def test_more_cores_a_device_than_there_are_prune() -> None:
    case = Case(workload="bert", preset="tiny", per_replica_batch=1)
    reason = pruning.refusal(case, Machine(cores=2, gpus=0, cores_per_device=999), "local")
    assert reason == "1 CPU devices a host need 999 cores each, and there are 2"


def test_a_data_folder_that_is_not_there_is_told_before_anything_starts(tmp_path: Path) -> None:
    suite = tmp_path / "s.yaml"
    suite.write_text(
        "name: n\ninclude: [{workload: bert, preset: tiny, per_replica_batch: 1, "
        f"input: {{kind: files, path: {tmp_path}/none}}}}]\n"
    )
    with pytest.raises(ValueError, match="no folder here; `tfscale data make bert"):
        preparing.prepare(str(suite), expression=None, trials=None, launcher=None)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("def flops(self, preset, batch): return 12", "flops gives 12, a int; Flops is wanted"),
        ("def parameters(self, preset): return 1 / 0", "parameters raises ZeroDivisionError"),
        ("def features(self, preset): return None", "features gives None"),
    ],
)
def test_what_a_users_workload_answers_is_looked_at_before_a_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, words: str
) -> None:
    name = f"users_{abs(hash(method))}"
    monkeypatch.syspath_prepend(Path(__file__).parent / "toy")
    (tmp_path / f"{name}.py").write_text(f"import toy_bench\nclass Mine(toy_bench.Toy):\n    {method}\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = f"name: n\ninclude: [{{workload: '{name}:Mine', preset: good, per_replica_batch: 1}}]\n"
    with pytest.raises(suitefile.SuiteError, match=words):
        suitefile.build(suitefile.parse(text, "s.yaml"))


def test_a_resumed_run_keeps_its_date_and_sheds_half_written_files(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "name: n\n", {})
    assert folder.created() > "2020"
    fields = {"run": folder.run, "suite": "n", "cases": (), "records": (), "failed": (), "pruned": ()}
    folder.write_run(Run(**fields, created="2024-01-01T00:00:00.000+00:00"))
    assert folder.created() == "2024-01-01T00:00:00.000+00:00"
    left = folder.trial("abc", 0) / ".record.json.77.tmp"
    left.parent.mkdir(parents=True)
    left.write_text("{")
    folder.remove_leftovers()
    assert not left.exists()
    assert (folder.path / "suite.yaml").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half", "no_fields"])
def test_damaged_block_files_are_skipped_with_a_warning(tmp_path: Path, content: bytes | str) -> None:
    path = tmp_path / "blocks.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.savez(path, **{"rank0/group_end_ns": np.arange(3)})
    warnings: list[str] = []
    record = type("R", (), {"id": "r", "files": {"blocks": "blocks.npz"}})()
    found = store.Found(records=[record], folders={"r": tmp_path})
    assert store._blocks(found, warnings) == {}
    assert len(warnings) == 1
    assert str(path) in warnings[0]


def test_a_run_folder_without_its_document_still_opens(tmp_path: Path) -> None:
    (tmp_path / "run1").mkdir()
    (tmp_path / "run1" / "suite.yaml").write_text("name: n\n")
    loaded = store.load_run(tmp_path)
    assert loaded.run.run == "run1"
    assert any("run.json" in warning for warning in loaded.warnings)


def test_an_interrupted_run_is_no_success() -> None:
    fields = {"run": "r", "suite": "s", "created": "c", "cases": (), "records": (), "failed": (), "pruned": ()}
    assert exit_code(Run(**fields)) == 0
    assert exit_code(Run(**fields, missing=("abc",))) == 3


@pytest.mark.parametrize("output", ["/dev/null", "folder"])
def test_a_report_replaces_files_only(root: Path, tmp_path: Path, output: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "run1").mkdir()
    (tmp_path / "run1" / "suite.yaml").write_text("name: n\n")
    target = tmp_path / output
    done = subprocess.run(
        [sys.executable, str(root / "harness.py"), "report", str(tmp_path), "-o", str(target)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "not a file" in done.stderr
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("command", ["trace", "report"])
def test_what_is_no_page_is_not_replaced(root: Path, tmp_path: Path, command: str) -> None:
    """`--html a.xplane.pb b.xplane.pb` must not cost anybody a trace."""
    kept = tmp_path / "a.xplane.pb"
    kept.write_bytes(b"\x0a\x00 a trace")
    (tmp_path / "run1").mkdir()
    (tmp_path / "run1" / "suite.yaml").write_text("name: n\n")
    option = "--html" if command == "trace" else "-o"
    done = subprocess.run(
        [sys.executable, str(root / "harness.py"), command, str(tmp_path), option, str(kept)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "only pages are replaced" in done.stderr
    assert kept.read_bytes() == b"\x0a\x00 a trace"


def test_one_answer_on_stdout_at_a_time(root: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(root / "harness.py"), "trace", str(tmp_path), "--json", "--csv"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--json and --csv" in done.stderr


def test_a_closed_pipe_is_no_error(root: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, str(root / "harness.py"), "list", "workloads"],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_behind_stdout_is_told_in_a_line(root: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, str(root / "harness.py"), "list", "workloads"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 3
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
