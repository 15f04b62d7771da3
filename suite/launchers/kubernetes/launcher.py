"""Hosts that are pods: their agents call the harness's pod. Never run on a real cluster."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from tfscale.suite.cluster import Cluster, HostEntry
from tfscale.suite.launchers.base import HandedOver, Submitted
from tfscale.suite.launchers.errors import LaunchError
from tfscale.suite.launchers.kubernetes.objects import TOKEN_FILE, TOKEN_FOLDER
from tfscale.suite.launchers.mpi import own_address
from tfscale.suite.launchers.remote.launcher import RemoteLauncher
from tfscale.suite.launchers.remote.link import Channel
from tfscale.suite.launchers.remote.reception import Reception, channel

TOKEN = Path(TOKEN_FOLDER) / TOKEN_FILE
RENDER = "`tfscale run SUITE --launcher kubernetes --render | kubectl apply -f -` starts it there"


class KubernetesLauncher(RemoteLauncher):
    """Waits for the agents of the host pods, which know its name, its port and the token of the set's Secret."""

    name: ClassVar[str] = "kubernetes"

    def __init__(self, cluster: Cluster, *, token: Path = TOKEN, **options: Any) -> None:
        super().__init__(cluster, **options)
        self._token = token
        self._reception: Reception | None = None

    @classmethod
    def hand_over(cls, cluster: Cluster, run: HandedOver) -> Submitted | None:
        if "KUBERNETES_SERVICE_HOST" not in os.environ:
            raise LaunchError(f"launcher kubernetes runs in the harness's pod of a cluster: {RENDER}")
        return None

    def entries(self) -> list[HostEntry]:
        if not self.cluster.hosts:
            raise LaunchError(f"launcher kubernetes has no cluster.hosts, which the manifests name: {RENDER}")
        return list(self.cluster.hosts)

    def open(self, entries: Sequence[HostEntry]) -> list[Channel]:
        places = {entry.target: number for number, entry in enumerate(self.entries())}
        numbers = [places[entry.target] for entry in entries]
        callers = self._listening().await_callers(set(numbers), self.cluster.connect_s, lambda: None)
        return [channel(*callers[number]) for number in numbers]

    def close(self) -> None:
        super().close()
        reception, self._reception = self._reception, None
        if reception is not None:
            reception.close()

    def _listening(self) -> Reception:
        if self._reception is None:
            settings = self.cluster.kubernetes
            if settings is None:
                raise LaunchError("launcher kubernetes needs cluster.kubernetes with image and claim")
            try:
                token = self._token.read_text().strip()
            except OSError as error:
                raise LaunchError(f"no token of the set's Secret: {error}") from error
            self._reception = Reception(own_address(self.cluster), settings.port, token)
        return self._reception
