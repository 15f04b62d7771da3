"""What doctor says of TensorFlow's servers: who can reach them, and what to do about it."""

from collections.abc import Iterator

from tfscale.suite.doctor.findings import Finding
from tfscale.suite.environment.interfaces import interfaces
from tfscale.suite.sources.base import Sources

FIX = (
    "let only the hosts of the job reach each other's ports: a private network, a firewall that drops the rest, "
    "a NetworkPolicy on Kubernetes; docs/security.md"
)


def security(sources: Sources) -> Iterator[Finding]:
    """TensorFlow's gRPC servers listen on all interfaces (seen on 2.17 and 2.21), so this names those of this host."""
    found = interfaces(sources.files)
    out = [str(nic["name"]) for nic in found if nic.get("state") != "down"]
    reach = f"through {', '.join(out)} of this host" if out else "though no interface leads out of this host now"
    yield Finding(
        topic="security",
        name="grpc ports",
        answer="shown",
        basis="derived",
        detail="while ranks run, TensorFlow's gRPC ports listen on every interface, whatever address TF_CONFIG names, "
        f"without password or encryption: whoever reaches one, {reach}, can run operations as you",
        fix=FIX,
        evidence={"interfaces": out},
    )
