"""Ask on a plain terminal whether a tool or code may run, after showing all that it would do.

Owns paging what is longer than the screen, and keeping keys from answering that were not meant to:
whatever was typed before the question, or while somebody was still typing, is thrown away. Only a
line that says yes is one; without a terminal there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from sessiontree.cli import output
from sessiontree.text import escaping
from sessiontree.text.width import text_width

if TYPE_CHECKING:
    from sessiontree.agents.tools.base import Confirmation

PAUSE_S = 0.7
"""Seconds without typing before a line counts as an answer."""
_LOOK_EVERY_S = 0.1
_TAB_WIDTH = 8

_one_at_a_time = threading.Lock()


async def confirm(question: Confirmation) -> bool:
    """Ask the person, without stopping the loop that the agent's tools run on."""
    called_off = threading.Event()
    try:
        return await asyncio.to_thread(_ask, question, called_off)
    finally:
        # If the turn was aborted, the answer is not needed: the thread releases the terminal.
        called_off.set()


def approve(title: str, text: str, question: str) -> bool:
    """Show all of a text, then ask whether to do what it says."""
    return _approve(title, text, question, threading.Event())


def _ask(question: Confirmation, called_off: threading.Event) -> bool:
    tool = escaping.exact_line(question.tool_name)
    return _approve(question.title, question.preview, f"Allow {tool}?", called_off)


def _approve(title: str, text: str, question: str, called_off: threading.Event) -> bool:
    with _one_at_a_time:
        if called_off.is_set() or not output.can_ask():
            return False
        with _Keyboard(called_off) as keyboard:
            output.write_message((escaping.exact_line(title), "bold"))
            return _show(escaping.exact(text), keyboard) and keyboard.ask(question)


def _show(text: str, keyboard: _Keyboard) -> bool:
    """Show the whole text, page by page; False if the person has seen enough to say no."""
    lines = text.expandtabs(_TAB_WIDTH).split("\n")
    size = _size()
    room = max(2, size.lines - 4)
    used, is_paged = 0, True
    for number, line in enumerate(lines):
        rows = 1 + max(0, text_width(line) + 1) // max(1, size.columns)
        if is_paged and used and used + rows > room:
            used = 0
            match keyboard.page(_word_rest(len(lines) - number)):
                case "no":
                    return False
                case "all":
                    is_paged = False
                case _:
                    pass
        output.write_message((f"  {line}", "dim"))
        used += rows
    return True


def _word_rest(count: int) -> str:
    lines = "1 more line" if count == 1 else f"{count:,} more lines"
    return f"-- {lines}: Enter or Space shows the next page, a all of it, n says no --"


def _size() -> os.terminal_size:
    try:
        return os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):
        return os.terminal_size((80, 24))


class _Keyboard:
    """The terminal's keys, one by one, while a question is asked; as it was, afterwards."""

    def __init__(self, called_off: threading.Event) -> None:
        self._called_off = called_off
        self._fd = sys.stdin.fileno()

    def __enter__(self) -> Self:
        import termios

        self._before = termios.tcgetattr(self._fd)
        return self

    def __exit__(self, *_: object) -> None:
        import termios

        # What was typed meanwhile is thrown away with it.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._fd, termios.TCSAFLUSH, self._before)

    @contextlib.contextmanager
    def _silent(self) -> Iterator[None]:
        """Key by key, and none of them shown."""
        import termios

        mode = termios.tcgetattr(self._fd)
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._fd, termios.TCSAFLUSH, mode)
        try:
            yield
        finally:
            termios.tcsetattr(self._fd, termios.TCSAFLUSH, self._before)

    def page(self, words: str) -> str:
        """Ask for the next page: ``next``, ``all`` or ``no``."""
        output.write_prompt(words)
        try:
            with self._silent():
                while True:
                    match self._read(None):
                        case b"\r" | b"\n" | b" ":
                            return "next"
                        case b"a" | b"A":
                            return "all"
                        case b"n" | b"N" | b"q" | b"\x1b" | b"\x04" | b"":
                            return "no"
                        case _:
                            continue
        finally:
            output.erase_prompt()

    def ask(self, words: str) -> bool:
        """A line that says yes, typed after a pause in which the question could be read."""
        output.write_prompt(words)
        with self._silent():
            while self._read(PAUSE_S):
                pass
        output.write_prompt(" [y/N] ")
        line = b""
        while not line.endswith(b"\n"):
            typed = self._read(None)
            if not typed:
                output.write_message()
                return False
            line += typed
        return line.strip().lower() in (b"y", b"yes")

    def _read(self, patience_s: float | None) -> bytes:
        """Return what was typed; nothing after too long a time, at the end, or if the question was
        cancelled."""
        deadline = None if patience_s is None else time.monotonic() + patience_s
        while not self._called_off.is_set():
            left = _LOOK_EVERY_S if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return b""
            if select.select([self._fd], [], [], min(left, _LOOK_EVERY_S))[0]:
                with contextlib.suppress(OSError):
                    return os.read(self._fd, 4_096)
                return b""
        return b""
