"""Slurm's short forms: against `scontrol show hostnames` of the real Slurm where it is installed, and always against what
it answered (slurm-wlm 22.05)."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tfscale.suite.launchers.nodelist import NodeListError, expand, tasks_per_node

NODES = {
    "node[9-10]": ["node9", "node10"],
    "n[009-011]": ["n009", "n010", "n011"],
    "node[08-10,3]": ["node08", "node09", "node10", "node3"],
    "rack[1-2]node[3-4]": ["rack1node3", "rack1node4", "rack2node3", "rack2node4"],
    "alpha,beta,gamma": ["alpha", "beta", "gamma"],
    "linux[1,2]": ["linux1", "linux2"],
    "nodes[006,011]": ["nodes006", "nodes011"],
    "gpu-compute-on-demand-dy-g4dnxlarge-[1-4]": [f"gpu-compute-on-demand-dy-g4dnxlarge-{n}" for n in range(1, 5)],
    "c1009a-s17,c1010a-s11": ["c1009a-s17", "c1010a-s11"],
    "compute-b24-[1-3,5-9],compute-b25-[1,4,8]": [
        *(f"compute-b24-{n}" for n in (1, 2, 3, 5, 6, 7, 8, 9)),
        *(f"compute-b25-{n}" for n in (1, 4, 8)),
    ],
    "a1": ["a1"],
    "n[98-102]": ["n98", "n99", "n100", "n101", "n102"],
    "login,node[2-3],gpu[10]": ["login", "node2", "node3", "gpu10"],
}

SUFFIXED = {"node[1-2]-ib": ["node1-ib", "node2-ib"], "node[01-03]x": ["node01x", "node02x", "node03x"]}
"""Names that go on after the bracket: clusters have them, and the scontrol of Slurm 22.05 answers nothing."""


@pytest.mark.parametrize("text", [*NODES, *SUFFIXED])
def test_a_list_of_nodes(text: str) -> None:
    assert expand(text) == {**NODES, **SUFFIXED}[text]


@pytest.mark.parametrize("text", NODES)
def test_as_scontrol_says(text: str, tmp_path: Path) -> None:
    if shutil.which("scontrol") is None:
        pytest.skip("scontrol is not installed (Debian: slurm-client)")
    configuration = tmp_path / "slurm.conf"
    configuration.write_text("ClusterName=none\nSlurmctldHost=localhost\n")
    told = subprocess.run(
        ["scontrol", "show", "hostnames", text],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "SLURM_CONF": str(configuration)},
    )
    assert told.stdout.split() == NODES[text]


def test_blanks_between_lists_are_none_of_a_name() -> None:
    assert expand("b24-[1-2], b25-[1,4]") == ["b24-1", "b24-2", "b25-1", "b25-4"]


@pytest.mark.parametrize(
    "text",
    ["", "a,,b", "a,", "node[1-3", "node1-3]", "node[[1-2]]", "node[3-1]", "node[a-b]", "node[]", "n;ls", "n[1-]"],
)
def test_what_is_no_list_is_told(text: str) -> None:
    with pytest.raises(NodeListError, match="node list"):
        expand(text)


@pytest.mark.parametrize("text", ["n[1-1000000]", "n[0-99999]x[0-99999]"])
def test_a_list_without_end_is_refused_at_once(text: str) -> None:
    with pytest.raises(NodeListError, match="more than 100000 nodes"):
        expand(text)


TASKS = {
    "4": [4],
    "1(x2)": [1, 1],
    "2(x3),1": [2, 2, 2, 1],
    "2(x3), 1": [2, 2, 2, 1],
    "2,1(x3),4(x2)": [2, 1, 1, 1, 4, 4],
}


@pytest.mark.parametrize("text", TASKS)
def test_tasks_per_node(text: str) -> None:
    assert tasks_per_node(text) == TASKS[text]


@pytest.mark.parametrize("text", ["", "x", "2(3)", "2(x)", "1(x2", "2(x999999999)"])
def test_what_is_no_count_of_tasks(text: str) -> None:
    with pytest.raises(NodeListError, match="tasks per node"):
        tasks_per_node(text)
