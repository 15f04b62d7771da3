"""From a suite to the manifests of its run: `tfscale run SUITE --launcher kubernetes --render`."""

from typing import Any

from tfscale.suite.launchers.kubernetes import objects, pods
from tfscale.suite.launchers.kubernetes.settings import Kubernetes
from tfscale.suite.rendering import Rendered, Wanted, dump, not_for_tpu
from tfscale.suite.spec import Case, Suite

CONNECT_S = 1800
"""How long the harness waits for the hosts unless the suite says it: nodes may have to be made, and images fetched."""
ANSWERS = (1, 2)
"""Exit codes of `tfscale run` that say something about the suite, not about the cluster."""
NEVER_RUN = "Never run on a real cluster: written from documentation, and checked against the objects' schemas."
NEVER_ON_A_TPU = "Never run on a TPU pod."


def render(wanted: Wanted) -> Rendered:
    """ConfigMap, NetworkPolicy and JobSet. Raises ValueError naming the setting where suite and cluster do not fit."""
    settings = wanted.suite.cluster.kubernetes
    if settings is None:
        raise ValueError("launcher kubernetes needs cluster.kubernetes with at least image and claim")
    if (reason := misfit(wanted.suite, settings)) is not None:
        raise ValueError(reason)
    count = hosts_of(wanted.suite, settings)
    name = objects.set_name(wanted.suite.name, settings, count)
    names = objects.host_names(name, count)
    on_tpu = settings.tpu is not None
    python = (*wanted.suite.cluster.prefix, wanted.suite.cluster.python or "python")
    policy = {"podFailurePolicy": objects.answered(ANSWERS)}
    harness = pods.harness(name, settings, wanted.options, names if on_tpu else [])
    host = pods.tpu_host(name, settings, names) if on_tpu else pods.host(name, settings, python)
    # A slice is one pool of nodes; without this, two pools of one shape could share its pods.
    together = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"} if on_tpu else {}
    documents = (
        objects.config_map(name, settings, dump(suite_there(wanted.document, [] if on_tpu else names))),
        objects.network_policy(name, settings),
        objects.job_set(
            name,
            settings,
            objects.replicated_job(objects.HARNESS, 1, harness, {}, **policy),
            objects.replicated_job(objects.HOSTS, count, host, together),
        ),
    )
    return Rendered(launcher="kubernetes", notes=_notes(settings), documents=documents)


def hosts_of(suite: Suite, settings: Kubernetes) -> int:
    """Pods of hosts: as many as the largest case has, or the slice."""
    return settings.tpu.hosts if settings.tpu is not None else max(case.hosts for case in suite.cases)


def suite_there(document: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The suite as the harness pod reads it: the same, with its hosts. Raises ValueError where it names its own."""
    cluster = document.get("cluster") or {}
    for key in ("hosts", "hosts_file"):
        if cluster.get(key):
            raise ValueError(f"cluster.{key}: on Kubernetes the hosts are the pods of the set; leave it out")
    return {**document, "cluster": {"connect_s": CONNECT_S, **cluster, "hosts": names} if names else cluster}


def misfit(suite: Suite, settings: Kubernetes) -> str | None:
    """Why the pods of `settings` are not what the cases of `suite` need, or None."""
    if settings.tpu is not None:
        return not_for_tpu(suite)
    if suite.cluster.accelerator == "tpu":
        return "cluster.accelerator is tpu: describe the slice in cluster.kubernetes.tpu"
    if suite.cluster.accelerator == "gpu" and not settings.gpus_per_host:
        return "cluster.accelerator is gpu: say how many a host has in cluster.kubernetes.gpus_per_host"
    if suite.cluster.accelerator == "cpu" and settings.gpus_per_host:
        return f"cluster.accelerator is cpu: cluster.kubernetes.gpus_per_host {settings.gpus_per_host} would lie idle"
    return next((reason for case in suite.cases if (reason := _case(case, settings)) is not None), None)


def _case(case: Case, settings: Kubernetes) -> str | None:
    here, per_host = f"case {case.title}", -(-case.devices // case.hosts)
    if settings.gpus_per_host and per_host > settings.gpus_per_host:
        return f"{here}: {per_host} devices a host, cluster.kubernetes.gpus_per_host is {settings.gpus_per_host}"
    if case.transport in ("rdma", "gdr") and not settings.rdma:
        return f"{here}: transport {case.transport} needs a device plugin's resource in cluster.kubernetes.rdma"
    return None


def _notes(settings: Kubernetes) -> tuple[str, ...]:
    tpu = settings.tpu is not None
    made = f"PersistentVolumeClaim {settings.claim}" if tpu else f"claim {settings.claim}, Secret {settings.secret}"
    return (
        NEVER_RUN,
        *((NEVER_ON_A_TPU,) if tpu else ()),
        f"Needs the JobSet controller, and in namespace {settings.namespace}: {made}.",
    )
