"""Memory as a storage: what the contract does not say."""

from __future__ import annotations

import pytest
from tests.samples import assistant, texts, user

from sessiontree import MemorySessionStorage, SessionManager
from sessiontree.testing import fixed_clock


def test_time_comes_from_its_clock() -> None:
    clock = fixed_clock(1_000, 1_000)
    storage = MemorySessionStorage(clock_ns=clock)
    storage.ensure_dir("/a")
    storage.write_atomic("/a/x", b"1")
    first = storage.stat("/a/x").mtime_ns
    storage.touch("/a/x")
    second = storage.stat("/a/x").mtime_ns
    writer = storage.open_writer("/a/x")
    writer.write_line(b"2\n")
    third = storage.stat("/a/x").mtime_ns
    writer.truncate(1)
    assert first < second < third < storage.stat("/a/x").mtime_ns


def test_storages_share_nothing() -> None:
    one, two = MemorySessionStorage(), MemorySessionStorage()
    one.ensure_dir("/a")
    one.write_atomic("/a/x", b"1")
    assert not two.exists("/a/x")


def test_a_session_lives_in_memory_as_it_does_in_files() -> None:
    storage = MemorySessionStorage()
    with SessionManager.create("/work", "/sessions", storage=storage) as session:
        session.append_message(user("hello"))
        assert [name[-6:] for name in storage.list_names("/sessions")] == [".draft"]
        session.append_message(assistant("hi"))
        path = session.session_file
    assert path is not None
    assert storage.list_names("/sessions") == [path.removeprefix("/sessions/")]
    again = SessionManager.open(path, storage=storage)
    assert texts(again.build_session_context().messages) == ["hello", "hi"]


def test_a_session_in_memory_touches_no_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    import os

    home = os.environ["HOME"]
    with SessionManager.create("/work", storage=MemorySessionStorage()) as session:
        session.append_message(user("hello"))
        session.append_message(assistant("hi"))
    assert os.listdir(home) == []
