"""A life of sessions in which one call after the other is lost on the way, or its answer is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.postgres.proxy import Proxy, proxied
from tests.samples import assistant, user

from sessiontree import SessionManager
from sessiontree.stores.postgres import log as log_module
from sessiontree.stores.postgres.store import PostgresStore

CWD = "/work/calls"
LARGE = "large " * 100_000
KINDS = ("call", "answer")


def live(store: PostgresStore) -> None:
    """Do everything once that asks the server for something."""
    session = SessionManager.create(CWD, id="first", storage=store)
    asked = session.append_message(user("question"))
    session.append_message(assistant("answer"))
    session.append_message(user(LARGE))
    session.append_many([{"type": "message", "message": user(text)} for text in ("one", "two")])
    with SessionManager.open("first", storage=store) as other:
        other.append_message(user("from another window"))
    session.append_message(assistant("third"))
    session.append_label_change(asked, "mark")
    session.set_session_name("A name")
    session.branch(asked)
    session.append_message(user("another way"))
    entry = session.get_entry(asked)
    assert entry is not None
    entry.data["message"]["content"] = "edited"
    session.rewrite_entries()
    session.set_record("key", {"n": 1})
    session.append_many(
        [{"type": "message", "message": user("compared")}], expected_revision=session.revision
    )
    session.refresh()
    session.persist_leaf()
    session.close()
    with SessionManager.fork_from("first", "/work/fork", storage=store) as fork:
        fork.append_message(user("in the fork"))
    with SessionManager.open("first", storage=store) as branched:
        branched.create_branched_session(asked)
        branched.append_message(user("only this branch"))
        branched.append_message(assistant("yes"))
    with SessionManager.create(CWD, id="draft", storage=store) as draft:
        draft.append_message(user("never answered"))
    with SessionManager.create(CWD, id="gone", storage=store) as gone:
        gone.append_message(user("to be removed"))
        gone.append_message(assistant("yes"))
    with SessionManager.open("first", storage=store) as moved:
        moved.move_to("/work/elsewhere")
    store.delete("first")
    store.restore("first")
    store.delete("gone", permanently=True)
    store.delete("draft")


def compete(store: PostgresStore) -> None:
    """Do once what is settled: with nobody else writing."""
    with SessionManager.create(CWD, id="first", storage=store) as session:
        asked = session.append_message(user("question"))
        session.append_message(assistant("answer"))
        with SessionManager.open("first", storage=store) as other:
            other.append_message(user("another window"))
        session.refresh()
        session.append_many(
            [{"type": "message", "message": user("one")}], expected_revision=session.revision
        )
        entry = session.get_entry(asked)
        assert entry is not None
        entry.data["message"]["content"] = "edited"
        session.rewrite_entries()
        session.set_session_name("A name")


def picture(store: PostgresStore) -> list[Any]:
    """All that is kept, without what differs from life to life."""
    made = []
    for info in store.list():
        log = store.read(info.path)
        places = {entry.id: at for at, entry in enumerate(log.tree.entries)}
        said = [
            (entry.type, places.get(entry.parent_id or ""), _content(entry.data))
            for entry in log.tree.entries
        ]
        columns = store.database.run(
            "SELECT messages, head, answered, status, title, cwd, first_message, (SELECT count(*) "
            "FROM st_entry e WHERE e.sid = s.sid) FROM st_session s WHERE id = %s AND tenant = "
            "(SELECT st_tenant())",
            (info.id,),
        )
        made.append((said, columns))
    trash = [(each.session_id, each.title) for each in store.list_trash()]
    hits = [hit.session.title for hit in store.search("another", limit=None)]
    return [sorted(made, key=repr), trash, sorted(map(str, hits))]


def _content(data: Any) -> object:
    message = data.get("message")
    return message.get("content") if isinstance(message, dict) else sorted(data)


@pytest.fixture
def way(url: str) -> Iterator[tuple[Proxy, str]]:
    with proxied(url) as found:
        yield found


def lose_each(way: tuple[Proxy, str], live: Callable[[PostgresStore], None], kind: str) -> int:
    """Live as often as there are calls, each time without another; how many there were."""
    proxy, through = way
    plain = PostgresStore(f"{through}-plain")
    live(plain)
    expected = picture(plain)
    plain.close()
    for number in itertools.count():
        store = PostgresStore(f"{through}-{number}")
        store.list()  # the first connection of a process is not tried again
        proxy.fail_call(number, is_answer_lost=kind == "answer")
        try:
            live(store)
        except Exception as error:
            raise AssertionError(f"call {number}") from error
        calls = proxy.calls
        proxy.fail_call(-1)
        assert picture(store) == expected, f"call {number}"
        store.close()
        if calls <= number:
            return number
    raise AssertionError("unreachable")


@pytest.mark.parametrize("kind", KINDS)
def test_whichever_is_lost_everything_is_there_once(kind: str, way: tuple[Proxy, str]) -> None:
    assert lose_each(way, live, kind) > 50


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_with_the_row_of_the_session_locked(
    kind: str, way: tuple[Proxy, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "_TRIES_UNLOCKED", 0)
    assert lose_each(way, compete, kind) > 15
