"""A thread for each session: the one place where async code calls synchronous code.

Everything that touches a `SessionManager` runs there, one call after the other: the manager is
synchronous and not made for several threads, and the event loop must never wait for a disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, cast

from sessiontree.errors import SessionTreeError
from sessiontree.logs import get_logger

logger = get_logger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


class SessionClosedError(SessionTreeError):
    """The live session was closed; make another one."""

    def __init__(self) -> None:
        super().__init__("The session is closed")


class DiskThread:
    """Runs synchronous calls in order, off the event loop."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sessiontree-disk")
        self._is_closed = False

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function on the session's thread; its result or error.

        A call that has begun is never abandoned: if the awaiting task is cancelled, the
        cancellation takes effect when the call is over. So code that undoes things after a
        cancellation finds the disk at rest.
        """
        if self._is_closed:
            raise SessionClosedError
        call = _Call(partial(function, *args, **kwargs))
        self._executor.submit(call)
        return await call.result()

    def run_later(self, function: Callable[[], object], purpose: str) -> None:
        """Run the function after all earlier calls; a failure is logged."""

        def report(done: Future[object]) -> None:
            error = done.exception()
            if error is not None:
                logger.error("%s failed: %s", purpose, error)

        self._executor.submit(function).add_done_callback(report)

    def close(self) -> None:
        """End the thread once its last call is over."""
        self._is_closed = True
        self._executor.shutdown(wait=False)


class _Call(Generic[R]):
    """A call in another thread, awaited in this one.

    It does what ``run_to_end(loop.run_in_executor(…))`` does in a third less time, and the way to
    the disk and back takes longer than most calls.
    """

    __slots__ = ("_error", "_function", "_is_over", "_loop", "_returned", "_waiter")

    def __init__(self, function: Callable[[], R]) -> None:
        self._function: Callable[[], R] | None = function
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._is_over = False
        self._returned: R | None = None
        self._error: BaseException | None = None

    def __call__(self) -> None:
        """Run in the other thread.

        That thread may keep the call object for a while after it is over, but must not keep its
        arguments: the caller should be the last to hold them.
        """
        function, self._function = self._function, None
        if function is None:
            return
        try:
            self._returned = function()
        except BaseException as error:
            self._error = error
        del function
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._is_over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def result(self) -> R:
        """What the call returned; a cancellation is raised when it is over."""
        is_cancelled = False
        while not self._is_over:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            except asyncio.CancelledError:
                is_cancelled = True
        error, self._error = self._error, None
        try:
            if is_cancelled:
                if error is not None:
                    logger.debug("work of a cancelled task failed: %r", error)
                raise asyncio.CancelledError
            if error is not None:
                raise error
            return cast("R", self._returned)
        finally:
            del error  # its traceback has this frame


async def run_to_end(work: asyncio.Future[R]) -> R:
    """Await work that must not be left half done; a cancellation is raised when it is over."""
    is_cancelled = False
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        _note_error(work)
        raise asyncio.CancelledError
    return work.result()


def _note_error(work: asyncio.Future[Any]) -> None:
    error = None if work.cancelled() else work.exception()
    if error is not None:
        logger.debug("work of a cancelled task failed: %r", error)
