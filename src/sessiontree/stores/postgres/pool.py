"""The connections of this process to a database: a few, lent for one statement each.

One pool serves all stores of the same database and user, whatever their tenants. A connection that
failed is closed, never lent again. A child process that was forked begins with its own.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import pq

if TYPE_CHECKING:
    from sessiontree.stores.postgres.combining import Combiner

Row = tuple[Any, ...]


class Connection(psycopg.Connection[Row]):
    """A connection that keeps nothing on the server, but for frequent statements if it may."""

    _frequent = 0
    _is_judged = False

    def note_frequent(self) -> None:
        """Note that a frequent statement follows; after a few the server keeps it planned.

        Unless a pooler stands between: it would hand the next transaction to another server. One
        gives its clients numbers of its own instead of the server's process.
        """
        self._frequent += 1
        if self._frequent < _FEW or self._is_judged:
            return
        if self.info.transaction_status == pq.TransactionStatus.IDLE:
            self._is_judged = True
            (pid,) = self.execute("SELECT pg_backend_pid()").fetchone() or (0,)
            if pid == self.info.backend_pid:
                self.prepare_threshold = 1


NEVER = float("-inf")
_CONNECT_TIMEOUT_S = 10
_FEW = 10

# What it notes of lost connections is dealt with here; without a handler it would be printed.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class ConnectionPool:
    """At most ``size`` connections at a time; more threads than that wait for one another."""

    def __init__(self, conninfo: str, size: int) -> None:
        self._conninfo = conninfo
        self.size = size
        self.has_connected = False
        self.checked_at = NEVER
        """When the database was last seen to have tables that we can use."""
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._idle: deque[Connection] = deque()
        self.combiners: dict[str | None, Combiner] = {}
        """For the appends of each tenant."""
        # as a semaphore; Python's own takes several times as long where threads wait
        self._room: SimpleQueue[None] = SimpleQueue()
        for _ in range(self.size):
            self._room.put(None)

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for as long as the block takes. Raises psycopg.Error."""
        self.follow_process()
        room = self._room
        room.get()
        try:
            connection = self._take()
            try:
                yield connection
            finally:
                if connection.info.transaction_status == pq.TransactionStatus.IDLE:
                    self._idle.append(connection)
                else:
                    is_broken = connection.broken
                    connection.close()
                    if is_broken:
                        self.close()  # what broke one has most likely broken those that wait
        finally:
            room.put(None)

    def follow_process(self) -> None:
        """Begin again in a child process that was forked: nothing of the parent's is for it."""
        if self._process != os.getpid():
            self._inherited = self._idle  # closing them here would end them there
            self._begin()

    def _take(self) -> Connection:
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread took the last one
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
        connection = connect(self._conninfo)
        self.has_connected = True
        return connection

    def close(self) -> None:
        """Close idle connections; later work opens new ones."""
        while self._idle:
            with contextlib.suppress(IndexError):
                self._idle.pop().close()


def connect(conninfo: str) -> Connection:
    """A new connection in autocommit that keeps nothing on the server. Raises psycopg.Error."""
    return Connection.connect(
        conninfo,
        autocommit=True,
        prepare_threshold=None,
        connect_timeout=_CONNECT_TIMEOUT_S,
        application_name="sessiontree",
    )


_pools: dict[tuple[str, int], ConnectionPool] = {}
_lock = threading.Lock()


def find_pool(conninfo: str, size: int) -> ConnectionPool:
    """This process's pool for a database."""
    with _lock:
        return _pools.setdefault((conninfo, size), ConnectionPool(conninfo, size))


@atexit.register
def close_pools() -> None:
    """Close all idle connections when the program ends."""
    for pool in list(_pools.values()):
        pool.close()
