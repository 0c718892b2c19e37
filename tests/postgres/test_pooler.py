"""Behind pgbouncer in transaction mode everything works, with fewer connections than clients."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.postgres.pooler import CONNECTIONS, pooled
from tests.postgres_server import Server
from tests.samples import assistant, user

from sessiontree import SessionManager
from sessiontree.stores.postgres.schema import upgrade
from sessiontree.stores.postgres.store import PostgresStore
from sessiontree.testing import StoreContract

CWD = "/work/pooled"

_numbers = itertools.count()


@pytest.fixture(scope="module")
def pooler(server: Server) -> Iterator[Server]:
    with pooled(server) as made:
        yield made


@pytest.fixture
def tenant() -> str:
    return f"pooled{next(_numbers)}"


@pytest.fixture
def store(pooler: Server, server: Server, database: str, tenant: str) -> Iterator[PostgresStore]:
    """A store that speaks through the pooler, and listens beside it."""
    listen = quote(server.url(database), safe="")
    made = PostgresStore(f"{pooler.url(database)}?tenant={tenant}&listen={listen}")
    yield made
    made.close()


class TestBehindPgbouncer(StoreContract):
    """The whole contract."""


def test_many_clients_share_a_few_connections_and_tenants_stay_apart(
    pooler: Server, server: Server, database: str
) -> None:
    tenants = [f"many{next(_numbers)}" for _ in range(12)]
    errors: list[BaseException] = []

    def work(tenant: str) -> None:
        try:
            store = PostgresStore(f"{pooler.url(database)}?tenant={tenant}")
            with SessionManager.create(CWD, id="same", storage=store) as session:
                for at in range(20):
                    session.append_message(user(f"{tenant} {at}"))
                session.append_message(assistant("done"))
            assert [info.message_count for info in store.list()] == [21]
            said = [entry.data["message"]["content"] for entry in store.read("same").tree.entries]
            assert said[:20] == [f"{tenant} {at}" for at in range(20)]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(tenant,)) for tenant in tenants]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    counted = server.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE client_addr IS NOT NULL "
        f"AND datname = '{database}' AND query LIKE '%st_append%' AND state = 'idle'"
    )
    assert counted[0][0] <= CONNECTIONS  # type: ignore[operator]


def test_a_connection_that_the_pooler_lends_next_keeps_no_tenant(
    pooler: Server, database: str, store: PostgresStore
) -> None:
    with SessionManager.create(CWD, storage=store) as session:
        session.append_message(user("mine"))
        session.append_message(assistant("only"))
    nobody = PostgresStore(pooler.url(database))
    for _ in range(2 * CONNECTIONS):
        assert session.session_id not in [info.id for info in nobody.list()]
    nobody.close()


@pytest.mark.parametrize("listen", ["on", "off"])
def test_a_follower_that_is_not_told_looks(
    pooler: Server, database: str, tenant: str, listen: str
) -> None:
    store = PostgresStore(f"{pooler.url(database)}?tenant={tenant}&listen={listen}")
    with SessionManager.create(CWD, storage=store) as session:
        session.append_message(user("question"))
        session.append_message(assistant("answer"))
        watch = store.watch(session.ref)
        assert not watch.wait(0)
        session.append_message(user("more"))
        assert watch.wait(20)
        watch.close()
    store.close()


def test_the_tables_are_made_through_it(pooler: Server, server: Server) -> None:
    server.execute("CREATE DATABASE made_through_pooler")
    store = PostgresStore(pooler.url("made_through_pooler"))
    assert upgrade(store.database, is_init=True)
    assert list(store.list()) == []
    store.close()


def test_the_append_is_prepared_without_a_pooler_and_never_with_one(
    pooler: Server, server: Server, database: str
) -> None:
    kept = {}
    for name, url in (("direct", server.url(database)), ("pooled", pooler.url(database))):
        store = PostgresStore(f"{url}?tenant=prepared{next(_numbers)}&pool=1")
        with SessionManager.create(CWD, storage=store) as session:
            for at in range(40):
                session.append_message(user(str(at)))
            session.append_message(assistant("done"))
            ref = session.ref
        assert store.read(ref).tree.entries[39].data["message"]["content"] == "39"
        with store.database.connection() as connection:
            found = connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()
        kept[name] = [statement for (statement,) in found]
        store.close()
    assert kept["direct"]
    assert all("st_append" in statement for statement in kept["direct"])
    assert kept["pooled"] == []
