"""A tenant never sees, counts, searches, guesses or changes another's rows."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from tests.postgres_server import Server
from tests.samples import assistant, user

from sessiontree import SessionManager
from sessiontree.errors import PersistenceError, SessionNotFoundError, StoreError
from sessiontree.stores.postgres.store import PostgresStore
from sessiontree.stores.postgres.upkeep import grant, read_status, vacuum

CWD = "/work/tenants"
TABLES = ("st_session", "st_entry", "st_text", "st_blob", "st_blob_use", "st_policy", "st_gone")
SECRET = "bluebird"

_numbers = itertools.count()


@dataclass
class House:
    """A database with two tenants: ``blue`` has a session, ``green`` is curious."""

    server: Server
    database: str
    anna: PostgresStore
    bob: PostgresStore
    rita: PostgresStore
    app: PostgresStore
    sid: int
    ref: str
    entry_id: str
    blob: str

    def as_role(self, role: str, sql: str, values: Any = None) -> list[tuple[Any, ...]]:
        """What a role gets that speaks SQL itself."""
        url = self.server.url(self.database, user=role)
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(sql.encode(), values)
            return cursor.fetchall() if cursor.description is not None else []


@pytest.fixture
def house(server: Server) -> Iterator[House]:
    number = next(_numbers)
    name = f"house_{number}_{id(server)}"
    server.execute(f"CREATE DATABASE {name} TEMPLATE st_template")
    owner = PostgresStore(server.url(name))
    roles = {who: f"{who}_{number}_{id(server)}" for who in ("anna", "bob", "rita", "app")}
    for role in roles.values():
        server.execute(f"CREATE ROLE {role} LOGIN")
    grant(owner.database, roles["anna"], "writer", "blue")
    grant(owner.database, roles["bob"], "writer", "green")
    grant(owner.database, roles["rita"], "reader", "blue")
    grant(owner.database, roles["app"], "writer")
    stores = {
        who: PostgresStore(server.url(name, user=role) + ("?tenant=blue" if who == "app" else ""))
        for who, role in roles.items()
    }
    anna = stores["anna"]
    with SessionManager.create(CWD, id="chat", storage=anna) as session:
        session.append_message(user(f"the {SECRET} sings"))
        session.append_message(assistant("it does"))
    blob = anna.put_blob(b"blue bytes")
    ((sid,),) = anna.database.run("SELECT sid FROM st_session")
    yield House(
        server,
        name,
        anna,
        stores["bob"],
        stores["rita"],
        stores["app"],
        sid,
        session.ref,
        session.get_entries()[0].id,
        blob,
    )
    for store in (owner, *stores.values()):
        store.close()
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")
    for role in roles.values():
        server.execute(f"DROP ROLE {role}")


def role_of(store: PostgresStore) -> str:
    return store.url.partition("://")[2].partition("@")[0]


def test_the_store_of_another_tenant_finds_nothing(house: House) -> None:
    bob = house.bob
    assert list(bob.list()) == []
    assert bob.locate("chat") is None
    assert not bob.exists(house.ref)
    assert list(bob.find("")) == []
    assert bob.find_entry(house.entry_id) == []
    assert list(bob.search(SECRET)) == []
    assert bob.get_blob(house.blob) is None
    assert bob.latest(CWD) is None
    assert list(bob.list_trash()) == []
    status = read_status(bob.database)
    assert (status.sessions, status.entries, status.bytes, status.blobs) == (0, 0, 0, 0)
    for fails in (bob.open, bob.read, bob.delete, bob.restore):
        with pytest.raises(SessionNotFoundError):
            fails(house.ref)
    vacuum(bob.database)
    assert len(house.anna.list()) == 1


def test_a_bound_role_stays_bound_whatever_its_url_says(house: House) -> None:
    url = house.server.url(house.database, user=role_of(house.bob)) + "?tenant=blue"
    asking = PostgresStore(url)
    assert list(asking.list()) == []
    with SessionManager.create(CWD, id="chat", storage=asking) as session:
        session.append_message(user("mine"))
        session.append_message(assistant("yours"))
    assert len(house.anna.list()) == 1
    assert len(house.bob.list()) == 1
    asking.close()


@pytest.mark.parametrize("trick", ["", "SET sessiontree.tenant = 'blue';", "SET ROLE NONE;"])
@pytest.mark.parametrize("table", TABLES)
def test_no_row_of_another_tenant_can_be_read_by_sql(house: House, table: str, trick: str) -> None:
    bob = role_of(house.bob)
    if table == "st_gone" and not trick:
        house.anna.delete(house.ref, permanently=True)
    found = house.as_role(bob, f"{trick} SELECT count(*) FROM {table}") if not trick else None
    if trick:
        url = house.server.url(house.database, user=bob)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(trick.encode())
            found = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchall()
    assert found == [(0,)]


def test_no_row_of_another_tenant_can_be_changed_by_sql(house: House) -> None:
    bob = role_of(house.bob)
    house.as_role(bob, "UPDATE st_session SET title = 'mine', tenant = 'green'")
    house.as_role(bob, "UPDATE st_entry SET line = ''")
    house.as_role(bob, "DELETE FROM st_entry")
    house.as_role(bob, "DELETE FROM st_session")
    house.as_role(bob, "DELETE FROM st_blob")
    with SessionManager.open(house.ref, storage=house.anna) as session:
        assert len(session.get_entries()) == 2
    assert house.anna.get_blob(house.blob) == b"blue bytes"


def test_functions_do_no_more_than_their_caller_may(house: House) -> None:
    bob = role_of(house.bob)
    assert house.as_role(bob, "SELECT st_purge(ARRAY[%s]::bigint[])", (house.sid,)) == [(0,)]
    copied = house.as_role(
        bob,
        """SELECT st_copy(%s, '{"sid": 5, "id": "x", "scope": "", "cwd": "", "dialect": "omp"}',
           '{}', NULL, NULL, NULL, NULL, NULL, NULL)""",
        (house.sid,),
    )
    assert copied == [("missing",)]
    appended = house.as_role(
        bob,
        "SELECT verdict, line FROM st_append(%s, 0, NULL, 0, 0, NULL, false, ARRAY['x'], "
        "ARRAY[NULL], ARRAY['custom'], ARRAY[''], ARRAY['{}'::bytea], 0, 0, false, 'empty', "
        "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        (house.sid,),
    )
    assert appended == [("missing", None)]
    assert house.as_role(bob, "SELECT st_tenant()") == [("green",)]
    assert len(house.anna.list()) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO st_session VALUES (1, 'blue', '', 'x', '', 'omp', '')",
        "INSERT INTO st_entry VALUES (1, 1, 'blue', 'x', NULL, '', '', '')",
        "INSERT INTO st_blob (tenant, sha, size, data) VALUES ('blue', 'x', 1, 'x')",
        "INSERT INTO st_member VALUES (current_user, 'blue')",
        "UPDATE st_member SET tenant = 'blue'",
        "DELETE FROM st_member",
        "UPDATE st_meta SET oldest_client = 9",
        "SELECT * FROM st_entry_0",
        "TRUNCATE st_session",
        "ALTER TABLE st_session DISABLE ROW LEVEL SECURITY",
        "DROP POLICY st_own ON st_session",
        "CREATE POLICY mine ON st_session USING (true)",
        "SET ROLE postgres",
        "SET row_security = off; SELECT * FROM st_session",
    ],
)
def test_what_a_tenant_must_not_do_is_refused(house: House, statement: str) -> None:
    *before, last = statement.split("; ")
    with psycopg.connect(
        house.server.url(house.database, user=role_of(house.bob)), autocommit=True
    ) as connection:
        for each in before:
            connection.execute(each.encode())
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(last.encode())
    assert caught.value.sqlstate == "42501"


def test_a_role_learns_of_its_own_membership_only(house: House) -> None:
    bob = role_of(house.bob)
    assert house.as_role(bob, "SELECT role::text, tenant FROM st_member") == [(bob, "green")]


def test_a_reader_reads_and_writes_nothing(house: House) -> None:
    rita = house.rita
    assert [info.id for info in rita.list()] == ["chat"]
    assert [hit.session.id for hit in rita.search(SECRET)] == ["chat"]
    log = rita.read(house.ref)
    assert len(log.tree.entries) == 2
    session = SessionManager.open(house.ref, storage=rita)
    with pytest.raises(PersistenceError, match="permission denied"):
        session.append_message(user("scribble"))
    with pytest.raises(PersistenceError, match="permission denied"):
        rita.delete(house.ref)
    assert len(house.anna.read(house.ref).tree.entries) == 2


def test_a_hosted_product_names_the_tenant_in_its_url(house: House) -> None:
    assert [info.id for info in house.app.list()] == ["chat"]
    address = house.server.url(house.database, user=role_of(house.app))
    other = PostgresStore(f"{address}?tenant=green")
    assert list(other.list()) == []
    nobody = PostgresStore(address)
    assert list(nobody.list()) == []
    for store in (other, nobody):
        store.close()


def test_the_same_bytes_are_kept_for_each_tenant(house: House) -> None:
    ref = house.bob.put_blob(b"blue bytes")
    assert ref == house.blob == "blob:sha256:" + hashlib.sha256(b"blue bytes").hexdigest()
    house.as_role(role_of(house.bob), "DELETE FROM st_blob")
    assert house.anna.get_blob(house.blob) == b"blue bytes"


def test_an_owner_is_never_bound_to_a_tenant(house: House) -> None:
    with pytest.raises(StoreError, match="sees all tenants"):
        grant(house.anna.database, "x", "owner", "blue")
