"""Damage to a ``history.db``: which errors mean it, and what is done about it.

A damaged text index is made again from the prompts. For any other damage the file is set aside
under a name of its own, never changed or deleted, and what can be read of it goes on in a new one.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sessiontree.storage.history_file import HistoryFile, Identity, identify, make_address
from sessiontree.storage.history_tables import (
    INSERT,
    REBUILD_INDEX,
    SELECT,
    entry_from_row,
    read_leniently,
    row_from_entry,
)
from sessiontree.storage.locks import lock

_LAST_NUMBER = (1 << 63) - 1
# a damaged header, schema or index comes with the code for everything else
_DAMAGE = (
    "unsupported file format",
    "malformed database schema",
    "SQL logic error",
    "vtable constructor failed",
    "no such table: main.history_fts",
    "invalid fts5 file format",
)

# -- what counts as damage -----------------------------------------------------------------------


class BrokenTablesError(sqlite3.DatabaseError):
    """The tables are ours by their columns, but nobody can write to them any more."""


def is_damage(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Whether an error says that the file is damaged, rather than busy or out of reach."""
    if isinstance(error, UnicodeDecodeError | BrokenTablesError):
        return True  # a name or a message of the database itself is no text any more
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return True
    return str(error).startswith(_DAMAGE)


def are_tables_broken(error: BaseException, connection: sqlite3.Connection) -> bool:
    """Whether no row can be added any more, by the error that adding one gave."""
    return _is_refusal(error) or _has_no_number_left(error, connection)


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


# -- what is done about it -----------------------------------------------------------------------


def mend(file: HistoryFile, error: sqlite3.DatabaseError | UnicodeDecodeError) -> None:
    """Make the database usable again, keeping the damaged file and every readable prompt."""
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_CORRUPT_VTAB and file.connection is not None:
        try:
            file.connection.execute(REBUILD_INDEX)
            return
        except sqlite3.DatabaseError as worse:
            if not is_damage(worse):
                raise
    replace(file, file.identity)


def replace(file: HistoryFile, damaged: Identity | None) -> None:
    """Set aside the file that is known to be damaged, and begin anew with its readable rows."""
    file.close()
    with _alone(file.path):
        if damaged is None or identify(file.path) != damaged:
            return  # another process has already set it aside
        aside = _set_aside(file.path)
    rows = list(_readable_rows(aside))
    connection = file.open_to_write()
    if rows:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT, rows)
        connection.commit()


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
        with contextlib.suppress(FileNotFoundError):
            os.rename(path + suffix, aside + suffix)
    return aside


def _readable_rows(path: str) -> Iterator[tuple[str, int, str | None]]:
    """The prompts of a damaged database, up to the first that can't be read. Never writes to it."""
    try:
        connection = sqlite3.connect(make_address(path, is_fixed=True), uri=True)
    except (sqlite3.Error, UnicodeDecodeError):
        return
    try:
        read_leniently(connection)
        for row in connection.execute(f"{SELECT} ORDER BY rowid"):
            yield row_from_entry(entry_from_row(row))
    except (sqlite3.Error, UnicodeDecodeError):
        return
    finally:
        connection.close()
