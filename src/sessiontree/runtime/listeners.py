"""Who listens, and how an event reaches them.

Owns order and isolation: one listener after the other, each awaited, none able to harm the next.
Knows nothing of what the events are.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

logger = logging.getLogger(__name__)

Unsubscribe: TypeAlias = Callable[[], None]
"""Ends a subscription; calling it again does nothing."""


class Listeners:
    """Who listens, in order of subscription.

    An agent owns one and has its ``subscribe`` method call this one. `emit` hands an event to one
    listener after the other and awaits each, so that a slow one (a disk) slows the agent down
    instead of losing its place. A listener that raises is logged by name and passed over; the next
    ones still hear the event. A listener that is removed while an event is under way no longer
    hears it.
    """

    def __init__(self) -> None:
        self._listeners: dict[int, Callable[[Any], Awaitable[None] | None]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._listeners)

    def subscribe(self, listener: Callable[[Any], Awaitable[None] | None]) -> Unsubscribe:
        """Add a listener at the end; gives what removes it."""
        key = self._next
        self._next += 1
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    async def emit(self, event: object) -> None:
        """Tell every listener, one after the other."""
        for key in tuple(self._listeners):
            listener = self._listeners.get(key)
            if listener is None:
                continue
            try:
                answer = listener(event)
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                logger.exception(
                    "listener %s failed on %s", describe_callable(listener), type(event).__name__
                )


def describe_callable(function: object) -> str:
    """A name by which a person finds the function again."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module else str(name)
