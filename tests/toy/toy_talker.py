"""A worker of two ranks that pass a message to and fro in every step, over the addresses of the plan. Not a test module.

As in a real job nobody waits with a time limit: a rank whose peer is cut off waits for ever, unless the system tells it.
`preset` is as for toy_worker.
"""

import socket
import sys
import time
from pathlib import Path

import toy_worker

from tfscale.suite.events import EventLog
from tfscale.suite.plan import RankPlan

STEPS = 200
STEP_S = 0.005
MESSAGE = bytes(1000)


def main(plan: RankPlan) -> int:
    log = EventLog(Path(plan.directory))
    what, _, where = plan.case.preset.partition("@")
    mischief = toy_worker.MISBEHAVIOURS[what] if where and int(where) == plan.rank else toy_worker._nothing
    log.phase("started")
    log.phase("imported")
    peer = _meet(plan)
    for phase in ("joined", "built", "checked", "traced"):
        log.phase(phase)
    for step in range(STEPS):
        try:
            _exchange(peer)
        except OSError as error:
            log.error("error", f"UnavailableError: Connection reset by peer: {error}")
            raise
        if step == 0:
            log.phase("first_step")
            log.phase("steady")
        log.progress(step + 1, STEP_S)
        if step == STEPS // 2:
            mischief("step", plan, log)
        time.sleep(STEP_S)
    for phase in ("timed", "written", "done"):
        log.phase(phase)
    return 0


def _meet(plan: RankPlan) -> socket.socket:
    """Rank 0 listens at its own address, which it only has in its own namespace; rank 1 comes to it."""
    host, _, port = plan.cluster["worker"][0].rpartition(":")
    if plan.rank == 0:
        with socket.create_server((host, int(port))) as server:
            return server.accept()[0]
    deadline = time.monotonic() + 5
    while True:
        try:
            return socket.create_connection((host, int(port)))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _exchange(peer: socket.socket) -> None:
    peer.sendall(MESSAGE)
    left = len(MESSAGE)
    while left:
        got = len(peer.recv(left))
        if not got:
            raise ConnectionResetError("Connection reset by peer: closed")
        left -= got


if __name__ == "__main__":
    sys.exit(main(RankPlan.model_validate_json(Path(sys.argv[1]).read_bytes())))
