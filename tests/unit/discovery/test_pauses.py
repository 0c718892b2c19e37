"""Upkeep waits for a pause between questions, and never for long."""

from __future__ import annotations

import threading
import time

import pytest

from sessiontree.discovery import pauses
from sessiontree.discovery.pauses import Pauses


def waiting(made: Pauses, pause_s: float) -> threading.Thread:
    thread = threading.Thread(target=made.wait, args=(pause_s,))
    thread.start()
    return thread


def test_it_begins_when_nobody_has_asked_for_a_while() -> None:
    made = Pauses()
    thread = waiting(made, 0.3)
    for _ in range(12):
        made.note_question()
        time.sleep(0.05)
    assert thread.is_alive()
    thread.join(5)
    assert not thread.is_alive()


def test_questions_without_a_pause_do_not_keep_it_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pauses, "PATIENCE_S", 0.3)
    made = Pauses()
    thread = waiting(made, 60)
    deadline = time.monotonic() + 20
    while thread.is_alive():
        made.note_question()
        time.sleep(0.01)
        assert time.monotonic() < deadline


def test_who_cannot_wait_ends_it() -> None:
    made = Pauses()
    made.hurry()
    waiting(made, 60).join(1)
    thread = waiting(made, 60)
    time.sleep(0.05)
    assert thread.is_alive()
    made.hurry()
    thread.join(5)
    assert not thread.is_alive()
