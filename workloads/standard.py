"""What the workloads of this package have in common."""

from pathlib import Path

from tfscale.suite.workload import Workload


class StandardWorkload(Workload):
    """A workload with `source.py` and `sample.py` beside its model, so that its data can be made and sampled."""

    def sample_data(self, preset: str, directory: Path, seed: int) -> Path:
        from tfscale.workloads.sample import write_sample

        return write_sample(self.name, preset, directory, seed)
