"""The NVML double, built once a session."""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
for _name in ("nvml", "validity", "toy", "reports"):
    sys.path.insert(0, str(TESTS / _name))

import double  # noqa: E402


@pytest.fixture(scope="session")
def nvml_double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built library; `double.environment(it, scenario)` makes a new process load it."""
    if double.compiler() is None:
        pytest.skip("no C compiler (gcc or cc): the NVML double cannot be built")
    return double.build(tmp_path_factory.mktemp("nvml"))
