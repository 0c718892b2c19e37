"""What adapters know of sessions: each entry is learned once, each unchanged session read once."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import cast

import pytest

from sessiontree import SessionManager
from sessiontree.adapters.learned import LearnedSession, LearnedSessions, ListedSessions
from sessiontree.model.entries import Entry
from sessiontree.stores import open_store
from sessiontree.stores.base import SessionLog, SessionStore


class Types(LearnedSession):
    """Learns the types of the entries."""

    def _forget(self) -> None:
        self.seen: list[str] = []

    def _learn(self, entry: Entry) -> None:
        self.seen.append(entry.type)


class Ids(LearnedSession):
    """Learns the ids of the entries."""

    def _forget(self) -> None:
        self.seen: list[str] = []

    def _learn(self, entry: Entry) -> None:
        self.seen.append(entry.id)


class Held:
    """Stands for a manager whose file was replaced by any other."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids

    def get_entries(self) -> list[Entry]:
        wires = ({"type": "label", "id": each, "parentId": None} for each in self.ids)
        return [Entry.from_wire(each) for each in wires]


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return open_store(f"file:{tmp_path}")


def session(store: SessionStore, project: str = "/srv/app") -> SessionManager:
    manager = SessionManager.create(project, storage=store)
    manager.append_message({"role": "user", "content": "hi", "timestamp": 1})
    manager.append_message({"role": "assistant", "content": [], "timestamp": 2})
    manager.flush()
    return manager


def test_each_entry_is_learned_once(store: SessionStore) -> None:
    manager = session(store)
    known = LearnedSessions(Types)
    assert known.caught_up(manager).seen == ["message", "message"]
    manager.append_custom_entry("mark", {})
    assert known.caught_up(manager).seen == ["message", "message", "custom"]
    assert known.of(manager) is known.of(manager)


@pytest.mark.parametrize("others", [["x"], ["x", "y"], ["x", "b"], ["x", "y", "z"], []])
def test_other_entries_than_those_that_were_learned_are_learned_anew(others: list[str]) -> None:
    held = Held(["a", "b"])
    learned = Ids(cast("SessionManager", held))
    learned.catch_up()
    assert learned.seen == ["a", "b"]
    held.ids = others
    learned.catch_up()
    # Only the last entry is compared: entries never change below an unchanged one.
    assert learned.seen == (["a", "b"] if others == ["x", "b"] else others)


def test_an_unchanged_session_is_read_once_and_what_cannot_be_read_is_logged(
    store: SessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    read: list[str] = []

    def count(log: SessionLog) -> int | None:
        read.append(log.ref)
        return len(log.tree.entries)

    first, second = session(store), session(store)
    listed = ListedSessions(store, count)
    assert listed.of_scope(None) == [2, 2]
    assert listed.of_scope(None) == [2, 2]
    assert sorted(read) == sorted([first.ref, second.ref])
    first.append_custom_entry("mark", {})
    first.flush()
    assert sorted(listed.of_scope(None)) == [2, 3]
    assert read[2:] == [first.ref]
    first.close()
    second.close()
    store.delete(first.ref, permanently=True)
    assert listed.of_scope(None) == [2]
    with caplog.at_level(logging.WARNING, "sessiontree"):
        assert ListedSessions(store, _refuse).of_scope(None) == []
    assert "left out of the list" in caplog.text


def _refuse(log: SessionLog) -> None:
    from sessiontree.errors import PersistenceError

    raise PersistenceError(log.ref, "cannot be read")


def test_a_session_that_is_not_wanted_is_not_read_again_either(store: SessionStore) -> None:
    session(store)
    read: list[str] = []

    def pass_over(log: SessionLog) -> str | None:
        read.append(log.ref)
        return None

    listed = ListedSessions(store, pass_over)
    assert listed.of_scope(None) == []
    assert listed.of_scope(None) == []
    assert len(read) == 1
