"""The SQLite file behind the prompt history: its schema, its damage, its queries.

Owns every SQL statement on ``history.db``. One ``HistoryDatabase`` is one connection for one thread
at a time; who writes when is the business of ``history.py``. A database that omp or xcsh made is
used as it is: no column, index or trigger is added to it, and what it lacks is done without.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from sessiontree.errors import PersistenceError
from sessiontree.storage.locks import lock

BUSY_TIMEOUT_S = 5.0
_MOST_ROWS = 1 << 31
_MOST_SECONDS = 1 << 53
_LAST_NUMBER = (1 << 63) - 1

_SCHEMA = (
    """CREATE TABLE history (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        prompt TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        cwd TEXT
    )""",
    "CREATE INDEX idx_history_created_at ON history(created_at DESC)",
    "CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id')",
    # The names are omp's where omp has one, so that its own rebuild of the table replaces ours.
    """CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN
        INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt);
    END""",
    """CREATE TRIGGER history_ad AFTER DELETE ON history BEGIN
        INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);
    END""",
    """CREATE TRIGGER history_au AFTER UPDATE OF prompt ON history BEGIN
        INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);
        INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt);
    END""",
)
_NEEDED_COLUMNS = frozenset({"id", "prompt", "created_at", "cwd"})

# omp keeps every prompt once (a UNIQUE column): there a repeated prompt becomes the newest again.
_INSERT = """INSERT INTO history (prompt, created_at, cwd) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET created_at = excluded.created_at, cwd = excluded.cwd"""
_COLUMNS = "SELECT id, prompt, created_at, cwd FROM history"
_NEWEST_FIRST = "ORDER BY created_at DESC, id DESC LIMIT ?"

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One prompt. ``id`` is None while it waits to be written; ``created_at`` is Unix seconds."""

    id: int | None
    prompt: str
    created_at: int
    cwd: str | None


class HistoryDatabase:
    """One connection to a ``history.db``, opened on first use."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._has_index: bool | None = None

    def insert(self, entries: Iterable[HistoryEntry]) -> Callable[[], None]:
        """Write these in one transaction; the returned call commits it. Raises PersistenceError."""
        rows = [(entry.prompt, entry.created_at, entry.cwd) for entry in entries]

        def write(connection: sqlite3.Connection) -> Callable[[], None]:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(_INSERT, rows)
            except BaseException as error:
                connection.rollback()
                if _is_refusal(error) or _has_no_number_left(error, connection):
                    raise _BrokenTablesError(str(error)) from error
                raise
            return lambda: self._commit(connection)

        return self._run(write, create=True)

    def select_recent(self, limit: int, cwd: str | None) -> list[HistoryEntry]:
        """The newest prompts, newest first; [] if there is no database."""
        where, values = ("WHERE cwd = ?", [cwd]) if cwd is not None else ("", [])
        return self._select(f"{_COLUMNS} {where} {_NEWEST_FIRST}", [*values, _clamp(limit)])

    def select_containing(
        self, needles: list[str], limit: int, cwd: str | None
    ) -> list[HistoryEntry]:
        """The newest prompts that contain every needle, whatever the case."""
        return self._select_where([], [], needles, limit, cwd)

    def select_words(
        self, expression: str, needles: list[str], limit: int, cwd: str | None
    ) -> list[HistoryEntry]:
        """The newest prompts that match an FTS5 expression and contain every needle."""
        if self._run(lambda _: bool(self._has_index), create=False, default=False):
            indexed = "id IN (SELECT rowid FROM history_fts WHERE history_fts MATCH ?)"
            return self._select_where([indexed], [expression], needles, limit, cwd)
        return []

    def rebuild(self) -> None:
        """Set the database aside and make a new one of what can be read. PersistenceError."""
        with _persistence_errors(self.path):
            self.close()
            self._inode = _inode(self.path)
            if self._inode is not None:
                self._replace()

    def close(self) -> None:
        """Let go of the file. Using the database again opens it again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # -- queries ---------------------------------------------------------------------------------

    def _select_where(
        self,
        conditions: list[str],
        values: list[object],
        needles: list[str],
        limit: int,
        cwd: str | None,
    ) -> list[HistoryEntry]:
        conditions, values = list(conditions), list(values)
        if cwd is not None:
            conditions.append("cwd = ?")
            values.append(cwd)
        for needle in needles:
            # As bytes: a foreign prompt may hold text that is not UTF-8, or a NUL.
            conditions.append("contains(CAST(prompt AS BLOB), ?)")
            values.append(needle.casefold())
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        return self._select(f"{_COLUMNS} {where} {_NEWEST_FIRST}", [*values, _clamp(limit)])

    def _select(self, statement: str, values: list[object]) -> list[HistoryEntry]:
        return self._run(
            lambda connection: [_entry(row) for row in connection.execute(statement, values)],
            create=False,
            default=[],
        )

    # -- opening and damage ----------------------------------------------------------------------

    def _run(
        self,
        work: Callable[[sqlite3.Connection], _Result],
        *,
        create: bool,
        default: _Result | None = None,
    ) -> _Result:
        """Do ``work`` on the connection; a damaged database is mended once and tried again."""
        with _persistence_errors(self.path):
            try:
                return self._attempt(work, create, default)
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                if not is_damage(error):
                    raise
                self._mend(error)
                return self._attempt(work, create, default)

    def _attempt(
        self,
        work: Callable[[sqlite3.Connection], _Result],
        create: bool,
        default: _Result | None,
    ) -> _Result:
        connection = self._connect(create)
        if connection is None:
            assert default is not None
            return default
        return work(connection)

    def _commit(self, connection: sqlite3.Connection) -> None:
        with _persistence_errors(self.path):
            try:
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    def _connect(self, create: bool) -> sqlite3.Connection | None:
        """The connection to what the path names now: someone may have replaced the file."""
        inode = _inode(self.path)
        if self._connection is not None:
            if inode == self._inode:
                return self._connection
            self.close()
        if inode is None:
            if not create:
                return None
            _create_private(self.path)
        connection = sqlite3.connect(
            _address(self.path, is_writing=create),
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        try:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.create_function("contains", 2, _contains, deterministic=True)
            if create:
                _prepare(connection)
            self._has_index = _has_index(connection)
        except BaseException:
            # Known even though it failed: mending must only ever touch the file that failed.
            self._inode = _inode(self.path)
            connection.close()
            raise
        if self._has_index is None:
            connection.close()
            return None
        self._connection, self._inode = connection, _inode(self.path)
        return connection

    def _mend(self, error: sqlite3.DatabaseError | UnicodeDecodeError) -> None:
        """Make the database usable again, keeping the damaged file and every readable prompt."""
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_CORRUPT_VTAB and self._connection is not None:
            try:
                self._connection.execute("INSERT INTO history_fts(history_fts) VALUES ('rebuild')")
                return
            except sqlite3.DatabaseError as worse:
                if not is_damage(worse):
                    raise
        self._replace()

    def _replace(self) -> None:
        """Set aside the file that is known to be damaged, and begin anew with its readable rows."""
        damaged = self._inode
        self.close()
        with _alone(self.path):
            if damaged is None or _inode(self.path) != damaged:
                return  # another process has already set it aside
            aside = _set_aside(self.path)
        rows = list(_readable_rows(aside))
        connection = self._connect(create=True)
        if rows and connection is not None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_INSERT, rows)
            connection.commit()


def _prepare(connection: sqlite3.Connection) -> None:
    """Make a new database ready. Takes the write lock, so only who writes anyway does it."""
    _enter_wal(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    if _tables(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _tables(connection):  # another process may have been first
            for statement in _SCHEMA:
                connection.execute(statement)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def _has_index(connection: sqlite3.Connection) -> bool | None:
    """Whether the prompts are indexed; None while there are no tables at all."""
    tables = _tables(connection)
    if not tables:
        return None
    columns = {row[1] for row in connection.execute("PRAGMA table_info(history)")}
    if not columns >= _NEEDED_COLUMNS:
        raise sqlite3.OperationalError("not a prompt history: its tables are another program's")
    return "history_fts" in tables


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL. Two processes that do so at once get SQLITE_BUSY without any waiting."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _tables(connection: sqlite3.Connection) -> set[str]:
    names = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'history%'")
    return {row[0] for row in names}


def _contains(prompt: object, needle: str) -> bool:
    text = prompt.decode("utf-8", "replace") if isinstance(prompt, bytes) else str(prompt)
    return needle in text.casefold()


def _entry(row: tuple[int, object, object, object]) -> HistoryEntry:
    number, prompt, created_at, cwd = row
    # SQLite columns hold any type; another program's row must not break ours.
    seconds = 0
    if isinstance(created_at, int | float) and -_MOST_SECONDS < created_at < _MOST_SECONDS:
        seconds = int(created_at)
    return HistoryEntry(number, _text(prompt), seconds, None if cwd is None else _text(cwd))


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _clamp(limit: int) -> int:
    return max(0, min(limit, _MOST_ROWS))


def is_damage(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Whether an error says that the file is damaged, rather than busy or out of reach."""
    if isinstance(error, UnicodeDecodeError | _BrokenTablesError):
        return True  # a name or a message of the database itself is no text any more
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return True
    # a damaged header, schema or index comes with the code for everything else
    return str(error).startswith(_DAMAGE)


_DAMAGE = (
    "unsupported file format",
    "malformed database schema",
    "SQL logic error",
    "vtable constructor failed",
    "no such table: main.history_fts",
    "invalid fts5 file format",
)


class _BrokenTablesError(sqlite3.DatabaseError):
    """The tables are ours by their columns, but nobody can write to them any more."""


def _is_refusal(error: BaseException) -> bool:
    """Whether a row was refused because a trigger or an index makes no sense any more.

    What only another program can do (a function or tokenizer of its own) is left to it.
    """
    code, reason = getattr(error, "sqlite_errorcode", 0), str(error)
    if code == sqlite3.SQLITE_CONSTRAINT:
        return reason == "constraint failed"  # of the word index; those of tables say their name
    return code == sqlite3.SQLITE_ERROR and not reason.startswith(
        ("no such function", "no such module", "no such tokenizer")
    )


def _has_no_number_left(error: BaseException, connection: sqlite3.Connection) -> bool:
    """Whether the "disk" that is full is the row numbers: a damaged counter stands at its end."""
    if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_FULL:
        return False
    try:
        (last,) = connection.execute("SELECT max(seq) FROM sqlite_sequence").fetchone()
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    return isinstance(last, int | float) and last >= _LAST_NUMBER


def _is_busy(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


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


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """No other process sets a database of this folder aside meanwhile."""
    try:
        descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
    except PermissionError:  # Windows does not open folders; the check of the file must do
        yield
        return
    try:
        lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _set_aside(path: str) -> str:
    """Move the database and its journal to a name of their own; returns it."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    aside = f"{path}.corrupt-{stamp}"
    number = 1
    while os.path.lexists(aside):
        number += 1
        aside = f"{path}.corrupt-{stamp}-{number}"
    os.rename(path, aside)
    for suffix in ("-wal", "-shm"):
        try:
            os.rename(path + suffix, aside + suffix)
        except FileNotFoundError:
            pass
    return aside


def _address(path: str, *, is_writing: bool) -> str:
    """Where SQLite finds the database.

    On a disk that may not be written, a database in WAL mode can only be read if SQLite is told
    that nobody will change it: it cannot make the files it needs beside it.
    """
    from urllib.parse import quote

    if not is_writing and not os.access(os.path.dirname(path) or ".", os.W_OK):
        return f"file:{quote(path)}?mode=ro&immutable=1"
    return f"file:{quote(path)}"


def _readable_rows(path: str) -> Iterator[tuple[str, int, str | None]]:
    """The prompts of a damaged database, up to the first that can't be read. Never writes to it."""
    from urllib.parse import quote

    try:
        connection = sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)
    except (sqlite3.Error, UnicodeDecodeError):
        return
    try:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for row in connection.execute(f"{_COLUMNS} ORDER BY rowid"):
            entry = _entry(row)
            yield entry.prompt, entry.created_at, entry.cwd
    except (sqlite3.Error, UnicodeDecodeError):
        return
    finally:
        connection.close()


@contextmanager
def _persistence_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise PersistenceError(path, f"prompt history: {error}") from error
    except OSError as error:
        raise PersistenceError.from_os_error(path, error) from error
