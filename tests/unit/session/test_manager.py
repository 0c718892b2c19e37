"""What a session tells of itself."""

from __future__ import annotations

from tests.samples import user

from sessiontree import SessionManager


def test_a_session_is_shown_by_its_id_its_file_and_its_size() -> None:
    session = SessionManager.in_memory("/p")
    session.append_message(user("1"))
    session.append_message(user("2"))
    assert repr(session) == f"<SessionManager '{session.session_id}', 'in memory', 2 entries>"
    kept = SessionManager.create("/p")
    assert repr(kept.session_file) in repr(kept)


def test_an_entry_is_shown_without_what_it_holds() -> None:
    session = SessionManager.in_memory("/p")
    first = session.append_message(user("a secret"))
    entry = session.leaf_entry
    assert entry is not None
    assert repr(entry) == f"Entry('message', '{first}', None, '{entry.timestamp}')"
