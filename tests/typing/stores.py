"""What type checkers say about stores and storages. mypy checks this file; nothing runs it."""

from __future__ import annotations

from typing import assert_type

from sessiontree import (
    FileSessionStorage,
    FileStore,
    MemorySessionStorage,
    MemoryStore,
    Profile,
    SessionLog,
    SessionManager,
    SessionStorage,
    SessionStorageReader,
    SessionStorageWriter,
    SessionStore,
    get_profile,
    open_store,
)


def store_it_elsewhere(storage: SessionStorage) -> SessionManager:
    return SessionManager.create("/project", storage=storage)


store_it_elsewhere(MemorySessionStorage())
store_it_elsewhere(FileSessionStorage())
store_it_elsewhere({"not": "a storage"})  # type: ignore[arg-type]


def keep_it_in_a_store(store: SessionStore) -> None:
    assert_type(SessionManager.create("/project", storage=store), SessionManager)
    assert_type(store.read("ref"), SessionLog)
    assert_type(store.open("ref"), SessionLog)
    assert_type(store.exists("ref"), bool)
    assert_type(store.profile, Profile)


keep_it_in_a_store(MemoryStore())
keep_it_in_a_store(FileStore(profile=get_profile("omp")))
keep_it_in_a_store(open_store("postgresql://db.example/sessions"))
keep_it_in_a_store(MemorySessionStorage())  # type: ignore[arg-type]
SessionManager.create("/project", storage="postgresql://db.example/sessions")
SessionManager.create("/project", storage=7)  # type: ignore[arg-type]


def keep_bytes(reader: SessionStorageReader, writer: SessionStorageWriter) -> None:
    assert_type(reader.read_at(0, 64), bytes)
    writer.close()
