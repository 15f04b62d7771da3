"""Which rank failed first, and of what: pure functions from what was seen of every rank to one class of the list.

Survivors of a dead rank complain within milliseconds, often before the dead one's exit code is seen, and louder. Their
words (connection reset, missed heartbeats) are therefore echoes, blamed on nobody while anything else explains the end.
"""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from tfscale.suite.record import FaultClass
from tfscale.suite.strategies.base import Role

CLASSES: tuple[FaultClass, ...] = get_args(FaultClass)
_REASON_CHARACTERS = 1000
_MESSAGE_LINES = 6
_NAMES_ERROR = re.compile(r"^[\w.]*(Error|Exception|Interrupt|Exit)\b")

_ECHO = re.compile(
    r"connection reset|heartbeat|unavailable|socket closed|broken pipe|connection refused|failed to connect|"
    r"cancellederror|abortederror|collective ops is aborted|deadline exceeded|deadlineexceeded|"
    r"tasks are unhealthy|barrier (failed|timed out)|preempt",
    re.IGNORECASE,
)
_CLASS_BY_WORDS: tuple[tuple[FaultClass, re.Pattern[str]], ...] = (
    ("port_in_use", re.compile(r"could not start grpc server|address already in use|no address added", re.IGNORECASE)),
    ("disk_full", re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)),
    (
        "oom",
        re.compile(
            r"resourceexhausted|resource_exhausted|memoryerror|cannot allocate memory|bad_alloc|oom when allocating|"
            r"out of memory|failed to allocate memory|unable to allocate",
            re.IGNORECASE,
        ),
    ),
    (
        "xla_unsupported",
        re.compile(
            r"not compilable|unsupported operations? when trying to compile|"
            r"no registered '[^']*' opkernel for xla|xla can't|"
            r"xla compilation[^\n]*unsupported|unsupported[^\n]*by xla|"
            r"located in device \S+ from device",
            re.IGNORECASE,
        ),
    ),
)


@dataclass(frozen=True)
class RankError:
    """The error that a rank told of before it ended; `t_s` on a clock that all ranks of a host share, seconds."""

    reason: str
    detail: str
    t_s: float

    @property
    def message(self) -> str:
        """What it says, without the lines of code that led there: they may hold any word."""
        return "\n".join([self.reason, *self.detail.strip().splitlines()[-_MESSAGE_LINES:]])

    @property
    def headline(self) -> str:
        """One line: the reason, or where that is only a class, the line of the traceback that names the error."""
        if self.reason not in CLASSES:
            return self.reason
        lines = [line.strip() for line in self.detail.splitlines() if line.strip()]
        named = [line for line in lines if _NAMES_ERROR.match(line)]
        return (named or lines or [self.reason])[-1]


@dataclass(frozen=True)
class Evidence:
    """What was seen of one rank when the job failed."""

    rank: int
    role: Role = "worker"
    exit_code: int | None = None
    exit_s: float | None = None
    error: RankError | None = None
    log_tail: str = ""
    frozen: bool = False
    finished: bool = False
    """Whether it had reached its goal (result on disk): what happens to it after that is a note."""


@dataclass(frozen=True)
class Blame:
    """The cause of a failed launch; `rank` is None where no single rank can be named."""

    classification: FaultClass
    rank: int | None
    reason: str


def cause(evidence: Sequence[Evidence], oom_killed: bool = False) -> Blame | None:
    """The first cause among failed ranks, or None when no rank has failed.

    `oom_killed` says that the kernel ended some process for memory since the launch.
    """
    failed = sorted((e for e in evidence if _failed(e)), key=_when)
    frozen = [e for e in evidence if e.frozen and not e.finished]
    own = [e for e in failed if not is_echo(e)]
    if own:
        return Blame(classify(own[0], oom_killed), own[0].rank, reason_of(own[0]))
    if frozen:
        text = "stopped by a signal and cut off from its peers" if failed else "stopped by a signal"
        return Blame("lost_rank", frozen[0].rank, text)
    if failed:
        first = failed[0]
        return Blame("lost_rank", None, f"rank {first.rank} lost contact with its peers: {reason_of(first)}")
    return None


def classify(evidence: Evidence, oom_killed: bool = False) -> FaultClass:
    """The class of one rank's own failure."""
    error = evidence.error
    if error and error.reason in CLASSES and error.reason != "error":
        return next(name for name in CLASSES if name == error.reason)
    by_words = class_of_text(error.message if error else evidence.log_tail)
    if by_words:
        return by_words
    if evidence.exit_code == -signal.SIGKILL and oom_killed and error is None:
        return "oom"
    # An exit without a word is a lost rank; an exit with code 0 or after an error of its own is not.
    return "error" if error or evidence.exit_code == 0 else "lost_rank"


def class_of_text(text: str) -> FaultClass | None:
    """The class that an error message or a log names, or None."""
    return next((name for name, words in _CLASS_BY_WORDS if words.search(text)), None)


def is_echo(evidence: Evidence) -> bool:
    """Whether a rank failed only because another one did."""
    if evidence.error:
        text = evidence.error.message
        return class_of_text(text) is None and bool(_ECHO.search(text))
    if evidence.exit_code is not None and evidence.exit_code == -signal.SIGABRT:
        # TensorFlow may abort a survivor; the last lines then hold nothing but the loss of its peers.
        return class_of_text(evidence.log_tail) is None and bool(_ECHO.search(evidence.log_tail))
    return False


def reason_of(evidence: Evidence) -> str:
    """One rank's failure in words."""
    if evidence.error:
        return evidence.error.headline[:_REASON_CHARACTERS]
    code = evidence.exit_code
    if code == 0:
        return "ended before its result was written"
    how = f"exited with code {code}" if code is None or code > 0 else f"ended by {_signal_name(-code)}"
    last = next((line.strip() for line in reversed(evidence.log_tail.splitlines()) if line.strip()), "")
    return f"{how}; last line of its log: {last[:300]}" if last else how


def _failed(evidence: Evidence) -> bool:
    return not evidence.finished and (evidence.error is not None or evidence.exit_code is not None)


def _when(evidence: Evidence) -> float:
    times = [evidence.error.t_s if evidence.error else None, evidence.exit_s]
    return min((t for t in times if t is not None), default=float("inf"))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
