"""A session that is moved back to where a move has left a link is neither lost nor overwritten."""

from __future__ import annotations

import os
from pathlib import Path

from tests.samples import assistant, user

from sessiontree import SessionManager


def test_a_session_that_is_open_elsewhere_can_be_moved_back(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    other = SessionManager.create(here)
    made = [other.append_message(user("question")), other.append_message(assistant("answer"))]
    first = str(other.session_file)
    session = SessionManager.open(first)
    session.move_to(there)
    second = str(session.session_file)
    if not os.path.lexists(first):
        os.symlink(second, first)  # as is left where a program has it open
    session.move_to(here)
    assert session.session_file == first
    session.close()
    assert not os.path.islink(first)
    assert [entry.id for entry in SessionManager.open(first).get_entries()][:2] == made
