"""The server that the group ``postgres`` measures on, and what is in it.

Owns the cluster (below the temporary folder, as the tests have theirs, but waiting for the disk as
a server does that nobody has tuned), a proxy that is as far away as a network, filled databases.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from tests.postgres_server import Server, own_server

from benchmarks.world import CHECKOUT
from sessiontree.stores.postgres.schema import upgrade
from sessiontree.stores.postgres.store import PostgresStore
from sessiontree.stores.postgres.upkeep import grant

DATABASE = "bench"
TEXT = "the words of a message that somebody typed or a model answered with " * 6
"""What is appended: some 400 characters."""
COMMON, USUAL, RARE, HAN = "session", "basket", "quixotic", "数据"
"""A word of every second message, of one in a hundred, of a few, and two Han characters."""

_VOCABULARY = 20_000
# ``n * 0`` makes the words of each line its own: else the server would choose them once for all
_LINE = """
'{{"type":"message","id":"' || lpad(to_hex(n), 8, '0') || '","parentId":'
|| CASE WHEN n % {size} = 1 THEN 'null' ELSE '"' || lpad(to_hex(n - 1), 8, '0') || '"' END
|| ',"timestamp":"2026-01-01T00:00:00.000Z","message":{{"role":"user","content":"'
|| (SELECT string_agg('w' || floor({words} * power(random(), 3))::int, ' ')
    FROM generate_series(1, 12 + n * 0))
|| CASE WHEN n % 2 = 0 THEN ' {common}' ELSE '' END
|| CASE WHEN n % 100 = 3 THEN ' {usual}' ELSE '' END
|| CASE WHEN n % 50000 = 4 THEN ' {rare}' ELSE '' END
|| CASE WHEN n % 10000 = 5 THEN ' 我们的{han}库' ELSE '' END
|| '","timestamp":1767225600000}}}}'
"""


@dataclass(frozen=True)
class Ground:
    """A server with our tables in a database."""

    server: Server

    @property
    def url(self) -> str:
        """The database as a superuser sees it who is bound to no tenant."""
        return self.server.url(DATABASE)

    def member(self, tenant: str) -> str:
        """The URL of a role that is bound to a tenant, as docs/teams.md lets people in."""
        role = f"member_of_{tenant}"
        if not self.server.execute(f"SELECT FROM pg_roles WHERE rolname = '{role}'"):
            self.server.execute(f"CREATE ROLE {role} LOGIN")
            admin = PostgresStore(self.url)
            grant(admin.database, role, "writer", tenant)
            admin.close()
        return self.server.url(DATABASE, role)

    def hasty(self) -> str:
        """The URL by which commits do not wait for the disk."""
        return f"{self.url}?options=-c%20synchronous_commit%3Doff"

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """A connection for bare statements, as our own are."""
        return psycopg.connect(self.url, autocommit=True, prepare_threshold=None)


@contextlib.contextmanager
def grounded() -> Iterator[Ground]:
    """A server of our own, with tables."""
    with own_server(is_durable=True) as server:
        server.execute("ALTER SYSTEM SET max_connections = 300")
        server.execute("ALTER SYSTEM SET shared_buffers = '512MB'")
        server.stop("fast")
        server.start()
        server.execute(f"CREATE DATABASE {DATABASE}")
        ground = Ground(server)
        store = PostgresStore(ground.url)
        upgrade(store.database, is_init=True)
        store.close()
        with ground.connect() as connection:
            connection.execute(
                "CREATE TABLE floor (sid bigint, seq bigint, id text, line bytea, "
                "PRIMARY KEY (sid, seq))"
            )
        yield ground


@contextlib.contextmanager
def far_away(ground: Ground, delay_s: float) -> Iterator[str]:
    """The database's URL through a proxy that holds back what goes each way, in its own process."""
    given = json.dumps({"port": ground.server.port, "delay_s": delay_s})
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.postgres_driver", "proxy", given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Server(ground.server.folder, port).url(DATABASE)
    finally:
        process.terminate()
        process.wait()


def fill_sessions(ground: Ground, tenant: str, count: int) -> None:
    """As many sessions as a listing has rows, a minute apart; of entries they have none."""
    with ground.connect() as connection:
        connection.execute(
            "INSERT INTO st_session (sid, tenant, scope, id, cwd, dialect, header, answered, "
            "title, first_message, messages, bytes, status, created, modified, names) "
            "SELECT (random() * 4e18)::bigint, %s, '', lpad(to_hex(n), 16, '0'), "
            "'/work/p' || n %% 50, 'omp', "
            'convert_to(\'{"type":"session","id":"\' || lpad(to_hex(n), 16, \'0\') || \'"}\', '
            "'UTF8'), true, 'Session ' || n, 'hello', 4, 2000, 'complete', "
            "now() - n * interval '1 minute', now() - n * interval '1 minute', ''::tsvector "
            "FROM generate_series(1, %s) n",
            (tenant, count),
        )
        connection.execute("ANALYZE st_session")


def fill_entries(ground: Ground, tenant: str, sessions: int, size: int) -> None:
    """Sessions of so many entries each, made in the server; their words are not noted yet."""
    line = _LINE.format(
        size=size, words=_VOCABULARY, common=COMMON, usual=USUAL, rare=RARE, han=HAN
    )
    with ground.connect() as connection:
        first = time.time_ns()
        connection.execute(
            "INSERT INTO st_session (sid, tenant, scope, id, cwd, dialect, header, head, last, "
            "answered, title, messages, bytes, status, created, modified, names) "
            "SELECT %s + n, %s, '', lpad(to_hex(n), 16, '0'), '/work/p' || n %% 50, 'omp', "
            'convert_to(\'{"type":"session","version":3,"id":"\' || lpad(to_hex(n), 16, \'0\') '
            '|| \'","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/work/p\' || n %% 50 '
            "|| '\"}', 'UTF8'), %s, lpad(to_hex(n * %s), 8, '0'), true, 'Session ' || n, %s, "
            "%s * 200, 'complete', now(), now() - n * interval '1 minute', ''::tsvector "
            "FROM generate_series(1, %s) n",
            (first, tenant, size, size, size, size, sessions),
        )
        insert = (
            "INSERT INTO st_entry (sid, seq, tenant, id, parent, kind, time, line) "
            f"SELECT {first} + 1 + (n - 1) / {size}, (n - 1) % {size} + 1, '{tenant}', "
            "lpad(to_hex(n), 8, '0'), "
            f"CASE WHEN n % {size} = 1 THEN NULL ELSE lpad(to_hex(n - 1), 8, '0') END, "
            f"'message', '2026-01-01T00:00:00.000Z', convert_to({line}, 'UTF8') "
            f"FROM generate_series(1, {sessions * size}) n"
        )
        connection.execute(insert.encode())
        connection.execute("ANALYZE st_session")
        connection.execute("ANALYZE st_entry")
