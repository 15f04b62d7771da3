"""Shared fixtures. TensorFlow is imported by the tests that need it, never here."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def recorded_data() -> Path:
    """Recorded traces and series with known answers, where TFSCALE_TEST_DATA names them."""
    folder = os.environ.get("TFSCALE_TEST_DATA")
    if not folder:
        pytest.skip("TFSCALE_TEST_DATA is not set: no recorded data here")
    return Path(folder)
