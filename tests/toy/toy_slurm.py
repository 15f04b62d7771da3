"""The Slurm launcher with ranks that need no TensorFlow, for a suite file to name. Not a test module."""

from typing import Self

import toy_bench as toy

from tfscale.suite.cluster import Cluster
from tfscale.suite.launchers.slurm import SlurmLauncher


class ToySlurm(SlurmLauncher):
    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        return cls(cluster, worker=toy.WORKER)
