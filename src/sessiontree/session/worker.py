"""A thread for each session, and the one place where async code crosses over to it.

Everything that touches a `SessionManager` runs there, one call after the other: the manager is
synchronous and not made for several threads, and the event loop must never wait for a disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

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
        loop = asyncio.get_running_loop()
        call = loop.run_in_executor(self._executor, partial(function, *args, **kwargs))
        return await run_to_end(call)

    def run_later(self, function: Callable[[], object], purpose: str) -> None:
        """Run the function after all that was asked before; a failure is logged."""

        def report(done: Future[object]) -> None:
            error = done.exception()
            if error is not None:
                logger.error("%s failed: %s", purpose, error)

        self._executor.submit(function).add_done_callback(report)

    def close(self) -> None:
        """End the thread once its last call is over."""
        self._is_closed = True
        self._executor.shutdown(wait=False)


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
