"""Open files by their numbers, none of which an interrupt can lose.

Ctrl-C is noticed between two steps of Python code. A number that one step gets from the system and
the next one keeps may be dropped in between, and then nobody can close it; a method that closes it
may be interrupted before it has begun, and in a finaliser Python drops the interrupt as well. So a
number goes from the system into its place, and back, within single calls of compiled code.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import BinaryIO

_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)


class Handle:
    """An open file, which is closed with this object if nobody has closed it before."""

    __slots__ = ("_once", "close", "number")

    close: Callable[[], None]
    """Let go of the file. May be repeated: it is done once, as the number may be reused."""

    def __init__(self, path: str, flags: int, mode: int = 0o600) -> None:
        numbers: list[int] = []
        self._once = iter(numbers)
        self.close = partial(next, map(os.close, self._once), None)
        numbers.extend(map(os.open, (path,), (flags | _CLOEXEC | _BINARY,), (mode,)))
        self.number = numbers[0]

    __del__ = property(attrgetter("close"))

    def to_file(self) -> BinaryIO:
        """Hand the descriptor over to a file object, which is to be read and closed instead."""
        return io.BufferedReader(next(map(io.FileIO, self._once)))
