"""The file ``history.db``: made private, opened on first use, and again when it was replaced.

Owns the one connection to it, for one thread at a time. It must not know what is asked of the
tables, nor what is done about damage.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time

from sessiontree.storage.history_tables import (
    create_tables,
    find_tables,
    read_leniently,
    require_columns,
)

_BUSY_TIMEOUT_S = 5.0

Identity = tuple[int, int]
"""Which file it is, whatever its name: device and inode."""


class HistoryFile:
    """The database at a path, and the connection to what the path names now."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.connection: sqlite3.Connection | None = None
        self.identity: Identity | None = None
        """Of the file last opened, even if that failed."""
        self._tables: set[str] = set()

    @property
    def has_index(self) -> bool:
        """Whether the prompts of the open database are indexed by their words."""
        return "history_fts" in self._tables

    def open_to_read(self) -> sqlite3.Connection | None:
        """The connection; None while there is no file or nothing in it. OSError, sqlite3.Error."""
        identity = identify(self.path)
        connection = self._current(identity)
        if connection is not None or identity is None:
            return connection
        connection = self._open(is_writing=False)
        if self._tables:
            return connection
        self.close()
        return None

    def open_to_write(self) -> sqlite3.Connection:
        """The connection, to a new database if there was none. OSError, sqlite3.Error."""
        identity = identify(self.path)
        connection = self._current(identity)
        if connection is not None:
            return connection
        if identity is None:
            _create_private(self.path)
        return self._open(is_writing=True)

    def close(self) -> None:
        """Let go of the file."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def _current(self, identity: Identity | None) -> sqlite3.Connection | None:
        """The open connection, if it is to this file: someone may have replaced what it was to."""
        if identity != self.identity:
            self.close()
        return self.connection

    def _open(self, *, is_writing: bool) -> sqlite3.Connection:
        # On a disk that may not be written, a database in WAL mode can only be read if SQLite is
        # told that nobody will change it: it cannot make the files it needs beside it.
        is_fixed = not is_writing and not os.access(os.path.dirname(self.path) or ".", os.W_OK)
        connection = sqlite3.connect(
            make_address(self.path, is_fixed=is_fixed),
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        try:
            read_leniently(connection)
            if is_writing:
                _enter_wal(connection)
                connection.execute("PRAGMA synchronous = NORMAL")
                create_tables(connection)
            self._tables = find_tables(connection)
            if self._tables:
                require_columns(connection)
        except BaseException:
            # Known even though it failed: mending must only ever touch the file that failed.
            self.identity = identify(self.path)
            connection.close()
            raise
        self.connection, self.identity = connection, identify(self.path)
        return connection


def identify(path: str) -> Identity | None:
    """Which file the path names now; None if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def make_address(path: str, *, is_fixed: bool) -> str:
    """Where SQLite finds the database; a fixed one is only read, without any file beside it."""
    from urllib.parse import quote

    return f"file:{quote(path)}?mode=ro&immutable=1" if is_fixed else f"file:{quote(path)}"


def _create_private(path: str) -> None:
    missing = []
    folder = os.path.dirname(path)
    while folder and not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for folder in reversed(missing):  # makedirs would make only the last one private
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    # Only if it is new: closing a second descriptor would drop the locks of a connection to it.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL. Two processes that do so at once get SQLITE_BUSY without any waiting."""
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _is_busy(error: sqlite3.OperationalError) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
