"""``MemorySessionStorage``: a file system in a dictionary, for tests and unsaved sessions.

It behaves as ``FileSessionStorage`` does (one contract suite runs over both), down to readers that
keep their file when its name goes to another.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from operator import methodcaller

from sessiontree.clock import now_ns
from sessiontree.errors import without_frames
from sessiontree.storage.base import (
    FileStat,
    Growth,
    Piece,
    SessionStorageReader,
    SessionStorageWriter,
    StrPath,
)

_ACQUIRE, _RELEASE = methodcaller("acquire"), methodcaller("release")


class _MemoryFile:
    __slots__ = ("data", "inode", "lock", "mtime_ns")

    def __init__(self, data: bytes, inode: int, mtime_ns: int) -> None:
        self.data = bytearray(data)
        self.inode = inode
        self.mtime_ns = mtime_ns
        self.lock = threading.RLock()

    def stat(self, path: str) -> FileStat:
        return FileStat(path, len(self.data), self.mtime_ns, self.inode, ctime_ns=self.mtime_ns)


class MemorySessionStorage:
    """Sessions in memory. Several sessions and threads may share one."""

    def __init__(self, clock_ns: Callable[[], int] = now_ns) -> None:
        self._files: dict[str, _MemoryFile] = {}
        self._folders: set[str] = set()
        self._inodes = itertools.count(1)
        self._clock_ns = clock_ns
        self._lock = threading.RLock()

    def ensure_dir(self, path: StrPath) -> None:
        path = os.fspath(path)
        with self._lock:
            while path not in self._folders:
                if path in self._files:
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
                self._folders.add(path)
                parent = os.path.dirname(path)
                if parent == path:
                    break
                path = parent

    def sync_dir(self, path: StrPath) -> None:
        """Do nothing: memory needs no sync."""

    def exists(self, path: StrPath) -> bool:
        path = os.fspath(path)
        return path in self._files or path in self._folders

    def stat(self, path: StrPath) -> FileStat:
        path = os.fspath(path)
        return self._get(path).stat(path)

    def list_files(self, folder: StrPath, suffix: str = "") -> list[FileStat]:
        folder = os.fspath(folder)
        with self._lock:
            return [
                file.stat(path)
                for path, file in self._files.items()
                if os.path.dirname(path) == folder and path.endswith(suffix)
            ]

    def list_names(self, folder: StrPath, suffix: str = "") -> list[str]:
        folder = os.fspath(folder)
        with self._lock:
            return [
                os.path.basename(path)
                for path in (*self._files, *self._folders)
                if os.path.dirname(path) == folder and path != folder and path.endswith(suffix)
            ]

    def list_dirs(self, folder: StrPath) -> list[str]:
        folder = os.fspath(folder)
        with self._lock:
            return [
                path for path in self._folders if os.path.dirname(path) == folder and path != folder
            ]

    def read(self, path: StrPath) -> bytes:
        return bytes(self._get(os.fspath(path)).data)

    def read_prefix(self, path: StrPath, length: int) -> bytes:
        return bytes(self._get(os.fspath(path)).data[:length])

    def read_suffix(self, path: StrPath, length: int) -> bytes:
        data = self._get(os.fspath(path)).data
        return bytes(data[max(0, len(data) - length) :])

    def open_reader(self, path: StrPath) -> SessionStorageReader:
        path = os.fspath(path)
        return _MemoryReader(path, self._get(path))

    def write_atomic(
        self,
        path: StrPath,
        pieces: bytes | Iterable[Piece],
        *,
        durable: bool = True,  # noqa: ARG002
        private: bool = False,  # noqa: ARG002
        growth: Growth | None = None,
    ) -> FileStat:
        path = os.fspath(path)
        data = b"".join(
            piece if isinstance(piece, bytes) else piece.reader.read_at(piece.offset, piece.length)
            for piece in ((pieces,) if isinstance(pieces, bytes) else pieces)
        )
        with self._lock:
            self._require_folder(path)
            file = self._files[path] = self._make(data + (growth() if growth is not None else b""))
            return file.stat(path)

    def rename(self, source: StrPath, target: StrPath, *, durable: bool = True) -> None:  # noqa: ARG002
        source, target = os.fspath(source), os.fspath(target)
        with self._lock:
            if source in self._folders:
                self._rename_folder(source, target)
                return
            file = self._get(source)
            self._require_folder(target)
            del self._files[source]
            self._files[target] = file

    def _rename_folder(self, source: str, target: str) -> None:
        if self.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        self._require_folder(target)
        inside = source + os.sep

        def moved(path: str) -> str:
            return target + path[len(source) :] if path.startswith(inside) else path

        self._files = {moved(path): file for path, file in self._files.items()}
        self._folders = {moved(path) for path in self._folders if path != source} | {target}

    def touch(self, path: StrPath, mtime_ns: int | None = None) -> None:
        self._get(os.fspath(path)).mtime_ns = self._clock_ns() if mtime_ns is None else mtime_ns

    def unlink(self, path: StrPath) -> None:
        path = os.fspath(path)
        with self._lock:
            if path in self._folders:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            self._files.pop(path, None)

    def remove_dir(self, path: StrPath) -> None:
        path = os.fspath(path)
        with self._lock:
            inside = path + os.sep
            self._folders = {
                folder
                for folder in self._folders
                if folder != path and not folder.startswith(inside)
            }
            for name in [name for name in self._files if name.startswith(inside)]:
                del self._files[name]

    def open_writer(self, path: StrPath, *, create: bool = True) -> SessionStorageWriter:
        path = os.fspath(path)
        with self._lock:
            if path not in self._files and create:
                self._require_folder(path)
                self._files[path] = self._make(b"")
            return _MemoryWriter(self, path, self._get(path))

    def find(self, path: str) -> FileStat | None:
        """Return the file of this name, or None."""
        file = self._files.get(path)
        return file.stat(path) if file is not None else None

    def now_ns(self) -> int:
        return self._clock_ns()

    def _get(self, path: str) -> _MemoryFile:
        file = self._files.get(path)
        if file is None:
            if path in self._folders:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            self._refuse_files_above(path)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return file

    def _refuse_files_above(self, path: str) -> None:
        while (parent := os.path.dirname(path)) != path:
            if parent in self._files:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            path = parent

    def _make(self, data: bytes) -> _MemoryFile:
        return _MemoryFile(data, next(self._inodes), self._clock_ns())

    def _require_folder(self, path: str) -> None:
        if path in self._folders:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        folder = os.path.dirname(path)
        if folder not in self._folders:
            self._refuse_files_above(path)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)


class _OpenFile:
    """A file and the name it was opened by. Once closed, it is an OSError to ask for the file."""

    def __init__(self, path: str, file: _MemoryFile) -> None:
        self._path = path
        self._file: _MemoryFile | None = file
        self._error: OSError | None = None

    def _get_file(self) -> _MemoryFile:
        if self._file is None:
            error = OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
            self._error = self._error or without_frames(error)
            raise error
        return self._file

    def stat(self) -> FileStat:
        return self._get_file().stat(self._path)

    def close(self) -> None:
        self._file = None


class _MemoryReader(_OpenFile):
    def has_writers(self) -> bool:
        """Whether a writer can still write to the file: never after it was replaced."""
        return False

    def read_at(self, offset: int, length: int) -> bytes:
        return bytes(self._get_file().data[offset : offset + length])


class _MemoryWriter(_OpenFile):
    def __init__(self, storage: MemorySessionStorage, path: str, file: _MemoryFile) -> None:
        super().__init__(path, file)
        self._storage = storage
        self._inode = file.inode
        self._holds: list[AbstractContextManager[bool]] = []
        self.has_locks = True

    def lock(self) -> int | None:
        # taken and noted in one call: an interrupt in between would leave it locked for ever
        self._holds.extend(filter(_ACQUIRE, (self._get_file().lock,)))
        found = self._storage.find(self._path)
        return found.size if found is not None and self.owns(found) else None

    def unlock(self) -> None:
        if self._holds:
            next(map(_RELEASE, map(self._holds.pop, (-1,))))

    def owns(self, found: FileStat) -> bool:
        return found.inode == self._inode

    def write_line(self, line: bytes) -> int:
        file = self._get_file()
        offset = len(file.data)
        file.data += line
        file.mtime_ns = self._storage.now_ns()
        return offset

    def overwrite(self, offset: int, data: bytes) -> None:
        file = self._get_file()
        file.data[offset : offset + len(data)] = data
        file.mtime_ns = self._storage.now_ns()

    def truncate(self, size: int) -> None:
        file = self._get_file()
        del file.data[size:]
        file.mtime_ns = self._storage.now_ns()

    def note_rename(self, path: StrPath) -> None:
        self._path = os.fspath(path)

    def flush(self) -> None:
        """Nothing is buffered here."""

    def fsync(self) -> None:
        self._get_file()  # memory is all there is

    def close(self) -> None:
        while self._holds:
            self.unlock()
        super().close()

    def get_error(self) -> OSError | None:
        return self._error
