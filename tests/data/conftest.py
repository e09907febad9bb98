"""Fixtures of the tests of readers and datasets."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property-based test, which overwrite each other's files."""
    return tmp_path_factory.mktemp("scratch")
