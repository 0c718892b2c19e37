"""Statements on a PostgreSQL database: connections, one round trip each, and retries.

**Connections.** A statement borrows one of a few connections for as long as it runs. Nothing is
kept in them: no setting, no lock, so a pooler in transaction mode may hand each transaction to
another server. The append alone is prepared, after a few times, where no pooler is (``pool``).
Several statements that belong together, and the tenant that they are for, go out in one pipeline:
one round trip.

**Again.** A server may end a connection, crash, refuse for serialization, or find a deadlock. Every
statement of ours may be sent twice: reads anyway; an append is recognised by its entries' ids, and
all else is compared with a revision. So what failed in one of these ways is sent again, at once and
then after growing, random waits, until ``patience_s`` has passed. ``Statement.again`` is what is
sent from the second time on.

Any number of threads may use one ``Database``.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import pq

from sessiontree.errors import MissingSchemaError, PersistenceError, StoreError
from sessiontree.stores.postgres.address import Address, hide_password
from sessiontree.stores.postgres.pool import NEVER, Connection, Row, connect, find_pool
from sessiontree.text.escaping import one_line

Parameters = Sequence[Any]

_T = TypeVar("_T")

CLIENT_VERSION = 1
"""The newest schema that this package was written for; see ``schema``."""

MOST_BYTES = 1_000_000_000
"""The most bytes of a statement: PostgreSQL closes the connection on one of 1 GiB."""

PATIENCE_S = 30.0
RECHECK_S = 60.0
"""The most seconds until a running client notices that it can't use the tables any more."""

_FIRST_WAIT_S = 0.01
_LONGEST_WAIT_S = 1.0
_LONGEST_WAIT_FOR_OTHERS_S = 0.1
"""After a conflict: others do get through, and who waited longest must not come last."""
_AGAIN = frozenset(
    (
        *("40001", "40P01", "55P03"),  # serialization, deadlock, lock not available
        *("57P01", "57P02", "57P03", "53300"),  # shut down, crashed, starting, too many
        *("57P05", "25P03", "25P04"),  # a server that ends connections which were idle for long
        *("25006", "08000", "08003", "08006", "08P01", "58000"),  # a standby after a failover
    )
)
_CONFLICTS = frozenset(("40001", "40P01", "55P03"))
_NO_TABLES = frozenset(("42P01", "42883", "3F000", "42703"))


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, and what is sent instead if it may have been carried out already."""

    sql: str
    parameters: Parameters = ()
    again: Parameters | None = None
    names_tenant: bool = False
    """Whether it says itself whose rows it is for."""
    is_frequent: bool = False
    """Whether the server should keep it parsed and planned, where no pooler stands before it."""


class Database:
    """One database, as one tenant."""

    def __init__(self, address: Address, *, patience_s: float = PATIENCE_S) -> None:
        self.address = address
        self.patience_s = patience_s
        self.round_trips = 0
        self.pool = find_pool(address.conninfo, address.pool)

    # -- statements ------------------------------------------------------------------------

    def run(
        self, sql: str, parameters: Parameters = (), again: Parameters | None = None
    ) -> list[Row]:
        """The rows of one statement, which is sent again where that helps.

        Raises PersistenceError, StoreError.
        """
        return self.run_all([Statement(sql, parameters, again)])[0]

    def run_all(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """The rows of each of these statements, in one transaction and one round trip."""
        return self.attempt(
            lambda connection, is_again: self.send(connection, statements, is_again)
        )

    def send(
        self, connection: Connection, statements: Sequence[Statement], is_again: bool = False
    ) -> list[list[Row]]:
        """Send statements over a connection that the caller holds."""
        self.round_trips += 1
        tenant = self.address.tenant
        chosen = [
            (each.sql, each.again if is_again and each.again is not None else each.parameters)
            for each in statements
        ]
        is_held = connection.info.transaction_status != pq.TransactionStatus.IDLE
        if len(chosen) == 1 and (tenant is None or statements[0].names_tenant):
            is_frequent = statements[0].is_frequent
            if is_frequent:
                connection.note_frequent()
            prepare = None if is_frequent else False
            return [_fetch(connection.execute(*chosen[0], prepare=prepare, binary=True))]
        with connection.pipeline():
            if not is_held:
                connection.execute("BEGIN", prepare=False)
            if tenant is not None and not is_held:
                connection.execute(_SET_TENANT, (tenant,), prepare=False)
            cursors = [connection.execute(*each, prepare=False, binary=True) for each in chosen]
            if not is_held:
                connection.execute("COMMIT", prepare=False)
        return [_fetch(cursor) for cursor in cursors]

    def attempt(self, work: Callable[[Connection, bool], _T]) -> _T:
        """Do something with a connection, again if the server or the line failed in between.

        ``work`` is given a flag: whether it may have been done already. Raises PersistenceError,
        StoreError.
        """
        deadline = time.monotonic() + self.patience_s
        tries = 0
        is_again = False
        is_looked_at = False
        while True:
            try:
                with self.connection() as connection:
                    return work(connection, is_again)
            except psycopg.Error as error:
                is_again = True
                tries += 1
                failure = error
            if failure.sqlstate in _NO_TABLES and not is_looked_at:
                # perhaps somebody has upgraded the tables: their version explains the error better
                is_looked_at = True
                self.pool.checked_at = NEVER
                continue
            if not self.may_help(failure):
                raise self.explain(failure) from failure
            if time.monotonic() >= deadline:
                told = self.explain(failure)
                if isinstance(told, PersistenceError):
                    told.is_out_of_reach = failure.sqlstate not in _CONFLICTS
                raise told from failure
            if tries > 1:  # once at once: an idle connection may have been cut long ago
                is_conflict = failure.sqlstate in _CONFLICTS
                longest = _LONGEST_WAIT_FOR_OTHERS_S if is_conflict else _LONGEST_WAIT_S
                longest = min(longest, _FIRST_WAIT_S * 2 ** min(tries, 10))
                time.sleep(random.uniform(0, longest))

    def require_room(self, size: int, advice: str = "") -> None:
        """Raise PersistenceError for more bytes than the server takes; it would just hang up."""
        if size > MOST_BYTES:
            taken, given = MOST_BYTES / 1e9, size / 1e9
            reason = f"takes at most {taken:,.1f} GB at once, and these are {given:,.1f} GB"
            raise PersistenceError(self.address.shown, reason + advice)

    def may_help(self, error: BaseException | None) -> bool:
        """Whether sending it again may succeed."""
        if not isinstance(error, psycopg.Error):
            return False
        if error.sqlstate is not None:
            return error.sqlstate in _AGAIN
        # without a code it is the line; before the first connection, rather a wrong address
        return isinstance(error, psycopg.OperationalError) and self.pool.has_connected

    def explain(self, error: psycopg.Error) -> PersistenceError | StoreError:
        """Make an error with one line from what the server said."""
        said = error.diag.message_primary if error.sqlstate is not None else None
        reason = one_line(hide_password(said or str(error) or type(error).__name__)).strip()
        if error.sqlstate in _NO_TABLES:
            self.pool.checked_at = NEVER
            return MissingSchemaError(
                f"{self.address.shown}: {reason}; to create or upgrade the tables: "
                "sessiontree store upgrade URL"
            )
        if not self.pool.has_connected:
            return StoreError(f"{self.address.shown}: {reason}")
        return PersistenceError(self.address.shown, reason)

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for as long as the block takes, to a database that has our tables."""
        with self.pool.connection() as connection:
            if time.monotonic() - self.pool.checked_at > RECHECK_S:
                self._check(connection)
            yield connection

    def connect(self) -> Connection:
        """A connection of the caller's own, for what no pool may lend. Raises psycopg.Error."""
        made = connect(self.address.conninfo)
        self.pool.has_connected = True
        return made

    @contextlib.contextmanager
    def transaction(self, sql: str, parameters: Parameters) -> Iterator[Connection]:
        """A transaction that begins with a statement, usually one that locks. psycopg.Error."""
        with self.connection() as connection, connection.transaction():
            if self.address.tenant is not None:
                connection.execute(_SET_TENANT, (self.address.tenant,), prepare=False)
            connection.execute(sql, parameters, prepare=False)
            yield connection

    def _check(self, connection: Connection) -> None:
        try:
            found = connection.execute(_VERSIONS, prepare=False).fetchone()
        except psycopg.errors.UndefinedTable:
            raise MissingSchemaError(
                f"{self.address.shown} has no tables for sessions yet; to create them: "
                "sessiontree store init URL"
            ) from None
        version, oldest_client = found or (0, 0)
        if version < CLIENT_VERSION:
            raise MissingSchemaError(
                f"{self.address.shown} is at schema {version}, this Sessiontree needs "
                f"{CLIENT_VERSION}; to upgrade it: sessiontree store upgrade URL"
            )
        if oldest_client > CLIENT_VERSION:
            raise MissingSchemaError(
                f"{self.address.shown} takes clients from version {oldest_client} on, this one is "
                f"{CLIENT_VERSION}: upgrade Sessiontree"
            )
        self.pool.checked_at = time.monotonic()


_VERSIONS = "SELECT version, oldest_client FROM st_meta"
_SET_TENANT = "SELECT set_config('sessiontree.tenant', %s, true)"


def _fetch(cursor: psycopg.Cursor[Row]) -> list[Row]:
    found = cursor.pgresult  # ``description`` would make an object of each column
    return cursor.fetchall() if found is not None and found.nfields else []
