"""Makes the builder importable, and renders the full example once."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def example_page() -> str:
    """The page of the builder's example run."""
    from builder import example

    from tfscale.reports.page import scaling_report

    return scaling_report(*example())
