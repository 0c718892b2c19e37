"""Figures counted entry by entry are those that a listing reads from a file."""

from __future__ import annotations

from functools import partial

import pytest

from sessiontree import FileStore, SessionManager
from sessiontree.discovery.listing import SessionInfo
from sessiontree.discovery.search import SearchResults
from sessiontree.model.entries import Entry
from sessiontree.samples import create_samples
from sessiontree.stores.figures import Figures, said_text
from sessiontree.stores.matching import search_sessions

CWD = "/work/figures"


@pytest.fixture
def store() -> FileStore:
    """A store with the samples, and a session for each way to end."""
    store = FileStore()
    create_samples(CWD, store)
    for stop in ("stop", "error", "aborted", "toolUse", "length", None):
        with SessionManager.create(CWD, storage=store) as session:
            session.append_message({"role": "user", "content": f"end with {stop}"})
            answer = {"role": "assistant", "content": [{"type": "toolCall", "id": "1"}]}
            session.append_message(answer | ({"stopReason": stop} if stop else {}))
            session.append_message({"role": "custom", "customType": "x", "content": "no matter"})
    with SessionManager.create(CWD, storage=store) as session:
        first = session.append_message({"role": "user", "content": "left behind"})
        session.append_message({"role": "assistant", "content": [], "timestamp": 1_600_000_000_000})
        session.branch(first)
        session.set_session_name("Named")
    return store


def count(store: FileStore, listed: SessionInfo) -> SessionInfo:
    log = store.read(listed.path)
    text = said_text(log.tree.entries)
    found = Figures.of(log.tree).to_info(log.ref, log.header, log.dialect, lambda: text)
    assert found.all_messages_text == listed.all_messages_text
    found.size = listed.size  # a file has its header, too
    return found


def test_they_are_those_of_a_file(store: FileStore) -> None:
    listed = store.list(CWD)
    assert len(listed) == 10
    assert {info.status for info in listed} == {"complete", "interrupted", "error", "aborted"}
    for info in listed:
        assert count(store, info) == info


@pytest.mark.parametrize(
    "query", ["end", '"with error"', "end -error", "re:to*", "named", "beh*", "nothing like it"]
)
@pytest.mark.parametrize("role", [None, "user", "assistant", "tool"])
def test_matching_finds_what_the_search_of_files_finds(
    store: FileStore, query: str, role: str | None
) -> None:
    def read(info: SessionInfo) -> list[Entry]:
        return store.read(info.path).tree.entries

    expected = store.search(query, cwd=CWD, role=role, limit=None)
    find = partial(search_sessions, query, store.list(CWD), read, agent="sessiontree")
    found = find(role=role, limit=None)
    assert found.total == expected.total

    def picture(hits: SearchResults) -> dict[str, object]:
        return {
            hit.path: (hit.entry_id, hit.role, hit.snippet, hit.marks, hit.time, hit.profile)
            for hit in hits
        }

    assert picture(found) == picture(expected)
    if expected:
        assert [hit.path for hit in find(role=role, limit=1)] == [found[0].path]
