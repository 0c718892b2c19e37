"""``FaultyStorage``: a storage that fails where and when a test wants it to.

Owns nothing but the faults: whatever is not told to fail goes straight to the storage inside, so
one test can run against real files with a full disk, and against memory with a failing fsync.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sessiontree.errors import without_frames
from sessiontree.storage.base import (
    FileStat,
    Growth,
    Piece,
    SessionStorage,
    SessionStorageReader,
    SessionStorageWriter,
    StrPath,
)

OPERATIONS = frozenset(
    (
        *("ensure_dir", "sync_dir", "exists", "stat", "list_files", "list_names", "list_dirs"),
        *("read", "read_prefix", "read_suffix", "open_reader", "read_at"),
        *("write_atomic", "rename", "touch", "unlink", "remove_dir"),
        *("open_writer", "lock", "write_line", "overwrite", "truncate"),
        *("flush", "fsync", "close"),
    )
)
"""Operations that can fail: the methods of a storage, of its readers and of its writers."""


@dataclass(slots=True)
class _Fault:
    operation: str
    code: int
    wait: int
    times: int | None
    path_part: str
    keep: int | None


@dataclass(slots=True)
class _Interruption:
    operation: str
    action: Callable[[], object]
    wait: int
    path_part: str


class FaultyStorage:
    """A storage around another. ``trace`` lists every call as (operation, path), in order."""

    def __init__(self, inside: SessionStorage) -> None:
        self.inside = inside
        self.trace: list[tuple[str, str]] = []
        self._faults: list[_Fault] = []
        self._failing_call: int | None = None
        self._failing_code = errno.EIO
        self._interruptions: list[_Interruption] = []

    @property
    def calls(self) -> Counter[str]:
        """The number of calls of each operation."""
        return Counter(operation for operation, _ in self.trace)

    @property
    def count(self) -> int:
        """The number of calls of all operations."""
        return len(self.trace)

    def fail_call(self, at: int, code: int = errno.EIO) -> None:
        """Let the ``at``-th call from now raise ``OSError(code)``, once, whatever it is."""
        self._failing_call = len(self.trace) + at
        self._failing_code = code

    def fail(
        self,
        operation: str,
        code: int,
        *,
        at: int = 1,
        times: int | None = 1,
        path_part: str = "",
        keep: int | None = None,
    ) -> None:
        """Let ``operation`` raise ``OSError(code)``.

        It begins with the ``at``-th call from now whose path contains ``path_part`` and lasts for
        ``times`` of them (None: until ``heal``). With ``keep``, a ``write_line`` or an
        ``overwrite`` first writes that many bytes: a disk that filled up inside the line.
        """
        _require_known(operation)
        if keep is not None and operation not in ("write_line", "overwrite"):
            raise ValueError(f"{operation} can not be cut short")
        self._faults.append(_Fault(operation, code, at - 1, times, path_part, keep))

    def interrupt(
        self,
        operation: str,
        action: Callable[[], object],
        *,
        at: int = 1,
        path_part: str = "",
    ) -> None:
        """Do ``action`` once, right before the ``at``-th call from now: another process's turn."""
        _require_known(operation)
        self._interruptions.append(_Interruption(operation, action, at - 1, path_part))

    def heal(self) -> None:
        """Let nothing fail or be interrupted from now on."""
        self._faults.clear()
        self._interruptions.clear()
        self._failing_call = None

    def meet(self, operation: str, path: StrPath) -> tuple[OSError, int | None] | None:
        """Note a call; the error it shall end in and how much it may do before, if it shall."""
        path = os.fspath(path)
        self.trace.append((operation, path))
        if len(self.trace) == self._failing_call:
            return OSError(self._failing_code, os.strerror(self._failing_code), path), None
        for interruption in [*self._interruptions]:
            if interruption.operation != operation or interruption.path_part not in path:
                continue
            if interruption.wait > 0:
                interruption.wait -= 1
                continue
            self._interruptions.remove(interruption)
            interruption.action()
        for fault in self._faults:
            if fault.operation != operation or fault.path_part not in path:
                continue
            if fault.wait > 0:
                fault.wait -= 1
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times == 0:
                    self._faults.remove(fault)
            return OSError(fault.code, os.strerror(fault.code), path), fault.keep
        return None

    def check(self, operation: str, path: StrPath) -> None:
        """Note a call, and raise its error if it shall fail."""
        met = self.meet(operation, path)
        if met is not None:
            raise without_frames(met[0])  # which no variable here refers to

    # -- the storage -----------------------------------------------------------------------

    def ensure_dir(self, path: StrPath) -> None:
        self.check("ensure_dir", path)
        self.inside.ensure_dir(path)

    def sync_dir(self, path: StrPath) -> None:
        self.check("sync_dir", path)
        self.inside.sync_dir(path)

    def exists(self, path: StrPath) -> bool:
        self.check("exists", path)
        return self.inside.exists(path)

    def stat(self, path: StrPath) -> FileStat:
        self.check("stat", path)
        return self.inside.stat(path)

    def list_files(self, folder: StrPath, suffix: str = "") -> list[FileStat]:
        self.check("list_files", folder)
        return self.inside.list_files(folder, suffix)

    def list_names(self, folder: StrPath, suffix: str = "") -> list[str]:
        self.check("list_names", folder)
        return self.inside.list_names(folder, suffix)

    def list_dirs(self, folder: StrPath) -> list[str]:
        self.check("list_dirs", folder)
        return self.inside.list_dirs(folder)

    def read(self, path: StrPath) -> bytes:
        self.check("read", path)
        return self.inside.read(path)

    def read_prefix(self, path: StrPath, length: int) -> bytes:
        self.check("read_prefix", path)
        return self.inside.read_prefix(path, length)

    def read_suffix(self, path: StrPath, length: int) -> bytes:
        self.check("read_suffix", path)
        return self.inside.read_suffix(path, length)

    def open_reader(self, path: StrPath) -> SessionStorageReader:
        self.check("open_reader", path)
        return _FaultyReader(self, path, self.inside.open_reader(path))

    def write_atomic(
        self,
        path: StrPath,
        pieces: bytes | Iterable[Piece],
        *,
        durable: bool = True,
        private: bool = False,
        growth: Growth | None = None,
    ) -> FileStat:
        self.check("write_atomic", path)
        return self.inside.write_atomic(
            path, pieces, durable=durable, private=private, growth=growth
        )

    def rename(self, source: StrPath, target: StrPath, *, durable: bool = True) -> None:
        self.check("rename", target)
        self.inside.rename(source, target, durable=durable)

    def touch(self, path: StrPath, mtime_ns: int | None = None) -> None:
        self.check("touch", path)
        self.inside.touch(path, mtime_ns)

    def unlink(self, path: StrPath) -> None:
        self.check("unlink", path)
        self.inside.unlink(path)

    def remove_dir(self, path: StrPath) -> None:
        self.check("remove_dir", path)
        self.inside.remove_dir(path)

    def open_writer(self, path: StrPath, *, create: bool = True) -> SessionStorageWriter:
        self.check("open_writer", path)
        return _FaultyWriter(self, path, self.inside.open_writer(path, create=create))


def _require_known(operation: str) -> None:
    if operation not in OPERATIONS:
        raise ValueError(f"no operation {operation!r}; one of {', '.join(sorted(OPERATIONS))}")


class _FaultyReader:
    def __init__(self, faults: FaultyStorage, path: StrPath, inside: SessionStorageReader) -> None:
        self._faults = faults
        self._path = path
        self._inside = inside

    def stat(self) -> FileStat:
        return self._inside.stat()

    def read_at(self, offset: int, length: int) -> bytes:
        self._faults.check("read_at", self._path)
        return self._inside.read_at(offset, length)

    def release(self, path: StrPath) -> None:
        release = getattr(self._inside, "release", None)
        if release is not None:
            release(path)

    def close(self) -> None:
        self._inside.close()


class _FaultyWriter:
    def __init__(self, faults: FaultyStorage, path: StrPath, inside: SessionStorageWriter) -> None:
        self._faults = faults
        self._path = path
        self._inside = inside
        self._error: OSError | None = None

    def _check(self, operation: str) -> int | None:
        """Raise the operation's error, or say how much it may do before that."""
        met = self._faults.meet(operation, self._path)
        if met is None:
            return None
        error, keep = met
        self._error = self._error or error
        if keep is None:
            raise without_frames(error)  # which no variable here refers to
        return keep

    @property
    def has_locks(self) -> bool:
        return self._inside.has_locks

    def owns(self, found: FileStat) -> bool:
        return self._inside.owns(found)

    def lock(self) -> int | None:
        self._check("lock")
        return self._inside.lock()

    def unlock(self) -> None:
        self._inside.unlock()

    def stat(self) -> FileStat:
        return self._inside.stat()

    def write_line(self, line: bytes) -> int:
        keep = self._check("write_line")
        if keep is None:
            return self._inside.write_line(line)
        self._inside.write_line(line[:keep])
        raise self._first_error()

    def overwrite(self, offset: int, data: bytes) -> None:
        keep = self._check("overwrite")
        self._inside.overwrite(offset, data if keep is None else data[:keep])
        if keep is not None:
            raise self._first_error()

    def truncate(self, size: int) -> None:
        self._check("truncate")
        self._inside.truncate(size)

    def note_rename(self, path: StrPath) -> None:
        self._path = path
        self._inside.note_rename(path)

    def flush(self) -> None:
        self._check("flush")
        self._inside.flush()

    def fsync(self) -> None:
        self._check("fsync")
        self._inside.fsync()

    def close(self) -> None:
        # the descriptor is gone either way, as with close(2)
        self._inside.close()
        self._check("close")

    def get_error(self) -> OSError | None:
        return self._error or self._inside.get_error()

    def _first_error(self) -> OSError:
        assert self._error is not None
        return without_frames(self._error)
