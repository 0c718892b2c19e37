"""Read the answer to a question in a line: Enter gives it, Esc takes it back.

A terminal's own line editing knows no Esc: it would show ``^[`` and wait on.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys

from sessiontree.cli import output

ESC = b"\x1b"
_ERASING = (b"\x7f", b"\x08")
# Ctrl+D; one that came while the terminal still edited lines arrives as a NUL.
_ENDS = (b"\x04", b"\0")
_SEQUENCE_S = 0.05
"""Seconds in which the rest of a key's sequence follows its Esc."""


def read_answer(question: str) -> str:
    """Ask and return the line that the person types; empty after Esc, Ctrl+D, or the input's end.

    The question is shown once keys come one by one: an answer may follow at once. Raises
    KeyboardInterrupt, OSError, UnicodeDecodeError.
    """
    try:
        import termios
    except ImportError:  # no Unix
        return _read_plain(question)
    try:
        fd = sys.stdin.fileno()
        before = termios.tcgetattr(fd)
    except (OSError, ValueError, termios.error):
        return _read_plain(question)
    mode = termios.tcgetattr(fd)
    mode[3] &= ~(termios.ICANON | termios.ECHO)
    mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
    try:
        termios.tcsetattr(fd, termios.TCSADRAIN, mode)
        output.write_prompt(question)
        return _read_keys(fd)
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSADRAIN, before)
        output.write_prompt("\n")


def _read_plain(question: str) -> str:
    output.write_prompt(question)
    line = sys.stdin.readline()
    if not line:
        output.write_prompt("\n")
    return line


def _read_keys(fd: int) -> str:
    answer = ""
    while True:
        key = os.read(fd, 1)
        if key in (b"", b"\r", b"\n") or (key in _ENDS and not answer):
            return answer
        if key == ESC:
            if not _swallow_sequence(fd):
                return ""
        elif key in _ERASING:
            if answer:
                answer = answer[:-1]
                output.write_prompt("\b \b")
        elif key.isascii() and key.decode().isprintable():
            answer += key.decode()
            output.write_prompt(key.decode())


def _swallow_sequence(fd: int) -> bool:
    """Read what follows an Esc; tell if it was a key's sequence, such as an arrow's."""
    if not select.select([fd], [], [], _SEQUENCE_S)[0]:
        return False
    kind = os.read(fd, 1)
    if kind in (b"[", b"O"):
        while select.select([fd], [], [], _SEQUENCE_S)[0] and not b"@" <= os.read(fd, 1) <= b"~":
            pass
    return True
