"""Where a private MongoDB of a test keeps its data."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """With a short path, as a home directory's is."""
    with tempfile.TemporaryDirectory(prefix="gc-") as directory:
        yield Path(directory) / "data"
