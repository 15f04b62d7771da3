"""From a case to the plans of its ranks: addresses, cores, folders, environment, all decided here and only here."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tfscale.suite import transport
from tfscale.suite.launchers.base import Host
from tfscale.suite.launchers.ports import free_ports
from tfscale.suite.plan import Lengths, Pass, RankPlan, Stretch, cores_of
from tfscale.suite.spec import Case, Measure, Profile
from tfscale.suite.strategies.base import RankLayout, Strategy


@dataclass(frozen=True)
class Place:
    """Where ranks of a run may be put. `visible_gpus` are the names (CUDA_VISIBLE_DEVICES entries) to hand out."""

    host_cores: list[int]
    cores_per_device: int
    accelerator: Literal["cpu", "gpu", "tpu"] = "cpu"
    visible_gpus: list[str] = field(default_factory=list)
    ports: Callable[[int], list[int]] = free_ports


@dataclass(frozen=True)
class Folders:
    """`trial` holds the rank folders of one launch; `data` the TFRecord files of its input, where it has any."""

    trial: Path
    data: Path | None = None


def plan_launch(
    case: Case,
    trial: int,
    strategy: Strategy,
    place: Place,
    folders: Folders,
    *,
    measure: Measure,
    profile: Profile | None,
    pass_: Pass,
    hosts: Sequence[Host] | None = None,
    case_id: str | None = None,
    batch_growth: int = 1,
    lengths: Lengths | None = None,
    stretch: Stretch | None = None,
) -> list[RankPlan]:
    """Plans of all ranks of one launch of `case`, in rank order. `hosts`: in that order too; default: this machine.

    `case_id`: of the case that was asked for, where `case` has numbers that were decided since.

    Raises ValueError when the host has too few cores, NoPortError when no port is free.
    """
    layouts = strategy.layout(case)
    hosts = hosts or [Host()] * case.hosts
    of_hosts = [list(host.cores) or place.host_cores for host in hosts]
    if place.accelerator == "tpu":  # its one rank computes elsewhere, also on cores of hosts that are not counted here
        cores = [of_hosts[layout.host] for layout in layouts]
    else:
        cores = cores_of(layouts, of_hosts, place.cores_per_device)
    cluster = cluster_of(layouts, strategy, place.ports, hosts)
    gpus = [list(host.gpus) if host.gpus is not None else place.visible_gpus for host in hosts]
    racks = racks_of(case, layouts)
    return [
        RankPlan(
            case=case,
            case_id=case_id or case.id,
            trial=trial,
            rank=rank,
            world=len(layouts),
            role=layout.role,
            role_index=layout.index,
            devices=layout.devices,
            first_replica=layout.first_replica,
            host=layout.host,
            racks=racks,
            network_namespace=hosts[layout.host].network_namespace,
            cluster=cluster,
            accelerator=place.accelerator,
            cores=cores[rank],
            cores_per_device=place.cores_per_device,
            environment={
                **_devices_shown(layouts, rank, place.accelerator, gpus[layout.host]),
                **_nccl(case, place, rank_folder(folders.trial, rank)),
                **case.env,
            },
            directory=str(rank_folder(folders.trial, rank)),
            trial_directory=str(folders.trial),
            profile_directory=str(rank_folder(folders.trial, rank)) if pass_ == "profiled" else None,
            data_directory=str(folders.data) if folders.data else None,
            measure=measure,
            profile=profile,
            pass_=pass_,
            batch_growth=batch_growth,
            lengths=lengths,
            stretch=stretch,
            checkpoint_directory=str(rank_folder(Path(stretch.checkpoints), rank)) if stretch else None,
        )
        for rank, layout in enumerate(layouts)
    ]


def _nccl(case: Case, place: Place, folder: Path) -> dict[str, str]:
    """What NCCL is asked for, and its log where there are GPUs that it could use."""
    asked = transport.environment(case.transport)
    logs = place.accelerator == "gpu" and transport.asks_for_nccl(case)
    return {**asked, **(transport.logging(str(folder)) if logs else {})}


def rank_folder(trial: Path, rank: int) -> Path:
    return trial / f"rank{rank}"


def racks_of(case: Case, layouts: Sequence[RankLayout]) -> tuple[int, ...]:
    """Rack of each replica of `case`, by its number; empty without a topology."""
    if case.topology is None:
        return ()
    racks = case.topology.racks_of(case.topology.order(case.order, case.hosts))
    return tuple(racks[layout.host] for layout in layouts for _ in range(layout.devices) if layout.role == "worker")


def cluster_of(
    layouts: list[RankLayout], strategy: Strategy, ports: Callable[[int], list[int]], hosts: Sequence[Host]
) -> dict[str, list[str]]:
    """Role -> addresses in TensorFlow's form; empty where the processes have nothing to say to each other."""
    serves = any(layout.role != "worker" for layout in layouts)
    if len(layouts) == 1 or not (strategy.exchanges or serves):
        return {}
    cluster: dict[str, list[str]] = {}
    free = _free_ports(layouts, ports, hosts)
    for layout in layouts:
        role = "chief" if layout.role == "coordinator" else layout.role
        addresses = cluster.setdefault(role, [])
        if layout.index != len(addresses):
            raise ValueError(f"{strategy.name}: {layout.role} {layout.index} is out of order in its layout")
        addresses.append(endpoint(hosts[layout.host].address, free[layout.host].pop(0)))
    return cluster


def _free_ports(
    layouts: list[RankLayout], ports: Callable[[int], list[int]], hosts: Sequence[Host]
) -> dict[int, list[int]]:
    """Ports of each host, one a rank. Hosts that do not look for their own share the ports of the harness's machine."""
    counts = Counter(layout.host for layout in layouts)
    shared = ports(sum(count for host, count in counts.items() if hosts[host].ports is None))
    found = {}
    for host, count in counts.items():
        find = hosts[host].ports
        found[host] = find(count) if find is not None else [shared.pop(0) for _ in range(count)]
    return found


def endpoint(address: str, port: int) -> str:
    """`address:port`; an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _devices_shown(layouts: list[RankLayout], rank: int, accelerator: str, gpus: list[str]) -> dict[str, str]:
    """CUDA_VISIBLE_DEVICES of a rank: its own GPUs, or none, so that no rank takes memory on another's."""
    if accelerator != "gpu":
        return {"CUDA_VISIBLE_DEVICES": "-1"}
    this = layouts[rank]
    before = [other for other in layouts[:rank] if other.host == this.host]
    start = sum(other.devices for other in before)
    mine = gpus[start : start + this.devices]
    if len(mine) < this.devices:
        raise ValueError(f"rank {rank} needs {this.devices} GPUs from number {start} on, {len(gpus)} are visible")
    return {"CUDA_VISIBLE_DEVICES": ",".join(mine) or "-1"}
