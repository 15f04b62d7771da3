"""Classification of failed launches: a table of what was seen, and whom it blames for what."""

import pytest

from tfscale.suite.blame import Blame, Evidence, RankError, cause

RESET = "UnavailableError: Collective ops is aborted by: Connection reset by peer"
HEARTBEAT = "UnavailableError: tasks are unhealthy (stopped sending heartbeats): /job:worker/task:1"


def failed(rank: int, reason: str, at: float, detail: str = "", code: int = 1) -> Evidence:
    return Evidence(rank, exit_code=code, exit_s=at + 0.1, error=RankError(reason, detail, at))


def ended(rank: int, code: int, at: float = 10.0, log: str = "") -> Evidence:
    return Evidence(rank, exit_code=code, exit_s=at, log_tail=log)


ALIVE = Evidence(0)
TABLE: dict[str, tuple[list[Evidence], bool, tuple[str, int | None] | None]] = {
    "nothing failed": ([ALIVE, Evidence(1)], False, None),
    "killed, the survivor complained first": ([failed(0, RESET, 9.9), ended(1, -9, 10.1)], False, ("lost_rank", 1)),
    "killed by the kernel for memory": ([failed(0, RESET, 9.9), ended(1, -9, 10.1)], True, ("oom", 1)),
    "exited without a word": ([failed(0, RESET, 9.9), ended(1, 9, 10.1)], False, ("lost_rank", 1)),
    "frozen, the survivor noticed": ([failed(0, HEARTBEAT, 10), Evidence(1, frozen=True)], False, ("lost_rank", 1)),
    "cut off, nobody to name": ([failed(0, HEARTBEAT, 10), Evidence(1)], False, ("lost_rank", None)),
    "its own error beats the echo": (
        [failed(0, RESET, 9.0), failed(1, "InvalidArgumentError: Shape mismatch in the collective instance", 9.5)],
        False,
        ("error", 1),
    ),
    "the first of two errors": (
        [failed(0, "ValueError: b", 9.2), failed(1, "ValueError: a", 9.1)],
        False,
        ("error", 1),
    ),
    "a port": ([failed(1, "UnknownError: Could not start gRPC server", 1), ALIVE], False, ("port_in_use", 1)),
    "a port, told by class": ([failed(1, "port_in_use", 1, "Traceback"), ALIVE], False, ("port_in_use", 1)),
    "memory of the allocator": ([failed(0, "ResourceExhaustedError: OOM when allocating", 1)], False, ("oom", 0)),
    "memory in C++": ([ended(0, -6, log="terminate called after throwing 'std::bad_alloc'")], False, ("oom", 0)),
    "a MemoryError": ([failed(0, "MemoryError: ", 1)], False, ("oom", 0)),
    "disk": ([failed(0, "OSError: [Errno 28] No space left on device", 1)], False, ("disk_full", 0)),
    "xla": (
        [failed(0, "InvalidArgumentError: Detected unsupported operations when trying to compile graph", 1)],
        False,
        ("xla_unsupported", 0),
    ),
    "aborted because peers were lost": (
        [ended(0, -6, 9.0, "F coordination: heartbeat timeout"), ended(1, -11, 9.5)],
        False,
        ("lost_rank", 1),
    ),
    "a crash of its own": (
        [ended(0, -6, 9.0, "free(): invalid pointer"), failed(1, RESET, 8.9)],
        False,
        ("lost_rank", 0),
    ),
    "left too early": ([ended(0, 0)], False, ("error", 0)),
    "an echo after the result": (
        [Evidence(0, finished=True, error=RankError(RESET, "", 5), exit_code=1), ended(1, -9)],
        False,
        ("lost_rank", 1),
    ),
    "code lines of a traceback are no evidence": (
        [
            failed(
                0,
                "ValueError: bad shape",
                1,
                'Traceback\n  File "x.py"\n    preempt_on_out_of_memory()\n'
                + "  frame\n" * 8
                + "ValueError: bad shape",
            )
        ],
        False,
        ("error", 0),
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_cause(name: str) -> None:
    evidence, oom_killed, expected = TABLE[name]
    found = cause(evidence, oom_killed)
    assert (found and (found.classification, found.rank)) == expected


def test_reasons_are_words_of_the_culprit() -> None:
    def reason(evidence: Evidence) -> str:
        found = cause([evidence])
        assert isinstance(found, Blame)
        return found.reason

    assert reason(ended(1, -9, log="step 3\n\n")) == "ended by SIGKILL; last line of its log: step 3"
    assert reason(ended(1, 9)) == "exited with code 9"
    assert reason(failed(0, "oom", 1, "Traceback\n  code\nfoo.ResourceExhaustedError: OOM when\n more")) == (
        "foo.ResourceExhaustedError: OOM when"
    )
