"""Every store of this package keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import FileStore, MemorySessionStorage, MemoryStore, open_store
from sessiontree.errors import StoreError
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.base import SessionStore
from sessiontree.testing import FaultyStorage, StoreContract, StoreFaultContract


class TestFileStore(StoreContract):
    @pytest.fixture
    def store(self) -> SessionStore:
        return FileStore()


class TestFileStoreInOneDialect(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> SessionStore:
        return open_store(f"file:{tmp_path}/agent", profile="pi")


class TestMemoryStore(StoreContract):
    listing_bytes = 2_000_000  # no catalogue: each listing reads the files, block by block

    @pytest.fixture
    def store(self) -> SessionStore:
        return open_store("memory:")


class TestFileStoreOnAnotherStorage(StoreContract):
    listing_bytes = 2_000_000

    @pytest.fixture
    def store(self) -> SessionStore:
        return FileStore(MemorySessionStorage())


class TestFileStoreWithFaults(StoreFaultContract):
    @pytest.fixture
    def faults(self) -> FaultyStorage:
        return FaultyStorage(FileSessionStorage())

    @pytest.fixture
    def store(self, faults: FaultyStorage) -> SessionStore:
        return FileStore(faults)


class TestMemoryStoreWithFaults(StoreFaultContract):
    @pytest.fixture
    def faults(self) -> FaultyStorage:
        return FaultyStorage(MemorySessionStorage())

    @pytest.fixture
    def store(self, faults: FaultyStorage) -> SessionStore:
        return FileStore(faults, "pi")


def test_a_memory_store_with_a_name_is_shared() -> None:
    first, second = open_store("memory:shared"), open_store("memory:shared")
    assert isinstance(first, MemoryStore)
    assert isinstance(second, MemoryStore)
    assert first.storage is second.storage
    assert first.url == "memory:shared"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sessions", "is not a store URL"),
        ("redis://host", 'No store is called "redis:"'),
        ("file:relative", "use an absolute path"),
        ("postgresql://anna:secret@host/db?pool=none", "pool= takes a number"),
        ("postgresql://anna:secret@host/db#fragment", "use postgresql://user@host/database"),
    ],
)
def test_a_wrong_url_says_what_to_use(url: str, told: str) -> None:
    with pytest.raises(StoreError, match=told.replace("[", r"\[")) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_an_installed_package_brings_a_store_by_its_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toystore.py").write_text(
        "from sessiontree import MemoryStore\n"
        "def open_toy(url, *, profile):\n"
        "    return MemoryStore(profile=profile, name=url.removeprefix('toy://'))\n"
    )
    info = tmp_path / "toystore-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toystore\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[sessiontree.stores]\ntoy = toystore:open_toy\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    store = open_store("toy://box", profile="pi")
    assert (store.url, store.profile.name) == ("memory:box", "pi")


def test_a_package_whose_store_is_none_is_told_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "halfstore.py").write_text(
        "class Half:\n    url = 'half:'\ndef open_half(url, *, profile):\n    return Half()\n"
    )
    info = tmp_path / "halfstore-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: halfstore\nVersion: 1\n")
    lines = ["[sessiontree.stores]", "half = halfstore:open_half", "gone = halfstore:gone"]
    (info / "entry_points.txt").write_text("\n".join([*lines, "lost = nowhere:open", ""]))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(StoreError, match=r"halfstore:open_half made a Half.* no profile, "):
        open_store("half:")
    for scheme, what in (("gone", "halfstore:gone"), ("lost", "nowhere:open")):
        with pytest.raises(StoreError, match=f'"{scheme}:" cannot be loaded from {what}: '):
            open_store(f"{scheme}:")
