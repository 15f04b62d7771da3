"""The fields of a JobSet that the manifests use, as a JSON Schema, written down from the API's public definition.

Source: https://github.com/kubernetes-sigs/jobset, api/jobset/v1alpha2/jobset_types.go and
charts/jobset/crds/jobset.x-k8s.io_jobsets.yaml (JobSet v0.8 and later have all of these fields). A field that is not
listed is refused here, also where the API has it: whoever uses a new one writes it down first. What a job's `template`
holds is `batch/v1`, and is checked against the schema of Kubernetes itself.
"""

from typing import Any

_STRINGS = {"type": "array", "items": {"type": "string"}}
_MAP = {"type": "object", "additionalProperties": {"type": "string"}}


def _closed(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


_NETWORK = _closed(
    enableDNSHostnames={"type": "boolean"},
    subdomain={"type": "string"},
    publishNotReadyAddresses={"type": "boolean"},
)
_SUCCESS = _closed(("operator",), operator={"enum": ["All", "Any"]}, targetReplicatedJobs=_STRINGS)
_RULE = _closed(
    ("action", "name"),
    name={"type": "string", "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", "maxLength": 128},
    action={"enum": ["FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"]},
    targetReplicatedJobs=_STRINGS,
    onJobFailureReasons={
        "type": "array",
        "uniqueItems": True,
        # pkg/webhooks/jobset_webhook.go, validOnJobFailureReasons
        "items": {
            "enum": [
                "BackoffLimitExceeded",
                "DeadlineExceeded",
                "FailedIndexes",
                "MaxFailedIndexesExceeded",
                "PodFailurePolicy",
            ]
        },
    },
)
_FAILURE = _closed(maxRestarts={"type": "integer"}, rules={"type": "array", "items": _RULE})
_REPLICATED_JOB = _closed(
    ("name", "template"),
    name={"type": "string"},
    replicas={"type": "integer"},
    template=_closed(("spec",), metadata=_closed(annotations=_MAP, labels=_MAP), spec={"type": "object"}),
)

JOB_SET = _closed(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion={"const": "jobset.x-k8s.io/v1alpha2"},
    kind={"const": "JobSet"},
    metadata=_closed(("name",), name={"type": "string"}, namespace={"type": "string"}, labels=_MAP),
    spec=_closed(
        network=_NETWORK,
        successPolicy=_SUCCESS,
        failurePolicy=_FAILURE,
        replicatedJobs={"type": "array", "items": _REPLICATED_JOB},
    ),
)
