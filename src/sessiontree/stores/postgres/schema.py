"""The tables in the database: made, told apart by version, upgraded while clients run.

A new version is one more ``Migration``, and never changes an old one. Clients of the version before
go on working beside it: it expands (new tables, nullable columns, new functions beside the old),
and a later one contracts, once ``oldest_client`` may shut the old clients out; they then get one
clear line. Each is one transaction that waits for its locks only briefly, so that it never stands
in a queue before the clients; indexes on large tables are built concurrently, behind it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

import psycopg

from sessiontree.errors import StoreError
from sessiontree.stores.postgres.database import CLIENT_VERSION, PATIENCE_S
from sessiontree.stores.postgres.pool import Connection

if TYPE_CHECKING:
    from sessiontree.stores.postgres.database import Database

_LOCK_KEY = 7_355_608_411
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"
_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Migration:
    """The step to a version: ``sql`` in one transaction, then ``concurrently`` one by one."""

    version: int
    sql: str
    concurrently: Sequence[str] = ()
    oldest_client: int = 1


def migrations() -> list[Migration]:
    """All steps, the first from an empty database."""
    first = files(__package__).joinpath("schema_1.sql").read_text(encoding="utf-8")
    return [Migration(1, first)]


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
    """What tables there are. Raises StoreError."""
    with _connected(database) as connection:
        return _state(connection)


def upgrade(
    database: Database, steps: Sequence[Migration] | None = None, *, is_init: bool = False
) -> list[int]:
    """Bring the tables to the newest version; the versions that were made.

    ``is_init`` also where there are none yet. Raises StoreError.
    """
    made: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    with _connected(database) as connection:
        if not is_init and not _state(connection).version:
            raise StoreError(
                f"{database.address.shown} has no tables for sessions yet; to create them: "
                "sessiontree store init URL"
            )
        for step in steps if steps is not None else migrations():
            while not _make(connection, step, made):
                if time.monotonic() > deadline:
                    raise StoreError(
                        f"{database.address.shown}: version {step.version} could not get its locks "
                        "between the statements of others; try again when it is quieter"
                    )
                time.sleep(_PAUSE_S)
    database.pool.is_checked = False
    return made


def _make(connection: Connection, step: Migration, made: list[int]) -> bool:
    """Take one step, unless it was taken; False if its locks were not to be had just now."""
    try:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
            if _state(connection).version >= step.version:
                return True
            connection.execute(_LOCK_TIMEOUT)
            connection.execute(step.sql.encode())
            connection.execute(
                "UPDATE st_meta SET version = %s, oldest_client = greatest(oldest_client, %s)",
                (step.version, step.oldest_client),
            )
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        return False
    for statement in step.concurrently:
        connection.execute(statement.encode())
    made.append(step.version)
    return True


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
