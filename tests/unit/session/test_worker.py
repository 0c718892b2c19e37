"""The thread of a session: calls off the event loop, in order, each to its end."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sessiontree.session.worker import DiskThread, SessionClosedError


async def test_results_and_errors_reach_the_task_that_asked() -> None:
    thread = DiskThread()

    def work(number: int) -> int:
        if number % 3 == 0:
            raise ValueError(number)
        return number

    found = await asyncio.gather(*(thread.run(work, n) for n in range(30)), return_exceptions=True)
    thread.close()
    for number, each in enumerate(found):
        if number % 3:
            assert each == number
        else:
            assert isinstance(each, ValueError)
            assert each.args == (number,)


async def test_a_cancelled_task_ends_with_its_call_and_others_go_on() -> None:
    thread, may_end, begun = DiskThread(), threading.Event(), threading.Event()
    ended = []

    def work() -> None:
        begun.set()
        may_end.wait(10)
        ended.append(True)

    task = asyncio.ensure_future(thread.run(work))
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.01)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]
    assert await thread.run(lambda: 7) == 7
    thread.close()


async def test_a_timeout_counts_for_a_call_that_is_too_slow() -> None:
    thread, may_end = DiskThread(), threading.Event()
    asyncio.get_running_loop().call_later(0.1, may_end.set)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await thread.run(may_end.wait, 10)
    assert may_end.is_set()
    thread.close()


async def test_a_task_goes_on_in_its_own_context() -> None:
    thread, name = DiskThread(), contextvars.ContextVar[str]("name")

    async def ask(mine: str) -> list[str]:
        name.set(mine)
        found = []
        for _ in range(50):
            await thread.run(lambda: None)
            found.append(name.get())
        return found

    for mine, found in zip("ab", await asyncio.gather(ask("a"), ask("b")), strict=True):
        assert set(found) == {mine}
    thread.close()


def test_one_thread_serves_one_loop_after_the_other_and_several_at_once() -> None:
    thread = DiskThread()
    made: list[int] = []

    async def talk() -> None:
        for number in range(100):
            await thread.run(made.append, number)

    asyncio.run(talk())
    asyncio.run(talk())
    loops = [threading.Thread(target=asyncio.run, args=(talk(),)) for _ in range(3)]
    for each in loops:
        each.start()
    for each in loops:
        each.join(30)
    assert sorted(made) == sorted([*range(100)] * 5)
    thread.close()


def test_a_loop_that_ends_first_leaves_the_others_alone() -> None:
    thread, may_end = DiskThread(), threading.Event()
    made: list[str] = []

    def work() -> None:
        may_end.wait(10)
        made.append("slow")

    async def leave() -> None:
        task = asyncio.ensure_future(thread.run(work))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, may_end.set)
        task.cancel()

    asyncio.run(leave())

    def ask_and_forget() -> None:  # a loop that is closed while the call is under way
        loop = asyncio.new_event_loop()
        may_end.clear()
        task = loop.create_task(thread.run(work))
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        may_end.set()
        assert not task.done()

    ask_and_forget()
    assert asyncio.run(thread.run(lambda: [*made])) == ["slow", "slow"]
    thread.close()


async def test_what_was_asked_before_the_end_is_done_and_nothing_after_it() -> None:
    thread, may_end = DiskThread(), threading.Event()
    waiting = [asyncio.ensure_future(thread.run(may_end.wait, 10)) for _ in range(3)]
    await asyncio.sleep(0)
    thread.close()
    thread.close()
    with pytest.raises(SessionClosedError):
        await thread.run(lambda: None)
    may_end.set()
    assert await asyncio.gather(*waiting) == [True] * 3


async def test_a_thread_ends_with_the_last_who_holds_it() -> None:
    thread = DiskThread()
    worker = await thread.run(threading.current_thread)
    del thread
    gc.collect()
    worker.join(10)
    assert not worker.is_alive()


def test_the_program_ends_after_what_was_asked(tmp_path: Path) -> None:
    """Also what was asked while it was ending."""
    program = """
import asyncio, atexit, sys, time
from pathlib import Path
late = []
atexit.register(lambda: late[0].close())
from sessiontree.session.worker import DiskThread
thread = DiskThread()
late.append(thread)
def write(name):
    time.sleep(0.2)
    Path(sys.argv[1], name).touch()
async def main():
    asyncio.ensure_future(thread.run(write, "first"))
    thread.run_later(lambda: write("second"), "writing")
    await asyncio.sleep(0)
    sys.exit(3)
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (3, b"")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["first", "second"]
