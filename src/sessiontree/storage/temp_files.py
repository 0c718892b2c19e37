"""Make temporary files, and sweep those of dead processes.

A file's name contains its writer's process id, but the id alone does not prove that the writer is
dead: containers that share a folder have separate ids. So the writer also keeps the file locked
(``claim``). A sweep removes a file only if no process here has that id and no process holds the
lock. A sweep may come between creating and locking the file; ``claim`` detects that, and the writer
creates the file again. Without file locks nothing is swept.
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
    """Make a new hidden name beside a file, in the form that ``sweep_temp_files`` knows."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{os.getpid()}-{os.urandom(4).hex()}{TEMP_SUFFIX}")


def make_temp_file(temp: str) -> Handle:
    """Create a file with this name for writing; no process sweeps it while it is open."""
    while True:
        handle = Handle(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        if claim(handle, temp):
            return handle
        handle.close()


def claim(handle: Handle, path: str) -> bool:
    """Protect a file or folder just made from sweeps; False if one has already removed it."""
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
            if owner.isdecimal():
                with contextlib.suppress(OSError):
                    remove_if_abandoned(item.path, int(owner), os.unlink)


def remove_if_abandoned(path: str, owner: int, remove: Callable[[str], object]) -> bool:
    """Remove what a process left behind; False, and it stays, if that process may be alive."""
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
    """Whether the process that made this is dead. FileNotFoundError if the file is gone."""
    try:
        return remove_if_abandoned(path, owner, lambda _: None)
    except FileNotFoundError:
        raise
    except OSError:
        return False


def is_process_alive(pid: int) -> bool:
    """Whether a process with this id runs here; True if that can't be determined."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
