"""A tenant never sees, counts, searches, guesses or changes another's rows."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from tests.postgres_server import Server
from tests.samples import assistant, user

from sessiontree import SessionManager
from sessiontree.errors import PersistenceError, SessionNotFoundError, StoreError
from sessiontree.stores import watching
from sessiontree.stores.postgres.schema import upgrade
from sessiontree.stores.postgres.statements import open_session
from sessiontree.stores.postgres.store import PostgresStore
from sessiontree.stores.postgres.upkeep import check, grant, read_status, vacuum

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


def as_session(house: House, role: str, *statements: str) -> list[tuple[Any, ...]]:
    """What the last of these gives to a role, one after the other in one connection."""
    with psycopg.connect(house.server.url(house.database, user=role), autocommit=True) as own:
        for statement in statements:
            cursor = own.execute(statement.encode())
        return cursor.fetchall() if cursor.description is not None else []


@pytest.mark.parametrize(
    "trick",
    [
        (
            "CREATE TEMP TABLE st_member (role name, tenant text)",
            "INSERT INTO st_member VALUES (current_user, 'blue'), (session_user, 'blue')",
        ),
        (
            "CREATE TEMP TABLE pg_roles (rolname name, rolsuper boolean)",
            "INSERT INTO pg_roles VALUES (current_user, true)",
            "SET search_path = pg_temp, public, pg_catalog",
        ),
        (
            "CREATE FUNCTION pg_temp.no(name, name) RETURNS boolean LANGUAGE sql AS 'SELECT false'",
            "CREATE OPERATOR pg_temp.= (LEFTARG = name, RIGHTARG = name, FUNCTION = pg_temp.no)",
            "SET search_path = pg_temp, public, pg_catalog",
        ),
        (
            "CREATE FUNCTION pg_temp.format(text, name) RETURNS text LANGUAGE sql AS 'SELECT $1'",
            "CREATE DOMAIN pg_temp.text AS pg_catalog.text DEFAULT 'blue'",
            "SET search_path = pg_temp, public, pg_catalog",
        ),
    ],
    ids=["members", "superusers", "operators", "functions and types"],
)
def test_objects_of_a_role_do_not_stand_in_for_ours(house: House, trick: tuple[str, ...]) -> None:
    bob = role_of(house.bob)
    named = "SET sessiontree.tenant = 'blue'"
    assert as_session(house, bob, *trick, named, "SELECT public.st_tenant()") == [("green",)]
    counted = "SELECT count(*) FROM public.st_session"
    assert as_session(house, bob, *trick, named, counted) == [(0,)]
    found = f"SELECT count(*) FROM public.st_said('{SECRET}', '{{user}}', NULL, 9)"
    assert as_session(house, bob, *trick, named, found) == [(0,)]
    called = "SELECT count(*) FROM public.st_called('', NULL)"
    assert as_session(house, bob, *trick, named, called) == [(0,)]


def test_members_of_a_role_are_bound_as_it_is(house: House) -> None:
    own, role = house.server, f"{role_of(house.bob)}_friend"
    own.execute(f"CREATE ROLE {role} LOGIN; GRANT {role_of(house.bob)} TO {role}")
    both = f"{role}_of_both"
    own.execute(f"CREATE ROLE {both} LOGIN; GRANT {role}, {role_of(house.anna)} TO {both}")
    try:
        named = "SET sessiontree.tenant = 'blue'"
        assert as_session(house, role, named, "SELECT st_tenant()") == [("green",)]
        assert as_session(house, role, named, "SELECT count(*) FROM st_session") == [(0,)]
        found = f"SELECT count(*) FROM st_said('{SECRET}', '{{user}}', NULL, 9)"
        assert as_session(house, role, named, found) == [(0,)]
        assert as_session(house, both, named, "SELECT st_tenant()") == [("blue",)]
        assert as_session(house, both, named, found) == [(1,)]
        green = "SET sessiontree.tenant = 'green'"
        assert as_session(house, both, green, found) == [(0,)]
        become = f"SET ROLE {role_of(house.anna)}"
        assert as_session(house, both, green, become, found) == [(1,)]
        for other in ("", "red"):
            url = own.url(house.database, user=both) + (f"?tenant={other}" if other else "")
            with pytest.raises(PersistenceError, match="of several tenants: name one by"):
                PostgresStore(url).list()
    finally:
        own.execute(f"DROP ROLE {role}, {both}")


def test_a_role_that_nobody_let_in_sees_nothing_whatever_it_was_given(house: House) -> None:
    role = f"{role_of(house.bob)}_analyst"
    house.server.execute(f"CREATE ROLE {role} LOGIN")
    try:
        house.server.execute(
            f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}", house.database
        )
        stranger = PostgresStore(house.server.url(house.database, user=role) + "?tenant=blue")
        with pytest.raises(PersistenceError, match="was not let in; to do so: sessiontree store"):
            stranger.list()
        stranger.close()
    finally:
        house.server.execute(f"DROP OWNED BY {role}", house.database)
        house.server.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize(
    "row",
    [
        "st_entry VALUES ({sid}, 99, 'green', 'x', NULL, '', '', '')",
        "st_text VALUES ({sid}, 99, 'user', 'green', 1, '')",
        "st_blob_use VALUES ('green', 'x', {sid})",
        "st_gone VALUES ({sid}, 'green')",
    ],
)
def test_nothing_can_be_put_into_a_session_of_others(house: House, row: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        house.as_role(role_of(house.bob), "INSERT INTO " + row.format(sid=house.sid))


def test_plans_tell_nothing_of_what_others_have(house: House) -> None:
    """What the planner knows of columns, and how many rows were taken away behind an index."""
    house.server.execute("ANALYZE", house.database)
    known = house.server.execute(
        "SELECT tablename, attname FROM pg_stats WHERE tablename LIKE 'st%' "
        "AND tablename NOT IN ('st_member', 'st_meta') AND attname NOT IN ('names', 'words') AND "
        f"concat(most_common_vals, histogram_bounds) ~ 'blue|chat|{CWD}|{house.entry_id}'",
        house.database,
    )
    assert known == []
    bob = role_of(house.bob)
    for table, column, value in (
        ("st_entry", "id", house.entry_id),
        ("st_session", "deleted IS NULL AND id", "chat"),
        ("st_session", "deleted IS NULL AND answered AND cwd", CWD),
        ("st_blob", "sha", "\\x" + house.blob.rpartition(":")[2]),
    ):
        asked = f"EXPLAIN ANALYZE SELECT * FROM {table} WHERE {column} = '{value}'"
        plan = as_session(house, bob, "SET jit = off", "SET enable_seqscan = off", asked)
        text = "\n".join(line for (line,) in plan)
        assert "Index" in text
        assert "Rows Removed" not in text


def test_a_notification_is_for_those_who_see_the_session(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "UNASKED_S", 600)
    url = house.server.url(house.database, user=role_of(house.bob))
    watch = house.anna.watch(house.ref)
    with psycopg.connect(url, autocommit=True) as own:
        for name in (f"st_{house.sid}", f"st_{house.ref}"):
            own.execute(f"LISTEN {name}".encode())
        with SessionManager.open(house.ref, storage=house.anna) as session:
            later = threading.Timer(0.5, session.append_message, [user("psst")])
            later.start()
            started = time.monotonic()
            assert watch.wait(60)  # at the end of which it would look
            assert time.monotonic() - started < 30
            later.join()
        assert list(own.notifies(timeout=0.2)) == []
    watch.close()


def test_a_search_of_a_bound_role_reads_its_own_rows_by_the_index(house: House) -> None:
    house.server.execute(
        "INSERT INTO st_session (sid, tenant, scope, id, cwd, dialect, header, answered, names) "
        "SELECT n, 'red', '', n::text, '', 'omp', '', true, "
        "array_to_tsvector(ARRAY['n' || n, chr(1) || 'red']) FROM generate_series(1, 5000) n; "
        "INSERT INTO st_text SELECT n, 1, 'user', 'red', 1, array_to_tsvector("
        "array(SELECT 'w' || n * 60 + i FROM generate_series(1, 60) i) || "
        f"ARRAY['{SECRET}', chr(1) || 'red']) FROM generate_series(1, 5000) n",
        house.database,
    )
    house.server.execute("VACUUM ANALYZE st_text, st_session", house.database)
    url = house.server.url(house.database, user=role_of(house.anna))
    with psycopg.connect(url) as own:
        for query in (
            f"SELECT st_said('{SECRET}', '{{user}}', NULL, 5000)",
            f"SELECT st_called('{SECRET}', NULL)",
        ):
            own.execute(query.encode())
        seen = own.execute(
            "SELECT relname, seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables "
            "WHERE relname IN ('st_text', 'st_session')"
        ).fetchall()
    assert {name: read for name, read, _ in seen} == {"st_text": 0, "st_session": 0}
    assert sum(fetched for _, _, fetched in seen) < 5
    assert [hit.session.id for hit in house.anna.search(SECRET)] == ["chat"]


def test_a_session_is_opened_without_a_look_at_the_tenants_others(house: House) -> None:
    house.server.execute(
        "INSERT INTO st_entry SELECT 100 + n % 50, n, 'blue', 'x' || n, NULL, 'message', '', "
        "'a line' FROM generate_series(1, 40000) n",
        house.database,
    )
    house.server.execute("VACUUM ANALYZE st_entry", house.database)
    statement, values = open_session(house.ref)
    url = house.server.url(house.database, user=role_of(house.anna))
    with psycopg.connect(url, autocommit=True) as own:
        plan = own.execute(b"EXPLAIN (ANALYZE, BUFFERS) " + statement.encode(), values).fetchall()
    text = "\n".join(line for (line,) in plan)
    assert "_pkey" in text
    assert "_tenant_" not in text  # the index of all its entries
    assert "Seq Scan on st_entry" not in text


def test_nobody_may_put_functions_beside_ours(server: Server) -> None:
    """Before PostgreSQL 15 a schema lets everybody in."""
    name = f"open_{next(_numbers)}_{id(server)}"
    server.execute(f"CREATE DATABASE {name}")
    try:
        server.execute("GRANT CREATE ON SCHEMA public TO PUBLIC", name)
        store = PostgresStore(server.url(name))
        upgrade(store.database, is_init=True)
        asked = "SELECT has_schema_privilege('public', 'public', 'CREATE')"
        assert server.execute(asked, name) == [(False,)]
        assert check(store.database) == []
        server.execute("GRANT CREATE ON SCHEMA public TO PUBLIC", name)
        (finding,) = check(store.database)
        assert "REVOKE CREATE ON SCHEMA public FROM PUBLIC" in finding.what
        store.close()
    finally:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_role_stays_bound_when_it_is_given_another_right(house: House) -> None:
    admin = PostgresStore(house.server.url(house.database))
    assert grant(admin.database, role_of(house.bob), "reader") == "green"
    assert list(house.bob.list()) == []
    assert grant(admin.database, role_of(house.bob), "writer", "blue") == "blue"
    assert [info.id for info in house.bob.list()] == ["chat"]
    admin.close()


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
