"""Ranks on a lab: placed, told apart from loopback, watched to their end, and nothing left of either."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "toy"))
sys.path.insert(0, str(Path(__file__).parent.parent / "netlab"))
import rooms
import toy_bench as toy

from tfscale.suite import environment
from tfscale.suite.launchers import procfs
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.netlab import NetlabLauncher, deal, same_links
from tfscale.suite.netlab import namespaces
from tfscale.suite.plan import RankPlan, cores_shared
from tfscale.suite.planner import Folders, Place, plan_launch
from tfscale.suite.pruning import refusal
from tfscale.suite.spec import Case
from tfscale.suite.strategies.base import Machine
from tfscale.suite.watch import Outcome, watch

NETLAB = "tfscale.suite.launchers.netlab:NetlabLauncher"
PAIR = {"hosts": 2, "link": "100Mbit"}
PLACE = Place(host_cores=environment.host_cores(), cores_per_device=1)


def bert(**axes: Any) -> Case:
    return Case.model_validate({"workload": "bert", "preset": "tiny", "per_replica_batch": 8, **axes})


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"strategy": "multi_worker_mirrored", "devices": 2}, "no network to build: add `topology: two-racks`"),
        ({"strategy": "tpu", "topology": PAIR}, "strategy tpu: TPUs are not connected"),
        ({"strategy": "mirrored", "devices": 2, "topology": PAIR}, "one process on one host, not on 2 hosts"),
        ({"strategy": "multi_worker_mirrored", "devices": 6, "topology": PAIR}, "3 CPU devices a host .* there are 2"),
        ({"strategy": "multi_worker_mirrored", "devices": 2, "topology": PAIR, "order": "topology"}, "several racks"),
    ],
)
def test_cases_that_cannot_be_placed_are_refused_with_the_reason(axes: dict[str, Any], words: str) -> None:
    reason = refusal(bert(**axes), Machine(cores=4, gpus=0), NETLAB)
    assert reason is not None and re.search(words, reason), reason


@pytest.mark.parametrize("axes", [{"collective": "nccl"}, {"transport": "rdma"}, {"transport": "gdr"}])
def test_what_would_go_past_the_links_is_refused(axes: dict[str, Any]) -> None:
    case = bert(strategy="multi_worker_mirrored", devices=2, topology=PAIR, **axes)
    assert "go past the links" in (NetlabLauncher.refuses(case) or "")


def test_what_can_be_placed_is_kept() -> None:
    machine = Machine(cores=2, gpus=0)
    assert refusal(bert(topology=PAIR), machine, NETLAB) is None
    for count in (2, 4):
        case = bert(strategy="multi_worker_mirrored", devices=count, topology={"hosts": count})
        assert case.hosts == count and refusal(case, machine, NETLAB) is None


def test_cores_are_dealt_out_and_shared_only_where_there_are_too_few() -> None:
    assert deal([0, 1, 2, 3, 4], 2) == [(0, 2, 4), (1, 3)]
    assert deal([4, 6], 4) == [(4,), (6,), (4,), (6,)]
    case = bert(strategy="multi_worker_mirrored", devices=4, topology={"hosts": 4})
    assert [NetlabLauncher.cores_of_a_host(case, cores) for cores in (1, 2, 4, 9)] == [1, 1, 1, 2]


def test_the_same_links_by_another_name_are_the_same_lab() -> None:
    one, other = rooms.two_racks(), rooms.two_racks(uplink="300Mbit")
    assert same_links(one, one.model_copy(update={"name": "else"})) and not same_links(one, other)


@pytest.fixture(scope="module")
def ranks() -> Iterator[NetlabLauncher]:
    rooms.need_labs()
    with pytest.MonkeyPatch.context() as patch:
        toy.use(patch)
        with talkers() as launcher:
            yield launcher


def talkers(**options: Any) -> NetlabLauncher:
    return NetlabLauncher(worker="toy_talker", preload=(), modules_of=lambda case: [], **options)


def planned(launcher: NetlabLauncher, folder: Path, preset: str = "good", **axes: Any) -> list[RankPlan]:
    case = toy.case(preset, strategy="Spread", **{"topology": PAIR, **axes})
    hosts = launcher.hosts(case)
    folders = Folders(folder)
    return plan_launch(
        case, 0, toy.Spread(), PLACE, folders, measure=toy.QUICK, profile=None, pass_="timed", hosts=hosts
    )


def run(
    launcher: NetlabLauncher, plans: list[RankPlan], at_step: Callable[[], None] = lambda: None
) -> tuple[Outcome, float]:
    """Outcome and seconds of a launch; `at_step` is called once, when rank 0 has made 50 steps. Nothing is left."""
    called: list[bool] = []

    def on_event(rank: int, event: dict[str, Any]) -> None:
        if rank == 0 and event.get("step", 0) >= 50 and not called:
            called.append(True)
            at_step()

    begun = time.monotonic()
    job = launcher.start(plans)
    pids = [rank.pid for rank in job.ranks]  # type: ignore[attr-defined]
    try:
        outcome = watch(job, plans, settle_s=0.5, on_event=on_event)
    finally:
        job.end(0.3)
    assert not [pid for leader in pids for pid in procfs.session_members(leader)]
    return outcome, time.monotonic() - begun


@pytest.mark.system
def test_ranks_talk_over_the_lab_and_the_next_case_finds_it(ranks: NetlabLauncher, tmp_path: Path) -> None:
    plans = planned(ranks, tmp_path)
    assert [address.rpartition(":")[0] for address in plans[0].cluster["worker"]] == ["198.18.0.1", "198.18.0.2"]
    lab = ranks._lab
    assert lab is not None
    before = lab.counters()
    outcome, _ = run(ranks, plans)
    assert outcome == Outcome(None)
    # 200 messages of 1000 bytes from each rank to the other, and their headers.
    for port in ("h0", "h1"):
        assert 200_000 < lab.counters()[f"{port}/rx_bytes"] - before[f"{port}/rx_bytes"] < 300_000
    told = json.loads((tmp_path / "rank1/launch.json").read_text())
    assert told["effective"] == {"network": "netlab", "congestion_control": lab.congestion_control}
    planned(ranks, tmp_path, topology={"name": "the same", **PAIR})
    assert ranks._lab is lab


@pytest.mark.system
def test_a_fresh_interpreter_is_in_the_namespace_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rooms.need_labs()
    toy.use(monkeypatch)
    with talkers(fork=False) as launcher:
        assert run(launcher, planned(launcher, tmp_path))[0] == Outcome(None)
        lab = launcher._lab
        assert lab is not None and lab.whole
    assert not any((namespaces.RUN / name).exists() for name in lab.layout.namespaces)


@pytest.mark.system
def test_hosts_come_in_the_order_of_the_ranks_and_keep_their_cores(ranks: NetlabLauncher) -> None:
    racks = rooms.two_racks(hosts="abab")
    listed, ordered = (
        ranks.hosts(toy.case(devices=4, strategy="Spread", topology=racks, order=order))
        for order in ("listed", "topology")
    )
    assert [host.address[-1] for host in listed] == ["1", "2", "3", "4"]
    assert [host.address[-1] for host in ordered] == ["1", "3", "2", "4"]
    assert [listed[place] for place in (0, 2, 1, 3)] == ordered
    plans = planned(ranks, Path("unused"), devices=4, topology=racks)
    assert cores_shared(plans) == (len(environment.host_cores()) < 4)
    assert not cores_shared(planned(ranks, Path("unused"))) or len(environment.host_cores()) < 2


@pytest.mark.system
def test_a_killed_rank_ends_the_case_and_leaves_no_process(ranks: NetlabLauncher, tmp_path: Path) -> None:
    outcome, _ = run(ranks, planned(ranks, tmp_path, "killed@1"))
    assert outcome.failure is not None
    assert (outcome.failure.classification, outcome.failure.rank) == ("lost_rank", 1)


@pytest.mark.system
def test_a_namespace_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toy.use(monkeypatch)
    gone = {"network_namespace": "tfs-1-1-1-h9"}
    plans = [plan.model_copy(update=gone) for plan in toy.plans(toy.case(), tmp_path)]
    with toy.launcher() as launcher:
        job = launcher.start(plans)
        try:
            outcome = watch(job, plans, settle_s=0.5)
        finally:
            job.end(0.3)
    assert outcome.failure is not None and "/run/netns/tfs-1-1-1-h9" in outcome.failure.reason


@pytest.mark.system
def test_a_cut_cable_ends_the_case_within_its_deadline(ranks: NetlabLauncher, tmp_path: Path) -> None:
    plans = planned(ranks, tmp_path, topology=rooms.two_racks(hosts="ab"))
    lab = ranks._lab
    assert lab is not None
    try:
        outcome, seconds = run(ranks, plans, at_step=lambda: lab.cut(1))
    finally:
        lab.mend(1)
    assert outcome.failure is not None and outcome.failure.classification in ("hung", "lost_rank")
    assert seconds < (toy.QUICK.step_s or 0) + 4
    assert run(ranks, planned(ranks, tmp_path / "mended", topology=lab.topology))[0] == Outcome(None)


@pytest.mark.system
def test_devices_that_have_links_of_their_own_are_not_started(ranks: NetlabLauncher, tmp_path: Path) -> None:
    plans = [plan.model_copy(update={"accelerator": "gpu"}) for plan in planned(ranks, tmp_path)]
    with pytest.raises(LaunchError, match=r"does not place GPU ranks: .*set cluster.accelerator: cpu"):
        ranks.start(plans)


@pytest.mark.system
@pytest.mark.tensorflow
def test_tensorflow_sums_over_the_lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its servers, its coordination service and its ring find each other by the lab's addresses."""
    rooms.need_labs()
    toy.use(monkeypatch)
    with NetlabLauncher(worker="tf_worker", preload=("tensorflow",), modules_of=lambda case: []) as launcher:
        plans = planned(launcher, tmp_path)
        patient = [plan.model_copy(update={"measure": plan.measure.model_copy(update=PATIENT)}) for plan in plans]
        outcome, _ = run(launcher, patient)
        assert outcome.failure is None, outcome
        assert launcher._lab is not None
        # 400 sums of 1000 floats: each of two ranks sends each of them once.
        assert launcher._lab.counters()["h1/rx_bytes"] > 400 * 4000


PATIENT = {"launch_s": 20.0, "join_s": 30.0, "first_step_s": 30.0, "step_s": 20.0}
