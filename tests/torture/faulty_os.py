"""The system's calls, one of which fails: stands in for ``os`` and ``fcntl`` inside the storage.

Finer than ``FaultyStorage``, which fails whole operations of the seam: here the third of seven
system calls of a rewrite can fail, so what the storage itself does half-way is tried too.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from tests.torture.stand_ins import MODULES, replace_os

from sessiontree.storage import locks

SHORT = -1
"""Not an error: half of what was asked is written, and the count says so."""

_READING = (errno.EIO, errno.EACCES)
_WRITING = (errno.ENOSPC, errno.EIO, errno.EROFS)
FAULTS: dict[str, tuple[int, ...]] = {
    "open": (errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EMFILE),
    "write": (*_WRITING, SHORT),
    "pwrite": (*_WRITING, SHORT),
    "copy_file_range": (errno.ENOSPC, errno.EIO),
    "ftruncate": (errno.EIO,),
    "fsync": (errno.EIO, errno.ENOSPC),
    "replace": (*_WRITING, errno.EACCES),
    "unlink": (errno.EACCES, errno.EROFS),
    "mkdir": (errno.EACCES, *_WRITING),
    "chmod": (errno.EROFS,),
    "utime": (errno.EROFS,),
    "pread": _READING,
    "stat": _READING,
    "lstat": _READING,
    "fstat": (errno.EIO,),
    "scandir": _READING,
    "listdir": _READING,
    "flock": (errno.EIO, errno.ENOLCK),
}
"""The calls that can fail, and what each may be told to fail with."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The ``at``-th call from the start fails; with ``lasts``, so does every such one after it."""

    at: int
    call: str
    code: int
    lasts: bool = False

    def __str__(self) -> str:
        name = "short" if self.code == SHORT else errno.errorcode[self.code]
        return f"{name} at call {self.at} ({self.call}){', lasting' if self.lasts else ''}"


class FaultySystem:
    """Counts the calls while it is switched on, and fails where it is told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fault: Fault | None = None
        self.is_on = False

    @contextmanager
    def on(self, fault: Fault | None = None) -> Iterator[None]:
        """Count from here, and let this fault happen."""
        self.calls, self.fault, self.is_on = [], fault, True
        try:
            yield
        finally:
            self.is_on = False

    def code_for(self, call: str) -> int | None:
        """Note a call; what it shall fail with, if it shall."""
        if not self.is_on:
            return None
        self.calls.append(call)
        fault = self.fault
        if fault is None:
            return None
        here = len(self.calls) - 1
        if here == fault.at or (fault.lasts and here > fault.at and call == fault.call):
            return fault.code
        return None

    def install(
        self,
        monkeypatch: pytest.MonkeyPatch,
        modules: tuple[ModuleType, ...] = MODULES,
        more: Collection[str] = (),
    ) -> None:
        """Stand in for ``os`` in these modules; ``more`` calls than those of FAULTS may fail."""
        replace_os(monkeypatch, _Module(self, os, more), modules)
        monkeypatch.setattr(locks, "fcntl", _Module(self, fcntl))


class _Module:
    """A module whose calls may fail; all else passes through."""

    def __init__(self, system: FaultySystem, real: Any, more: Collection[str] = ()) -> None:
        self._system = system
        self._real = real
        self._names = {*FAULTS, *more}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name not in self._names:
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            code = self._system.code_for(name)
            if code is None:
                return found(*arguments, **options)
            if name == "access":
                return False
            if name == "close":
                found(*arguments)  # the descriptor is gone, whatever is said of it
            if code != SHORT:
                raise OSError(code, os.strerror(code))
            target, data, *rest = arguments
            return found(target, bytes(data)[: (len(data) + 1) // 2], *rest, **options)

        return call
