"""Lock files between processes: ``flock`` on Unix, ``msvcrt`` on Windows.

Locks are advisory and exclusive, and belong to the open file, not to its name: after a rename the
old file is still locked and the new one is not, so a caller that waited must check the name again.
The kernel releases a lock when its process ends in any way, so a lock is never stale. Some network
file systems have no locks: then ``lock`` returns False and the work continues unlocked, protected
by O_APPEND and atomic renames alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator

from sessiontree.errors import SessionBusyError
from sessiontree.storage.handles import Handle

DEFAULT_TIMEOUT_S = 10.0
_NO_LOCKS = frozenset(
    code
    for name in ("ENOLCK", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EINVAL")
    if (code := getattr(errno, name, None)) is not None
)

if sys.platform == "win32":  # pragma: no cover - exercised on Windows only
    import msvcrt

    def _try_lock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

    def unlock(fd: int) -> bool:
        """Release the lock on an open file; see below."""
        try:
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(fd: int) -> bool:
        """Release the lock on an open file; False if the system refuses.

        What was written is written, so this is not an error: the lock goes when the file is closed.
        """
        try:
            fcntl.flock(fd, fcntl.LOCK_UN)
        except OSError:
            return False
        return True


def lock(
    fd: int,
    path: str,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Lock an open file exclusively; False if the file system has no locks.

    Raises SessionBusyError if another process holds it longer than ``timeout_s``, OSError for a
    file that was closed.
    """
    deadline: float | None = None
    pause_s = 0.0005
    while True:
        try:
            _try_lock(fd)
        except (BlockingIOError, PermissionError):
            pass
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return False
            raise
        except ValueError as error:  # -1: the file was closed
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), path) from error
        else:
            return True
        now = clock()
        if deadline is None:
            deadline = now + timeout_s
        elif now >= deadline:
            raise SessionBusyError(path, timeout_s)
        sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.02)


@contextlib.contextmanager
def hold_folder(folder: str) -> Iterator[None]:
    """Be the only process that changes a small file in a folder: read, change, write.

    The folder itself is locked, so nothing is left in it. Where that can't be done (Windows, some
    network file systems), the work is done without. Raises SessionBusyError, OSError.
    """
    if os.name == "nt":  # pragma: no cover - a folder cannot be opened there
        yield
        return
    handle = Handle(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # EBADF: this file system locks only what can be written
            lock(handle.number, folder)
        yield
    finally:
        handle.close()
