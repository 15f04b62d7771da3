"""Whether every host reaches every other, on the very ports that the ranks will use, before any rank is started."""

from collections.abc import Mapping, Sequence

from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.remote.link import Link
from tfscale.suite.launchers.remote.network import CONNECT_S, Endpoint
from tfscale.suite.plan import RankPlan

LISTEN_S = 30.0
MOST_NAMED = 4


def preflight(links: Mapping[int, Link], plans: Sequence[RankPlan]) -> None:
    """Let each host listen where its ranks will, and each connect to all others.

    Raises LaunchError naming the pairs that failed, PortTakenError where a port is no longer free.
    """
    endpoints = endpoints_of(plans)
    if not endpoints:
        return
    try:
        for asked in [link.send("listen", endpoints=endpoints.get(n, [])) for n, link in links.items()]:
            asked.result(LISTEN_S)
        questions = {n: [e for host, each in endpoints.items() if host != n for e in each] for n in links}
        reached = {n: link.send("reach", endpoints=questions[n]) for n, link in links.items()}
        wait = LISTEN_S + CONNECT_S * (1 + max(map(len, questions.values())) // 64)
        answers = {n: asked.result(wait)["unreachable"] for n, asked in reached.items()}
    finally:
        for asked in [link.send("hang_up") for link in links.values() if link.lost is None]:
            asked.result(LISTEN_S)
    owners = {endpoint: links[n].name for n, each in endpoints.items() for endpoint in each}
    failed = [
        f"{links[n].name} cannot reach {owners[address, port]} at {address} port {port}: {why}"
        for n, told in answers.items()
        for address, port, why in told
    ]
    if failed:
        more = f" (and {len(failed) - MOST_NAMED} pairs more)" if len(failed) > MOST_NAMED else ""
        raise LaunchError(
            f"{'; '.join(failed[:MOST_NAMED])}{more}. Is a firewall between them, or the address one of another network? "
            "cluster.network, or the hosts' `address`, says where ranks reach each other"
        )


def endpoints_of(plans: Sequence[RankPlan]) -> dict[int, list[Endpoint]]:
    """Host number -> addresses and ports of the servers that its ranks will have."""
    found: dict[int, list[Endpoint]] = {}
    for plan in plans:
        role = "chief" if plan.role == "coordinator" else plan.role
        addresses = plan.cluster.get(role, [])
        if plan.role_index < len(addresses):
            address, _, port = addresses[plan.role_index].rpartition(":")
            found.setdefault(plan.host, []).append((address.strip("[]"), int(port)))
    return found
