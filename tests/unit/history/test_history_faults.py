"""Prompt history when something goes wrong half-way: no prompt is lost to it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import resource
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sessiontree import history as history_module
from sessiontree.errors import PersistenceError
from sessiontree.history import HistoryEntry, HistoryStorage, damage, file
from sessiontree.history.database import HistoryDatabase
from sessiontree.storage import locks, sqlite

JUNK = b"this is not SQLite at all" * 100
BREAK = "CREATE TRIGGER more AFTER INSERT ON history BEGIN INSERT INTO nowhere VALUES (1); END"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent" / "history.db"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "_RETRY_S", 0.01)


def _fill(path: Path, *prompts: str) -> None:
    with HistoryStorage(path) as history:
        for prompt in prompts:
            history.add(prompt)


def _recall(path: Path) -> list[str]:
    with HistoryStorage(path) as history:
        return sorted(entry.prompt for entry in history.recent(1_000))


def _break_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(BREAK)


class _Os:
    """``os``, with one function of ours."""

    def __init__(self, **own: Any) -> None:
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


class _Sqlite:
    """``sqlite3``, which opens databases in a way of ours."""

    def __init__(self, connect: Callable[..., Any]) -> None:
        self.connect = connect

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)


def _failing(find: Callable[..., Any], times: list[int]) -> Callable[..., Any]:
    """The calls of these numbers fail; the others do what they should."""
    made = iter(range(1 << 30))

    def call(*arguments: Any, **options: Any) -> Any:
        if next(made) in times:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return find(*arguments, **options)

    return call


@contextmanager
def _no_file_may_grow() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# -- setting a damaged database aside ----------------------------------------------------------


def test_a_damaged_database_stays_in_its_place_when_there_is_no_room_for_a_new_one(
    path: Path,
) -> None:
    _fill(path, "one", "two")
    before = path.read_bytes()
    database = HistoryDatabase(str(path))
    with _no_file_may_grow(), pytest.raises(PersistenceError) as caught:
        database.rebuild()
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert _recall(path) == ["one", "two"]
    assert os.listdir(path.parent) == ["history.db"]


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_every_prompt_is_still_there_when_one_step_of_setting_aside_fails(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The database, its journal and its index of it are moved; then the new one comes in."""
    with HistoryStorage(path) as history:
        history.add("one")
        history.flush(10)
        history.recent()  # from here on there is a journal, and it stays
        history.add("two")
        history.flush(10)
        database = HistoryDatabase(str(path))
        with monkeypatch.context() as patched:
            patched.setattr(damage, "os", _Os(replace=_failing(os.replace, [number])))
            with pytest.raises(PersistenceError):
                database.rebuild()
    assert _recall(path) == ["one", "two"]
    assert not list(path.parent.glob(".history.db*"))


def test_prompts_that_are_only_in_the_journal_are_kept_when_the_tables_are_made_anew(
    path: Path,
) -> None:
    with HistoryStorage(path) as history, HistoryStorage(path) as other:
        history.add("one")
        assert history.flush(10)
        assert other.recent()
        _break_tables(path)
        history.add("two")
        assert history.flush(10)
    assert _recall(path) == ["one", "two"]


def test_the_prompts_next_to_the_damage_and_behind_it_are_kept(path: Path) -> None:
    prompts = [f"prompt {number:03} " + "x" * 300 for number in range(100)]
    _fill(path, *prompts)
    raw = bytearray(path.read_bytes())
    place = raw.index(prompts[50].encode()) // 4096 * 4096
    lost = {each for each in prompts if place <= raw.index(each.encode()) < place + 4096}
    raw[place : place + 64] = b"\xff" * 64
    path.write_bytes(raw)
    assert 0 < len(lost) < 20
    assert _recall(path) == sorted({*prompts} - lost)


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_what_lay_beside_a_damaged_database_goes_aside_with_it(path: Path, suffix: str) -> None:
    _fill(path, "old")
    Path(f"{path}{suffix}").write_bytes(b"half of a change")
    HistoryDatabase(str(path)).rebuild()
    kept = [each.read_bytes() for each in path.parent.glob(f"history.db.corrupt-*{suffix}")]
    assert kept == [b"half of a change"]
    assert _recall(path) == ["old"]


def test_a_database_set_aside_earlier_is_never_written_over(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "gmtime", lambda: (2026, 1, 1, 0, 0, 0, 3, 1, 0))
    path.parent.mkdir()
    for content in (JUNK, JUNK[:-25]):
        path.write_bytes(content)
        assert _recall(path) == []
    monkeypatch.setattr(os, "lstat", _failing(os.lstat, list(range(99))))
    path.write_bytes(JUNK[:-50])
    with contextlib.suppress(PersistenceError):
        _recall(path)
    monkeypatch.undo()
    found = {each.stat().st_size for each in path.parent.glob("history.db*")}
    assert found >= {len(JUNK), len(JUNK) - 25, len(JUNK) - 50}


def test_a_prompt_committed_to_a_file_just_set_aside_is_not_taken_for_written(path: Path) -> None:
    _fill(path, "old")
    database, other = HistoryDatabase(str(path)), HistoryDatabase(str(path))
    commit = database.insert([HistoryEntry(None, "new", 1, None)])
    other.rebuild()
    with pytest.raises(PersistenceError, match="replaced"):
        commit()
    database.insert([HistoryEntry(None, "new", 1, None)])()
    for each in (database, other):
        each.close()
    assert set(_recall(path)) == {"old", "new"}


# -- one clear error, and then it works again ---------------------------------------------------


def test_a_lock_that_another_process_keeps_is_an_error_and_not_the_end_of_writing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (damage, file):
        if hasattr(module, "lock"):
            monkeypatch.setattr(module, "lock", functools.partial(locks.lock, timeout_s=0.02))
    path.parent.mkdir()
    path.write_bytes(JUNK)
    holder = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with HistoryStorage(path) as history:
        with pytest.raises(PersistenceError, match="another process"):
            history.recent()
        history.add("patient")
        assert not history.flush(0.1)
        os.close(holder)
        assert history.flush(10)
    assert _recall(path) == ["patient"]


class _Refusing(sqlite3.Connection):
    refusals = 0

    def commit(self) -> None:
        self._refuse()
        super().commit()

    def rollback(self) -> None:
        self._refuse()
        super().rollback()

    def _refuse(self) -> None:
        if _Refusing.refusals:
            _Refusing.refusals -= 1
            raise sqlite3.OperationalError("disk I/O error")


def test_a_transaction_that_can_be_neither_kept_nor_dropped_blocks_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*arguments: Any, **options: Any) -> Any:
        return sqlite3.connect(*arguments, **(options | {"factory": _Refusing}))

    monkeypatch.setattr(sqlite, "sqlite3", _Sqlite(connect))
    with HistoryStorage(path) as history:
        history.add("one")
        assert history.flush(10)
        _Refusing.refusals = 2
        history.add("two")
        assert history.flush(5)
        assert history.error is None
    assert _Refusing.refusals == 0
    assert _recall(path) == ["one", "two"]


def test_a_file_that_could_once_only_be_opened_to_read_is_written_to_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite says nothing when it may open a file to read, but not to write."""
    _fill(path, "one")
    modes = ["?mode=ro"] * 2

    def connect(address: str, **options: Any) -> Any:
        bare = address.partition("?")[0]
        return sqlite3.connect(bare + modes.pop() if modes else address, **options)

    monkeypatch.setattr(sqlite, "sqlite3", _Sqlite(connect))
    with HistoryStorage(path) as history:
        history.add("two")
        assert history.flush(5)
    assert _recall(path) == ["one", "two"]


def test_no_error_ends_the_writing_for_good(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    insert = HistoryDatabase.insert
    errors = [MemoryError("no memory"), ValueError("never seen")]

    def fail_first(self: HistoryDatabase, entries: Any) -> Any:
        if errors:
            raise errors.pop()
        return insert(self, entries)

    monkeypatch.setattr(HistoryDatabase, "insert", fail_first)
    with HistoryStorage(path) as history:
        history.add("stubborn")
        assert history.flush(5)
    assert _recall(path) == ["stubborn"]


def test_a_prompt_is_kept_although_closing_meets_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = _failing(sqlite3.connect, [0])
    with monkeypatch.context() as patched:
        patched.setattr(sqlite, "sqlite3", _Sqlite(connect))
        history = HistoryStorage(path)
        # closing begins before the writing does
        with history._writer._changed:
            history.add("just before the end")
            history._writer._stopping = True
        history.close()
    assert _recall(path) == ["just before the end"]


def test_adding_does_not_fail_and_closing_writes_where_no_thread_can_be_started(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        history = HistoryStorage(path)
        history.add("alone")
        assert [entry.prompt for entry in history.recent()] == ["alone"]
        assert not history.flush(0.05)
        assert "thread" in str(history.error)
        history.close()
    assert _recall(path) == ["alone"]


def test_flushing_after_a_close_that_failed_tries_again(path: Path) -> None:
    path.mkdir(parents=True)
    history = HistoryStorage(path)
    history.add("patient")
    history.close()
    path.rmdir()
    assert history.flush(5)
    history.close()
    assert _recall(path) == ["patient"]


def test_an_error_while_opening_keeps_no_file_open(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(path, "one")
    history = HistoryStorage(path)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(1, 4):
        with monkeypatch.context() as patched:
            patched.setattr(file, "os", _Os(stat=_failing(os.stat, [number])))
            with contextlib.suppress(PersistenceError):
                history.recent()
            history.close()
        assert len(os.listdir("/proc/self/fd")) == before


# -- recall where nothing can be written ---------------------------------------------------------


def test_prompts_are_recalled_on_a_full_disk_and_new_ones_seen_when_there_is_room(
    path: Path,
) -> None:
    _fill(path, "one")
    history = HistoryStorage(path)
    with _no_file_may_grow():
        assert [entry.prompt for entry in history.recent()] == ["one"]
        assert [entry.prompt for entry in history.search("on")] == ["one"]
    _fill(path, "two")
    assert {entry.prompt for entry in history.recent()} == {"one", "two"}
    history.close()


def test_reading_makes_no_file_although_it_was_there_a_moment_ago(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(path, "one")

    def connect(*arguments: Any, **options: Any) -> Any:
        path.unlink(missing_ok=True)
        return sqlite3.connect(*arguments, **options)

    monkeypatch.setattr(sqlite, "sqlite3", _Sqlite(connect))
    with HistoryStorage(path) as history:
        assert history.recent() == []
    assert os.listdir(path.parent) == []
