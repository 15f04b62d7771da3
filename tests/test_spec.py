"""Cases: identity, batches, scaling modes. The expected ids and batches are worked out by hand."""

import hashlib

import pytest
from pydantic import ValidationError

from tfscale.suite.spec import Case


def case(**axes: object) -> Case:
    return Case.model_validate({"workload": "bert", "preset": "tiny", "per_replica_batch": 8, **axes})


def test_id_is_the_hash_of_the_axes_that_are_not_at_their_defaults() -> None:
    text = '{"per_replica_batch":8,"preset":"tiny","workload":"bert"}'
    assert case().id == hashlib.sha256(text.encode()).hexdigest()[:12]
    assert case(xla="none", exchange="none", seed=0, input="synthetic").id == case().id


def test_id_tells_apart_whatever_changes_the_work() -> None:
    others = [
        case(devices=2),
        case(xla="cluster"),
        case(input="files"),
        case(seed=1),
        case(env={"NCCL_ALGO": "Ring"}),
        case(accumulation=2),
    ]
    assert len({case().id, *(other.id for other in others)}) == len(others) + 1


@pytest.mark.parametrize(
    ("axes", "mode", "micro", "step"),
    [
        ({"per_replica_batch": 8, "devices": 4}, "weak", 8, 32),
        ({"per_replica_batch": 8, "devices": 4, "accumulation": 2}, "weak", 8, 64),
        ({"per_replica_batch": None, "global_batch": 64, "devices": 4}, "strong", 16, 64),
        ({"per_replica_batch": None, "global_batch": 64, "devices": 4, "accumulation": 2}, "strong", 8, 64),
        ({"per_replica_batch": 8, "global_batch": 64, "devices": 4, "accumulation": 2}, "accumulated", 8, 64),
    ],
)
def test_batches_and_scaling_mode(axes: dict, mode: str, micro: int, step: int) -> None:
    made = case(**axes)
    assert (made.scaling, made.micro_batch, made.step_batch) == (mode, micro, step)


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"per_replica_batch": None}, "name per_replica_batch"),
        ({"per_replica_batch": None, "global_batch": 10, "devices": 4}, "global_batch 10"),
        ({"global_batch": 65, "devices": 8}, "global_batch 65"),
        ({"env": {"LD_PRELOAD": "x"}}, "LD_PRELOAD"),
        ({"env": {"TF_CONFIG": "{}"}}, "TF_CONFIG"),
        ({"devices": 0}, "greater than or equal to 1"),
        ({"precision": "fp8"}, "float32"),
    ],
)
def test_refused_with_the_value_in_the_message(axes: dict, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        case(**axes)
