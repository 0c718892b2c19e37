"""Add, recall and search the prompts of a ``history.db``.

Only one thread may use a ``HistoryDatabase`` at a time; ``HistoryStorage`` sees to that. After an
error that means damage, ``history.damage`` repairs the file once and the query runs again; every
other failure becomes a PersistenceError here.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sessiontree.errors import PersistenceError, SessionBusyError
from sessiontree.history.damage import (
    BrokenTablesError,
    are_tables_broken,
    is_damage,
    repair,
    replace,
)
from sessiontree.history.file import HistoryFile, identify
from sessiontree.history.tables import INSERT, SELECT, HistoryEntry, entry_from_row, row_from_entry
from sessiontree.storage.sqlite import BUSY_CODES, FAILURES, error_code

_MOST_ROWS = 1 << 31

_Result = TypeVar("_Result")


class HistoryDatabase:
    """The prompts in a ``history.db``, which is opened on first use."""

    def __init__(self, path: str) -> None:
        self._file = HistoryFile(path)

    def insert(self, entries: Iterable[HistoryEntry]) -> Callable[[], None]:
        """Write prompts in one transaction; call the result to commit. Raises PersistenceError."""
        rows = [row_from_entry(entry) for entry in entries]

        def write() -> Callable[[], None]:
            connection = self._file.open_to_write()
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(INSERT, rows)
            except BaseException as error:
                _roll_back(connection)
                if are_tables_broken(error, connection):
                    raise BrokenTablesError(str(error)) from error
                raise
            return lambda: self._commit(connection)

        return self._repairing(write)

    def select_recent(self, limit: int, cwd: str | None) -> list[HistoryEntry]:
        """Return the newest prompts first; [] without a database."""
        return self._select([], [], [], limit, cwd)

    def select_containing(
        self, needles: list[str], limit: int, cwd: str | None
    ) -> list[HistoryEntry]:
        """Return the newest prompts that contain every needle, ignoring case."""
        return self._select([], [], needles, limit, cwd)

    def select_words(
        self, expression: str, needles: list[str], limit: int, cwd: str | None
    ) -> list[HistoryEntry]:
        """Return the newest prompts that match an FTS5 expression and contain every needle."""
        if self._repairing(lambda: self._file.open_to_read() is not None and self._file.has_index):
            indexed = "id IN (SELECT rowid FROM history_fts WHERE history_fts MATCH ?)"
            return self._select([indexed], [expression], needles, limit, cwd)
        return []

    def rebuild(self) -> None:
        """Rename the database and make a new one of its readable prompts. PersistenceError."""
        with _persistence_errors(self._file.path):
            self._file.close()
            identity = identify(self._file.path)
            if identity is not None:
                replace(self._file, identity)

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        self._file.close()

    def _select(
        self,
        conditions: list[str],
        values: list[object],
        needles: list[str],
        limit: int,
        cwd: str | None,
    ) -> list[HistoryEntry]:
        """The newest that meet the conditions on ``values``, of the folder, with every needle."""
        if cwd is not None:
            conditions.append("cwd = ?")
            values.append(cwd)
        for needle in needles:
            # As bytes: a foreign prompt may hold text that is not UTF-8, or a NUL.
            conditions.append("contains(CAST(prompt AS BLOB), ?)")
            values.append(needle.casefold())
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        statement = f"{SELECT} {where} ORDER BY created_at DESC, id DESC LIMIT ?"
        values.append(max(0, min(limit, _MOST_ROWS)))

        def read() -> list[HistoryEntry]:
            connection = self._file.open_to_read()
            if connection is None:
                return []
            return [entry_from_row(row) for row in connection.execute(statement, values)]

        return self._repairing(read)

    def _repairing(self, attempt: Callable[[], _Result]) -> _Result:
        """Run the attempt; if the database is damaged, repair it once and run it again."""
        with self._errors():
            try:
                return attempt()
            except (sqlite3.DatabaseError, UnicodeDecodeError, MemoryError) as error:
                # A file that was taken for unchanging may have been changed, which looks the same.
                if not is_damage(error) or self._file.is_fixed:
                    raise
                repair(self._file, error)
                return attempt()

    def _commit(self, connection: sqlite3.Connection) -> None:
        with self._errors():
            try:
                connection.commit()
            except BaseException:
                _roll_back(connection)
                raise
        if self._file.has_moved():
            # Another process has set it aside between the two: what was added is in the old file.
            raise PersistenceError(self._file.path, "prompt history: replaced while it was written")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """After any failure, start the next attempt with a new connection.

        An error may stay with the old one: SQLite opens a file to read only when opening it to
        write fails, and a transaction that cannot be dropped keeps its lock.
        """
        with _persistence_errors(self._file.path):
            try:
                yield
            except BaseException:
                self._file.close()
                raise


def _roll_back(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(*FAILURES):
        connection.rollback()


@contextmanager
def _persistence_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FAILURES as error:
        is_busy = error_code(error) in BUSY_CODES
        reason = "in use by another program" if is_busy else str(error) or "not enough memory"
        raise PersistenceError(path, f"prompt history: {reason}") from error
    except SessionBusyError as error:
        raise PersistenceError(path, "prompt history: another process is repairing it") from error
    except OSError as error:
        raise PersistenceError.from_os_error(path, error) from error
