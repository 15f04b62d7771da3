"""Whether NCCL moved data the way a case asked for, by the channels in its log."""

from tfscale.suite.nccl.log import Log
from tfscale.suite.record import CheckStatus
from tfscale.suite.spec import Transport

SOCKET = "Socket"
_VERBS = ("IB",)
"""Networks that are RDMA by their name: NCCL's own, and IBext, NVIDIA's plug-in for it."""

Verdict = tuple[CheckStatus, str]


def verdict(requested: Transport, log: Log) -> Verdict:
    """Status and reason, from the joined logs of all processes of a launch.

    Only channels count: `Using network IB` says what NCCL would take, and `Bootstrap` lines nothing about data.
    """
    if not log.lines:
        return "UNKNOWN", "NCCL wrote no log: it was not used, or its log was switched off"
    if not log.channels:
        return "UNKNOWN", "NCCL's log shows no channel, so nothing tells how data travelled"
    crossing = [channel for channel in log.channels if channel.network is not None]
    if not crossing:
        return _inside(log)
    networks = sorted({str(channel.network) for channel in crossing})
    direct = sum(bool(channel.gpu_direct) for channel in crossing)
    sockets = sum(channel.network == SOCKET for channel in crossing)
    used = f"{', '.join(networks)}, GPUDirect on {direct} of {len(crossing)} network channels"
    if requested == "auto":
        return _free(log, sockets, used)
    if requested == "tcp":
        if sockets == len(crossing):
            return "VALID", f"tcp was asked for, and all {sockets} network channels use sockets"
        return "INVALID", f"tcp was asked for; {len(crossing) - sockets} channels use another network ({used})"
    if sockets:
        none = " (NCCL found no InfiniBand device)" if "IB" in log.without_device else ""
        return "INVALID", f"{requested} was asked for; {sockets} of {len(crossing)} channels fell back to sockets{none}"
    strange = [name for name in networks if not name.startswith(_VERBS)]
    if strange and not direct:
        return "UNKNOWN", f"{requested} was asked for; whether {', '.join(strange)} is RDMA, its log does not tell"
    return _direct(requested, direct, len(crossing), used)


def _inside(log: Log) -> Verdict:
    kinds = ", ".join(sorted({channel.kind for channel in log.channels}))
    if log.world is None or len(log.ranks) < log.world:
        known = f"{len(log.ranks)} of {log.world or 'an unknown number of'} ranks"
        return "UNKNOWN", f"no channel in the logs of {known} uses a network ({kinds}); the other ranks' may"
    return "VALID", f"no network was needed: all channels of the {log.world} ranks stay in one host ({kinds})"


def _free(log: Log, sockets: int, used: str) -> Verdict:
    adapters = [device for device in log.devices if "/IB" in device or "/RoCE" in device]
    if sockets and adapters:
        return "SUSPECT", f"NCCL found {', '.join(adapters)}, and {sockets} channels use sockets ({used})"
    return "VALID", f"no transport was asked for; NCCL used {used}"


def _direct(requested: Transport, direct: int, crossing: int, used: str) -> Verdict:
    if requested == "rdma":
        if direct:
            return "INVALID", f"rdma through host memory was asked for; {direct} channels use GPUDirect ({used})"
        return "VALID", f"rdma was asked for, and ran: {used}"
    if not direct:
        return "INVALID", f"gdr was asked for; data went through host memory ({used})"
    if direct < crossing:
        return "SUSPECT", f"gdr was asked for, and ran on a part of the channels only ({used})"
    return "VALID", f"gdr was asked for, and ran: {used}"
