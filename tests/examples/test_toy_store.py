"""The worked example of a store keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples.toy_store import ToyStore

from sessiontree.stores.base import SessionStore
from sessiontree.testing import StoreContract


class TestToyStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> SessionStore:
        return ToyStore(str(tmp_path / "sessions.db"))
