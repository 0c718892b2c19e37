"""Nothing that was acknowledged is lost, and nothing is there twice, whatever fails."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from tests.postgres.proxy import proxied
from tests.postgres_server import Server, own_server
from tests.samples import assistant, user

from sessiontree import SessionManager
from sessiontree.errors import ConflictError, PersistenceError
from sessiontree.stores.postgres import log as log_module
from sessiontree.stores.postgres.database import Statement
from sessiontree.stores.postgres.schema import upgrade
from sessiontree.stores.postgres.store import PostgresStore

CWD = "/work/faults"


def talk(store: PostgresStore) -> SessionManager:
    session = SessionManager.create(CWD, storage=store)
    session.append_message(user("question"))
    session.append_message(assistant("answer"))
    return session


def ids_in(store: PostgresStore, ref: str) -> list[str]:
    """The ids that the database has of a session, in their order."""
    return [entry.id for entry in store.read(ref).tree.entries]


def write_and_break(
    store: PostgresStore, break_it: Callable[[int], object], *, count: int, writers: int = 1
) -> None:
    """Append from several threads while something goes wrong now and then; all is there once."""
    with talk(store) as session:
        ref = session.ref
    promised: list[str] = []
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            with SessionManager.open(ref, storage=store) as own:
                for at in range(count):
                    if number == 0:
                        break_it(at)
                    promised.append(own.append_message(user(f"{number} {at}")))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    found = ids_in(store, ref)
    assert len(found) == len(set(found))
    assert set(promised) <= set(found)
    texts = [
        entry.data["message"]["content"]
        for entry in store.read(ref).tree.entries
        if entry.type == "message"
    ]
    assert len(texts) == 2 + count * writers
    ((counted,),) = store.database.run("SELECT sum(messages)::int FROM st_session WHERE " + OURS)
    assert counted == len(texts)


def every(steps: int, break_it: Callable[[], object]) -> Callable[[int], object]:
    """Break it at each of so many steps."""
    return lambda at: break_it() if at % steps == 0 else None


OURS = "tenant = (SELECT st_tenant())"


def test_an_answer_that_is_lost_after_the_commit_makes_no_second_entry(url: str) -> None:
    with proxied(url) as (proxy, through):
        store = PostgresStore(through)
        write_and_break(store, every(4, lambda: proxy.swallow_answers(1)), count=40)
        assert proxy.swallowed == 10
        store.close()


def test_a_call_that_never_arrived_is_made_again(url: str) -> None:
    with proxied(url) as (proxy, through):
        store = PostgresStore(through)
        write_and_break(store, every(4, lambda: proxy.cut_calls(1)), count=40)
        store.close()


def test_every_connection_may_be_cut_at_any_time(url: str) -> None:
    with proxied(url) as (proxy, through):
        store = PostgresStore(through)
        write_and_break(store, every(5, proxy.cut_all), count=25, writers=4)
        store.close()


def test_backends_may_be_killed(server: Server, database: str, store: PostgresStore) -> None:
    def kill(at: int) -> None:
        if at % 5 == 0:
            server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                f"WHERE datname = '{database}' AND application_name = 'sessiontree'"
            )

    write_and_break(store, kill, count=25, writers=4)


def test_a_database_may_be_serializable(
    server: Server, database: str, store: PostgresStore
) -> None:
    server.execute(f"ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'")
    try:
        store.close()
        write_and_break(store, lambda at: None, count=20, writers=4)
    finally:
        server.execute(f"ALTER DATABASE {database} RESET default_transaction_isolation")
        store.close()


def test_a_server_that_crashes_loses_nothing_that_was_acknowledged() -> None:
    with own_server(is_durable=True) as server:
        store = PostgresStore(server.url())
        upgrade(store.database, is_init=True)

        starts: list[threading.Thread] = []

        def crash(at: int) -> None:
            if at in (10, 20):
                for start in starts:  # pg_ctl fails if the server stops while it waits for it
                    start.join()
                server.stop("immediate")
                starts.append(threading.Thread(target=server.start))
                starts[-1].start()

        write_and_break(store, crash, count=30, writers=3)
        for start in starts:
            start.join()
        store.close()


def test_a_server_that_stays_away_is_told_in_one_line_and_recovered_from() -> None:
    with own_server(is_durable=True) as server:
        store = PostgresStore(server.url())
        upgrade(store.database, is_init=True)
        store.database.patience_s = 0.2
        session = talk(store)
        server.stop("fast")
        with pytest.raises(PersistenceError) as caught:
            session.append_message(user("lost?"))
        assert "\n" not in str(caught.value)
        assert len(session.get_entries()) == 2
        with pytest.raises(PersistenceError):
            session.append_message(user("latched"))
        server.start()
        session.recover()
        made = session.append_message(user("and on"))
        session.close()
        assert made in ids_in(store, session.ref)
        store.close()


@contextlib.contextmanager
def setting(server: Server, database: str, name: str, value: str) -> Iterator[None]:
    """A setting of the database, for new connections."""
    server.execute(f"ALTER DATABASE {database} SET {name} = '{value}'")
    try:
        yield
    finally:
        server.execute(f"ALTER DATABASE {database} RESET {name}")


def test_a_server_may_end_connections_that_were_idle(
    server: Server, database: str, store: PostgresStore
) -> None:
    with setting(server, database, "idle_session_timeout", "100ms"):
        store.close()
        with talk(store) as session:
            time.sleep(0.5)
            made = session.append_message(user("after a pause"))
        assert made in ids_in(store, session.ref)
    store.close()


def test_a_server_may_end_a_transaction_that_waits_for_its_client(
    server: Server, database: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "_TRIES_UNLOCKED", 0)
    with setting(server, database, "idle_in_transaction_session_timeout", "100ms"):
        store.close()
        pauses = [0.5]
        with talk(store) as session:

            def slow() -> str:
                time.sleep(pauses.pop() if pauses else 0)
                return session.append_message(user("slowly"))

            made = session._session.log.settle(slow)
        assert ids_in(store, session.ref)[2:] == [made]
    store.close()


def test_a_statement_that_takes_too_long_for_the_server_is_told_and_recovered_from(
    server: Server, database: str, url: str
) -> None:
    with setting(server, database, "statement_timeout", "200ms"):
        store = PostgresStore(f"{url}&application_name=timeout")
        session = talk(store)
        sid = session._session.log.place.sid  # type: ignore[attr-defined]
        with psycopg.connect(server.url(database)) as other:
            other.execute("SELECT 1 FROM st_session WHERE sid = %s FOR UPDATE", (sid,))
            with pytest.raises(PersistenceError, match="statement timeout"):
                session.append_message(user("not now"))
        session.recover()
        made = session.append_message(user("again"))
        session.close()
        assert ids_in(store, session.ref)[2:] == [made]
        store.close()


def test_a_change_whose_transaction_came_to_nothing_is_still_to_be_made(
    store: PostgresStore,
) -> None:
    session = talk(store)
    log = session._session.log
    entry = session.get_entries()[0]

    def change() -> None:
        entry.data["message"]["content"] = "changed"
        log.rewrite(find_changes=True)
        raise PersistenceError("store", "given up")

    with pytest.raises(PersistenceError):
        log._settle_locked(change)  # type: ignore[attr-defined]
    assert store.read(session.ref).tree.entries[0].data["message"]["content"] == "question"
    session.recover()
    session.rewrite_entries()
    session.close()
    assert store.read(session.ref).tree.entries[0].data["message"]["content"] == "changed"


def test_after_a_restart_no_statement_tries_every_connection_that_was_left(
    server: Server, database: str, store: PostgresStore
) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(store.database.connection())
    server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE datname = '{database}' AND application_name = 'sessiontree'"
    )
    before = store.database.round_trips
    store.list()
    assert store.database.round_trips - before <= 4


# -- what a failover may do ------------------------------------------------------------------------


def lose_rows(store: PostgresStore, session: SessionManager, kept: int) -> None:
    """As a standby that has not got all: the last rows are gone, and the counters are old."""
    sid = session._session.log.place.sid  # type: ignore[attr-defined]
    store.database.run_all(
        [
            Statement("DELETE FROM st_entry WHERE sid = %s AND seq > %s", (sid, kept)),
            Statement(
                "UPDATE st_session SET head = %s, messages = %s, revision = revision - 1 "
                "WHERE sid = %s",
                (kept, kept, sid),
            ),
        ]
    )


def test_rows_that_a_failover_lost_are_written_again(store: PostgresStore) -> None:
    session = talk(store)
    ids = [session.append_message(user(str(number))) for number in range(5)]
    lose_rows(store, session, 3)
    ids.append(session.append_message(user("after")))
    assert ids_in(store, session.ref)[2:] == ids
    assert any("written again" in str(warning) for warning in session.warnings)
    session.close()


def test_rows_that_others_wrote_after_a_failover_stay(store: PostgresStore) -> None:
    session = talk(store)
    ids = [session.append_message(user(str(number))) for number in range(5)]
    lose_rows(store, session, 3)
    with SessionManager.open(session.ref, storage=store) as other:
        theirs = [other.append_message(user(f"theirs {number}")) for number in range(6)]
    ids.append(session.append_message(user("after")))
    found = ids_in(store, session.ref)
    assert set(found) >= {*ids, *theirs}
    assert len(found) == len(set(found))
    assert session.get_entry(theirs[-1]) is not None
    session.close()


def test_a_session_that_a_failover_lost_is_written_again(store: PostgresStore) -> None:
    session = talk(store)
    store.database.run(f"DELETE FROM st_entry WHERE {OURS}")
    store.database.run(f"DELETE FROM st_session WHERE {OURS}")
    made = session.append_message(user("after"))
    assert ids_in(store, session.ref) == [entry.id for entry in session.get_entries()]
    assert made in ids_in(store, session.ref)
    session.close()


def test_a_session_that_was_deleted_for_good_elsewhere_does_not_come_back(
    store: PostgresStore,
) -> None:
    session = talk(store)
    store.delete(session.ref, permanently=True)
    with pytest.raises(PersistenceError, match="deleted for good"):
        session.append_message(user("still here"))
    assert not store.exists(session.ref)


def test_a_session_in_the_trash_comes_back_with_the_next_message(store: PostgresStore) -> None:
    session = talk(store)
    store.delete(session.ref)
    session.append_message(user("still here"))
    assert len(ids_in(store, session.ref)) == 3
    assert any("trash" in str(warning) for warning in session.warnings)
    session.close()


# -- two at once -----------------------------------------------------------------------------------


def test_of_those_who_compare_and_append_one_wins_each_time(store: PostgresStore) -> None:
    with talk(store) as session:
        ref = session.ref
    won: list[str] = []

    def compete(own: SessionManager) -> None:
        for _ in range(10):
            own.refresh()
            entry = {"type": "message", "message": user("mine")}
            try:
                won.extend(own.append_many([entry], expected_revision=own.revision))
            except ConflictError:
                continue

    # one that closes says where it stood, which is where others would go on: all close at the end
    with contextlib.ExitStack() as stack:
        threads = [
            threading.Thread(
                target=compete,
                args=(stack.enter_context(SessionManager.open(ref, storage=store)),),
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    entries = store.read(ref).tree.entries
    found = [entry for entry in entries if entry.id in set(won)]
    assert len(found) == len(won) >= 10
    # each continued what its writer had compared: what others wrote was read before
    assert len({entry.parent_id for entry in found}) == len(found)
