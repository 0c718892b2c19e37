"""``Handle``: an open file descriptor that Ctrl-C cannot leak.

**The problem.** Python raises KeyboardInterrupt between two bytecode steps, in any code of the main
thread. In ``self.fd = os.open(path)`` it may come after the call and before the assignment: the
file is open and its number is lost. A ``close`` method may be interrupted before its first step,
and an interrupt that comes in a finalizer is discarded by Python.

**The solution.** The number moves from the system into its place, and out again, within one call of
compiled code, which an interrupt can't divide. A handle is therefore in one of two states, open or
closed, and never in between. Once made, it closes its file when the last reference to it goes.
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
    """An open file, closed with this object at the latest."""

    __slots__ = ("_once", "close", "number")

    close: Callable[[], None]
    """Close the file. May be repeated: it is done once, as the number may be reused."""

    def __init__(self, path: str, flags: int, mode: int = 0o600) -> None:
        numbers: list[int] = []
        self._once = iter(numbers)
        self.close = partial(next, map(os.close, self._once), None)
        numbers.extend(map(os.open, (path,), (flags | _CLOEXEC | _BINARY,), (mode,)))
        self.number = numbers[0]

    __del__ = property(attrgetter("close"))

    def to_file(self) -> BinaryIO:
        """Transfer the descriptor to a file object; use and close that one from then on."""
        return io.BufferedReader(next(map(io.FileIO, self._once)))
