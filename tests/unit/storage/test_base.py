"""The seam of storages: what counts as one, and what is said of what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sessiontree import (
    FileSessionStorage,
    MemorySessionStorage,
    SessionManager,
    SessionStorage,
    SessionStorageReader,
    SessionStorageWriter,
)
from sessiontree.storage.base import require_storage
from sessiontree.testing import FaultyStorage

STORAGES = [
    FileSessionStorage(),
    MemorySessionStorage(),
    FaultyStorage(MemorySessionStorage()),
]


FIRST = (
    *("ensure_dir", "exists", "stat", "list_files", "read", "read_prefix", "read_suffix"),
    *("write_atomic", "rename", "unlink", "open_writer"),
)


class Minimal:
    """The methods that everybody thinks of."""

    def __getattr__(self, name: str) -> Any:
        if name in FIRST:
            return print
        raise AttributeError(name)


@pytest.mark.parametrize("storage", STORAGES)
def test_storages_can_be_told_by_isinstance(storage: SessionStorage, tmp_path: object) -> None:
    assert isinstance(storage, SessionStorage)
    storage.ensure_dir(str(tmp_path))
    writer = storage.open_writer(f"{tmp_path}/x")
    reader = storage.open_reader(f"{tmp_path}/x")
    assert isinstance(writer, SessionStorageWriter)
    assert isinstance(reader, SessionStorageReader)
    assert not isinstance(reader, SessionStorageWriter)
    writer.close()
    reader.close()


@pytest.mark.parametrize("value", [object(), "/a/folder", None, Minimal()])
def test_what_is_no_storage_can_be_told_too(value: object) -> None:
    assert not isinstance(value, SessionStorage)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_whole_storage_is_fine(storage: SessionStorage) -> None:
    require_storage(storage)


def test_what_a_storage_lacks_is_named_at_once() -> None:
    with pytest.raises(TypeError) as caught:
        require_storage(Minimal())
    assert str(caught.value) == (
        "Minimal is not a SessionStorage: no sync_dir, list_names, list_dirs, open_reader, touch, "
        "remove_dir"
    )


def test_a_method_that_can_not_be_called_is_missing() -> None:
    storage: Any = MemorySessionStorage()
    storage.touch = None
    with pytest.raises(TypeError, match=r"SessionStorage: no touch$"):
        require_storage(storage)


def test_a_path_is_no_storage() -> None:
    with pytest.raises(TypeError, match="str is not a SessionStorage: no ensure_dir, sync_dir, "):
        require_storage("/a/folder")


@pytest.mark.parametrize(
    "begin",
    [
        lambda storage: SessionManager.create("/p", storage=storage),
        lambda storage: SessionManager.open("/p/x.jsonl", storage=storage),
        lambda storage: SessionManager.continue_recent("/p", storage=storage),
        lambda storage: SessionManager.fork_from("/p/x.jsonl", "/p", storage=storage),
        lambda storage: SessionManager.in_memory(storage=storage),
    ],
)
def test_a_manager_refuses_what_is_no_storage(begin: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match="Minimal is not a SessionStorage"):
        begin(Minimal())
