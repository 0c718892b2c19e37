"""A cache that another process holds costs a moment, not the answer."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.samples import assistant, chain, header, user, write

from sessiontree import SessionManager, search
from sessiontree.discovery import catalogue
from sessiontree.discovery.search import index, is_index_held, update_search_index
from sessiontree.profiles import get_profile
from sessiontree.storage import sqlite as caches
from sessiontree.storage.sqlite import Schema, discard, open_database

# What a loaded machine may take for the work itself; a wait was 5 s, several times over.
_SLACK_S = 1.5


@contextmanager
def _held(schema: Schema, how: str) -> Iterator[None]:
    holder = sqlite3.connect(schema.path, isolation_level=None)
    if how == "exclusive":
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN IMMEDIATE")
    holder.execute("CREATE TABLE mine (x)")
    try:
        yield
    finally:
        holder.execute("ROLLBACK")
        holder.close()


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Path:
    for number in range(3):
        _say(tmp_path, number)
    return tmp_path


def _say(project: Path, number: int) -> None:
    folder = Path(get_profile().sessions_dir) / f"--{str(project)[1:].replace('/', '-')}--"
    head = header(id=f"abcdef012345678{number}", cwd=str(project))
    name = f"2026-02-16T10-20-30-000Z_abcdef012345678{number}.jsonl"
    write(folder / name, head, *chain(user(f"needle {number}"), assistant("found")))


@pytest.mark.parametrize("how", ["exclusive", "immediate"])
@pytest.mark.parametrize(
    "ask",
    [
        SessionManager.list,
        lambda _: SessionManager.list_all(),
        lambda _: search("needle"),
        lambda project: search("needle", cwd=project),
    ],
)
def test_answers_come_without_a_cache_that_somebody_holds(
    project: Path, how: str, ask: Callable[[Path], list[object]]
) -> None:
    assert len(ask(project)) == 3
    _say(project, 4)
    catalogue.forget_process_memory()
    with _held(catalogue.SCHEMA, how), _held(index.SCHEMA, how):
        began = time.monotonic()
        assert len(ask(project)) == 4
        assert time.monotonic() - began < _SLACK_S
        _say(project, 5)
        assert len(ask(project)) == 5  # now nothing is waited for
    caches._busy_until.clear()
    assert len(ask(project)) == 5


def test_indexing_after_an_answer_does_not_wait_again_for_who_holds_the_index(
    project: Path,
) -> None:
    search("needle")
    _say(project, 4)
    with _held(index.SCHEMA, "immediate"):
        deadline = time.monotonic() + 5
        while not is_index_held():  # files that were just written are not indexed yet
            assert search("needle").is_indexing
            assert time.monotonic() < deadline
        began = time.monotonic()
        progress = update_search_index()
        assert time.monotonic() - began < _SLACK_S
    assert not progress.is_complete
    caches._busy_until.clear()
    assert update_search_index().is_complete


def test_who_is_patient_waits(project: Path) -> None:
    SessionManager.list(project)
    with _held(catalogue.SCHEMA, "immediate"):
        with open_database(catalogue.SCHEMA) as hasty:
            assert hasty is not None
            with pytest.raises(sqlite3.OperationalError):
                hasty.execute("BEGIN IMMEDIATE")
        assert caches._busy_until
        with open_database(catalogue.SCHEMA, is_patient=True) as patient:
            assert patient is not None
            (timeout_ms,) = patient.execute("PRAGMA busy_timeout").fetchone()
        assert timeout_ms == 5_000


def test_a_cache_that_somebody_holds_is_not_thrown_away(project: Path) -> None:
    SessionManager.list(project)
    with _held(catalogue.SCHEMA, "exclusive"):
        discard(catalogue.SCHEMA)
    assert Path(catalogue.SCHEMA.path).exists()
