"""The tables in the database: made, told apart by version, upgraded while clients run.

A new version is one more ``Migration``, and never changes an old one. Clients of the version before
go on working beside it: it expands (new tables, nullable columns, new functions beside the old),
and a later one contracts, once ``oldest_client`` may shut the old clients out; they then get one
clear line. Each is one transaction that waits for its locks only briefly, so that it never stands
in a queue before the clients; indexes on large tables are built concurrently, behind it.

The functions and rules of the newest version are made again where a database has other ones: made
by another build of the same version, or changed by hand (``made``).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from sessiontree.errors import StoreError
from sessiontree.stores.postgres.database import CLIENT_VERSION, PATIENCE_S
from sessiontree.stores.postgres.made import (
    drop_left_over,
    find_changed,
    is_of_other_text,
    is_rule,
    note_made,
)
from sessiontree.stores.postgres.pool import NEVER, Connection

if TYPE_CHECKING:
    from sessiontree.stores.postgres.database import Database

_LOCK_KEY = 7_355_608_411
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"
_PAUSE_S = 0.5

_OWNER = (
    "SELECT r.rolname, r.rolcanlogin, pg_has_role(r.oid, 'MEMBER') FROM pg_class c "
    "JOIN pg_roles r ON r.oid = c.relowner WHERE c.oid = to_regclass('st_session')"
)
_IS_BUSY = (
    "SELECT 1 FROM pg_locks WHERE relation = to_regclass(%s) AND pid <> pg_backend_pid() "
    "AND mode = 'ShareUpdateExclusiveLock'"
)
_IN_THE_WAY = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.DuplicateTable,
    psycopg.errors.UndefinedObject,
    psycopg.errors.ObjectInUse,
    psycopg.errors.UniqueViolation,
    psycopg.errors.InternalError_,  # "tuple concurrently updated": two at the same index
)
_TO_MAKE_AGAIN = "; to make it as it should be: sessiontree store upgrade URL"
_IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"


@dataclass(frozen=True, slots=True)
class Migration:
    """The step to a version: ``sql`` and ``rules`` in one transaction, then ``indexes`` one by one.

    ``rules`` are functions and who sees which rows: what may be made again at any time.

    ``indexes`` are built while others write, by name: what CREATE INDEX CONCURRENTLY takes behind
    it. The next ``upgrade`` builds those again that were left unfinished.
    """

    version: int
    sql: str
    indexes: Mapping[str, str] = field(default_factory=dict)
    oldest_client: int = 1
    rules: str = ""

    @property
    def text(self) -> str:
        """All that it is made of."""
        return self.sql + self.rules


def migrations() -> list[Migration]:
    """All steps, the first from an empty database."""
    return [Migration(1, _read("schema_1.sql"), rules=_read("rules_1.sql"))]


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The version of the tables, and the oldest client that may use them; 0 without tables."""

    version: int
    oldest_client: int

    @property
    def is_usable(self) -> bool:
        """Whether this package can work with them."""
        return self.version >= CLIENT_VERSION >= self.oldest_client


def read_state(database: Database) -> SchemaState:
    """Read the version of the tables. Raises StoreError."""
    with _connected(database) as connection:
        return _state(connection)


def upgrade(
    database: Database, steps: Sequence[Migration] | None = None, *, is_init: bool = False
) -> list[int]:
    """Bring the tables to the newest version; return the versions that were made, or made again.

    ``is_init`` also where there are none yet. Raises StoreError.
    """
    made: list[int] = []
    with _connected(database) as connection:
        if not is_init and not _state(connection).version:
            raise StoreError(
                f"{database.address.shown} has no tables for sessions yet; to create them: "
                "sessiontree store init URL"
            )
        for step in steps if steps is not None else migrations():
            _until(partial(_make, connection, step, made), database, step)
            for name, made_of in step.indexes.items():
                _until(partial(_build, connection, name, made_of), database, step)
        newest = (steps if steps is not None else migrations())[-1]
        if newest.version not in made:
            _until(partial(_make_again, connection, newest, made), database, newest)
    database.pool.checked_at = NEVER
    return made


def _until(is_done: Callable[[], bool], database: Database, step: Migration) -> None:
    """Try again and again; raise StoreError if others stand in the way for too long."""
    deadline = time.monotonic() + PATIENCE_S
    reason = "others are at it"
    while True:
        try:
            if is_done():
                return
        except _IN_THE_WAY as error:
            reason = error.diag.message_primary or reason
        if time.monotonic() > deadline:
            raise StoreError(
                f"{database.address.shown}: version {step.version} could not get its locks "
                f"between the statements of others ({reason}); try again when it is quieter"
            )
        time.sleep(random.uniform(_PAUSE_S / 2, _PAUSE_S))


def _make(connection: Connection, step: Migration, made: list[int]) -> bool:
    """Take one step, unless it was taken."""
    with connection.transaction():
        connection.execute(_LOCK_TIMEOUT)  # of this one, too, which every role may hold
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
        if _state(connection).version >= step.version:
            return True
        _become_owner(connection)
        connection.execute(step.text.encode())
        connection.execute(
            "UPDATE st_meta SET version = %s, oldest_client = greatest(oldest_client, %s)",
            (step.version, step.oldest_client),
        )
        if step.rules:
            note_made(connection, step.text, step.rules)
    made.append(step.version)
    return True


def _make_again(connection: Connection, step: Migration, made: list[int]) -> bool:
    """Make the functions and rules of the newest step again, where the database has other ones."""
    with connection.transaction():
        connection.execute(_LOCK_TIMEOUT)
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
        if not step.rules or _state(connection).version != step.version:
            return True
        if not _differs(connection, step):
            return True
        _become_owner(connection)
        connection.execute(step.rules.encode())
        drop_left_over(connection, step.rules)
        note_made(connection, step.text, step.rules)
    made.append(step.version)
    return True


def _differs(connection: Connection, step: Migration) -> bool:
    is_other = is_of_other_text(connection, step.text)
    return is_other or any(map(is_rule, find_changed(connection, step.rules)))


def find_differences(database: Database) -> list[str]:
    """Say what is not as this version makes it; nothing about tables of another version."""
    newest = migrations()[-1]
    with _connected(database) as connection:
        if _state(connection).version != newest.version:
            return []
        if is_of_other_text(connection, newest.text):
            return [f"another build of this version made the functions and rules{_TO_MAKE_AGAIN}"]
        changed = find_changed(connection, newest.rules)
    return [
        f"{name} is not as it was made{_TO_MAKE_AGAIN if is_rule(name) else ''}" for name in changed
    ]


@dataclass(frozen=True, slots=True)
class Owner:
    """The role that has the tables; ``is_person`` if one can log in with it."""

    name: str
    is_person: bool
    is_ours: bool
    """Whether this connection may act as it."""


def find_owner(connection: Connection) -> Owner | None:
    """The owner of the tables; None if there are none yet."""
    found = connection.execute(_OWNER).fetchone()
    return Owner(*found) if found is not None else None


def _become_owner(connection: Connection) -> None:
    """Act as the owner's role, so that what one of several owners makes belongs to all of them."""
    owner = find_owner(connection)
    if owner is not None and owner.is_ours:
        connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(owner.name)))


def _build(connection: Connection, name: str, made_of: str) -> bool:
    """Build an index that is not there, or that somebody began and left unfinished.

    False while somebody else is at it: two at once would wait for one another.
    """
    found = connection.execute(_IS_VALID, (name,)).fetchone()
    if found is not None and found[0]:
        return True
    table = made_of.removeprefix("ON ").split()[0]
    if connection.execute(_IS_BUSY, (table,)).fetchone() is not None:
        return False
    index = sql.Identifier(name)
    connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(index))
    connection.execute(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} {made_of}".encode())
    return False  # the caller checks once more


def _state(connection: Connection) -> SchemaState:
    found = connection.execute("SELECT to_regclass('st_meta') IS NOT NULL").fetchone()
    if found is None or not found[0]:
        return SchemaState(0, 0)
    row = connection.execute("SELECT version, oldest_client FROM st_meta").fetchone()
    return SchemaState(*row) if row is not None else SchemaState(0, 0)


class _connected:  # noqa: N801 - used as a block
    """Open a connection of its own, whose errors are one line."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> Connection:
        try:
            self._connection = self._database.connect()
        except psycopg.Error as error:
            raise self._database.explain(error) from error
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._connection.close()
        if isinstance(error, psycopg.Error):
            raise self._database.explain(error) from error
