"""Run one operation at a time; raise an error where waiting would never end.

Owns the lock around operations on a live session. A handler or listener that starts an operation
from inside another one would wait for itself; it gets an error instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from sessiontree.errors import SessionTreeError


class OperationInProgressError(SessionTreeError):
    """This was asked from inside another operation, which would have waited for itself."""

    def __init__(self, wanted: str, running: str) -> None:
        super().__init__(
            f"{wanted} can't be awaited from inside {running}; start it in a separate task"
        )


class Delivery:
    """The tasks in which the agent informs listeners."""

    def __init__(self) -> None:
        self._depth: dict[asyncio.Task[object], int] = {}

    @contextmanager
    def mark(self) -> Iterator[None]:
        """While this lasts, the present task is telling listeners."""
        task = asyncio.current_task()
        if task is None:
            yield
            return
        self._depth[task] = self._depth.get(task, 0) + 1
        try:
            yield
        finally:
            self._depth[task] -= 1
            if not self._depth[task]:
                del self._depth[task]

    @property
    def is_here(self) -> bool:
        """Whether the present task is telling listeners."""
        return asyncio.current_task() in self._depth


class Gate:
    """A lock that knows who holds it."""

    def __init__(self, delivery: Delivery) -> None:
        self._lock = asyncio.Lock()
        self._delivery = delivery
        self._holder: asyncio.Task[object] | None = None
        self._operation = ""

    @asynccontextmanager
    async def hold(self, operation: str, *, waits_for_agent: bool = False) -> AsyncIterator[None]:
        """Run alone. Raises OperationInProgressError if waiting would never end.

        ``waits_for_agent``: the operation waits for the agent's run to end, which a listener called
        by that run must not do.
        """
        self.check(operation, waits_for_agent=waits_for_agent)
        async with self._lock:
            self._holder, self._operation = asyncio.current_task(), operation
            try:
                yield
            finally:
                self._holder, self._operation = None, ""

    def check(self, operation: str, *, waits_for_agent: bool = False) -> None:
        """Raise OperationInProgressError if this task would wait for itself."""
        task = asyncio.current_task()
        if task is not None and task is self._holder:
            raise OperationInProgressError(operation, self._operation)
        if self._delivery.is_here and (waits_for_agent or self._lock.locked()):
            raise OperationInProgressError(operation, "a listener")
