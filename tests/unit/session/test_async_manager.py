"""The asynchronous session: the same names, in order, and nothing torn by a cancellation."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.samples import assistant, user

from sessiontree import AsyncSessionManager, MemoryStore, SessionManager
from sessiontree.session.worker import SessionClosedError

NOT_AWAITED = {"news"}
"""``follow`` is what there is for it."""


async def test_everything_of_a_session_is_there_under_its_name() -> None:
    members = inspect.getmembers(SessionManager)
    names = {name for name, _ in members if not name.startswith("_")}
    assert {name for name in names if not hasattr(AsyncSessionManager, name)} <= NOT_AWAITED
    async with await AsyncSessionManager.create("/work", storage=MemoryStore()) as session:
        await session.append_message(user("hello"))
        await session.set_session_name("A name")
        for name, value in members:
            if isinstance(value, property):
                assert getattr(session, name) == getattr(session.manager, name), name


async def test_calls_run_in_the_order_they_were_made() -> None:
    async with await AsyncSessionManager.create("/work", storage=MemoryStore()) as session:
        made = await asyncio.gather(*(session.append_message(user(str(n))) for n in range(50)))
        entries = await session.get_entries()
        assert [entry.id for entry in entries] == made
        assert session.leaf_id == made[-1]


async def test_a_cancelled_append_is_whole_and_the_next_one_follows_it() -> None:
    store = MemoryStore()
    session = await AsyncSessionManager.create("/work", storage=store)
    await session.append_message(assistant("first"))
    for n in range(30):
        task = asyncio.ensure_future(session.append_message(user(str(n))))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    ref = session.manager.ref
    kept = await session.get_branch()
    await session.close()
    again = SessionManager.open(ref, storage=store)
    assert [entry.id for entry in again.get_branch()] == [entry.id for entry in kept]
    assert again.warnings == []


async def test_a_follower_waits_while_the_session_is_used() -> None:
    store = MemoryStore()
    session = await AsyncSessionManager.create("/work", storage=store)
    await session.append_message(assistant("first"))
    theirs = SessionManager.open(session.manager.ref, storage=store)
    heard: list[str] = []

    async def listen() -> None:
        async for entry in session.follow(timeout_s=20):
            heard.append(entry.data["message"]["content"])
            if len(heard) == 2:
                return

    listening = asyncio.ensure_future(listen())
    await asyncio.sleep(0)
    await session.append_message(user("mine"))
    theirs.append_message(user("theirs"))
    theirs.append_message(user("theirs, too"))
    await asyncio.wait_for(listening, 20)
    assert heard == ["theirs", "theirs, too"]
    await session.close()


async def test_followers_hold_no_thread_of_the_event_loop() -> None:
    class Busy(ThreadPoolExecutor):
        def submit(self, *_: object, **__: object) -> Any:
            raise AssertionError("a follower waits on the event loop's threads")

    asyncio.get_running_loop().set_default_executor(Busy())
    store = MemoryStore()
    async with await AsyncSessionManager.create("/work", storage=store) as session:
        await session.append_message(assistant("first"))
        theirs = [SessionManager.open(session.ref, storage=store) for _ in range(3)]
        followers = [(await AsyncSessionManager.open(session.ref, storage=store)) for _ in theirs]
        heard = [each.follow(timeout_s=10) for each in followers]
        first = [asyncio.ensure_future(anext(each)) for each in heard]
        await asyncio.sleep(0.01)
        new = theirs[0].append_message(user("news"))
        assert [entry.id for entry in await asyncio.gather(*first)] == [new] * 3
        for each, follower in zip(heard, followers, strict=True):
            await each.aclose()
            await follower.close()


async def test_a_closed_session_says_so(tmp_path: Path) -> None:
    session = await AsyncSessionManager.create("/work", tmp_path)
    await session.close()
    with pytest.raises(SessionClosedError):
        await session.append_message(user("late"))


def test_the_package_does_not_load_asyncio_for_it() -> None:
    told = "import sys, sessiontree; sessiontree.SessionManager; print('asyncio' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


async def test_sessions_are_listed_off_the_event_loop() -> None:
    store = MemoryStore()
    async with await AsyncSessionManager.create("/work", storage=store, scope="anna") as session:
        await session.append_message(assistant("hello"))
        (found,) = await AsyncSessionManager.list(None, scope="anna", storage=store)
        (same,) = await AsyncSessionManager.list_all(storage=store)
        assert found.id == same.id == session.session_id
        assert (found.path, session.scope, session.cwd) == (session.ref, "anna", "/work")
        assert session.store is store
        assert session.address == f"{store.url}#{session.ref}"


async def test_a_session_that_is_abandoned_or_discarded_takes_no_more_calls() -> None:
    store = MemoryStore()
    session = await AsyncSessionManager.create("/work", storage=store)
    await session.append_message(assistant("hello"))
    first = session.ref
    await session.fork()
    await session.discard()
    other = await AsyncSessionManager.open(first, storage=store)
    await other.abandon()
    for each in (session, other):
        with pytest.raises(SessionClosedError):
            await each.append_message(user("late"))
    assert [info.path for info in store.list()] == [first]
