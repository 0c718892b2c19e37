"""Sessions that are rows of another program's SQLite database.

A session has the path ``<database>/<id>``; its lines are its rows, spelled as JSON. A subclass of
``RowAgent`` says where the database is, how to tell whether a session has changed (``list_rows``)
and which records it consists of (``records``).

Nothing is asked twice: while the files of the database are what they were, the sessions in it are
those that the catalogue remembers; when the database has changed, only sessions whose row has
another version are read again. A version is made of what changes with every change of a session
(counts, latest times), and becomes the inode of its ``FileStat``.
"""

from __future__ import annotations

import os
import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sessiontree.clock import now_ns
from sessiontree.discovery.adapters.base import GetSummaries, Places, StrPath
from sessiontree.discovery.adapters.records import WireRecord, read_time
from sessiontree.discovery.adapters.turns import Head, TurnAgent
from sessiontree.discovery.catalogue import databases
from sessiontree.discovery.catalogue.answers import make_key
from sessiontree.model import codec
from sessiontree.storage.base import UNKNOWN_SIZE, FileStat, SessionStorage, SessionStorageReader
from sessiontree.storage.foreign_sqlite import Tables, fingerprint, read_database

_DOTS = {".": "%2E", "..": "%2E%2E"}
_NS_PER_MS = 1_000_000
_LATEST_MS = 2**63 // _NS_PER_MS - 1
"""The latest time, which is also the latest that a file can have."""


class SessionRow(msgspec.Struct, gc=False):
    """One session in a database: its id, the time of its last change, and its version."""

    id: str
    updated_ms: int
    version: tuple[object, ...]
    owner: str | None = None
    """The id of the session that this one is a part of."""


class RowAgent(TurnAgent):
    """An agent that keeps its sessions in a SQLite database.

    Required: ``name``, ``title``, ``tables`` and the abstract methods: ``find_databases``,
    ``list_rows``, ``records``, and ``turns`` of ``TurnAgent``.
    """

    tables: Tables
    """The tables that are read, and the columns that they must have."""
    file_names: tuple[str, ...]
    """The names that the database may have."""

    @abstractmethod
    def find_databases(self, home: str, *, use_environment: bool) -> Iterable[str]:
        """The paths where the database may be."""

    @abstractmethod
    def list_rows(self, database: sqlite3.Connection, only: str | None) -> Iterator[SessionRow]:
        """Yield the sessions in a database, or the one with this id."""

    @abstractmethod
    def records(self, database: sqlite3.Connection, session_id: str) -> Iterator[WireRecord]:
        """Yield what a session consists of, in order: one line each."""

    # -- what follows from these ---------------------------------------------------------------

    def find(self, home: StrPath | None, summaries: GetSummaries) -> Places:
        del summaries
        found = Places()
        base = os.fspath(home) if home is not None else os.path.expanduser("~")
        for path in dict.fromkeys(self.find_databases(base, use_environment=home is None)):
            try:
                stats, parts = self._list(path)
            except OSError as error:
                found.unreadable.append((path, error.strerror or str(error)))
                continue
            if stats:
                found.folders[path] = stats
                found.parts |= parts
        return found

    def is_session(self, path: str, records: Sequence[dict[str, Any]]) -> bool:
        del path, records
        return False

    def has_row(self, path: str) -> bool:
        return os.path.basename(os.path.dirname(path)) in self.file_names

    def head(self, path: str) -> Head:
        return Head(id=row_id(path))

    def open_verbatim(self, path: str, storage: SessionStorage) -> SessionStorageReader:
        del storage
        file, session_id = os.path.dirname(path), row_id(path)

        def read(database: sqlite3.Connection) -> tuple[SessionRow | None, bytes]:
            row = next(self.list_rows(database, session_id), None)
            if row is None:
                return None, b""
            lines = (codec.encode(record) for record in self.records(database, session_id))
            return row, b"".join(line + b"\n" for line in lines)

        row, data = read_database(file, self.tables, read)
        if row is None:
            raise FileNotFoundError(2, "no such session in the database", path)
        stat = _to_stat(file, row)
        return LinesReader(msgspec.structs.replace(stat, size=len(data)), data)

    def find_parts(self, path: str, head: Head, storage: SessionStorage) -> Sequence[str]:
        del head, storage
        file = os.path.dirname(path)
        try:
            rows = read_database(file, self.tables, lambda at: list(self.list_rows(at, None)))
        except OSError:
            return ()
        return sorted(part for part, main in _find_parts(file, rows).items() if main == path)

    def _list(self, path: str) -> tuple[list[FileStat], dict[str, str]]:
        """List a database's sessions, as remembered if it has not changed. Raises OSError."""
        read_ns = now_ns()
        found = fingerprint(path)
        if found is None:
            return [], {}
        known = databases.recall(path, found)
        if known is None:
            rows = read_database(path, self.tables, lambda at: list(self.list_rows(at, None)))
            stats = [_to_stat(path, row) for row in rows if row.id]
            known = databases.Listing(found, read_ns, stats, _find_parts(path, rows))
            databases.remember(path, known)
        return known.stats, known.parts


class LinesReader:
    """A session's lines in memory, under the path that they were asked for by."""

    def __init__(self, stat: FileStat, data: bytes) -> None:
        self._stat = stat
        self._data: bytes | None = data

    def stat(self) -> FileStat:
        """The stat of the session when it was read."""
        self._held()
        return self._stat

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``."""
        return self._held()[offset : offset + length]

    def close(self) -> None:
        """Free the lines."""
        self._data = None

    def _held(self) -> bytes:
        if self._data is None:
            raise OSError(9, "the session is closed", self._stat.path)
        return self._data


def spell_lines(
    reader: SessionStorageReader, play: Callable[[bytes], Iterable[WireRecord]]
) -> LinesReader:
    """Read all of a session, close it, and spell what ``play`` makes of it as lines."""
    try:
        stat = reader.stat()
        data = reader.read_at(0, stat.size)
    finally:
        reader.close()
    lines = b"".join(codec.encode(record) + b"\n" for record in play(data))
    return LinesReader(msgspec.structs.replace(stat, size=len(lines)), lines)


def row_path(database: str, session_id: str) -> str:
    """The path of a session in a database; ids may hold anything."""
    from urllib.parse import quote  # only where there is a database

    name = quote(session_id, safe="", errors="surrogatepass")
    return os.path.join(database, _DOTS.get(name, name))


def row_id(path: str) -> str:
    """The id of the session at a path that ``row_path`` made."""
    from urllib.parse import unquote

    return unquote(os.path.basename(path), errors="surrogatepass")


def select_rows(
    database: sqlite3.Connection, sql: str, arguments: Iterable[object] = ()
) -> Iterator[WireRecord]:
    """Select rows as records, without what JSON can't express."""
    cursor = database.execute(sql, tuple(arguments))
    names = [column[0] for column in cursor.description]
    for row in cursor:
        yield {
            name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            for name, value in zip(names, row, strict=True)
            if value is not None
        }


def column_names(database: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table of ours: newer versions of an agent have more."""
    return {row[1] for row in database.execute(f"PRAGMA table_info({table})")}


def decode_column(row: Mapping[str, Any], key: str) -> Any:
    """The value of a column that holds JSON; any other text unchanged."""
    value = row.get(key)
    if not isinstance(value, str):
        return value
    try:
        return codec.decode(value.encode("utf-8", "surrogatepass"))
    except ValueError:
        return value


def as_ms(value: object) -> int:
    """A time in a database in milliseconds; 0 for any other value."""
    return read_time(value) or 0


def _find_parts(database: str, rows: list[SessionRow]) -> dict[str, str]:
    """Map each part's path to its session's; parts may have parts."""
    owners = {row.id: row.owner for row in rows}
    parts = {}
    for row in rows:
        at, seen = row.id, {row.id}
        while (owner := owners[at]) is not None and owner in owners and owner not in seen:
            seen.add(owner)
            at = owner
        if at != row.id:
            parts[row_path(database, row.id)] = row_path(database, at)
    return parts


def _to_stat(database: str, row: SessionRow) -> FileStat:
    """Make the stat that stands for a session's file: it changes whenever the session does."""
    updated_ms = max(-_LATEST_MS, min(row.updated_ms, _LATEST_MS))  # a row may hold any number
    updated_ns = updated_ms * _NS_PER_MS + 1
    version = make_key(row.id, *row.version)
    return FileStat(row_path(database, row.id), UNKNOWN_SIZE, updated_ns, version, 0, updated_ns)
