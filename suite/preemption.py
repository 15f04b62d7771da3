"""The warning that a machine is about to be taken away: SIGTERM to a rank. TensorFlow's own handler swallows it.

TensorFlow installs that handler when a job of several processes is joined, so ours must be installed again afterwards.
Python runs a handler between two of its own instructions: a rank that waits for a step acts once the step is done.
"""

import signal
from types import FrameType


class Preempted(BaseException):
    """The rank was warned, and has nothing to save. Not an Exception: nobody is to take it for an error of his."""


def leave_when_warned() -> None:
    """From now on the warning raises Preempted in the main thread."""
    signal.signal(signal.SIGTERM, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    raise Preempted


class Warned:
    """From its making on the warning only sets `now`, for whoever wants to save first."""

    def __init__(self) -> None:
        self.now = False
        signal.signal(signal.SIGTERM, self._heard)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.now = True
