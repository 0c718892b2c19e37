"""New versions of the tables, while old clients write; and who may make them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import psycopg
import pytest
from tests.postgres_server import Server
from tests.samples import assistant, user

from sessiontree import SessionManager
from sessiontree.errors import MissingSchemaError, SessionTreeError, StoreError
from sessiontree.stores.postgres import database, schema
from sessiontree.stores.postgres.schema import Migration, read_state, upgrade
from sessiontree.stores.postgres.store import PostgresStore
from sessiontree.stores.postgres.upkeep import check, grant

CWD = "/work/upgrades"
EXPAND = Migration(
    2,
    "ALTER TABLE st_session ADD COLUMN color text;"
    "CREATE FUNCTION st_color(bigint) RETURNS text LANGUAGE sql AS "
    "'SELECT color FROM st_session WHERE sid = $1'",
    {"st_session_color": "ON st_session (color)"},
)
CONTRACT = Migration(3, "DROP FUNCTION st_append", {}, 2)
CLIENT = """
import sys
from sessiontree import SessionManager
from sessiontree.errors import SessionTreeError
url, count = sys.argv[1], int(sys.argv[2])
session = SessionManager.open("shared", storage=url)
print("open", flush=True)
for number in range(count):
    try:
        made = session.append_message({"role": "user", "content": str(number), "timestamp": 1})
    except SessionTreeError as error:
        print("refused", error, flush=True)
        sys.exit(3)
    print(made, flush=True)
"""

_numbers = itertools.count()


@pytest.fixture
def name(server: Server) -> Iterator[str]:
    """A database with tables of the first version, and a session in it."""
    made = f"upgrades_{os.getpid()}_{next(_numbers)}"
    server.execute(f"CREATE DATABASE {made} TEMPLATE st_template")
    with SessionManager.create(CWD, id="shared", storage=server.url(made)) as session:
        session.append_message(user("question"))
        session.append_message(assistant("answer"))
    yield made
    server.execute(f"DROP DATABASE {made} WITH (FORCE)")


class Client:
    """An old client: a process of its own that appends, and says what was acknowledged."""

    def __init__(self, url: str, count: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLIENT, url, str(count)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.out = self.process.stdout
        assert self.out.readline() == "open\n"

    def end(self) -> tuple[list[str], str]:
        """The ids that it was promised, and its last words if it was refused."""
        # Not by communicate(), which would pass over what readline() had read ahead.
        with self.process:
            lines = self.out.read().splitlines()
            assert self.process.stderr is not None
            assert self.process.stderr.read() == ""
        refusals = [line for line in lines if line.startswith("refused")]
        return [line for line in lines if line not in refusals], "".join(refusals)


def ids(url: str) -> list[str]:
    return [entry.id for entry in PostgresStore(url).read("shared").tree.entries]


def test_old_clients_write_through_an_expansion_and_lose_nothing(server: Server, name: str) -> None:
    url = server.url(name)
    clients = [Client(url, 1500) for _ in range(4)]
    store = PostgresStore(url)
    assert upgrade(store.database, [EXPAND]) == [2]
    assert any(client.process.poll() is None for client in clients)  # it was under load
    promised = []
    for client in clients:
        made, refusal = client.end()
        assert (len(made), refusal, client.process.returncode) == (1500, "", 0)
        promised += made
    found = ids(url)
    assert len(found) == len(set(found))
    assert set(promised) <= set(found)
    assert upgrade(store.database, [EXPAND]) == []
    assert read_state(store.database).version == 2
    store.close()


def test_an_old_client_is_told_in_one_line_once_the_tables_have_left_it_behind(
    server: Server, name: str
) -> None:
    url = server.url(name)
    client = Client(url, 100_000)
    store = PostgresStore(url)
    first = [client.out.readline().strip() for _ in range(20)]
    assert upgrade(store.database, [EXPAND, CONTRACT]) == [2, 3]
    made, refusal = client.end()
    assert client.process.returncode == 3
    assert refusal.startswith("refused ")
    assert "takes clients from version 2 on, this one is 1: upgrade Sessiontree" in refusal
    rows = server.execute("SELECT id FROM st_entry", name)
    assert {*first, *made} <= {row[0] for row in rows}
    with pytest.raises(StoreError, match="takes clients from version 2 on"):
        PostgresStore(url).list()
    store.close()


def test_one_that_runs_is_told_though_its_statements_would_still_work(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.url(name)
    store = PostgresStore(url)
    assert len(store.list()) == 1
    only_said = Migration(2, "SELECT 1", {}, 2)
    assert upgrade(PostgresStore(url + "?pool=2").database, [only_said]) == [2]
    assert len(store.list()) == 1
    monkeypatch.setattr(database, "RECHECK_S", 0.0)
    with pytest.raises(MissingSchemaError, match="takes clients from version 2 on"):
        store.list()
    store.close()


def test_a_client_that_is_newer_than_the_tables_says_what_to_do(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "CLIENT_VERSION", 2)
    store = PostgresStore(server.url(name) + "?pool=3")
    with pytest.raises(MissingSchemaError, match="sessiontree store upgrade URL"):
        store.list()
    store.close()


def test_several_who_upgrade_at_once_make_each_version_once(server: Server, name: str) -> None:
    store = PostgresStore(server.url(name))
    made: list[int] = []
    threads = [
        threading.Thread(target=lambda: made.extend(upgrade(store.database, [EXPAND])))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [2]
    assert is_valid(server, name) == [(True,)]
    store.close()


def test_a_role_that_holds_the_lock_of_upgrades_is_told_of(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "PATIENCE_S", 1)
    store = PostgresStore(server.url(name))
    with psycopg.connect(server.url(name)) as other:
        other.execute("SELECT pg_advisory_lock(%s)", (schema._LOCK_KEY,))
        with pytest.raises(StoreError, match="could not get its locks"):
            upgrade(store.database, [EXPAND])
    assert upgrade(store.database, [EXPAND]) == [2]
    store.close()


def is_valid(server: Server, name: str) -> list[tuple[object, ...]]:
    return server.execute(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('st_session_color')", name
    )


@pytest.mark.parametrize("left", ["invalid", "missing"])
def test_an_index_whose_building_was_broken_off_is_built_by_the_next(
    server: Server, name: str, left: str
) -> None:
    store = PostgresStore(server.url(name))
    upgrade(store.database, [EXPAND])
    if left == "missing":
        server.execute("DROP INDEX st_session_color", name)
    else:
        server.execute(
            "UPDATE pg_index SET indisvalid = false "
            "WHERE indexrelid = 'st_session_color'::regclass",
            name,
        )
    assert upgrade(store.database, [EXPAND]) == []
    assert is_valid(server, name) == [(True,)]
    store.close()


def test_an_upgrade_stands_in_no_queue_before_the_clients(server: Server, name: str) -> None:
    """A long transaction holds the table: the upgrade waits, and appends go on meanwhile."""
    url = server.url(name)
    store = PostgresStore(url)
    done: list[list[int]] = []
    with psycopg.connect(url) as long:
        long.execute("SELECT * FROM st_session")
        thread = threading.Thread(target=lambda: done.append(upgrade(store.database, [EXPAND])))
        thread.start()
        with SessionManager.open("shared", storage=store) as session:
            for number in range(100):
                session.append_message(user(str(number)))
        assert not done
    thread.join()
    assert done == [[2]]
    assert len(ids(url)) >= 102
    store.close()


def test_a_database_without_tables_says_how_to_make_them(server: Server) -> None:
    store = PostgresStore(server.url("template1"))
    with pytest.raises(StoreError, match="sessiontree store init"):
        store.list()
    with pytest.raises(StoreError, match="sessiontree store init"):
        upgrade(store.database)
    store.close()


# -- owners ----------------------------------------------------------------------------------------


def test_an_owner_has_the_tables_and_no_other_right_of_who_made_them(
    server: Server, name: str
) -> None:
    roles = [f"{who}_{name}" for who in ("olga", "otto", "carl")]
    olga, otto, carl = roles
    for role in roles:
        server.execute(f"CREATE ROLE {role} LOGIN")
    admin = PostgresStore(server.url(name))
    grant(admin.database, olga, "owner")
    with psycopg.connect(server.url(name, user=olga), autocommit=True) as connection:
        for forbidden in ("SET ROLE postgres", "CREATE ROLE more", "SELECT * FROM pg_authid"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forbidden.encode())
    stores = [PostgresStore(server.url(name, user=role)) for role in (olga, otto)]
    grant(stores[0].database, otto, "owner")
    grant(stores[1].database, carl, "writer", "blue")
    assert upgrade(stores[1].database, [EXPAND]) == [2]
    # what one of them made belongs to all
    assert upgrade(stores[0].database, [EXPAND, CONTRACT]) == [3]
    with pytest.raises(SessionTreeError, match="must have admin option"):
        grant(PostgresStore(server.url(name, user=carl)).database, carl, "owner")
    owners = server.execute(
        "SELECT DISTINCT tableowner FROM pg_tables WHERE tablename LIKE 'st%'", name
    )
    assert owners == [(f"sessiontree_owners_{name}",)]
    for store in (admin, *stores):
        store.close()
    for role in (*roles, f"sessiontree_owners_{name}"):
        for statement in ("REASSIGN OWNED BY {} TO postgres", "DROP OWNED BY {}"):
            server.execute(statement.format(role), name)
        server.execute(f"DROP ROLE {role}")


# -- made by another build, or changed by hand -----------------------------------------------------

CHANGES = {
    "function st_own_mark()": """
        CREATE OR REPLACE FUNCTION st_own_mark() RETURNS tsvector LANGUAGE sql STABLE AS
        $$ SELECT NULL::tsvector $$
    """,
    "function st_said(": (
        "ALTER FUNCTION st_said(tsquery, text[], bigint, bigint) SECURITY INVOKER"
    ),
    "function st_append_each(": "DROP FUNCTION st_append_each",
    "function st_purge(p_sids integer[])": """
        CREATE FUNCTION st_purge(p_sids integer[]) RETURNS bigint LANGUAGE sql AS $$ SELECT 1 $$
    """,
    "policy st_own of st_entry": "ALTER POLICY st_own ON st_entry USING (true)",
    "policy everybody of st_session": "CREATE POLICY everybody ON st_session USING (true)",
    "policy st_own of st_blob": "DROP POLICY st_own ON st_blob",
    "row-level security of st_text": "ALTER TABLE st_text DISABLE ROW LEVEL SECURITY",
    "statistics of st_session": "ALTER TABLE st_session ALTER cwd SET STATISTICS 100",
}


def rules_in(server: Server, name: str) -> list[tuple[object, ...]]:
    """The functions and policies of a database, as it describes them."""
    return server.execute(
        "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname LIKE 'st\\_%' UNION ALL "
        "SELECT concat_ws(' ', tablename, policyname, roles, cmd, qual, with_check) "
        "FROM pg_policies UNION ALL SELECT relname || relrowsecurity FROM pg_class "
        "WHERE relname LIKE 'st\\_%' ORDER BY 1",
        name,
    )


TO_MAKE_AGAIN = "; to make it as it should be: sessiontree store upgrade URL"


@pytest.mark.parametrize("part", CHANGES)
def test_what_differs_is_found_and_made_again(server: Server, name: str, part: str) -> None:
    store = PostgresStore(server.url(name))
    assert check(store.database) == []
    before = rules_in(server, name)
    server.execute(CHANGES[part], name)
    (finding,) = check(store.database)
    assert finding.what.startswith(part)
    assert finding.what.endswith("is not as it was made" + TO_MAKE_AGAIN)
    assert upgrade(store.database) == [1]
    assert check(store.database) == []
    assert rules_in(server, name) == before
    assert upgrade(store.database) == []
    with SessionManager.open("shared", storage=store) as session:
        session.append_message(user("and on"))
    store.close()


@pytest.mark.parametrize("noted", ["NULL", "'of somebody else'", '\'{"text": "0"}\''])
def test_what_another_build_made_is_made_again_while_clients_write(
    server: Server, name: str, noted: str
) -> None:
    """A development version may have let a tenant see others' rows."""
    url = server.url(name)
    server.execute("ALTER POLICY st_own ON st_session USING (true)", name)
    server.execute(f"COMMENT ON TABLE st_meta IS {noted}", name)
    clients = [Client(url, 400) for _ in range(3)]
    store = PostgresStore(url)
    assert [finding.what for finding in check(store.database)] == [
        "another build of this version made the functions and rules" + TO_MAKE_AGAIN
    ]
    assert upgrade(store.database) == [1]
    for client in clients:
        made, refusal = client.end()
        assert (len(made), refusal) == (400, "")
    assert check(store.database) == []
    ((rule,),) = server.execute("SELECT qual FROM pg_policies WHERE tablename = 'st_session'", name)
    assert "st_tenant()" in str(rule)
    store.close()


def test_a_member_may_check_and_an_index_of_ones_own_is_no_finding(
    server: Server, name: str
) -> None:
    role = f"reader_{name}"
    server.execute(f"CREATE ROLE {role} LOGIN")
    admin = PostgresStore(server.url(name))
    grant(admin.database, role, "reader", "blue")
    server.execute("CREATE INDEX my_own ON st_session (status)", name)
    assert check(PostgresStore(server.url(name, user=role)).database) == []
    server.execute("DROP INDEX st_session_newest", name)
    (finding,) = check(PostgresStore(server.url(name, user=role)).database)
    assert finding.what == "index st_session_newest is not as it was made"
    server.execute("ALTER POLICY st_own ON st_entry USING (true)", name)
    assert upgrade(admin.database) == [1]
    assert check(admin.database) == [finding]  # an index is not among what is made again
    admin.close()
    server.execute(f"DROP OWNED BY {role}", name)
    server.execute(f"DROP ROLE {role}")
