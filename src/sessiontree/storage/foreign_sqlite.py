"""Read another program's SQLite database where it lies, without changing anything of it.

Opening a database is not harmless: SQLite makes the files ``-wal`` and ``-shm`` beside it, empties
the log into it, and holds locks that its owner may run into. So there are three ways in:

- **Without a log** (no ``-wal``, or an empty one) the file itself is complete. It is opened as
  immutable: no lock, no other file. Nothing then keeps the owner from writing meanwhile, so the
  files are compared before and after, and what was read in between is read again.
- **With a log** and its index (``-shm``), the owner is running, or was killed. The index is opened
  for reading only; the shared lock on it keeps no writer waiting.
- **With a log but no index** (a copied folder), only a writer could make the index. A private copy
  of both files is opened instead.

A database in the middle of a change (a rollback journal beside it) can't be read without repairing
it, and that is its owner's to do.

What is in the file may be hostile: only tables are read, not views, and reading ends after a while.
Everything that goes wrong becomes one OSError that names the file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from sessiontree.clock import now_ns
from sessiontree.storage.sqlite import BUSY_CODES, FAILURES, Failure, error_code

_Result = TypeVar("_Result")
Fingerprint = tuple[tuple[int, int, int, int], ...]
Tables = Mapping[str, frozenset[str]]
"""Tables, each with columns that it must have."""

_ATTEMPTS = 5
_TICK_NS = 25_000_000
"""Files that changed within this time may change again without another mtime."""
_MOST_S = 60.0
_PATIENCE_S = 0.5
# The owner makes and removes its log and index; who opens them at that moment finds one of them.
_PASSING = (*BUSY_CODES, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
_MOST_BYTES = 1 << 29
_PROGRESS_STEPS = 100_000
_BUSY = "another program is writing it: try again"
_HALF_WRITTEN = "a change of it is not finished: start its agent once, then try again"
_DAMAGED = "is damaged, or no SQLite database"
_SLOW = "takes too long to read"
_LARGE = "needs more memory than there is"


class _ChangedError(Exception):
    """The files changed while they were read."""


def fingerprint(path: str) -> Fingerprint | None:
    """Return what tells whether a database has changed; None if there is none. Raises OSError."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    return (_facts(found), _facts_of(path + "-wal"), _facts_of(path + "-journal"))


def read_database(
    path: str, tables: Tables, job: Callable[[sqlite3.Connection], _Result]
) -> _Result:
    """Run ``job`` on one state of the database and return its result. Raises OSError.

    ``job`` may run more than once.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _read_once(path, tables, job)
        except _ChangedError:
            time.sleep(0.03 * (attempt + 1))
        except FAILURES as error:
            if attempt == _ATTEMPTS - 1 or error_code(error) not in _PASSING:
                raise _explain(path, error) from error
            time.sleep(0.03 * (attempt + 1))
    raise OSError(errno.EBUSY, _BUSY, path)


def _read_once(path: str, tables: Tables, job: Callable[[sqlite3.Connection], _Result]) -> _Result:
    before = fingerprint(path)
    if before is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    _, wal, journal = before
    if journal[0] > 0:
        raise OSError(errno.EBUSY, _HALF_WRITTEN, path)
    has_log = wal[0] > 0
    if has_log and os.path.exists(path + "-shm"):
        return _run(_uri(path, "mode=ro&readonly_shm=1"), tables, job)
    if not has_log and now_ns() - before[0][1] < _TICK_NS:
        time.sleep(_TICK_NS / 1e9)
        before = fingerprint(path)
    try:
        if has_log:
            with _copied(path) as copy:
                result = _run(_uri(copy, "mode=rw"), tables, job)
        else:
            result = _run(_uri(path, "mode=ro&immutable=1"), tables, job)
    except FAILURES:
        if fingerprint(path) != before:
            raise _ChangedError from None
        raise
    if fingerprint(path) != before:
        raise _ChangedError
    return result


def _run(uri: str, tables: Tables, job: Callable[[sqlite3.Connection], _Result]) -> _Result:
    connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE_S, isolation_level=None)
    deadline = time.monotonic() + _MOST_S
    try:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _PROGRESS_STEPS)
        for pragma in ("query_only = ON", "trusted_schema = OFF", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")
        _require(connection, tables)
        return job(connection)
    finally:
        connection.close()


def _require(connection: sqlite3.Connection, tables: Tables) -> None:
    """Raise OperationalError unless the database has these tables and columns."""
    present = dict(connection.execute("SELECT name, type FROM sqlite_master").fetchall())
    for table, columns in tables.items():
        if present.get(table) != "table":
            raise sqlite3.OperationalError(f"no such table: {table}")
        # the names are ours, not the file's
        found = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for column in sorted(columns - found):
            raise sqlite3.OperationalError(f"no such column: {table}.{column}")


@contextlib.contextmanager
def _copied(path: str) -> Iterator[str]:
    """Copy a database and its log to a private folder, and remove the copy afterwards."""
    import shutil  # only here: few databases need it, and every listing would load it
    import tempfile

    with tempfile.TemporaryDirectory(prefix="sessiontree-") as folder:
        copy = os.path.join(folder, "copy.db")
        for suffix in ("", "-wal"):
            shutil.copyfile(path + suffix, copy + suffix)
        yield copy


def _explain(path: str, error: Failure) -> OSError:
    """Say in a few words what is wrong with a database."""
    code, said = error_code(error), str(error)
    if code in BUSY_CODES:
        return OSError(errno.EBUSY, _BUSY, path)
    if code == sqlite3.SQLITE_INTERRUPT:
        return OSError(errno.ETIMEDOUT, _SLOW, path)
    if code == sqlite3.SQLITE_NOMEM:
        return OSError(errno.ENOMEM, _LARGE, path)
    if said.startswith(("no such table", "no such column")):
        what = said.removeprefix("no such ").replace(": ", " ")
        return OSError(
            errno.EINVAL, f"has another layout than this Sessiontree knows (no {what})", path
        )
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM):
        return OSError(errno.EACCES, f"can't be opened: {said}", path)
    return OSError(errno.EINVAL, _DAMAGED, path)


def _uri(path: str, options: str) -> str:
    from urllib.parse import quote

    return f"file:{quote(os.fsencode(path))}?{options}"


def _facts_of(path: str) -> tuple[int, int, int, int]:
    try:
        return _facts(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return (-1, 0, 0, 0)


def _facts(found: os.stat_result) -> tuple[int, int, int, int]:
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
