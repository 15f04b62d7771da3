"""Where ranks run, as a suite says it: the launcher, its hosts, how they are reached and named."""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from tfscale.suite.document import Document
from tfscale.suite.launchers.kubernetes.settings import Kubernetes
from tfscale.suite.launchers.tpu_vm.settings import TpuVm
from tfscale.suite.topology import Topology

Accelerator = Literal["auto", "cpu", "gpu", "tpu"]

HOST_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_TARGET = re.compile(rf"^(?:[A-Za-z_][A-Za-z0-9_.-]*@)?(?:{HOST_NAME}|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)$")
_ADDRESS = re.compile(rf"^(?:{HOST_NAME}|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)$")
SAFE_WORD = re.compile(r"^[A-Za-z0-9_./:=@%+,-]+$")
"""What a word of a command may hold that a remote login shell reads: none of its special characters."""

Word = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00\n\r]+$")]


class HostEntry(Document):
    """A host: how something is started there, and where the ranks of other hosts reach its servers."""

    target: str
    """For ssh `name`, `user@name` or an alias of ssh's configuration; for slurm a node name."""
    address: str | None = None
    """IPv4 or IPv6 address, or a name, without user and port; None: found out on the host."""

    @field_validator("target")
    @classmethod
    def _target_is_one(cls, value: str) -> str:
        if not _TARGET.match(value):
            raise ValueError(
                f"host {value!r} is no `name`, `address` or `user@name`; a port belongs in ssh's configuration"
            )
        return value

    @field_validator("address")
    @classmethod
    def _address_is_one(cls, value: str | None) -> str | None:
        if value is not None and not _ADDRESS.match(value):
            raise ValueError(
                f"address {value!r} is no address or name (no user@ and no port: it is where TensorFlow's servers listen)"
            )
        return value


class Slurm(Document):
    """What a job is submitted with; each is an option of sbatch. Inside an allocation none of it is used."""

    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    time: Word | None = None
    """Time limit in Slurm's form, such as `02:00:00`."""
    gres: Word | None = None
    """Such as `gpu:8`. Never per task: tasks that see one GPU each keep NCCL from NVLink."""
    constraint: Word | None = None
    options: tuple[Word, ...] = ()
    """Further options of sbatch, a word each."""
    signal_s: int = Field(default=120, ge=10)
    """Seconds before the time limit at which the run is told to save and leave."""
    requeue: bool = True
    """Whether a run that was told to leave, or lost a node, gets another turn and goes on."""
    array: bool = False
    """An array job: an element for every case, each with a run folder of its own."""

    @field_validator("options")
    @classmethod
    def _options_are(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        for word in words:
            if not word.startswith("-"):
                raise ValueError(f"options: {word!r} is no option of sbatch (write `--name=value` as one word)")
        return words


class Mpi(Document):
    """How a site starts one process a host."""

    command: tuple[Word, ...] = Field(default=("mpirun",), min_length=1)
    """mpirun, or `[srun, --mpi=pmix]`."""
    options: tuple[Word, ...] = ()
    """Further options, such as `[--hostfile, hosts.txt]`; one process a host is asked for by `-n HOSTS`."""


class Cluster(Document):
    """Where ranks run; `tfscale list launchers` names what starts them."""

    launcher: str = "local"
    topology: Topology | str | None = None
    """The network of every case that does not name its own: described, or a file's name."""
    accelerator: Accelerator = "auto"
    """auto: GPUs where the driver shows some and the installed TensorFlow is not the CPU-only build, else CPU cores."""
    hosts: tuple[HostEntry, ...] = ()
    """In the order of the ranks; a case takes as many as it needs, from the first."""
    hosts_file: str | None = None
    """A file with a host a line, `target` or `target address`; # begins a comment."""
    network: str | None = None
    """Interface (`ib0`) or network (`10.1.0.0/16`) on which ranks reach each other; each host looks up its own address."""
    cores_per_device: int | None = Field(default=None, ge=1)
    """Cores of one CPU device; default: cores of the host / most devices that any case puts on a host."""
    beside: int = Field(default=1, ge=1, le=64)
    """Cases that run at once on this machine, each on its part of the devices; those that meet another are SUSPECT."""
    prefix: tuple[Word, ...] = ()
    """Words before the command that starts ranks on a host: `[apptainer, exec, --nv, image.sif]`."""
    python: Word | None = None
    """Python of the hosts, which has this version of tfscale; default: the one that runs the harness."""
    pass_env: tuple[str, ...] = ()
    """Variables of the harness that ranks on other hosts get too, beside those that a record may hold."""
    shared_disk: bool | None = None
    """Whether hosts see the results folder; default: found out. False: what ranks write travels through the launcher."""
    connect_s: float = Field(default=60.0, gt=0)
    """How long a host may take to answer: a machine that has to boot, a name that does not resolve yet."""
    ssh_options: tuple[Word, ...] = ()
    """Further options of ssh, such as `[-F, cluster.ssh]`."""
    slurm: Slurm = Slurm()
    mpi: Mpi = Mpi()
    kubernetes: Kubernetes | None = None
    tpu_vm: TpuVm | None = None

    @field_validator("hosts", mode="before")
    @classmethod
    def _names_are_targets(cls, hosts: object) -> object:
        entries = hosts.split(",") if isinstance(hosts, str) else hosts
        if not isinstance(entries, list | tuple):
            return entries
        return tuple({"target": entry.strip()} if isinstance(entry, str) else entry for entry in entries)

    @field_validator("pass_env")
    @classmethod
    def _variables_have_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"pass_env: {name!r} is no name of a variable")
        return names

    @model_validator(mode="after")
    def _hosts_are_distinct(self) -> Self:
        if self.hosts and self.hosts_file:
            raise ValueError("hosts and hosts_file: give one of them")
        seen: set[str] = set()
        for host in self.hosts:
            if host.target in seen:
                raise ValueError(f"host {host.target!r} is named twice")
            seen.add(host.target)
        return self
