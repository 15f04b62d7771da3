"""The commands for Cloud TPU VMs, as words."""

import shlex
from typing import Any

import pytest
import yaml

from tfscale.suite import suitefile
from tfscale.suite.launchers.tpu_vm.commands import render
from tfscale.suite.rendering import Wanted

SLICE = {"zone": "us-central2-b", "accelerator_type": "v4-32", "version": "tpu-vm-tf-2.18.0-pod-pjrt"}
MATRIX = {"workload": "bert", "preset": "tiny", "strategy": "tpu", "devices": 16, "xla": "cluster"}


def wanted(*options: str, accelerator: str = "tpu", strategy: str = "tpu", **settings: Any) -> Wanted:
    document = {
        "name": "pods",
        "matrix": {**MATRIX, "strategy": strategy, "per_replica_batch": 8},
        "cluster": {"accelerator": accelerator, "tpu_vm": {**SLICE, **settings}},
    }
    suite = suitefile.build(suitefile.parse(yaml.safe_dump(document), "s.yaml"))
    return Wanted(suite=suite, document=document, path="my suites/pods.yaml", options=options)


def test_a_slice_is_made_used_and_removed() -> None:
    found = render(wanted(project="my-project"))
    assert [command[4] for command in found.commands] == ["create", "scp", "ssh", "scp", "delete"]
    assert all(command[:4] == ("gcloud", "compute", "tpus", "tpu-vm") for command in found.commands)
    assert all(command[-4:] == ("--zone", "us-central2-b", "--project", "my-project") for command in found.commands)
    assert found.commands[1][5:7] == ("./my suites/pods.yaml", "tfscale:pods.yaml")
    assert "Never run on a TPU pod" in found.notes[0]


def test_lines_and_the_command_of_the_vm_are_quoted() -> None:
    hostile = "devices>=2; rm -rf / 'x' $(id)"
    found = render(wanted("--only", hostile))
    lines = [line for line in found.text().splitlines() if not line.startswith("#")]
    assert [tuple(shlex.split(line)) for line in lines] == list(found.commands)
    remote = found.commands[2][found.commands[2].index("--command") + 1]
    assert shlex.split(remote) == [
        *("env", "TPU_NAME=tfscale", "TPU_LOAD_LIBRARY=0", "tfscale", "run", "pods.yaml"),
        *("--launcher", "local", "--results", "results", "--only", hostile),
    ]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"zone": "here"}, "cluster.tpu_vm.zone: 'here' is not of the form of us-central2-b"),
        ({"accelerator_type": "v4-32 --x"}, "cluster.tpu_vm.accelerator_type"),
        ({"name": "-x"}, "cluster.tpu_vm.name"),
        ({"version": "v2-alpha\n"}, "cluster.tpu_vm.version"),
        ({"accelerator": "gpu"}, "a TPU slice needs accelerator: tpu"),
        ({"strategy": "one_device"}, "only the strategy tpu"),
    ],
)
def test_what_is_wrong_is_told(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        render(wanted(**settings))
