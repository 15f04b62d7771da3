"""Limits, scheduler and container: tables of what the kernel and the schedulers document."""

from pathlib import Path

import machines
import pytest

from tfscale.suite.environment.limits import cgroup, os_name, resource_limits
from tfscale.suite.environment.scheduling import container, scheduler, scheduler_variables

_V2 = {"sys/fs/cgroup/cgroup.controllers": "cpu memory\n", "proc/self/cgroup": "0::/job/step\n"}
_V1 = {"proc/self/cgroup": "4:memory:/job\n3:cpuset:/\n1:cpu,cpuacct:/job\n0::/\n"}


@pytest.mark.parametrize(
    ("contents", "cpus", "memory"),
    [
        (_V2, "unlimited", "unlimited"),
        ({**_V2, "sys/fs/cgroup/job/step/cpu.max": "max 100000"}, "unlimited", "unlimited"),
        ({**_V2, "sys/fs/cgroup/job/step/cpu.max": "250000 100000"}, 2.5, "unlimited"),
        (
            {
                **_V2,
                "sys/fs/cgroup/job/step/cpu.max": "800000 100000",
                "sys/fs/cgroup/job/cpu.max": "400000 100000",
                "sys/fs/cgroup/job/memory.max": "1073741824",
                "sys/fs/cgroup/job/step/memory.max": "max",
            },
            4.0,
            1 << 30,
        ),
        (_V1, None, None),
        (
            {
                **_V1,
                "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "150000",
                "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712",
            },
            1.5,
            "unlimited",
        ),
        (
            {
                **_V1,
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648",
            },
            "unlimited",
            2 << 30,
        ),
    ],
)
def test_the_tightest_limit_on_the_way_up_counts(
    tmp_path: Path, contents: dict[str, str], cpus: float | str | None, memory: int | str | None
) -> None:
    found = cgroup(machines.tree(tmp_path, contents))
    assert (found["cpus"], found["memory_bytes"]) == (cpus, memory)


def test_soft_limits_are_read_and_unlimited_is_a_word(tmp_path: Path) -> None:
    text = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max open files            1024                 524288               files     \n"
        "Max locked memory         unlimited            unlimited            bytes     \n"
    )
    files = machines.tree(tmp_path, {"proc/self/limits": text})
    assert resource_limits(files) == {"open_files": 1024, "memlock_bytes": "unlimited"}


def test_the_name_of_the_distribution(tmp_path: Path) -> None:
    content = 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'
    assert os_name(machines.tree(tmp_path, {"etc/os-release": content})) == "Debian GNU/Linux 12 (bookworm)"
    assert os_name(machines.Fixed()) is None


@pytest.mark.parametrize(
    ("variables", "kind"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JWT": "s"}, "slurm"),
        ({"LSB_JOBID": "8", "LSB_QUEUE": "gpu"}, "lsf"),
        ({"PBS_JOBID": "9.head", "PBS_O_PATH": "s"}, "pbs"),
        ({}, "none"),
    ],
)
def test_schedulers_are_told_by_their_job_and_only_listed_variables_are_kept(
    variables: dict[str, str], kind: str
) -> None:
    found = scheduler(machines.Fixed(), scheduler_variables(variables))
    assert found["kind"] == kind
    assert "s" not in found.get("variables", {}).values()
    assert len(found.get("variables", {})) == (0 if kind == "none" else len(variables) - (kind != "lsf"))


@pytest.mark.parametrize(
    ("contents", "variables", "kind"),
    [
        ({}, {"SINGULARITY_CONTAINER": "/x.sif"}, "apptainer"),
        ({".singularity.d/labels.json": "{}"}, {}, "apptainer"),
        ({".dockerenv": "x"}, {}, "docker"),
        ({".dockerenv": "x"}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"run/.containerenv": "x"}, {"container": "podman"}, "podman"),
        ({"proc/self/cgroup": "0::/kubepods.slice/pod1"}, {}, "kubernetes"),
        ({"proc/self/cgroup": "1:cpu:/docker/5af\n"}, {}, "docker"),
        ({"proc/self/cgroup": "0::/user.slice\n"}, {}, "none"),
        ({}, {"container": "systemd-nspawn"}, "systemd-nspawn"),
    ],
)
def test_containers(tmp_path: Path, contents: dict[str, str], variables: dict[str, str], kind: str) -> None:
    assert container(machines.tree(tmp_path, contents), variables)["kind"] == kind
