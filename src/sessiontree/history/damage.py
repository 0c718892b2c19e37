"""Detect and repair damage to a ``history.db``.

A damaged text index is rebuilt from the prompts. After any other damage the file is renamed, never
changed or deleted, and its readable prompts go to a new one.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable

from sessiontree.history.file import (
    BUSY_TIMEOUT_S,
    HistoryFile,
    Identity,
    alone,
    identify,
)
from sessiontree.history.tables import (
    INSERT,
    REBUILD_INDEX,
    create_tables,
    entry_from_row,
    read_leniently,
    row_from_entry,
)
from sessiontree.storage import sqlite
from sessiontree.storage.temp_files import make_temp_path, sweep_temp_files

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
# Says nothing of the file: what could not be read now can be read later.
_NOT_NOW = frozenset(
    (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_PERM,
    )
)

_Row = tuple[str, int, str | None]

# -- what counts as damage -----------------------------------------------------------------------


class BrokenTablesError(sqlite3.DatabaseError):
    """The tables have our columns but can't be written to."""


def is_damage(error: sqlite.Failure) -> bool:
    """Whether an error means that the file is damaged, rather than busy or inaccessible."""
    if isinstance(error, UnicodeDecodeError | BrokenTablesError):
        return True  # a name or a message of the database itself is not text any more
    if isinstance(error, MemoryError):
        return True  # of no size that prompts have: a damaged index promises it
    code = sqlite.error_code(error)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return True
    return str(error).startswith(_DAMAGE)


def are_tables_broken(error: BaseException, connection: sqlite3.Connection) -> bool:
    """Whether no row can be added any more, by the error that adding one gave."""
    return _is_refusal(error) or _has_no_number_left(error, connection)


def _is_refusal(error: BaseException) -> bool:
    """Whether a row was refused because a trigger or an index is damaged.

    A trigger that needs another program's own function or tokenizer is not damage.
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
    except sqlite.FAILURES:
        return False
    return isinstance(last, int | float) and last >= _LAST_NUMBER


# -- what is done about it -----------------------------------------------------------------------


def repair(file: HistoryFile, error: sqlite.Failure) -> None:
    """Repair the database, keeping the damaged file and every readable prompt."""
    code = getattr(error, "sqlite_errorcode", None)
    is_index = code == sqlite3.SQLITE_CORRUPT_VTAB or isinstance(error, MemoryError)
    if is_index and file.connection is not None:
        try:
            file.connection.execute(REBUILD_INDEX)
            return
        except (sqlite3.DatabaseError, MemoryError) as worse:
            if not is_damage(worse):
                raise
    replace(file, file.identity)


def replace(file: HistoryFile, damaged: Identity | None) -> None:
    """Rename the damaged file and continue with its readable prompts in a new one.

    The new file is whole before the damaged one is touched: whatever fails, the prompts are found
    at the path or are still there to be read.
    """
    file.close()
    path = file.path
    with alone(path):
        if damaged is None or identify(path) != damaged:
            return  # another process has already set it aside
        sweep_temp_files(*os.path.split(path))
        fresh = make_temp_path(path)
        try:
            _write_fresh(fresh, _read_rows(path))
            # Once more, for where there are no locks.
            if identify(path) == damaged:
                _exchange(path, fresh)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(fresh)


def _write_fresh(path: str, rows: Iterable[_Row]) -> None:
    """Write these prompts to a complete, synced database without companion files."""
    sqlite.create_private_file(path)
    connection = sqlite.connect(path, BUSY_TIMEOUT_S)
    try:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = FULL")
        create_tables(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT, rows)
        connection.commit()
    finally:
        connection.close()


def _exchange(path: str, fresh: str) -> None:
    """Move the database and what lies beside it to a name of their own; the fresh one comes in.

    The database goes first: as long as nothing has its name, no process puts anything beside it.
    """
    aside = _find_free_name(path)
    moved: list[str] = []
    try:
        for suffix in ("", *sqlite.COMPANIONS):
            with contextlib.suppress(*((FileNotFoundError,) if suffix else ())):
                os.replace(path + suffix, aside + suffix)
                moved.append(suffix)
        os.replace(fresh, path)
    except BaseException:
        for suffix in reversed(moved):
            with contextlib.suppress(OSError):
                os.replace(aside + suffix, path + suffix)
        raise


def _find_free_name(path: str) -> str:
    stamp = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    aside = f"{path}.corrupt-{stamp}"
    number = 1
    while any(_is_taken(aside + suffix) for suffix in ("", *sqlite.COMPANIONS)):
        number += 1
        aside = f"{path}.corrupt-{stamp}-{number}"
    return aside


def _is_taken(path: str) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def _read_rows(path: str) -> list[_Row]:
    """The prompts of a damaged database that can be read, from both of its ends.

    First with its journal, then without. Never writes to it. sqlite3.Error when it is not the
    damage that is in the way: then no prompt may be given up.
    """
    found: dict[int, _Row] = {}
    for is_fixed in (False, True):
        for order in ("ASC", "DESC"):
            try:
                _collect_rows(path, order, found, is_fixed=is_fixed)
            except sqlite.FAILURES as error:
                if sqlite.error_code(error) in _NOT_NOW:
                    raise
            else:
                return [found[number] for number in sorted(found)]
    return [found[number] for number in sorted(found)]


def _collect_rows(path: str, order: str, found: dict[int, _Row], *, is_fixed: bool) -> None:
    connection = sqlite.connect(path, BUSY_TIMEOUT_S, is_fixed=is_fixed, is_reading=True)
    try:
        read_leniently(connection)
        # by rowid, which is a number whatever a damaged schema says of the columns
        beyond, last = (">", -_LAST_NUMBER - 1) if order == "ASC" else ("<", _LAST_NUMBER)
        statement = (
            "SELECT rowid, prompt, created_at, cwd FROM history"
            f" WHERE rowid {beyond}= ? ORDER BY rowid {order} LIMIT ?"
        )
        try:
            for row in connection.execute(statement, (last, -1)):
                last = row[0]
                found.setdefault(last, row_from_entry(entry_from_row(row)))
        except sqlite.FAILURES:
            # A row is only given out once the next is known: the one before the damage is asked
            # for by itself, with the one before that.
            for row in connection.execute(statement, (last, 2)):
                found.setdefault(row[0], row_from_entry(entry_from_row(row)))
            raise
    finally:
        connection.close()
