"""Hooks: ordered, sync or async, isolated from each other."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import Any

import pytest

from sessiontree.runtime.events import SessionBeforeSwitch, SessionStart, SessionSwitch
from sessiontree.runtime.hooks import EVENT_NAMES, Cancel, Hooks, ProvidedSummary

ASKED = SessionBeforeSwitch("resume", "/x.jsonl")


async def test_handlers_are_called_in_order_sync_or_async() -> None:
    hooks = Hooks()
    heard: list[Any] = []

    def second(payload: Any) -> None:
        heard.append("second")

    async def third(payload: Any) -> None:
        heard.append("third")

    hooks.on("session_start", second)
    hooks.on("session_start", third)
    hooks.on("session_start", lambda payload: heard.append("first"), order=-1)
    await hooks.emit(SessionStart("id", None))
    assert heard == ["first", "second", "third"]


async def test_the_first_cancel_wins_and_later_handlers_are_not_asked() -> None:
    hooks = Hooks()
    heard: list[Any] = []
    hooks.on("session_before_switch", lambda payload: None)
    hooks.on("session_before_switch", lambda payload: Cancel("first"))
    hooks.on("session_before_switch", lambda payload: heard.append("late"))
    assert await hooks.ask(ASKED) == Cancel("first")
    assert heard == []


async def test_the_first_summary_wins_but_a_later_handler_may_still_cancel() -> None:
    hooks = Hooks()
    hooks.on("session_before_switch", lambda payload: ProvidedSummary("one"))
    remove = hooks.on("session_before_switch", lambda payload: ProvidedSummary("two"))
    assert await hooks.ask(ASKED) == ProvidedSummary("one")
    hooks.on("session_before_switch", lambda payload: Cancel())
    assert await hooks.ask(ASKED) == Cancel()
    remove()


async def test_a_failing_handler_is_named_in_the_log_and_costs_only_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hooks = Hooks()
    heard: list[Any] = []

    async def clumsy(payload: Any) -> None:
        raise RuntimeError("oh no")

    hooks.on("session_before_switch", clumsy)
    hooks.on("session_before_switch", heard.append)
    with caplog.at_level(logging.ERROR):
        assert await hooks.ask(ASKED) is None
    assert heard == [ASKED]
    assert "clumsy" in caplog.text
    assert "session_before_switch" in caplog.text
    assert "oh no" in caplog.text


async def test_a_handler_that_fails_by_a_cancellation_of_its_own_costs_only_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hooks = Hooks()
    heard: list[Any] = []

    async def clumsy(payload: Any) -> None:
        work = asyncio.create_task(asyncio.sleep(60))
        work.cancel()
        await work

    hooks.on("session_before_switch", clumsy)
    hooks.on("session_before_switch", heard.append)
    with caplog.at_level(logging.ERROR):
        assert await hooks.ask(ASKED) is None
    assert heard == [ASKED]
    assert "clumsy" in caplog.text


async def test_who_cancels_the_caller_is_not_held_up_by_a_handler() -> None:
    hooks = Hooks()
    heard: list[Any] = []
    is_waiting = asyncio.Event()

    async def slow(payload: Any) -> None:
        is_waiting.set()
        await asyncio.sleep(60)

    hooks.on("session_before_switch", slow)
    hooks.on("session_before_switch", heard.append)
    caller = asyncio.create_task(hooks.ask(ASKED))
    await is_waiting.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert heard == []


async def test_a_removed_handler_is_not_called_again() -> None:
    hooks = Hooks()
    heard: list[Any] = []
    remove = hooks.on("session_switch", heard.append)
    remove()
    remove()
    await hooks.emit(SessionSwitch("resume"))
    assert heard == []


async def test_a_handler_hears_only_its_own_event() -> None:
    hooks = Hooks()
    heard: list[Any] = []
    hooks.on("session_switch", heard.append)
    await hooks.emit(SessionStart("id", None))
    assert heard == []


def test_an_event_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="session_start"):
        Hooks().on("session_started", lambda payload: None)


def test_every_event_of_the_contract_has_a_payload_that_is_frozen() -> None:
    assert set(EVENT_NAMES.values()) == {
        "session_start",
        "session_before_switch",
        "session_switch",
        "session_before_branch",
        "session_branch",
        "session_before_tree",
        "session_tree",
        "session_before_compact",
        "session_compact",
        "session_shutdown",
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        ASKED.target = "/y.jsonl"  # type: ignore[misc]
