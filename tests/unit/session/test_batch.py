"""Entries that come in one call get ids that nobody has."""

from __future__ import annotations

import os

import pytest
from tests.samples import user

from sessiontree import EntryNotFoundError, MemorySessionStorage, SessionManager


def test_numbers_that_are_drawn_twice_or_taken_are_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = {"type": "message", "message": user("x")}
    with SessionManager.create("/app", storage=MemorySessionStorage()) as session:
        draw, unlucky = os.urandom, 2

        def zeros_at_first(count: int) -> bytes:
            nonlocal unlucky
            unlucky -= 1
            return b"\0" * count if unlucky >= 0 else draw(count)

        monkeypatch.setattr(os, "urandom", zeros_at_first)
        made = session.append_many([one] * 3)
        assert "0" * 8 in made
        unlucky = 2
        made += session.append_many([{**one, "id": "chosen"}, *[one] * 3])
        unlucky = 1
        made += session.append_many([{**one, "id": "0" * 7 + "1"}, one])
        assert len(set(made)) == len(made)
        assert [entry.id for entry in session.get_branch()] == made


def test_an_id_that_was_just_drawn_can_still_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"type": "message", "message": user("x")}
    with SessionManager.create("/app", storage=MemorySessionStorage()) as session:
        draw = os.urandom
        monkeypatch.setattr(os, "urandom", lambda count: bytes(range(count)))
        drawn = bytes(range(12)).hex()
        chosen = [drawn[:8], drawn[8:16], drawn[16:]]
        with pytest.raises(EntryNotFoundError):  # drawn is not yet there
            session.append_many([{**one, "parentId": chosen[0]}, one])
        made = session.append_many([{**one, "id": chosen[1]}, one])
        assert made[0] == chosen[1]
        assert made[1] in (chosen[0], chosen[2])
        monkeypatch.setattr(os, "urandom", draw)
        assert session.append_many([one])[0] not in made
