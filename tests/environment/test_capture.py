"""The whole environment: of this machine against other tools, and what must never be in it."""

import json
import os
import platform
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path

import machines
import psutil
import pytest

from tfscale.suite import environment
from tfscale.suite.environment import Process, process, software
from tfscale.suite.environment.scheduling import VARIABLES


def test_this_machine_agrees_with_other_tools() -> None:
    found = environment.capture()
    assert found["cpu"]["threads"] == psutil.cpu_count(logical=True)
    assert found["cpu"]["cores"] in (psutil.cpu_count(logical=False), None)
    assert found["cpu"]["usable"] == len(os.sched_getaffinity(0)) == len(environment.host_cores())
    assert found["memory_bytes"] == psutil.virtual_memory().total
    assert found["kernel"] == platform.release()
    assert found["host"] == platform.node()
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert found["limits"]["open_files"] == ("unlimited" if soft == resource.RLIM_INFINITY else soft)
    stats, addresses = psutil.net_if_stats(), psutil.net_if_addrs()
    for nic in found["nics"]:
        assert nic["mtu"] == stats[nic["name"]].mtu
    assert {nic["name"] for nic in found["nics"]} <= set(addresses) | set(stats)
    for name in ("numpy", "pydantic", "psutil"):
        assert found["packages"][name] == version(name)
    json.dumps(found, allow_nan=False)


def test_it_is_quick_and_imports_no_tensorflow() -> None:
    def seconds() -> float:
        start = time.perf_counter()
        environment.capture()
        return time.perf_counter() - start

    before = "tensorflow" in sys.modules
    assert min(seconds() for _ in range(3)) < 1.0
    assert ("tensorflow" in sys.modules) == before


CANARY = "hunter2-canary"
SECRETS = (
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "HF_TOKEN", "WANDB_API_KEY", "SLURM_JWT",
    "SLURM_JOB_COMMENT", "SLURM_SPANK_TOKEN", "PBS_O_PATH", "PBS_COOKIE", "LSB_AUTH", "KUBECONFIG", "KUBE_TOKEN",
    "TF_TOKEN_app_terraform_io", "TF_VAR_db", "TF_API_TOKEN", "NCCL_SECRET", "NCCL_PASSWORD", "CUDA_API_KEY",
    "GRPC_CREDENTIALS", "XLA_TOKEN", "OMP_KEY", "MKL_PASSWD", "UCX_AUTH_TOKEN", "DATABASE_URL", "SSH_AUTH_SOCK",
    "HTTP_PROXY", "PIP_INDEX_URL", "KERAS_KEY", "APPTAINERENV_TOKEN", "SINGULARITYENV_TOKEN", "DOCKER_PASSWORD",
    "slurm_job_id", "JUPYTER_TOKEN", "OPENAI_API_KEY", "HOME", "USER", "BASH_FUNC_x%%", "TF_CONFIG",
)  # fmt: skip


def test_no_canary_reaches_the_environment() -> None:
    plausible = dict.fromkeys(SECRETS, CANARY)
    assert CANARY not in json.dumps(environment.capture(process=Process.here(plausible)))


def test_user_and_password_of_a_url_in_a_listed_variable_are_masked() -> None:
    told = Process.here({"TF_DATA_URL": f"https://me:{CANARY}@host/x", "NCCL_ALGO": "Ring", "SLURM_JOB_ID": "17"})
    assert told.variables == {"TF_DATA_URL": "https://***@host/x", "NCCL_ALGO": "Ring"}
    assert told.placed == {"SLURM_JOB_ID": "17"}


def test_scheduler_lists_hold_no_name_that_smells_of_a_secret() -> None:
    names = [name for listed in VARIABLES.values() for name in listed]
    assert not [
        name for name in names if any(word in name for word in ("TOKEN", "JWT", "KEY", "AUTH", "COMMENT", "PASS"))
    ]


def test_an_empty_machine_gives_nulls_and_reasons_never_zeros() -> None:
    found = environment.capture(machines.sources(machines.Fixed()), machines.PROCESS)
    assert found["memory_bytes"] is None
    assert found["cpu"]["model"] is None
    assert found["gpus"] == []
    assert found["driver"]["version_reason"]
    assert found["libraries"]["nccl_reason"]
    assert found["load_average"] is None
    assert found["tfscale"] == {"version": None, "git": None, "git_reason": "no git checkout"}


def test_build_flags_are_read_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import collections\nbuild_info = collections.OrderedDict([('cuda_version', '12.5.1'), ('cudnn_version', '9'),"
        " ('cuda_compute_capabilities', ['sm_60', 'compute_90']), ('is_cuda_build', True)])\n"
    )
    folder = tmp_path / "tensorflow/python/platform"
    folder.mkdir(parents=True)
    (tmp_path / "tensorflow/__init__.py").write_text("raise RuntimeError('imported')\n")
    (folder / "build_info.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    flags = process.build_info()
    assert flags["cuda_compute_capabilities"] == ["sm_60", "compute_90"]
    found = software.libraries(Process("", "", "", packages={"nvidia-nccl-cu12": "2.25.1"}, tensorflow_build=flags))
    assert (found["cuda_built_for"], found["cudnn_built_for"], found["nccl"]) == ("12.5.1", "9", "2.25.1")
    assert found["cudnn"] is None
    (folder / "build_info.py").write_text("nothing = 1\n")
    assert "tells nothing" in process.build_info()["reason"]


def test_git_states(tmp_path: Path) -> None:
    describe = "git -C /src describe --always --dirty"
    answers = {describe: {"rc": 0, "stdout": "v1-3-gabc-dirty\n", "stderr": ""}}
    inside = machines.sources(machines.Fixed({"src/.git": "src/.git"}), answers)
    assert software.git_state(inside, "/src").value == "v1-3-gabc-dirty"
    assert not software.git_state(machines.sources(machines.Fixed(), answers), "/src").ok
    refused = {describe: {"rc": 128, "stdout": "", "stderr": "fatal: not a git repository\n"}}
    answer = software.directory_state(machines.sources(machines.Fixed(), refused), "/src")
    assert (answer.state, answer.reason) == ("absent", "fatal: not a git repository")


@pytest.mark.parametrize(
    ("nvml", "proc", "version"),
    [
        ({"driver": "550.54.15", "cuda_driver": 12040}, {}, ("550.54.15", "12.4")),
        ({}, {"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct"},
         ("535.129.03", None)),
        ({}, {"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  R"},
         ("560.35.03", None)),
        ({}, {}, (None, None)),
    ],
)  # fmt: skip
def test_the_driver(nvml: dict[str, object], proc: dict[str, str], version: tuple[str | None, str | None]) -> None:
    found = software.driver(machines.sources(machines.Fixed(proc), nvml=nvml))
    assert (found["version"], found["cuda"]) == version


def test_nccl_conf_is_read_by_the_same_list() -> None:
    files = machines.Fixed({"etc/nccl.conf": f"NCCL_IB_HCA=mlx5\n# NCCL_X=1\nPATH=/x\nNCCL_TOKEN={CANARY}\n"})
    found = environment.capture(machines.sources(files), machines.PROCESS)
    assert found["nccl_configuration"] == {"NCCL_IB_HCA": "mlx5"}
