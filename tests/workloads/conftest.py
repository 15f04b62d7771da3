"""Sample data folders, made once a session."""

from pathlib import Path

import pytest

from tfscale.workloads.sample import write_sample

PRESETS = {"bert": "tiny", "vit": "micro", "recommender": "micro"}


@pytest.fixture(scope="session")
def sample_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Workload -> the sample folder of its smallest preset, seed 0."""
    holder = tmp_path_factory.mktemp("data")
    return {workload: write_sample(workload, preset, holder, 0) for workload, preset in PRESETS.items()}
