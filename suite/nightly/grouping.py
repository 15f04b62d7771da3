"""Findings that began together or share a cause are one story. Pure."""

from collections.abc import Sequence

from tfscale.suite.nightly.forms import Finding

GROUPED = ("regressed", "improved", "suspicious", "slow_node", "missing")


def grouped(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with the number of their group, 1 on; None where a finding stands alone.

    Two are joined where, on one machine, their first bad run is the same, or they name the same change of software or
    settings, or the same node.
    """
    parent = list(range(len(findings)))

    def root(i: int) -> int:
        while parent[i] != i:
            i = parent[i]
        return i

    seen: dict[tuple[str, ...], int] = {}
    for number, finding in enumerate(findings):
        for key in _keys(finding) if finding.verdict in GROUPED else ():
            parent[root(number)] = root(seen.setdefault(key, number))
    members: dict[int, list[int]] = {}
    for number in range(len(findings)):
        members.setdefault(root(number), []).append(number)
    named: dict[int, int] = {}
    for together in members.values():
        if len(together) > 1:
            named |= dict.fromkeys(together, len(set(named.values())) + 1)
    return [one.model_copy(update={"group": named.get(number)}) for number, one in enumerate(findings)]


def _keys(finding: Finding) -> list[tuple[str, ...]]:
    since = [("since", finding.machine, finding.since)] if finding.since else []
    node = [("node", finding.machine, finding.node)] if finding.node else []
    causes = [
        ("cause", finding.machine, cause.what, cause.before or "", cause.after or "")
        for cause in finding.causes
        if cause.kind in ("git", "environment") and not cause.nights_off
    ]
    return [*since, *node, *causes]
