"""Open files by their numbers, none of which an interrupt can lose.

Ctrl-C is noticed between two steps of Python code. A number that one step gets from the system and
the next one keeps may be dropped in between, and then nobody can close it. Here one step does both.
"""

from __future__ import annotations

import os
from typing import BinaryIO

_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)


class Handle:
    """A file opened for this object, which closes it at its end if nobody has before."""

    __slots__ = ("_numbers",)

    def __init__(self, path: str, flags: int, mode: int = 0o600) -> None:
        self._numbers: list[int] = []
        # inside one call, from the system into the list
        self._numbers.extend(map(os.open, (path,), (flags | _CLOEXEC | _BINARY,), (mode,)))

    @property
    def number(self) -> int:
        """The descriptor; -1 once it is closed."""
        return self._numbers[0] if self._numbers else -1

    def close(self) -> None:
        """Let go of the file. May be repeated: its number may be another file's by then."""
        if self._numbers:
            next(map(os.close, map(self._numbers.pop, (0,))))

    def to_file(self) -> BinaryIO:
        """Hand the descriptor over to a file object, which is to be read and closed instead."""
        return next(map(open, map(self._numbers.pop, (0,)), ("rb",)))

    def __del__(self) -> None:
        if hasattr(self, "_numbers"):  # not if it was interrupted at its very beginning
            self.close()
