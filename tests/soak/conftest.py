"""Soak tests run only when their folder is named (`tox -e soak`, `pytest tests/soak`)."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    named = any("soak" in str(argument) for argument in config.invocation_params.args)
    return None if named else True
