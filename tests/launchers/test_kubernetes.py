"""Manifests against the schemas of Kubernetes and of JobSet, and against what a run on them needs."""

import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from jobset_schema import JOB_SET

from tfscale.suite import rendering, suitefile
from tfscale.suite.cluster import Cluster
from tfscale.suite.launchers.kubernetes import objects
from tfscale.suite.launchers.kubernetes.render import render
from tfscale.suite.rendering import Rendered, Wanted

kubernetes_validate = pytest.importorskip("kubernetes_validate")

VERSIONS = ("1.27", "1.37")
MATRIX: dict[str, Any] = {
    "workload": "bert",
    "preset": "tiny",
    "strategy": "multi_worker_mirrored",
    "devices": [2, 3],
    "hosts": [2, 3],
    "per_replica_batch": 8,
}
NEEDED = {"image": "registry.example/ml/tfscale:1.0", "claim": "results"}
EVERYTHING = {
    **NEEDED,
    "namespace": "ml",
    "name": "nightly",
    "secret": "token.nightly",
    "gpus_per_host": 8,
    "rdma": {"rdma/hca_shared_devices_a": 1},
    "resources": {"cpu": 32, "memory": "256Gi"},
    "env": {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": "=mlx5_0:1"},
    "node_selector": {"node.kubernetes.io/instance-type": "gpu8"},
    "tolerations": [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "value": "ml"},
    ],
    "image_pull_secrets": ["registry"],
    "labels": {"kueue.x-k8s.io/queue-name": "night"},
    "pod_annotations": {"k8s.v1.cni.cncf.io/networks": "rdma-a, rdma-b"},
    "user": 1000,
    "max_restarts": 2,
}
SLICE = {"accelerator": "tpu-v6e-slice", "topology": "4x4", "chips_per_host": 4}
TPU_MATRIX = {**MATRIX, "strategy": "tpu", "devices": 16, "hosts": 1, "xla": "cluster"}


def wanted(settings: Any = None, options: tuple[str, ...] = (), name: str = "two", **more: Any) -> Wanted:
    """What is to be rendered of a suite with these settings; `more`: keys of `matrix` and `cluster`."""
    cluster = {"kubernetes": NEEDED if settings is None else settings, **more.get("cluster", {})}
    document = {"name": name, "matrix": more.get("matrix", MATRIX), "cluster": cluster}
    suite = suitefile.build(suitefile.parse(yaml.safe_dump(document), "suite.yaml"))
    return Wanted(suite=suite, document=document, path="suite.yaml", options=options)


def rendered(settings: Any = None, **more: Any) -> Rendered:
    return render(wanted(settings, **more))


def tpu(**more: Any) -> Rendered:
    return rendered({**NEEDED, "tpu": SLICE}, matrix=TPU_MATRIX, cluster={"accelerator": "tpu"}, **more)


def job_set(found: Rendered) -> Any:
    return next(document for document in found.documents if document["kind"] == "JobSet")


def job(found: Rendered, name: str) -> Any:
    return next(each for each in job_set(found)["spec"]["replicatedJobs"] if each["name"] == name)


def pod(found: Rendered, name: str) -> Any:
    return job(found, name)["template"]["spec"]["template"]


def container(found: Rendered, name: str) -> Any:
    (only,) = pod(found, name)["spec"]["containers"]
    return only


LEAST = wanted()
ALL = [render(LEAST), rendered(EVERYTHING, cluster={"accelerator": "gpu"}), tpu()]
IDS = ["least", "everything", "tpu"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("found", ALL, ids=IDS)
def test_every_object_keeps_to_the_schema_of_kubernetes(found: Rendered, version: str) -> None:
    assert [document["kind"] for document in found.documents] == ["ConfigMap", "NetworkPolicy", "JobSet"]
    for document in found.documents[:2]:
        kubernetes_validate.validate(document, version, strict=True)
    for each in job_set(found)["spec"]["replicatedJobs"]:
        as_job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": each["template"]["spec"]}
        kubernetes_validate.validate(as_job, version, strict=True)


@pytest.mark.parametrize("found", ALL, ids=IDS)
def test_the_set_keeps_to_the_schema_of_jobset(found: Rendered) -> None:
    jsonschema.Draft202012Validator(JOB_SET).validate(job_set(found))


@pytest.mark.parametrize("path", [("network",), ("failurePolicy", "rules", 0), ("replicatedJobs", 0), ()])
def test_a_misspelt_field_of_a_set_would_be_seen(path: tuple[str | int, ...]) -> None:
    spoilt = deepcopy(job_set(ALL[0]))
    place = spoilt["spec"]
    for part in path:
        place = place[part]
    place["misspelt"] = True
    with pytest.raises(jsonschema.ValidationError, match="misspelt"):
        jsonschema.Draft202012Validator(JOB_SET).validate(spoilt)


def test_a_misspelt_field_of_a_pod_would_be_seen() -> None:
    spec = deepcopy(job(ALL[0], "hosts")["template"]["spec"])
    spec["template"]["spec"]["restartpolicy"] = "Never"
    with pytest.raises(kubernetes_validate.ValidationError, match="restartpolicy"):
        kubernetes_validate.validate(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}, "1.37", strict=True
        )


def test_text_is_yaml_of_the_same_documents_behind_comments() -> None:
    text = ALL[1].text()
    assert list(yaml.safe_load_all(text)) == list(ALL[1].documents)
    assert text.startswith("# Never run on a real cluster")


def test_hosts_have_the_names_that_jobset_gives_them_in_their_order() -> None:
    # jobset_types.go: <jobSet.name>-<spec.replicatedJob.name>-<job-index>-<pod-index>.<subdomain>
    found = rendered({**NEEDED, "name": "ab"})
    suite = yaml.safe_load(found.documents[0]["data"]["suite.yaml"])
    assert suite["cluster"]["hosts"] == ["ab-hosts-0-0.ab", "ab-hosts-0-1.ab", "ab-hosts-0-2.ab"]
    assert job_set(found)["spec"]["network"]["subdomain"] == "ab"
    assert {job(found, "hosts")["template"]["spec"][key] for key in ("completions", "parallelism")} == {3}


def test_the_harness_waits_for_nodes_that_have_to_be_made_unless_the_suite_says_how_long() -> None:
    assert yaml.safe_load(rendered().documents[0]["data"]["suite.yaml"])["cluster"]["connect_s"] == 1800
    told = rendered(cluster={"connect_s": 60, "python": "/opt/venv/bin/python", "prefix": ["numactl", "-l"]})
    assert yaml.safe_load(told.documents[0]["data"]["suite.yaml"])["cluster"]["connect_s"] == 60
    assert container(told, "hosts")["command"][:3] == ["numactl", "-l", "/opt/venv/bin/python"]


def test_the_suite_there_has_the_same_cases_and_settings() -> None:
    asked = wanted(EVERYTHING, cluster={"accelerator": "gpu"})
    there = suitefile.build(suitefile.parse(render(asked).documents[0]["data"]["suite.yaml"], "there.yaml"))
    assert [case.id for case in there.cases] == [case.id for case in asked.suite.cases]
    assert there.cluster.kubernetes == asked.suite.cluster.kubernetes


def test_the_harness_repeats_the_options_of_the_run_and_no_shell_sees_them() -> None:
    options = ("--only", "devices>=2; $(HOME) `id` 'x'", "--resume")
    command = container(render(wanted(options=options)), "harness")["command"]
    assert command[:7] == [
        *("tfscale", "run", "/etc/tfscale/suite.yaml", "--launcher", "kubernetes", "--results", "/results")
    ]
    # https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container: $$(HOME) is $(HOME).
    assert command[7:] == ["--only", "devices>=2; $$(HOME) `id` 'x'", "--resume"]


def test_agents_call_the_harness_with_a_token_that_no_manifest_holds() -> None:
    found = rendered({**NEEDED, "port": 9000})
    assert container(found, "harness")["ports"] == [{"name": "agents", "containerPort": 9000}]
    assert container(found, "hosts")["command"] == [
        *("python", "-m", "tfscale.suite.launchers.agent"),
        *("--connect", "two-harness-0-0.two:9000", "--token-file", "/var/run/tfscale/token", "--patience", "86400"),
    ]
    assert not any(document["kind"] == "Secret" for document in found.documents)
    for name in ("harness", "hosts"):
        volume = next(each for each in pod(found, name)["spec"]["volumes"] if each["name"] == "token")
        assert volume["secret"] == {"secretName": "tfscale-token", "items": [{"key": "token", "path": "token"}]}


def test_all_objects_of_a_run_are_found_by_one_label_and_the_set_keeps_its_own() -> None:
    for document in ALL[1].documents:
        assert document["metadata"]["labels"]["app.kubernetes.io/instance"] == "nightly"
        assert document["metadata"]["namespace"] == "ml"
    assert job_set(ALL[1])["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "night"


def test_only_the_harness_decides_success_and_its_answers_start_nothing_again() -> None:
    spec = job_set(ALL[1])["spec"]
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["harness"]}
    assert spec["failurePolicy"]["maxRestarts"] == 2
    (rule,) = spec["failurePolicy"]["rules"]
    assert (rule["action"], rule["targetReplicatedJobs"]) == ("FailJobSet", ["harness"])
    assert rule["onJobFailureReasons"] == ["PodFailurePolicy"]
    (told,) = job(ALL[1], "harness")["template"]["spec"]["podFailurePolicy"]["rules"]
    assert told["onExitCodes"] == {"containerName": "harness", "operator": "In", "values": [1, 2]}
    for name in ("harness", "hosts"):
        assert pod(ALL[1], name)["spec"]["restartPolicy"] == "Never"
        assert job(ALL[1], name)["template"]["spec"]["backoffLimit"] == 0


@pytest.mark.parametrize("found", ALL, ids=IDS)
def test_only_pods_of_the_set_reach_its_pods(found: Rendered) -> None:
    policy, name = found.documents[1], job_set(found)["metadata"]["name"]
    of_set = {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": name}}
    assert policy["spec"]["podSelector"] == of_set
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": of_set}]}]
    assert policy["metadata"]["namespace"] == job_set(found)["metadata"]["namespace"]
    for job_name in ("harness", "hosts"):
        spec = pod(found, job_name)["spec"]
        assert "hostNetwork" not in spec  # the policy would not hold there
        assert spec["automountServiceAccountToken"] is False


def test_locked_memory_is_allowed_with_rdma_only() -> None:
    assert container(ALL[1], "hosts")["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert container(ALL[1], "harness")["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container(ALL[0], "hosts")["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_host_gets_what_it_asks_for_and_memory_to_share() -> None:
    resources = container(ALL[1], "hosts")["resources"]
    assert resources["requests"] == resources["limits"]  # the class Guaranteed
    assert resources["limits"] == {
        "cpu": "32",
        "memory": "256Gi",
        "nvidia.com/gpu": "8",
        "rdma/hca_shared_devices_a": "1",
    }
    shared = next(each for each in pod(ALL[1], "hosts")["spec"]["volumes"] if each["name"] == "shared-memory")
    assert shared["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}
    assert {"name": "shared-memory", "mountPath": "/dev/shm"} in container(ALL[1], "hosts")["volumeMounts"]
    assert {"name": "NCCL_SOCKET_IFNAME", "value": "eth0"} in container(ALL[1], "hosts")["env"]


def test_two_hosts_share_no_node_unless_allowed() -> None:
    (term,) = pod(ALL[0], "hosts")["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert "affinity" not in pod(rendered({**NEEDED, "one_pod_per_node": False}), "hosts")["spec"]


def test_a_topology_of_a_file_is_written_out(tmp_path: Path) -> None:
    (tmp_path / "racks.yaml").write_text("racks: {a: {link: 1Gbit}, b: {}}\nhosts: [a, b]\n")
    settings = {"image": "a:1", "claim": "c"}
    matrix = {**MATRIX, "hosts": 2, "devices": 2, "topology": ["racks.yaml", "two-racks"]}
    document = {"name": "s", "matrix": matrix, "cluster": {"launcher": "kubernetes", "kubernetes": settings}}
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(document))
    found = rendering.render(str(path), launcher=None)
    there = suitefile.build(suitefile.parse(found.documents[0]["data"]["suite.yaml"], "/elsewhere/s.yaml"))
    assert [case.id for case in there.cases] == [case.id for case in suitefile.read(path).cases]


@pytest.mark.parametrize(
    ("settings", "more", "words"),
    [
        ({"claim": "c"}, {}, "cluster.kubernetes.image is missing; cluster.kubernetes needs it"),
        ({**NEEDED, "imag": 1}, {}, "unknown key 'imag' in cluster.kubernetes .*did you mean 'image'"),
        ({**NEEDED, "image": "tfscale:latest"}, {}, "cluster.kubernetes.image: .* not pinned"),
        ({**NEEDED, "namespace": "a\nkind: Pod"}, {}, "cluster.kubernetes.namespace: .*RFC 1123"),
        ({**NEEDED, "gpus_per_host": True}, {}, "cluster.kubernetes.gpus_per_host: got True"),
        ({**NEEDED, "node_selector": {"a b": "c"}}, {}, "'a b'"),
        ({**NEEDED, "env": {"LD_PRELOAD": "x"}}, {}, "LD_PRELOAD"),
        ({**NEEDED, "env": {"NCCL_API_TOKEN": "x"}}, {}, "NCCL_API_TOKEN"),
        ({**NEEDED, "resources": {"nvidia.com/gpu": 8}}, {}, "nvidia.com/gpu is counted by gpus_per_host"),
        ({**NEEDED, "tolerations": [{"key": "a"}]}, {}, "Equal needs key and value"),
        ({**NEEDED, "tpu": {**SLICE, "topology": "4x"}}, {}, "no topology; write 4x4"),
        ({**NEEDED, "tpu": {**SLICE, "chips_per_host": 3}}, {}, "16 chips, not whole hosts of 3"),
        ({**NEEDED, "tpu": SLICE, "gpus_per_host": 1}, {}, "no GPUs"),
        ({**NEEDED, "name": "a" * 50}, {}, "longer than 45 characters; set cluster.kubernetes.name"),
        (NEEDED, {"name": "1st"}, "'1st': .*RFC 1035.*set cluster.kubernetes.name"),
        (NEEDED, {"cluster": {"accelerator": "gpu"}}, "gpus_per_host"),
        (NEEDED, {"cluster": {"accelerator": "tpu"}}, "cluster.kubernetes.tpu"),
        (NEEDED, {"cluster": {"hosts": ["a"]}}, "cluster.hosts: .*leave it out"),
        (NEEDED, {"cluster": {"hosts_file": "a"}}, "cluster.hosts_file: .*leave it out"),
        ({**NEEDED, "gpus_per_host": 8}, {"cluster": {"accelerator": "cpu"}}, "would lie idle"),
        ({**NEEDED, "gpus_per_host": 1}, {"matrix": {**MATRIX, "devices": [4]}}, "2 devices a host, .*is 1"),
        (NEEDED, {"matrix": {**MATRIX, "transport": "rdma"}}, "cluster.kubernetes.rdma"),
        ({**NEEDED, "tpu": SLICE}, {"cluster": {"accelerator": "tpu"}}, "only the strategy tpu"),
        ({**NEEDED, "tpu": SLICE}, {"matrix": TPU_MATRIX}, "needs accelerator: tpu"),
    ],
)
def test_what_does_not_fit_is_told_with_its_setting(settings: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){words}"):
        rendered(settings, **more)


def test_the_longest_name_that_is_allowed_makes_pod_names_of_63_characters() -> None:
    # jobset_webhook.go: the name of a pod, with the five characters that the controller appends, has 63 at most.
    found = rendered({**NEEDED, "name": "a" * 45})
    assert len(f"{job_set(found)['metadata']['name']}-harness-0-0-abcde") == 63


def test_a_suite_too_large_for_a_config_map_is_refused() -> None:
    asked = wanted()
    asked.document["description"] = "x" * 2**20
    with pytest.raises(ValueError, match="a ConfigMap holds 1048576 at most"):
        render(asked)


@pytest.mark.parametrize(
    "text", ["1e3", "0o17", "012", "1_000", "0x1f", "y", "No", "on", "null", "~", "", "=", ".5", "1:30"]
)
def test_text_that_some_reader_of_yaml_takes_for_something_else_is_quoted(text: str) -> None:
    assert rendering.dump({"a": text}) == f'a: "{text}"\n'


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back_as_it_was_and_makes_no_key(text: str) -> None:
    cluster = Cluster.model_validate({"kubernetes": {**NEEDED, "pod_annotations": {"a": text}}})
    asked = Wanted(
        suite=LEAST.suite.model_copy(update={"cluster": cluster}),
        document={"name": "two", "description": text},
        path="suite.yaml",
        options=("--only", text),
    )
    found = render(asked)
    assert list(yaml.safe_load_all(found.text())) == list(found.documents)
    assert pod(found, "hosts")["metadata"]["annotations"] == {"a": text}
    assert yaml.safe_load(found.documents[0]["data"]["suite.yaml"])["description"] == text


def test_one_process_drives_the_hosts_of_a_slice() -> None:
    found = tpu()
    servers = [f"two-hosts-0-{index}.two" for index in range(4)]  # 16 chips, 4 a host
    assert job(found, "hosts")["template"]["spec"]["completions"] == 4
    assert container(found, "harness")["env"] == [
        {"name": "TPU_NAME", "value": ",".join(f"grpc://{server}:8470" for server in servers)},
        {"name": "TPU_LOAD_LIBRARY", "value": "0"},
    ]
    assert container(found, "harness")["command"][3:5] == ["--launcher", "local"]
    assert pod(found, "hosts")["spec"]["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "4x4",
    }
    host = container(found, "hosts")
    assert host["resources"]["limits"] == {"google.com/tpu": "4"}
    assert {"name": "TPU_WORKER_HOSTNAMES", "value": ",".join(servers)} in host["env"]
    assert any("TPU pod" in note for note in found.notes)


def test_the_document_keeps_to_its_published_schema() -> None:
    from tfscale.suite.schemas import schemas

    schema = schemas()["tfscale.rendered/1"]
    document = json.loads(ALL[1].model_dump_json(by_alias=True))
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["documents"][2]["kind"] == "JobSet"


def test_paths_of_the_harness_and_the_agents_are_those_of_the_mounts() -> None:
    mounts = {each["mountPath"] for each in container(ALL[0], "harness")["volumeMounts"]}
    assert mounts == {objects.SUITE_FOLDER, objects.RESULTS, objects.TOKEN_FOLDER}
