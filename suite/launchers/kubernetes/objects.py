"""The Kubernetes objects of a run, as plain data.

A JobSet (https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/) of two jobs, `harness` and `hosts`. Its service
gives pod i of the hosts the name `<set>-hosts-0-<i>.<set>`, before it is ready, and the harness one of the same form.
"""

from typing import Any

from tfscale.suite.launchers.kubernetes.names import starting_with_letter
from tfscale.suite.launchers.kubernetes.settings import Kubernetes

HARNESS, HOSTS = "harness", "hosts"
SUITE_FOLDER, SUITE_FILE = "/etc/tfscale", "suite.yaml"
TOKEN_FOLDER, TOKEN_FILE = "/var/run/tfscale", "token"
RESULTS = "/results"
OF_SET = "jobset.sigs.k8s.io/jobset-name"
"""The label that the controller gives to the pods of a JobSet."""
OF_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
NODE = "kubernetes.io/hostname"
LONGEST_POD_NAME = 63
LARGEST_CONFIG_MAP = 2**20

Object = dict[str, Any]


def set_name(suite_name: str, settings: Kubernetes, hosts: int) -> str:
    """The name of the JobSet. Raises ValueError where the names of its pods would be longer than they may be."""
    name = settings.name or suite_name.lower().replace(".", "-").replace("_", "-")
    # The controller appends five characters.
    longest = max(f"{name}-{HOSTS}-0-{hosts - 1}-xxxxx", f"{name}-{HARNESS}-0-0-xxxxx", key=len)
    try:
        starting_with_letter(name)
    except ValueError as error:
        raise ValueError(f"{error}; set cluster.kubernetes.name") from error
    if len(longest) > LONGEST_POD_NAME:
        most = LONGEST_POD_NAME - (len(longest) - len(name))
        raise ValueError(f"{name!r} is longer than {most} characters; set cluster.kubernetes.name to a shorter one")
    return name


def host_names(name: str, hosts: int) -> list[str]:
    """Where the hosts are reached, in their order."""
    return [f"{name}-{HOSTS}-0-{index}.{name}" for index in range(hosts)]


def harness_name(name: str) -> str:
    """Where the agents on the hosts reach the harness."""
    return f"{name}-{HARNESS}-0-0.{name}"


def metadata(name: str, run: str, settings: Kubernetes) -> Object:
    """Of the object `name` of the set `run`; the labels find all objects of a run, to remove them together."""
    ours = {"app.kubernetes.io/name": "tfscale", "app.kubernetes.io/instance": run}
    return {"name": name, "namespace": settings.namespace, "labels": ours}


def config_map(name: str, settings: Kubernetes, suite: str) -> Object:
    """The suite file of the harness. Raises ValueError where it is larger than a ConfigMap may be."""
    if len(suite.encode()) > LARGEST_CONFIG_MAP:
        raise ValueError(f"the suite has {len(suite.encode())} bytes, a ConfigMap holds {LARGEST_CONFIG_MAP} at most")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(f"{name}-suite", name, settings),
        "data": {SUITE_FILE: suite},
    }


def network_policy(name: str, settings: Kubernetes) -> Object:
    """Only pods of this set reach its pods, on any port: TensorFlow's gRPC asks nobody who he is."""
    of_set = {"matchLabels": {OF_SET: name}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name, name, settings),
        "spec": {"podSelector": of_set, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": of_set}]}]},
    }


def job_set(name: str, settings: Kubernetes, harness: Object, hosts: Object) -> Object:
    """The set of two replicated jobs. It succeeds with its harness, whatever the hosts do then.

    A harness that ended with a finding or with bad input has spoken: the set fails at once, it is not started again.
    """
    told = metadata(name, name, settings)
    answered = {
        "name": "HarnessAnswered",
        "action": "FailJobSet",
        "targetReplicatedJobs": [HARNESS],
        "onJobFailureReasons": ["PodFailurePolicy"],
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {**told, "labels": {**settings.labels, **told["labels"]}},
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": name, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": [HARNESS]},
            "failurePolicy": {"maxRestarts": settings.max_restarts, "rules": [answered]},
            "replicatedJobs": [harness, hosts],
        },
    }


def replicated_job(name: str, pods: int, pod: Object, annotations: dict[str, str], **spec: Any) -> Object:
    """One job of `pods` pods with an index each; a pod that fails, fails the job."""
    return {
        "name": name,
        "replicas": 1,
        "template": {
            **({"metadata": {"annotations": annotations}} if annotations else {}),
            "spec": {
                "completionMode": "Indexed",
                "completions": pods,
                "parallelism": pods,
                "backoffLimit": 0,
                **spec,
                "template": pod,
            },
        },
    }


def answered(codes: tuple[int, ...]) -> Object:
    """The Job's own policy that tells the set of these exit codes of the harness."""
    told = {"containerName": HARNESS, "operator": "In", "values": list(codes)}
    # Definitions of the API before 1.29 ask for the empty list, and sets that were built on them still do.
    return {"rules": [{"action": "FailJob", "onExitCodes": told, "onPodConditions": []}]}


def variables(values: dict[str, str]) -> list[Object]:
    return [{"name": name, "value": literal(value)} for name, value in values.items()]


def literal(text: str) -> str:
    """`text` as Kubernetes has to be told it in commands and variables, where `$(NAME)` stands for a variable."""
    return text.replace("$(", "$$(")
