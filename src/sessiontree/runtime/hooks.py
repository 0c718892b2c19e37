"""Hooks and listeners: the program's own functions, called around what a session does.

A *hook* handles one named event and may answer; a *listener* hears every event and may not.
This module decides who is called, in which order, and that a failing function harms only itself.
It knows payload values, not sessions.

The rules for hooks:

- Handlers of an event run one after the other, by ``order`` (lower first), then in the order
  of their registration; a coroutine function is awaited before the next one is called.
- A ``session_before_…`` handler may answer. ``Cancel()`` stops the operation: the first one wins,
  and later handlers are not asked. ``ProvidedSummary(…)`` hands in a summary where one is about to
  be made (``session_before_compact``, ``session_before_tree``): again the first one wins, but a
  later handler may still cancel. Answers to other events have no effect.
- A handler that raises is logged by name and counts as having no answer. So does one that lets
  out the cancellation of something it awaited; the caller's own cancellation is passed on.
- Payloads are frozen values.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sessiontree.logs import get_logger
from sessiontree.runtime import events
from sessiontree.runtime.events import HookPayload

logger = get_logger(__name__)

EVENT_NAMES: Mapping[type, str] = {
    events.SessionStart: "session_start",
    events.SessionBeforeSwitch: "session_before_switch",
    events.SessionSwitch: "session_switch",
    events.SessionBeforeBranch: "session_before_branch",
    events.SessionBranch: "session_branch",
    events.SessionBeforeTree: "session_before_tree",
    events.SessionTree: "session_tree",
    events.SessionBeforeCompact: "session_before_compact",
    events.SessionCompact: "session_compact",
    events.SessionShutdown: "session_shutdown",
}
"""The event that each payload belongs to."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """A before-handler's no."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ProvidedSummary:
    """A before-handler's own summary, used instead of one by the model."""

    summary: str
    details: Any = None
    first_kept_entry_id: str | None = None
    """For a compaction: where the kept part begins, if not where it was planned."""


HookAnswer: TypeAlias = Cancel | ProvidedSummary | None

HookHandler: TypeAlias = Callable[[Any], HookAnswer | Awaitable[HookAnswer]]
"""Takes the event's payload; answers only before-events. May be a coroutine function."""


class Hooks:
    """The handlers of one session (or of several: a `Hooks` may be shared)."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[tuple[int, int, HookHandler]]] = {}
        self._count = 0

    def on(self, event: str, handler: HookHandler, *, order: int = 0) -> Unsubscribe:
        """Call ``handler`` on ``event`` from now on; return a function that ends that.

        Raises ValueError if there is no such event.
        """
        if event not in EVENT_NAMES.values():
            known = ", ".join(sorted(EVENT_NAMES.values()))
            raise ValueError(f'No event "{event}"; there are {known}')
        self._count += 1
        place = (order, self._count, handler)
        handlers = self._handlers.setdefault(event, [])
        handlers.append(place)
        handlers.sort(key=lambda item: item[:2])

        def unsubscribe() -> None:
            if place in handlers:
                handlers.remove(place)

        return unsubscribe

    async def emit(self, payload: HookPayload) -> None:
        """Tell every handler of the payload's event."""
        for handler in self._handlers_of(payload):
            await self._call(handler, payload)

    async def ask(self, payload: HookPayload) -> HookAnswer:
        """Ask every handler; return the first cancel, else the first summary, else None."""
        provided: ProvidedSummary | None = None
        for handler in self._handlers_of(payload):
            answer = await self._call(handler, payload)
            if isinstance(answer, Cancel):
                return answer
            if isinstance(answer, ProvidedSummary) and provided is None:
                provided = answer
        return provided

    def _handlers_of(self, payload: HookPayload) -> list[HookHandler]:
        return [handler for _, _, handler in self._handlers.get(EVENT_NAMES[type(payload)], ())]

    async def _call(self, handler: HookHandler, payload: HookPayload) -> HookAnswer:
        try:
            answer = handler(payload)
            if inspect.isawaitable(answer):
                answer = await answer
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                raise
            logger.exception(
                "handler %s of %s failed", describe_callable(handler), EVENT_NAMES[type(payload)]
            )
            return None
        return answer


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


Unsubscribe: TypeAlias = Callable[[], None]
"""Ends a subscription; calling it again does nothing."""


class Listeners:
    """The listeners, in order of subscription.

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
        """Add a listener at the end; return a function that removes it."""
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
    """Describe a function so that a person can find it."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module else str(name)
