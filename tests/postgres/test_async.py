"""``AsyncSessionManager`` on a database: many sessions in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

from tests.samples import assistant, user

from sessiontree import AsyncSessionManager, SessionManager
from sessiontree.stores.postgres.store import PostgresStore

CWD = "/work/async"


async def test_sessions_of_one_loop_write_at_once_and_lose_nothing(store: PostgresStore) -> None:
    async def talk(number: int) -> tuple[str, list[str]]:
        async with await AsyncSessionManager.create(CWD, storage=store) as session:
            made = [await session.append_message(user(f"{number} {at}")) for at in range(10)]
            made.append(await session.append_message(assistant("done")))
            return session.ref, made

    for ref, made in await asyncio.gather(*(talk(number) for number in range(40))):
        assert [entry.id for entry in store.read(ref).tree.entries] == made
    assert len(await AsyncSessionManager.list(CWD, storage=store)) == 40


async def test_several_of_them_on_one_session_merge(store: PostgresStore) -> None:
    first = await AsyncSessionManager.create(CWD, storage=store)
    await first.append_message(user("question"))
    await first.append_message(assistant("answer"))
    others = [await AsyncSessionManager.open(first.ref, storage=store) for _ in range(5)]
    made = await asyncio.gather(
        *(each.append_message(user(str(at))) for at in range(8) for each in (first, *others))
    )
    await first.refresh()
    ids = [entry.id for entry in await first.get_entries()]
    assert sorted(ids[2:]) == sorted(made)
    for each in (first, *others):
        await each.close()


async def test_a_cancelled_append_is_whole(store: PostgresStore) -> None:
    session = await AsyncSessionManager.create(CWD, storage=store)
    await session.append_message(assistant("first"))
    for number in range(20):
        task = asyncio.ensure_future(session.append_message(user(str(number))))
        await asyncio.sleep(0.001 * (number % 4))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):  # or it was quicker
            await task
    kept = [entry.id for entry in await session.get_entries()]
    await session.close()
    assert [entry.id for entry in store.read(session.ref).tree.entries] == kept


async def test_a_follower_hears_of_another_process(store: PostgresStore) -> None:
    session = await AsyncSessionManager.create(CWD, storage=store)
    await session.append_message(assistant("first"))
    heard: list[str] = []

    async def listen() -> None:
        async for entry in session.follow(timeout_s=30):
            heard.append(entry.data["message"]["content"])
            if len(heard) == 3:
                return

    listening = asyncio.ensure_future(listen())
    other = SessionManager.open(session.ref, storage=PostgresStore(store.database.address))
    numbers = itertools.count()
    while not listening.done():
        await asyncio.to_thread(other.append_message, user(str(next(numbers))))
        await asyncio.sleep(0.02)
    await listening
    first = int(heard[0])
    assert heard == [str(first), str(first + 1), str(first + 2)]
    await session.close()
    other.close()
