"""SQLite, one of whose answers is an error: stands in for ``sqlite3`` inside the prompt history.

SQLite reads and writes without Python, so its own calls cannot be made to fail one by one; what
it would say about them can. Everything else really happens.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from dataclasses import dataclass
from typing import Any

import pytest
from tests.torture.faulty_os import FAULTS, Fault, FaultySystem
from tests.torture.stand_ins import HISTORY_MODULES, replace_sqlite

_READING = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CORRUPT)
_WRITING = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)
SQLITE_FAULTS: dict[str, tuple[int, ...]] = {
    "connect": (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM),
    "execute": (
        *_WRITING,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_CORRUPT_VTAB,
    ),
    "executemany": (*_WRITING, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CORRUPT_VTAB),
    "next row": _READING,
    "commit": _WRITING,
    "let go": (sqlite3.SQLITE_IOERR_CLOSE, sqlite3.SQLITE_BUSY),
}
"""What is asked of SQLite, and what each may be told to fail with."""
HISTORY_FAULTS: dict[str, tuple[int, ...]] = {
    **{name: FAULTS[name] for name in ("mkdir", "replace", "scandir", "flock", "lstat", "unlink")},
    "open": (*FAULTS["open"], errno.EINTR),
    "stat": (*FAULTS["stat"], errno.EINTR),
    "close": (errno.EIO, errno.EINTR),
    "access": (errno.EACCES,),
}
"""The calls of the prompt history to the system, and what each may be told to fail with."""

_MESSAGES = {
    sqlite3.SQLITE_IOERR: "disk I/O error",
    sqlite3.SQLITE_BUSY: "database is locked",
    sqlite3.SQLITE_FULL: "database or disk is full",
    sqlite3.SQLITE_CANTOPEN: "unable to open database file",
    sqlite3.SQLITE_PERM: "access permission denied",
    sqlite3.SQLITE_READONLY: "attempt to write a readonly database",
    sqlite3.SQLITE_CORRUPT: "database disk image is malformed",
}


@dataclass(frozen=True, slots=True)
class SqliteFault(Fault):
    """What SQLite says instead of doing it; after doing it, if it lets go of the file."""

    def __str__(self) -> str:
        return f"SQLite {self.code} ({self.reason}) at call {self.at} ({self.call})"

    @property
    def reason(self) -> str:
        return _MESSAGES[self.code & 0xFF]


def faults_at(at: int, call: str) -> list[Fault]:
    """Those that this call of the prompt history may meet, once."""
    if call in SQLITE_FAULTS:
        return [SqliteFault(at, call, code) for code in SQLITE_FAULTS[call]]
    return [Fault(at, call, code) for code in HISTORY_FAULTS[call]]


def reason_of(fault: Fault) -> str:
    """The words by which an error of ours must tell this fault."""
    if not isinstance(fault, SqliteFault):
        return os.strerror(fault.code)
    is_busy = fault.code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return "in use by another program" if is_busy else fault.reason


def install(system: FaultySystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system refuse what the prompt history asks of it and of SQLite."""
    system.install(monkeypatch, HISTORY_MODULES, HISTORY_FAULTS)
    replace_sqlite(monkeypatch, _Sqlite(system))


def make_error(code: int) -> sqlite3.Error:
    kind = code & 0xFF
    damaged = kind == sqlite3.SQLITE_CORRUPT
    error = (sqlite3.DatabaseError if damaged else sqlite3.OperationalError)(_MESSAGES[kind])
    error.sqlite_errorcode = code
    return error


class _Sqlite:
    """The module, whose connections may fail; all else passes through."""

    def __init__(self, system: FaultySystem) -> None:
        self._system = system

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)

    def connect(self, *arguments: Any, **options: Any) -> Any:
        refuse(self._system, "connect")
        connection = sqlite3.connect(*arguments, **(options | {"factory": _Connection}))
        connection.system = self._system
        return connection


def refuse(system: FaultySystem, call: str) -> None:
    code = system.code_for(call)
    if code is not None:
        raise make_error(code)


class _Connection(sqlite3.Connection):
    system: FaultySystem

    def execute(self, *arguments: Any) -> Any:
        refuse(self.system, "execute")
        cursor = self.cursor(_Cursor)
        cursor.system = self.system
        try:
            return cursor.execute(*arguments)
        except BaseException:
            cursor.close()  # as SQLite's own would be, which no traceback keeps
            raise

    def executemany(self, *arguments: Any) -> Any:
        refuse(self.system, "executemany")
        return super().executemany(*arguments)

    def commit(self) -> None:
        refuse(self.system, "commit")
        super().commit()

    def close(self) -> None:
        super().close()
        refuse(self.system, "let go")


class _Cursor(sqlite3.Cursor):
    """Rows are fetched one by one; the first and the fourth may fail."""

    system: FaultySystem
    rows = 0

    def __next__(self) -> Any:
        self.rows += 1
        if self.rows in (1, 4):
            try:
                refuse(self.system, "next row")
            except sqlite3.Error:
                self.close()  # a statement that failed reads no longer
                raise
        return super().__next__()
