"""Open sessions by a framework's ids: which id they get, how many stay open, what errors do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiontree import MemoryStore, SessionManager, SessionNotFoundError
from sessiontree.adapters.sessions import OpenSessions, append, session_id_of
from sessiontree.stores.identity import require_id


def say(text: str) -> dict[str, object]:
    return {"type": "message", "message": {"role": "user", "content": text, "timestamp": 1}}


def texts(manager: SessionManager) -> list[str]:
    return [entry.data["message"]["content"] for entry in manager.get_branch()]


@pytest.mark.parametrize("key", ["chat-42", "a.b_c", "0" * 128])
def test_an_id_that_can_be_one_is_kept(key: str) -> None:
    assert session_id_of(key) == key


@given(st.text(), st.text())
def test_any_text_has_an_id_of_its_own(one: str, two: str) -> None:
    assert require_id(session_id_of(one))
    assert (session_id_of(one) == session_id_of(two)) == (one == two)


@given(st.text())
def test_nobody_can_choose_the_id_that_another_text_was_given(key: str) -> None:
    made = session_id_of(key)
    assert made == key or session_id_of(made) != made


async def test_a_session_is_made_once_and_continued() -> None:
    sessions = OpenSessions("test", storage=MemoryStore(), cwd="/work")
    await sessions.run("a/b", lambda manager: append(manager, lambda: [say("one")]))
    sessions.use("a/b", lambda manager: append(manager, lambda: [say("two")]))
    assert sessions.use("a/b", texts) == ["one", "two"]
    header = sessions.use("a/b", lambda manager: dict(manager.header))
    assert (header["harness"], header["key"], header["cwd"]) == ("test", "a/b", "/work")
    await sessions.aclose()
    assert sessions.use("a/b", texts) == ["one", "two"]


def test_a_missing_session_is_not_made_for_those_who_only_read() -> None:
    sessions = OpenSessions("test", storage=MemoryStore())
    with pytest.raises(SessionNotFoundError):
        sessions.use("x", texts, create=False)
    assert sessions.store.locate("x") is None


def test_only_so_many_stay_open(tmp_path: Path) -> None:
    sessions = OpenSessions("test", storage=f"file:{tmp_path}", keep_open=2)
    opened: list[SessionManager] = []
    for number in range(5):
        sessions.use(f"s{number}", opened.append)
        sessions.use(f"s{number}", lambda manager: append(manager, lambda: [say("x")]))
    assert len(sessions._slots) == 2
    assert sessions.use("s4", lambda manager: manager) is opened[4]
    assert sessions.use("s0", texts) == ["x"]
    sessions.close()


async def test_calls_run_in_the_order_in_which_they_were_made() -> None:
    sessions = OpenSessions("test", storage=MemoryStore())
    calls = [
        sessions.run("s", lambda manager, n=n: append(manager, lambda: [say(str(n))]))  # type: ignore[misc]
        for n in range(20)
    ]
    await asyncio.gather(*calls)
    assert sessions.use("s", texts) == [str(n) for n in range(20)]


def test_a_deleted_session_is_not_brought_back(tmp_path: Path) -> None:
    sessions = OpenSessions("test", storage=f"file:{tmp_path}")
    sessions.use("s", lambda manager: append(manager, lambda: [say("old")]))
    with SessionManager.open(sessions.use("s", lambda manager: manager.ref)) as other:
        other.delete(permanently=True)
    sessions.use("s", lambda manager: append(manager, lambda: [say("new")]))
    assert sessions.use("s", texts) == ["new"]
    sessions.close()
