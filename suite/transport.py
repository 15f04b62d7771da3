"""What selects a transport for NCCL, and what makes NCCL write down the one it used.

Names and values are those of NCCL's documentation (environment variables: NCCL_IB_DISABLE, NCCL_NET,
NCCL_NET_GDR_LEVEL, NCCL_DEBUG, NCCL_DEBUG_FILE, NCCL_DEBUG_SUBSYS). The first ones ask; what was really used is read
back from NCCL's own log (suite/nccl).
"""

from tfscale.suite.spec import Case, Transport

VARIABLES: dict[Transport, dict[str, str]] = {
    "auto": {},
    "tcp": {"NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1"},
    "rdma": {"NCCL_NET": "IB", "NCCL_IB_DISABLE": "0", "NCCL_NET_GDR_LEVEL": "LOC"},
    "gdr": {"NCCL_NET": "IB", "NCCL_IB_DISABLE": "0", "NCCL_NET_GDR_LEVEL": "SYS"},
}
"""rdma keeps GPU memory out of it (GDR level LOC: never over PCIe); gdr allows it at any distance (SYS)."""
LOG = "nccl.log"
"""NCCL's log, in a rank's folder."""
SUBSYSTEMS = "INIT,ENV,GRAPH,NET"
"""Parts of NCCL that write while communicators are made: channels, rings, trees, devices, plug-ins, settings."""


def environment(transport: Transport) -> dict[str, str]:
    """The variables that ask NCCL for `transport`."""
    return dict(VARIABLES[transport])


def asks_for_nccl(case: Case) -> bool:
    """Whether the case names NCCL, or a transport that only NCCL has."""
    return case.collective == "nccl" or case.transport != "auto"


def logging(folder: str) -> dict[str, str]:
    """The variables that make NCCL write its log into the rank's `folder`.

    The timed pass gets them as well as the profiled one: what has to be proved is how the launch travelled whose number
    is kept, and a fall-back to TCP can befall one launch and not the next. NVIDIA warns that debugging variables that
    are left set can slow a run. So only SUBSYSTEMS write, and not COLL or TUNING, which write at every collective; what
    they write is over before the first timed step, and goes to a file, not through a pipe. A case's own `env` has the
    last word (`NCCL_DEBUG: WARN` switches it off). The cost was never measured on a GPU here.
    """
    path = f"{folder}/{LOG}".replace("%", "%%")  # NCCL expands %h and %p
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": SUBSYSTEMS, "NCCL_DEBUG_FILE": path}
