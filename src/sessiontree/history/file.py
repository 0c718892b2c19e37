"""Open the file ``history.db``: create it private, and open it again after it was replaced.

Owns the connection, which one thread at a time may use. Knows nothing of queries or repairs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from sessiontree.history.tables import create_tables, find_tables, read_leniently, require_columns
from sessiontree.storage import regular, sqlite
from sessiontree.storage.handles import Handle
from sessiontree.storage.locks import lock

BUSY_TIMEOUT_S = 5.0
"""Seconds that a write waits for another program; prompts are written in the background."""
READ_PATIENCE_S = 0.5
"""Seconds that a question waits for one."""
_MOST_TRIES = 5
# what SQLite says when it cannot make the files that it needs beside a database
_NO_PLACE = frozenset((sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY))

Identity = tuple[int, int]
"""The identity of a file, whatever its name: device and inode."""


class HistoryFile:
    """The database at a path, and the connection to the file there now."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.connection: sqlite3.Connection | None = None
        self.identity: Identity | None = None
        """The identity of the file that was opened last, even if that failed."""
        self.is_fixed = False
        """Whether it was last opened as a file that no process changes."""
        self._is_writing = False
        self._tables: set[str] = set()

    @property
    def has_index(self) -> bool:
        """Whether the prompts of the open database are indexed by their words."""
        return "history_fts" in self._tables

    def open_to_read(self) -> sqlite3.Connection | None:
        """The connection; None while there is no file or nothing in it. OSError, sqlite3.Error."""
        for _ in range(_MOST_TRIES):
            identity = identify(self.path)
            connection = self._current(identity)
            if connection is not None or identity is None:
                return connection
            connection = self._open_somehow(identity)
            if connection is None:
                continue
            if self._tables:
                return connection
            self.close()
            return None
        raise sqlite3.OperationalError("the file is replaced all the time")

    def open_to_write(self) -> sqlite3.Connection:
        """The connection, to a new database if there was none. OSError, sqlite3.Error."""
        for _ in range(_MOST_TRIES):
            identity = identify(self.path)
            connection = self._current(identity)
            if connection is not None and self._is_writing:
                return connection
            self.close()
            if identity is None:
                with alone(self.path, make_folder=True):
                    sqlite.create_private_file(self.path)
                identity = identify(self.path)
            connection = self._open(identity, is_writing=True)
            if connection is not None:
                return connection
        raise sqlite3.OperationalError("the file is replaced all the time")

    def has_moved(self) -> bool:
        """Whether the path is known to name another file than the one that was opened."""
        return _is_another(self.path, self.identity)

    def close(self) -> None:
        """Close the file."""
        connection, self.connection = self.connection, None
        if connection is not None:
            # All that was committed is in the file, and nothing else can be asked of it any more.
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _current(self, identity: Identity | None) -> sqlite3.Connection | None:
        """The open connection, if it is to this file: someone may have replaced what it was to."""
        # One that takes the file for unchanging would go on seeing what has long been changed.
        if identity != self.identity or self.is_fixed:
            self.close()
        return self.connection

    def _open_somehow(self, identity: Identity) -> sqlite3.Connection | None:
        """Open a connection to read with, also on a read-only disk. None if the file was
        replaced."""
        try:
            return self._open(identity, is_writing=False)
        except sqlite3.OperationalError as error:
            if sqlite.error_code(error) not in _NO_PLACE or not self._can_be_fixed():
                raise
        return self._open(identity, is_writing=False, is_fixed=True)

    def _can_be_fixed(self) -> bool:
        """Whether the file alone holds every prompt that can be had now.

        On a disk that is full or may not be written, a database in WAL mode can only be read if
        it is opened as unchanging: SQLite cannot make the files that it needs beside it.
        """
        if not os.access(os.path.dirname(self.path), os.W_OK):
            return True
        try:
            return os.stat(os.path.realpath(self.path) + "-wal").st_size == 0
        except FileNotFoundError:
            return True

    def _open(
        self, identity: Identity | None, *, is_writing: bool, is_fixed: bool = False
    ) -> sqlite3.Connection | None:
        """Open the file with this identity; None if it was replaced meanwhile."""
        # Known even if it fails: a repair must only ever touch the file that failed.
        self.identity, self.is_fixed, self._is_writing = identity, is_fixed, is_writing
        try:
            patience_s = BUSY_TIMEOUT_S if is_writing else READ_PATIENCE_S
            connection = sqlite.connect(self.path, patience_s, is_fixed=is_fixed)
        except sqlite3.Error:
            if self.has_moved():
                return None
            raise
        self.connection = connection
        try:
            read_leniently(connection)
            if is_writing:
                sqlite.enter_wal(connection, BUSY_TIMEOUT_S)
                connection.execute("PRAGMA synchronous = NORMAL")
                create_tables(connection)
            self._tables = find_tables(connection)
            if self._tables:
                require_columns(connection)
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite.FAILURES) and self.has_moved():
                return None
            raise
        if self.has_moved():
            self.close()
            return None
        return connection


def identify(path: str) -> Identity | None:
    """Return the identity of the file at the path; None if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    regular.require_regular(path, found)  # SQLite would wait for ever at a pipe
    return found.st_dev, found.st_ino


@contextmanager
def alone(path: str, *, make_folder: bool = False) -> Iterator[None]:
    """Keep other processes from making a database in this folder or setting one aside meanwhile."""
    folder = os.path.dirname(path)
    if make_folder:
        _make_private_folder(folder)
    try:
        handle = Handle(folder, os.O_RDONLY)
    except PermissionError:  # Windows does not open folders; the check of the file must do
        yield
        return
    try:
        lock(handle.number, path)
        yield
    finally:
        # the lock goes with the descriptor, and that is gone whatever closing it says
        with contextlib.suppress(OSError):
            handle.close()


def _make_private_folder(folder: str) -> None:
    missing: list[str] = []
    while not _is_folder(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for folder in reversed(missing):  # makedirs would make only the last one private
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def _is_folder(path: str) -> bool:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    return True


def _is_another(path: str, identity: Identity | None) -> bool:
    try:
        return identify(path) != identity
    except OSError:
        return False
