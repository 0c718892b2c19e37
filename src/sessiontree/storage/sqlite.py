"""Open SQLite files: private, never through SQLite's own creation, in WAL mode.

Two kinds of database are opened here:

- The prompt history (`sessiontree.history`) is the only copy of its content, and other programs
  write it too. A damaged one is renamed, never deleted, and only errors that are known to mean
  damage count as damage.
- The catalogue and the search index are caches, which session files can rebuild at any time. The
  second half of this module opens them. A cache that is corrupt, foreign or of another version is
  replaced without asking, and every error counts as damage unless it is known not to be. If none
  can be opened (read-only home, full disk), callers work without.

Knows nothing of the tables' content.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import time
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

from sessiontree.errors import SessionBusyError
from sessiontree.storage import locks
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.handles import Handle
from sessiontree.storage.regular import NOFOLLOW, NONBLOCK, require_regular

CACHE_VARIABLE = "SESSIONTREE_CACHE_DIR"
BUSY_TIMEOUT_S = 5.0
"""Seconds that work on the database itself waits for another process."""
PATIENCE_S = 0.2
"""Seconds that an answer waits for one; the answer can be found without the database."""
_FORGIVEN_AFTER_S = 2.0
_LOCK_TIMEOUT_S = 0.2
COMPANIONS = ("-wal", "-shm", "-journal")
"""Suffixes of the files beside a database: SQLite takes them for those of any file of its name."""
_CREATE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | NONBLOCK | NOFOLLOW
_OUT_OF_REACH = frozenset(
    (
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOLFS,
    )
)

BUSY_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
Failure = sqlite3.Error | UnicodeDecodeError | MemoryError
FAILURES = (sqlite3.Error, UnicodeDecodeError, MemoryError)
"""The errors of using a database.

The message about a damaged one may be undecodable, and its lists of words may promise so many
entries that no memory holds them.
"""
_CHECKSUM_BYTES = 4


# -- any database ----------------------------------------------------------------------------------


def connect(
    path: str,
    timeout_s: float,
    *,
    is_fixed: bool = False,
    is_reading: bool = False,
    factory: type[sqlite3.Connection] = sqlite3.Connection,
) -> sqlite3.Connection:
    """Open an existing file in autocommit mode, to write, or only to read (``is_reading``).

    SQLite never creates the file, because it would be readable by others. With ``is_fixed`` it
    takes the file for unchanging, and needs no files beside it. Raises sqlite3.Error.
    """
    mode = "mode=ro&immutable=1" if is_fixed else "mode=ro" if is_reading else "mode=rw"
    return sqlite3.connect(
        f"{_address(path)}?{mode}",
        timeout=timeout_s,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
        factory=factory,
    )


def _address(path: str) -> str:
    """Spell the path as a URI. An empty authority, because a path may begin with two slashes."""
    plain = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file://{plain}" if plain.startswith("/") else f"file:{plain}"


def create_private_file(path: str) -> None:
    """Create an empty file readable by its owner only, unless something has that name already."""
    # Only if it is new: closing a second descriptor of a database would drop the locks that this
    # process holds on it.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, _CREATE | os.O_EXCL, 0o600))


def enter_wal(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Switch to WAL, however busy the database is. Raises sqlite3.Error.

    SQLite does not wait here by itself: of two processes that switch at once, one gets SQLITE_BUSY
    immediately.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error_code(error) not in BUSY_CODES or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def error_code(error: BaseException) -> int:
    """Return SQLite's primary code of an error; 0 for an error without one."""
    if isinstance(error, MemoryError):
        return sqlite3.SQLITE_NOMEM
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


# -- caches ----------------------------------------------------------------------------------------


class DamagedRowError(sqlite3.DatabaseError):
    """A row differs from what was written."""


class Schema(msgspec.Struct, frozen=True):
    """A kind of database. Raise ``version`` whenever the tables or their meaning change.

    With ``is_self_checking`` each row proves its own content, so a power cut may damage the file,
    and no commit waits for the disk.
    """

    name: str
    version: int
    statements: tuple[str, ...]
    is_self_checking: bool = False

    @property
    def path(self) -> str:
        # the version is in the name too, so that two releases in use side by side do not
        # throw away each other's file at every turn
        return os.path.join(cache_dir(), f"{self.name}-{self.version}.sqlite3")


def cache_dir() -> str:
    """Return ``SESSIONTREE_CACHE_DIR``, else our folder in the user's cache folder."""
    override = os.environ.get(CACHE_VARIABLE)
    if override:
        return os.path.abspath(os.path.expanduser(override))
    return os.path.join(_user_cache_dir(sys.platform), "sessiontree")


def _user_cache_dir(platform: str) -> str:
    """The folder where programs of this system keep their caches."""
    if platform == "darwin":
        return os.path.expanduser("~/Library/Caches")
    if platform == "win32":
        return os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    given = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rules: a path that is not absolute counts as none.
    return given if os.path.isabs(given) else os.path.expanduser("~/.cache")


class _Connection(sqlite3.Connection):
    """A connection that waits for another process's lock once, and not again for a while.

    Otherwise each statement of a command would wait for the full timeout.
    """

    path = ""
    """Empty for a patient connection."""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        try:
            return super().execute(*arguments)
        except sqlite3.OperationalError as error:
            self._note(error)
            raise

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        try:
            return super().executemany(*arguments)
        except sqlite3.OperationalError as error:
            self._note(error)
            raise

    def _note(self, error: sqlite3.OperationalError) -> None:
        if self.path and error_code(error) in BUSY_CODES:
            _busy_until[self.path] = time.monotonic() + _FORGIVEN_AFTER_S
            super().execute("PRAGMA busy_timeout = 0")


_busy_until: dict[str, float] = {}
"""Databases that another process held for too long, and until when nothing waits for them."""


def is_given_up(schema: Schema) -> bool:
    """Whether another process held the database for too long, a moment ago."""
    return time.monotonic() < _busy_until.get(schema.path, 0.0)


@contextlib.contextmanager
def open_database(
    schema: Schema, *, is_patient: bool = False
) -> Iterator[sqlite3.Connection | None]:
    """Open a connection in autocommit mode and close it afterwards; None if that fails.

    If another process holds the database, wait for a moment only, or for some seconds if
    ``is_patient``.
    """
    connection = _connect_or_remake(schema, is_patient)
    try:
        yield connection
    finally:
        if connection is not None:
            with contextlib.suppress(*FAILURES):
                connection.close()


def discard(schema: Schema) -> None:
    """Remove the database if it is still unusable; another process may have made a new one."""
    with contextlib.suppress(OSError, SessionBusyError), _exclusive(schema.path):
        try:
            _connect(schema, check=True).close()
        except FAILURES as error:
            if is_corruption(error):
                _remove(schema)


def replace(schema: Schema) -> None:
    """Remove the database; the next process that opens it makes a new one."""
    with contextlib.suppress(OSError, SessionBusyError), _exclusive(schema.path):
        _remove(schema)


def _remove(schema: Schema) -> None:
    for companion in ("", *COMPANIONS):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(schema.path + companion)


def file_key(path: str) -> tuple[bytes, bytes]:
    """Return the key of a file's row: its folder and its name as bytes."""
    folder, name = os.path.split(path)
    return os.fsencode(folder), os.fsencode(name)


def seal(data: bytes) -> bytes:
    """Add a checksum to the data of a self-checking row."""
    return zlib.crc32(data).to_bytes(_CHECKSUM_BYTES) + data


def unseal(stored: object) -> bytes:
    """Check and return sealed data. Raises DamagedRowError, also for a value of another type."""
    if isinstance(stored, bytes):
        data = stored[_CHECKSUM_BYTES:]
        if zlib.crc32(data) == int.from_bytes(stored[:_CHECKSUM_BYTES]):
            return data
    raise DamagedRowError("a row is not what was written")


def is_corruption(error: Failure) -> bool:
    """Whether an error means that the file is damaged, rather than busy or inaccessible."""
    return error_code(error) not in _OUT_OF_REACH


def _connect_or_remake(schema: Schema, is_patient: bool) -> sqlite3.Connection | None:
    try:
        _ensure_private_file(schema.path)
        try:
            return _connect(schema, is_patient=is_patient)
        except FAILURES as error:
            if not is_corruption(error):
                return None
        discard(schema)
        _ensure_private_file(schema.path)
        return _connect(schema)
    except (OSError, *FAILURES):
        return None


def _connect(
    schema: Schema, *, check: bool = False, is_patient: bool = False
) -> sqlite3.Connection:
    """Open and, if it is new, fill with tables. sqlite3.DatabaseError if it is not ours."""
    path = schema.path
    patience_s = BUSY_TIMEOUT_S if is_patient else 0.0 if is_given_up(schema) else PATIENCE_S
    connection = connect(path, patience_s, factory=_Connection)
    assert isinstance(connection, _Connection)
    connection.path = "" if is_patient else path
    # readers refuse what is not text; SQLite's wrapper must not raise for it
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        # NORMAL: in WAL mode a commit needs no sync to keep the file whole.
        level = "OFF" if schema.is_self_checking else "NORMAL"
        connection.execute(f"PRAGMA synchronous = {level}")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            version = _create(connection, schema)
        if version != schema.version:
            raise sqlite3.DatabaseError(f"version {version} instead of {schema.version}")
        if check:
            _check(connection, schema)
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, schema: Schema) -> None:
    """Raises sqlite3.DatabaseError unless the file is sound and has just our tables."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    present = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    for statement in schema.statements:
        if statement.startswith("CREATE") and statement not in present:
            raise sqlite3.DatabaseError(f"other tables: {statement}")


def _create(connection: sqlite3.Connection, schema: Schema) -> int:
    enter_wal(connection, PATIENCE_S)
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:  # else another process was quicker
            for statement in schema.statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {schema.version:d}")
            version = schema.version
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return int(version)


def _ensure_private_file(path: str) -> None:
    """Create the file, private because it repeats the content of sessions. Raises OSError.

    A link in its place is refused: the file that it leads to is not ours to change.
    """
    FileSessionStorage().ensure_dir(os.path.dirname(path))
    create_private_file(path)
    require_regular(path, os.lstat(path))


@contextlib.contextmanager
def _exclusive(path: str) -> Iterator[None]:
    handle = Handle(f"{path}.lock", _CREATE)
    try:
        locks.lock(handle.number, path, _LOCK_TIMEOUT_S)
        yield
    finally:
        handle.close()
