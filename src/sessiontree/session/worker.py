"""A thread for each session: the one place where async code calls synchronous code.

Everything that touches a `SessionManager` runs there, one call after the other: the manager is
synchronous and not made for several threads, and the event loop must never wait for a disk.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import Context
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar, cast
from weakref import finalize

from sessiontree.errors import SessionTreeError
from sessiontree.logs import get_logger

logger = get_logger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

_Calls = SimpleQueue[Callable[[], object] | None]
"""Calls to run, in order; None ends the thread."""


class SessionClosedError(SessionTreeError):
    """The live session was closed; make another one."""

    def __init__(self) -> None:
        super().__init__("The session is closed")


class DiskThread:
    """Runs synchronous calls in order, off the event loop.

    The thread begins with the first call. It ends after ``close``, when the last reference to this
    object is gone, or with the program, which first waits for all calls that were made. An executor
    does the same in nearly twice the time, and the way there and back takes longer than most calls.
    """

    def __init__(self) -> None:
        self._calls: _Calls = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function on the session's thread; its result or error.

        A call that has begun is never abandoned: if the awaiting task is cancelled, the
        cancellation takes effect when the call is over. So code that undoes things after a
        cancellation finds the disk at rest.
        """
        call = _Call(partial(function, *args, **kwargs), asyncio.get_running_loop())
        self._put(call)
        try:
            await call
        except asyncio.CancelledError:
            call.note_error()
            raise
        return call.outcome()

    def run_later(self, function: Callable[[], object], purpose: str) -> None:
        """Run the function after all earlier calls; a failure is logged."""

        def work() -> None:
            try:
                function()
            except BaseException as error:
                logger.error("%s failed: %s", purpose, error)

        self._put(work)

    def close(self) -> None:
        """End the thread once its last call is over."""
        with self._lock:
            self._is_closed = True
            self._calls.put(None)

    def _put(self, call: Callable[[], object]) -> None:
        with self._lock:
            if self._is_closed:
                raise SessionClosedError
            if self._thread is None or not self._thread.is_alive():
                self._begin()
            self._calls.put(call)

    def _begin(self) -> None:
        # a daemon, since Python waits for other threads before it calls what ends them
        self._thread = threading.Thread(
            target=_run_all, args=(self._calls,), name="sessiontree-disk", daemon=True
        )
        _running[self._thread] = self._calls
        self._thread.start()
        finalize(self, self._calls.put, None).atexit = False


_running: dict[threading.Thread, _Calls] = {}


def _run_all(calls: _Calls) -> None:
    """Do what is asked, in a thread that keeps neither its owner nor a call that is over."""
    while (call := calls.get()) is not None:
        call()
        del call
    _running.pop(threading.current_thread(), None)


@atexit.register
def _end_all() -> None:
    """Do all that was asked before the program ends."""
    for thread, calls in [*_running.items()]:
        calls.put(None)
        thread.join()


class _Call(Generic[R]):
    """A call in another thread, awaited in this one.

    To a task it is a future (see ``asyncio.isfuture``), with less between its end and the task: the
    other thread has the loop wake the task itself. It cannot be cancelled, so a cancelled task
    gets its cancellation when the call is over.
    """

    __slots__ = (
        "_asyncio_future_blocking",
        "_context",
        "_error",
        "_function",
        "_is_over",
        "_loop",
        "_returned",
        "_wake",
    )

    def __init__(self, function: Callable[[], R], loop: asyncio.AbstractEventLoop) -> None:
        self._asyncio_future_blocking = False
        self._function = function
        self._loop = loop
        self._wake: Callable[[Any], object] | None = None
        self._context: Context | None = None
        self._is_over = False
        self._returned: R | None = None
        self._error: BaseException | None = None

    def __call__(self) -> None:
        """Run in the other thread.

        That thread may keep the call object for a while after it is over, but must not keep its
        arguments: the caller should be the last to hold them.
        """
        function = self._function
        del self._function
        try:
            self._returned = function()
        except BaseException as error:
            self._error = error
        del function
        context = self._context
        with suppress(RuntimeError):  # the loop was closed meanwhile
            if context is not None:
                self._loop.call_soon_threadsafe(self._end, context=context)
            else:  # no task is waiting yet
                self._loop.call_soon_threadsafe(self._end_before_wait)

    def _end(self) -> None:
        """Run in the loop, in the task's context."""
        self._is_over = True
        if self._wake is not None:
            self._wake(self)

    def _end_before_wait(self) -> None:
        """Run in the loop: somebody may wait by now."""
        if self._context is not None:
            self._loop.call_soon(self._end, context=self._context)
        else:
            self._is_over = True

    def outcome(self) -> R:
        """What the call returned or raised; once, and after its end."""
        error, self._error = self._error, None
        if error is None:
            return cast("R", self._returned)
        try:
            raise error
        finally:
            del error  # its traceback has this frame

    def note_error(self) -> None:
        """Log the error of a call whose task was cancelled."""
        if self._error is not None:
            logger.debug("work of a cancelled task failed: %r", self._error)
            self._error = None

    # -- what a task asks of a future --------------------------------------------------------

    def __await__(self) -> Generator[Any, None, None]:
        if not self._is_over:
            self._asyncio_future_blocking = True
            yield self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop whose tasks may wait for this."""
        return self._loop

    def add_done_callback(self, wake: Callable[[Any], object], *, context: Context) -> None:
        """Have this called when the call is over."""
        self._wake, self._context = wake, context  # the other thread looks at the second

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - a task passes it
        """Do nothing: the task is cancelled when the call is over."""
        return False

    def result(self) -> None:
        """Nothing: ``outcome`` is for who has waited."""


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
