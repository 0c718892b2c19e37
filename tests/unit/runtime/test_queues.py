"""Queues hand out messages in order, one at a time or all."""

from __future__ import annotations

from typing import Any

from sessiontree.runtime.queues import MessageQueue


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_one_message_at_a_time_first_come_first_served() -> None:
    queue = MessageQueue()
    queue.put(message("a"))
    queue.put(message("b"))
    assert queue.take() == [message("a")]
    assert queue.take() == [message("b")]
    assert queue.take() == []


def test_all_at_once_if_so_wished() -> None:
    queue = MessageQueue("all")
    queue.put(message("a"))
    queue.put(message("b"))
    assert queue.take() == [message("a"), message("b")]
    assert len(queue) == 0


def test_clearing_gives_back_what_waited() -> None:
    queue = MessageQueue()
    queue.put(message("a"))
    queue.put(message("b"))
    assert queue.clear() == [message("a"), message("b")]
    assert list(queue) == []


def test_a_snapshot_brings_back_exactly_what_waited() -> None:
    queue = MessageQueue()
    queue.put(message("a"))
    before = queue.snapshot()
    queue.take()
    queue.put(message("other"))
    queue.restore(before)
    assert list(queue) == [message("a")]
