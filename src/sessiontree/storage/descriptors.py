"""Open files: a reader whose bytes stay, and a writer that appends whole lines under a lock.

Both keep one file by its descriptor, even if its name later means another file. ``regular`` opens
names and refuses unsafe ones; this module knows no folders.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time

from sessiontree.errors import without_frames
from sessiontree.storage import locks, regular
from sessiontree.storage.base import FileStat, StrPath
from sessiontree.storage.handles import Handle
from sessiontree.storage.open_elsewhere import has_writers
from sessiontree.storage.syncing import sync_folder

_TAIL_BYTES = 256
_LOOK_S = 0.01
"""How long the name of a locked file needs no second look; see ``FileWriter.lock``."""


class FileReader:
    def __init__(self, path: StrPath) -> None:
        self._path = path = os.fspath(path)
        self._handle = regular.open_to_read(path)
        self._fd = self._handle.number
        self._released: tuple[os.stat_result, bytes] | None = None

    def fileno(self) -> int:
        if self._fd < 0 and self._released is not None:
            self._reopen(*self._released)
        return self._fd

    def stat(self) -> FileStat:
        return to_stat(self._path, os.fstat(self.fileno()))

    def has_writers(self) -> bool | None:
        """Whether any process can write to this file; None if the system can't tell."""
        return has_writers(self.fileno())

    def read_at(self, offset: int, length: int) -> bytes:
        fd = self._fd if self._fd >= 0 else self.fileno()
        data = os.pread(fd, length, offset)
        if len(data) == length or not data:
            return data
        pieces = [data]  # the system gives at most about 2 GB a call, and may give less
        got = len(data)
        while got < length:
            data = os.pread(fd, length - got, offset + got)
            if not data:
                break
            pieces.append(data)
            got += len(data)
        return b"".join(pieces)

    def release(self, path: StrPath) -> None:
        """Close the descriptor until it is needed again; ``path`` is the file's name by now.

        It stays open if the file can no longer be found by its name.
        """
        self._path = os.fspath(path)
        with contextlib.suppress(OSError):
            found = os.fstat(self._fd)
            if _is_same(found, os.stat(self._path)):
                self._released = found, _read_tail(self._fd, found.st_size)
                self._fd = -1
                self._handle.close()

    def _reopen(self, released: os.stat_result, tail: bytes) -> None:
        handle = regular.open_to_read(self._path)
        # the tail, too: the number of a deleted file is given to a new one
        is_same = _is_same(os.fstat(handle.number), released)
        if not is_same or _read_tail(handle.number, released.st_size) != tail:
            handle.close()
            told = "was replaced after the session was closed; open it again"
            raise OSError(errno.ESTALE, told, self._path)
        self._handle, self._fd = handle, handle.number

    def close(self) -> None:
        self._fd = -1
        self._released = None
        self._handle.close()


class FileWriter:
    """Append with O_APPEND, so that each line stays whole while other processes write."""

    def __init__(self, path: StrPath, create: bool) -> None:
        self._path = path = os.fspath(path)
        self._error: OSError | None = None
        self._depth = 0
        self.has_locks = True
        self._handle, self._is_new = regular.open_to_append(path, create)
        self._fd = self._handle.number
        self._own = own = os.fstat(self._fd)
        self._inode, self._device = own.st_ino, own.st_dev
        self._links, self._looked_until = 0, 0.0
        self._is_hidden = os.path.basename(path).startswith(".")
        try:
            regular.require_regular(path, self._own)
        except OSError:
            self.close()
            raise

    def lock(self) -> int | None:
        """Lock the file; its size, or None if the name means another file by now.

        To look at a name takes the system several times as long as to look at an open file. Within
        a moment of the last look the file's own count of names tells whether it was replaced or
        removed: any program that does either takes a name from it. One that renames it does not, so
        a hidden file, which is to get another name, is looked for each time; any other is written
        to under its new name for that moment.
        """
        now = time.monotonic()
        if self._depth <= 0:
            self.has_locks = locks.lock(self._fd, self._path)
        self._depth += 1
        try:
            if now < self._looked_until:
                found = os.fstat(self._fd)
                if found.st_nlink == self._links:
                    return found.st_size
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        except BaseException:
            self.unlock()
            raise
        if found.st_ino != self._inode or found.st_dev != self._device:
            return None
        if not self._is_hidden:
            self._links, self._looked_until = found.st_nlink, now + _LOOK_S
        return found.st_size

    def unlock(self) -> None:
        self._depth -= 1
        is_last = self._depth == 0 and self._fd >= 0
        if is_last and self.has_locks and not locks.unlock(self._fd):
            self._reopen()

    def _reopen(self) -> None:
        """Open the same file again and close this one, to which a lock is stuck."""
        with contextlib.suppress(OSError):
            handle, _ = regular.open_to_append(self._path, create=False)
            if _is_same(os.fstat(handle.number), self._own):
                stuck = self._handle
                self._handle, self._fd = handle, handle.number
                stuck.close()

    def owns(self, found: FileStat) -> bool:
        return found.inode == self._inode and found.device == self._device

    def stat(self) -> FileStat:
        return to_stat(self._path, os.fstat(self._fd))

    def write_line(self, line: bytes) -> int:
        try:
            written = os.write(self._fd, line)
            if written == len(line):
                return os.lseek(self._fd, 0, os.SEEK_CUR) - written
            self._undo_short_write(written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        except OSError as error:
            self._error = self._error or without_frames(error)
            raise

    def _undo_short_write(self, written: int) -> None:
        """Remove half a line again, unless another process's line already follows it."""
        with contextlib.suppress(OSError):
            end = os.lseek(self._fd, 0, os.SEEK_CUR)
            if os.fstat(self._fd).st_size == end:
                os.ftruncate(self._fd, end - written)

    def overwrite(self, offset: int, data: bytes) -> None:
        self._require_open()
        # not through the appending descriptor: Linux would append there, whatever the offset
        handle = Handle(self._path, os.O_WRONLY | regular.NONBLOCK)
        try:
            if not _is_same(os.fstat(handle.number), self._own):
                raise OSError(errno.ESTALE, "the file was replaced", self._path)
            os.pwrite(handle.number, data, offset)
        finally:
            handle.close()

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def note_rename(self, path: StrPath) -> None:
        self._path = os.fspath(path)
        self._is_new, self._looked_until = True, 0.0
        self._is_hidden = os.path.basename(path).startswith(".")

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    def fsync(self) -> None:
        try:
            self._require_open()
            os.fsync(self._fd)
            if self._is_new:
                sync_folder(os.path.dirname(self._path))
                self._is_new = False
        except OSError as error:
            self._error = self._error or without_frames(error)
            raise

    def close(self) -> None:
        self._fd = -1
        self._depth = 0
        self._handle.close()

    def _require_open(self) -> None:
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)

    def get_error(self) -> OSError | None:
        return self._error


def _read_tail(fd: int, size: int) -> bytes:
    start = max(0, size - _TAIL_BYTES)
    return os.pread(fd, size - start, start)


def to_stat(path: str, found: os.stat_result) -> FileStat:
    """Convert the system's stat to the storage's."""
    return FileStat(
        path,
        found.st_size,
        found.st_mtime_ns,
        found.st_ino,
        found.st_dev,
        found.st_ctime_ns,
    )


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    return one.st_ino == other.st_ino and one.st_dev == other.st_dev
