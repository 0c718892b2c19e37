"""Every storage of this package keeps the contract, and so does one that merely wraps another."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree.storage.base import SessionStorage
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.memory import MemorySessionStorage
from sessiontree.testing import FaultyStorage, StorageContract


class TestFileStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> SessionStorage:
        return FileSessionStorage()

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path / "root")


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> SessionStorage:
        return MemorySessionStorage()

    @pytest.fixture
    def root(self) -> str:
        return "/contract"


class TestFaultlessFaultyStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> SessionStorage:
        return FaultyStorage(FileSessionStorage())

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path / "root")
