"""The pod templates of a run: the harness, a host of CPUs or GPUs, a host of a TPU slice."""

from collections.abc import Sequence
from typing import Any

from tfscale.suite.launchers.kubernetes import objects
from tfscale.suite.launchers.kubernetes.objects import Object
from tfscale.suite.launchers.kubernetes.settings import TPU, Kubernetes

PATIENCE_S = 86400
"""How long an agent looks for the harness: the harness has the deadline (`connect_s`), and its end removes the agents."""
AGENT = "tfscale.suite.launchers.agent"
TPU_SERVER = "tfscale.suite.launchers.kubernetes.tpuserver"
TPU_PORT = 8470
"""Where TPUClusterResolver looks for a host without a port (tensorflow/python/tpu/client/client.py)."""


def harness(name: str, settings: Kubernetes, options: tuple[str, ...], tpu_hosts: list[str]) -> Object:
    """`tfscale run` over the hosts; `tpu_hosts`: of the slice that its one rank drives itself, else empty."""
    launcher = "local" if tpu_hosts else "kubernetes"
    suite = f"{objects.SUITE_FOLDER}/{objects.SUITE_FILE}"
    run = ["tfscale", "run", suite, "--launcher", launcher, "--results", objects.RESULTS, *options]
    slice_ = ",".join(f"grpc://{host}:{TPU_PORT}" for host in tpu_hosts)
    seen = {"TPU_NAME": slice_, "TPU_LOAD_LIBRARY": "0"} if tpu_hosts else {}
    container = {
        **_container(objects.HARNESS, settings, run, dict(settings.harness_resources)),
        **_environment({**settings.env, **seen} if tpu_hosts else {}),
        "volumeMounts": [
            {"name": "suite", "mountPath": objects.SUITE_FOLDER, "readOnly": True},
            {"name": "results", "mountPath": objects.RESULTS},
            *([] if tpu_hosts else [_TOKEN_MOUNT]),
        ],
        **({} if tpu_hosts else {"ports": [{"name": "agents", "containerPort": settings.port}]}),
    }
    volumes = [
        {"name": "suite", "configMap": {"name": f"{name}-suite"}},
        {"name": "results", "persistentVolumeClaim": {"claimName": settings.claim}},
        *([] if tpu_hosts else [_token(settings)]),
    ]
    return {"spec": {**_pod(settings), "volumes": volumes, "containers": [container]}}


def host(name: str, settings: Kubernetes, python: Sequence[str]) -> Object:
    """One host: an agent, run by `python`, that calls the harness and starts ranks when it is told to.

    It reads its number from JOB_COMPLETION_INDEX, which Kubernetes sets in the pods of an indexed job.
    """
    harness_at = f"{objects.harness_name(name)}:{settings.port}"
    token = f"{objects.TOKEN_FOLDER}/{objects.TOKEN_FILE}"
    told = ["--connect", harness_at, "--token-file", token, "--patience", str(PATIENCE_S)]
    agent = [*python, "-m", AGENT, *told]
    gpus = {settings.gpu_resource: str(settings.gpus_per_host)} if settings.gpus_per_host else {}
    rdma = {resource: str(count) for resource, count in settings.rdma.items()}
    container = {
        **_container(objects.HOSTS, settings, agent, {**settings.resources, **gpus, **rdma}, lock=bool(settings.rdma)),
        **_environment(settings.env),
        "volumeMounts": [_TOKEN_MOUNT, _MEMORY_MOUNT],
    }
    pod = {**_host_pod(name, settings), "volumes": [_token(settings), _memory(settings)], "containers": [container]}
    return {**_annotated(settings), "spec": pod}


def tpu_host(name: str, settings: Kubernetes, hosts: list[str]) -> Object:
    """One host of a slice: TensorFlow's server, which the rank in the harness pod drives."""
    assert settings.tpu is not None
    chips = {TPU: str(settings.tpu.chips_per_host)}
    container = _container(objects.HOSTS, settings, ["python", "-m", TPU_SERVER], {**settings.resources, **chips})
    index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    container["env"] = [
        *objects.variables({**settings.env, "TPU_WORKER_HOSTNAMES": ",".join(hosts)}),
        {"name": "TPU_WORKER_ID", "valueFrom": index},
    ]
    container["ports"] = [{"name": "tensorflow", "containerPort": TPU_PORT}]
    container["volumeMounts"] = [_MEMORY_MOUNT]
    slice_ = {
        "cloud.google.com/gke-tpu-accelerator": settings.tpu.accelerator,
        "cloud.google.com/gke-tpu-topology": settings.tpu.topology,
    }
    pod = _host_pod(name, settings)
    pod["nodeSelector"] = {**pod.get("nodeSelector", {}), **slice_}
    return {**_annotated(settings), "spec": {**pod, "volumes": [_memory(settings)], "containers": [container]}}


_TOKEN_MOUNT = {"name": "token", "mountPath": objects.TOKEN_FOLDER, "readOnly": True}
_MEMORY_MOUNT = {"name": "shared-memory", "mountPath": "/dev/shm"}


def _token(settings: Kubernetes) -> Object:
    secret = {"secretName": settings.secret, "items": [{"key": "token", "path": objects.TOKEN_FILE}]}
    return {"name": "token", "secret": secret}


def _memory(settings: Kubernetes) -> Object:
    return {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": settings.shared_memory}}


def _pod(settings: Kubernetes) -> Object:
    """What all pods have. No pod may ask the cluster's API anything: there is nothing that it would need there."""
    pod: Object = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    if settings.user is not None:
        ids = {"runAsUser": settings.user, "runAsGroup": settings.user, "runAsNonRoot": True, "fsGroup": settings.user}
        pod["securityContext"].update(ids, fsGroupChangePolicy="OnRootMismatch")
    if settings.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": secret} for secret in settings.image_pull_secrets]
    return pod


def _host_pod(name: str, settings: Kubernetes) -> Object:
    pod = _pod(settings)
    if settings.node_selector:
        pod["nodeSelector"] = dict(settings.node_selector)
    if settings.tolerations:
        pod["tolerations"] = [each.model_dump(exclude_none=True) for each in settings.tolerations]
    if settings.one_pod_per_node:
        others = {"matchLabels": {objects.OF_SET: name, objects.OF_JOB: objects.HOSTS}}
        term = {"labelSelector": others, "topologyKey": objects.NODE}
        pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod


def _annotated(settings: Kubernetes) -> Object:
    return {"metadata": {"annotations": dict(settings.pod_annotations)}} if settings.pod_annotations else {}


def _container(
    name: str, settings: Kubernetes, command: list[str], resources: dict[str, str], lock: bool = False
) -> Object:
    capabilities = {"drop": ["ALL"], **({"add": ["IPC_LOCK"]} if lock else {})}
    return {
        "name": name,
        "image": settings.image,
        "command": [objects.literal(word) for word in command],
        # Requests equal to limits: the class Guaranteed, whose pods may have cores of their own.
        **({"resources": {"requests": dict(resources), "limits": dict(resources)}} if resources else {}),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": capabilities},
    }


def _environment(values: dict[str, str]) -> dict[str, Any]:
    return {"env": objects.variables(values)} if values else {}
