"""The interface between sessions and bytes: ``SessionStorage`` and its readers and writers.

A storage keeps named byte sequences ("files") in named folders. All I/O of a session, its blobs
and discovery goes through one. The protocol is synchronous and small enough for a database: a
file is a sequence of lines, an append is one ``write_line``.

A path is a string or an object that stands for one; what is given back is always a string.

Errors are those of the system: ``FileNotFoundError`` if there is no such file, other kinds of
``OSError`` for failures. Callers turn them into ``PersistenceError`` with the path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

StrPath: TypeAlias = str | os.PathLike[str]


UNKNOWN_SIZE = -1
"""Stands for a size that only reading the session could tell, in listings of a database."""


class FileStat(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A file's path, identity, size and times."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    device: int = 0
    ctime_ns: int = 0

    def is_same_file(self, other: FileStat) -> bool:
        """Whether both describe the same file, even if its size has changed."""
        return self.inode == other.inode and self.device == other.device


@runtime_checkable
class SessionStorageReader(Protocol):
    """An open file: it reads the same bytes even if its name now means another file."""

    def stat(self) -> FileStat:
        """The open file as it is now, under the path it was opened by."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end."""

    def close(self) -> None:
        """Close the file: every later call raises OSError. May be repeated."""


class FileRange(msgspec.Struct, frozen=True):
    """Bytes of an open file, to be copied without passing through this process if possible."""

    reader: SessionStorageReader
    offset: int
    length: int


Piece = bytes | FileRange

Growth: TypeAlias = Callable[[], bytes]
"""Gives what others have appended to a file since it was last asked, whole lines only."""


@runtime_checkable
class SessionStorageWriter(Protocol):
    """Append whole lines to one file."""

    @property
    def has_locks(self) -> bool:
        """Whether the last ``lock`` kept others out; some network file systems have no locks."""

    def lock(self) -> int | None:
        """Hold the file for this process alone; its size.

        ``None`` when its name does not stand for it any more: it was deleted or replaced. Raises
        SessionBusyError when another holder does not release it in time. May be nested.
        """

    def unlock(self) -> None:
        """Release one ``lock``."""

    def owns(self, found: FileStat) -> bool:
        """Whether this is the writer's own file."""

    def stat(self) -> FileStat:
        """The writer's own file, whatever its name stands for now."""

    def write_line(self, line: bytes) -> int:
        """Append one line (with its newline) in one write: wholly, or not at all and an error.

        Returns the offset at which it stands.
        """

    def overwrite(self, offset: int, data: bytes) -> None:
        """Replace bytes in place; the size stays."""

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""

    def note_rename(self, path: StrPath) -> None:
        """The writer's file has another name now."""

    def flush(self) -> None:
        """Hand everything to the system."""

    def fsync(self) -> None:
        """Everything written is on the medium; for a new file its folder entry too."""

    def close(self) -> None:
        """Close the file and release its lock: every later call raises OSError.

        ``unlock``, ``flush`` and ``close`` itself do nothing then.
        """

    def get_error(self) -> OSError | None:
        """The first error this writer met, if any."""


@runtime_checkable
class SessionStorage(Protocol):
    """Files and folders of sessions."""

    def ensure_dir(self, path: StrPath) -> None:
        """Create the folder, private to the user, if it does not exist."""

    def sync_dir(self, path: StrPath) -> None:
        """Sync the folder's entries to disk."""

    def exists(self, path: StrPath) -> bool:
        """Whether there is a file or a folder of this name."""

    def stat(self, path: StrPath) -> FileStat:
        """Raises FileNotFoundError; a folder is not a file (IsADirectoryError)."""

    def list_files(self, folder: StrPath, suffix: str = "") -> list[FileStat]:
        """The files right in ``folder`` whose names end in ``suffix``; [] without such a folder.

        Sockets, devices, folders, dangling links and the links that moves leave are not files.
        Order is not defined.
        """

    def list_names(self, folder: StrPath, suffix: str = "") -> list[str]:
        """The names of what lies right in ``folder`` and ends in ``suffix``, of whatever kind."""

    def list_dirs(self, folder: StrPath) -> list[str]:
        """Full paths of the folders right in ``folder``; [] if there is none."""

    def read(self, path: StrPath) -> bytes:
        """All bytes of a file. Raises FileNotFoundError."""

    def read_prefix(self, path: StrPath, length: int) -> bytes:
        """The first ``length`` bytes, or all if there are fewer. Raises FileNotFoundError."""

    def read_suffix(self, path: StrPath, length: int) -> bytes:
        """The last ``length`` bytes, or all if there are fewer. Raises FileNotFoundError."""

    def open_reader(self, path: StrPath) -> SessionStorageReader:
        """Open the file for reading. Raises FileNotFoundError."""

    def write_atomic(
        self,
        path: StrPath,
        pieces: bytes | Iterable[Piece],
        *,
        durable: bool = True,
        private: bool = False,
        growth: Growth | None = None,
    ) -> FileStat:
        """Make a file hold exactly these bytes, on the medium; an error leaves it unchanged.

        Returns what was written: by now, the name may already stand for another file.

        Not ``durable`` means that a power cut may still lose it; a killed process never does.
        A file that was there passes its rights on, unless the new one is to be ``private``.

        ``growth`` is for a file that others append to: it is called in the last moment, if possible
        while others can't write, and the bytes it returns are written at the end. An error that it
        raises leaves the file as it was.
        """

    def rename(self, source: StrPath, target: StrPath, *, durable: bool = True) -> None:
        """Move a file or folder; a file at ``target`` is replaced. Durable, unless told not to."""

    def touch(self, path: StrPath, mtime_ns: int | None = None) -> None:
        """Set the file's mtime to now, or to this time."""

    def unlink(self, path: StrPath) -> None:
        """Remove a file, if it exists."""

    def remove_dir(self, path: StrPath) -> None:
        """Remove a folder and its content, if it exists."""

    def open_writer(self, path: StrPath, *, create: bool = True) -> SessionStorageWriter:
        """A writer at the end of the file, made (private) if it is not there and ``create``."""


_METHODS = tuple(name for name in vars(SessionStorage) if not name.startswith("_"))


def require_storage(storage: object) -> None:
    """Raise TypeError with the names of the methods that a storage lacks.

    Call it on a storage that a caller passes in: otherwise a missing method would raise
    AttributeError in the middle of some work.
    """
    missing = [name for name in _METHODS if not callable(getattr(storage, name, None))]
    if missing:
        raise TypeError(
            f"{type(storage).__name__} is not a SessionStorage: no {', '.join(missing)}"
        )


def read_chunks(
    reader: SessionStorageReader, start: int, end: int, size: int = 1 << 16
) -> Iterator[bytes]:
    """Yield the bytes from ``start`` to ``end`` in pieces of about ``size``."""
    offset = start
    while offset < end:
        chunk = reader.read_at(offset, min(size, end - offset))
        if not chunk:
            return
        yield chunk
        offset += len(chunk)
