"""What type checkers say about the public API. mypy checks this file; nothing runs it."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

from sessiontree import (
    Entry,
    MemorySessionStorage,
    SessionManager,
    SessionStorage,
)


def keep_a_conversation(folder: Path) -> None:
    with SessionManager.create(folder) as session:
        assert_type(session, SessionManager)
        assert_type(session.append_message({"role": "user", "content": "Hi"}), str)
        assert_type(session.session_file, str | None)
        assert_type(session.session_name, str | None)
        assert_type(session.leaf_id, str | None)
        assert_type(session.get_entries(), list[Entry])
        assert_type(session.get_branch(), list[Entry])


def store_it_elsewhere(storage: SessionStorage) -> SessionManager:
    return SessionManager.create("/project", storage=storage)


store_it_elsewhere(MemorySessionStorage())
store_it_elsewhere({"not": "a storage"})  # type: ignore[arg-type]
