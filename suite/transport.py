"""What selects a transport for NCCL: the variables of each value of the `transport` axis.

Names and values are those of NCCL's documentation (environment variables: NCCL_IB_DISABLE, NCCL_NET,
NCCL_NET_GDR_LEVEL). They ask; what was really used has to be read back from NCCL's own log.
"""

from tfscale.suite.spec import Transport

VARIABLES: dict[Transport, dict[str, str]] = {
    "auto": {},
    "tcp": {"NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1"},
    "rdma": {"NCCL_NET": "IB", "NCCL_IB_DISABLE": "0", "NCCL_NET_GDR_LEVEL": "LOC"},
    "gdr": {"NCCL_NET": "IB", "NCCL_IB_DISABLE": "0", "NCCL_NET_GDR_LEVEL": "SYS"},
}
"""rdma keeps GPU memory out of it (GDR level LOC: never over PCIe); gdr allows it at any distance (SYS)."""


def environment(transport: Transport) -> dict[str, str]:
    """The variables that ask NCCL for `transport`."""
    return dict(VARIABLES[transport])
