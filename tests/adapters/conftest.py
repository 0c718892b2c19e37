"""What the tests of the adapters share."""

from __future__ import annotations

import pytest

from sessiontree import MemoryStore


@pytest.fixture
def kept() -> MemoryStore:
    """A store for sessions that an adapter keeps."""
    return MemoryStore()
