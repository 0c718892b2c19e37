"""Modes: a named way of working that a session remembers (plan first, plan paused, …).

Owns which modes a program knows, and entering and leaving them. Doesn't know how a mode is saved
or what it means to an agent: a program registers what is to happen.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from sessiontree.logs import get_logger
from sessiontree.runtime.hooks import describe_callable

logger = get_logger(__name__)

NO_MODE = "none"

EnterMode: TypeAlias = Callable[[Any], Awaitable[None] | None]
"""Called with the mode's data when it begins, also when it is restored. Raising refuses it."""

LeaveMode: TypeAlias = Callable[[], Awaitable[None] | None]
"""Called when the mode ends. Raising is logged; a mode can't refuse to be left."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One mode a program knows."""

    name: str
    title: str = ""
    enter: EnterMode | None = None
    leave: LeaveMode | None = None


@dataclass(frozen=True, slots=True)
class ModeState:
    """The mode a session is in. ``available`` is false if this program doesn't know it: the file
    keeps it, nothing was entered, and a front end shows it as unavailable."""

    name: str = NO_MODE
    data: Any = None
    available: bool = True


class ModeRegistry:
    """The modes a program knows; ``none``, ``plan`` and ``plan_paused`` from the start."""

    def __init__(self, modes: Iterable[Mode] = ()) -> None:
        self._modes: dict[str, Mode] = {}
        for mode in (Mode(NO_MODE), Mode("plan", "Plan"), Mode("plan_paused", "Plan (paused)")):
            self.register(mode)
        for mode in modes:
            self.register(mode)

    def register(self, mode: Mode) -> None:
        """Add a mode, or replace a known one."""
        self._modes[mode.name] = mode

    def __contains__(self, name: object) -> bool:
        return name in self._modes

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._modes)

    def get(self, name: str) -> Mode:
        """The mode of this name. Raises KeyError, which names those that there are."""
        if name not in self._modes:
            raise KeyError(f'No mode "{name}"; there are {", ".join(self._modes)}')
        return self._modes[name]


def _is_same(before: object, data: object) -> bool:
    try:
        return bool(before == data)
    except RecursionError:  # nested deeper than Python compares
        return False


class CurrentMode:
    """The mode that is in force, and the way to another one."""

    def __init__(self, registry: ModeRegistry) -> None:
        self.registry = registry
        self.state = ModeState()

    async def change(self, name: str, data: Any = None) -> ModeState:
        """Leave the present mode and enter another; what its ``enter`` raises, with the present one
        entered again.

        The same mode with the same data is left alone; with other data it is entered again.
        """
        before = self.state
        if before.name == name and _is_same(before.data, data):
            return before
        await self._leave(before)
        try:
            self.state = await self._enter(name, data)
        except BaseException:
            await self.restore(before)
            raise
        return self.state

    async def restore(self, state: ModeState) -> None:
        """Return to ``state``, even if its ``enter`` raises."""
        try:
            await self._enter(state.name, state.data)
        except Exception:
            logger.exception("mode %s could not be entered again", state.name)
        self.state = state

    async def undo(self, state: ModeState) -> None:
        """Go back to ``state`` after a change to another one; nothing if that never happened."""
        if self.state is not state:
            await self._leave(self.state)
            await self.restore(state)

    async def _enter(self, name: str, data: Any) -> ModeState:
        if name not in self.registry:
            return ModeState(name, data, available=False)
        enter = self.registry.get(name).enter
        if enter is not None:
            answer = enter(data)
            if inspect.isawaitable(answer):
                await answer
        return ModeState(name, data)

    async def _leave(self, state: ModeState) -> None:
        leave = self.registry.get(state.name).leave if state.available else None
        if leave is None:
            return
        try:
            answer = leave()
            if inspect.isawaitable(answer):
                await answer
        except Exception:
            logger.exception("leaving mode %s: %s failed", state.name, describe_callable(leave))
