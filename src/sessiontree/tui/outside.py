"""Lend the terminal to another program, such as an editor or another agent, and take it back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from textual.app import App

from sessiontree.tui.text_editor import ignoring_interrupts

_T = TypeVar("_T")


async def run_outside(app: App[Any], work: Callable[[], _T]) -> _T:
    """Run ``work`` in a thread while the terminal is not ours; the session goes on meanwhile.

    Raises what ``work`` raises, and SuspendNotSupported where the terminal can't be left.
    """
    with app.suspend(), ignoring_interrupts():
        # Nothing may be raised in here: Textual would not take the terminal back.
        (outcome,) = await asyncio.gather(asyncio.to_thread(work), return_exceptions=True)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
