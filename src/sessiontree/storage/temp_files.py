"""Temporary files: each is locked by its writer, so that those of the dead can be swept.

A name bears the id of the process that made it, and ids alone say little: containers that share a
folder each have ids of their own, and a living writer in one is nobody in another. So whoever
writes a temporary file keeps it locked (``claim``), and a sweep removes one only if its process is
not here and nobody holds the lock. A sweep can come between the making of a file and its lock;
``claim`` notices that, and the writer makes it again. Where there are no locks, nothing is swept.

What is written to a temporary file, and when it takes the place of another, is not known here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from sessiontree.errors import SessionBusyError
from sessiontree.storage import locks, regular
from sessiontree.storage.handles import Handle

TEMP_SUFFIX = ".tmp"


def make_temp_path(path: str) -> str:
    """A new hidden name beside a file, in the form that ``sweep_temp_files`` knows."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{os.getpid()}-{os.urandom(4).hex()}{TEMP_SUFFIX}")


def make_temp_file(temp: str) -> Handle:
    """Make a file of this name and open it for writing; nobody sweeps it while it is open."""
    while True:
        handle = Handle(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        if claim(handle, temp):
            return handle
        handle.close()


def claim(handle: Handle, path: str) -> bool:
    """Keep sweeps away from a file or folder just made; False if one has removed it already."""
    locks.lock(handle.number, path)
    try:
        return os.path.samestat(os.stat(path), os.stat(handle.number))
    except FileNotFoundError:
        return False


def sweep_temp_files(folder: str, name: str) -> None:
    """Remove the temporary files that dead processes left beside ``name``."""
    prefix = f".{name}."
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        for item in listing:
            if not (item.name.startswith(prefix) and item.name.endswith(TEMP_SUFFIX)):
                continue
            owner, _, _ = item.name[len(prefix) :].partition("-")
            if owner.isdigit():
                with contextlib.suppress(OSError):
                    remove_if_abandoned(item.path, int(owner), os.unlink)


def remove_if_abandoned(path: str, owner: int, remove: Callable[[str], object]) -> bool:
    """Remove what a process has left behind; False, and it stays, if that process may live."""
    if is_process_alive(owner):
        return False
    handle = Handle(path, os.O_RDONLY | regular.NONBLOCK | regular.NOFOLLOW)
    try:
        if not locks.lock(handle.number, path, 0):
            return False
        remove(path)
    except SessionBusyError:
        return False
    finally:
        handle.close()
    return True


def is_abandoned(path: str, owner: int) -> bool:
    """Whether whoever made this is gone. FileNotFoundError if somebody has removed it."""
    try:
        return remove_if_abandoned(path, owner, lambda _: None)
    except FileNotFoundError:
        raise
    except OSError:
        return False


def is_process_alive(pid: int) -> bool:
    """Whether a process of this id runs here; True when that cannot be told."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
