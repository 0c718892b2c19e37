"""The worked example of a store keeps the contract."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from examples.toy_store import ToyStore

from sessiontree.stores.base import SessionStore
from sessiontree.testing import StoreContract, StoreFaultContract


class TestToyStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> SessionStore:
        return ToyStore(str(tmp_path / "sessions.db"))


class FaultyDatabase:
    """Counts the statements of a store's connections and makes one of them fail."""

    def __init__(self) -> None:
        self.count = 0
        self._failing: int | None = None

    def fail_call(self, at: int) -> None:
        self._failing = self.count + at

    def heal(self) -> None:
        self._failing = None

    def connect(self, path: str) -> sqlite3.Connection:
        faults = self

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
                faults.count += 1
                if faults.count == faults._failing:
                    raise sqlite3.OperationalError("disk I/O error")
                return super().execute(sql, parameters)

        return sqlite3.connect(path, timeout=30, isolation_level=None, factory=Connection)


class FaultyToyStore(ToyStore):
    def __init__(self, path: str, faults: FaultyDatabase) -> None:
        self._faults = faults
        super().__init__(path)

    def connect(self) -> sqlite3.Connection:
        return self._faults.connect(self.path)


class TestToyStoreWithFaults(StoreFaultContract):
    @pytest.fixture
    def faults(self) -> FaultyDatabase:
        return FaultyDatabase()

    @pytest.fixture
    def store(self, tmp_path: Path, faults: FaultyDatabase) -> SessionStore:
        return FaultyToyStore(str(tmp_path / "sessions.db"), faults)
