"""File systems of one's own: small ones that fill up, and ones that turn read-only.

Where mounting is not allowed, the same refusals are made up inside the storage.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.torture.stand_ins import replace_os


class SmallDisk:
    """A disk of ``size_kb``, half of it taken by ballast that can be thrown off."""

    def __init__(self, folder: Path, size_kb: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.is_real = _mount("-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", str(folder))
        self._ballast = folder / "ballast"
        if self.is_real:
            self._ballast.write_bytes(bytes(size_kb * 512))
        else:
            self._quota = _Quota(folder, size_kb * 512)
            replace_os(monkeypatch, self._quota)

    def make_room(self) -> None:
        if self.is_real:
            self._ballast.unlink()
        else:
            self._quota.left += 1 << 30

    def remove(self) -> None:
        if self.is_real:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)


class _Quota:
    """``os``, where writes below one folder use up what is left."""

    def __init__(self, folder: Path, left: int) -> None:
        self._folder = str(folder)
        self.left = left

    def __getattr__(self, name: str) -> Any:
        if name == "copy_file_range":
            raise AttributeError(name)
        return getattr(os, name)

    def write(self, fd: int, data: bytes) -> int:
        if not os.readlink(f"/proc/self/fd/{fd}").startswith(self._folder):
            return os.write(fd, data)
        if self.left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = os.write(fd, bytes(data)[: self.left])
        self.left -= written
        return written


@contextmanager
def read_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """The folder refuses every change while this lasts; whether it is really mounted so."""
    is_real = _mount("--bind", str(folder), str(folder))
    if is_real:
        is_real = _mount("-o", "remount,bind,ro", str(folder))
    with monkeypatch.context() as patched:
        if not is_real:
            replace_os(patched, _ReadOnly(folder))
        try:
            yield is_real
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


class _ReadOnly:
    """``os``, where nothing below one folder can be changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        if name not in ("open", "mkdir", "replace", "unlink", "utime", "chmod"):
            return found

        def call(path: str, *arguments: Any) -> Any:
            is_writing = name != "open" or arguments[0] & (os.O_WRONLY | os.O_RDWR)
            if is_writing and os.path.realpath(path).startswith(self._folder):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
            return found(path, *arguments)

        return call


def _mount(*arguments: str) -> bool:
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0
