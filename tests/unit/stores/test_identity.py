"""Identities that stores share."""

from __future__ import annotations

import os

from sessiontree import SessionManager


def test_after_a_fork_both_processes_draw_ids_of_their_own() -> None:
    with SessionManager.in_memory("/work/forked") as session:
        session.append_custom_entry("x")  # many are drawn at once
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.write(writing, b"".join(_draw(session)))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            theirs = pipe.read()
        os.waitpid(pid, 0)
        assert len(theirs) == 80
        assert not [made for made in _draw(session) if made in theirs]


def _draw(session: SessionManager) -> list[bytes]:
    return [session.append_custom_entry("x").encode() for _ in range(10)]
