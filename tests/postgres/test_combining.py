"""Appends of more threads than there are connections: together, and to each as if it were alone."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import psycopg
import pytest
from tests.postgres.pooler import pooled
from tests.postgres.proxy import proxied
from tests.postgres_server import Server
from tests.samples import assistant, user

from sessiontree import SessionManager
from sessiontree.errors import ConflictError, PersistenceError
from sessiontree.stores.postgres.combining import Answer, Combiner, PlainAppend
from sessiontree.stores.postgres.store import PostgresStore

CWD = "/work/combining"
WRITERS = 24
EACH = 12


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    """A store with fewer connections than threads."""
    made = PostgresStore(f"{url}&pool=2")
    yield made
    made.close()


def talk(store: PostgresStore) -> SessionManager:
    session = SessionManager.create(CWD, storage=store)
    session.append_message(user("question"))
    session.append_message(assistant("answer"))
    return session


def at_once(works: Sequence[Callable[[], object]]) -> list[BaseException | None]:
    """Run all of them, each in a thread; what each raised."""
    raised: list[BaseException | None] = [None] * len(works)
    begin = threading.Barrier(len(works))

    def run(at: int) -> None:
        begin.wait()
        try:
            works[at]()
        except BaseException as error:
            raised[at] = error

    threads = [threading.Thread(target=run, args=(at,), daemon=True) for at in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return raised


class Writer:
    """Appends to a session, and knows what was acknowledged."""

    def __init__(self, session: SessionManager, count: int = EACH) -> None:
        self.session = session
        self.count = count
        self.made: list[str] = []

    def __call__(self) -> None:
        for number in range(self.count):
            self.made.append(self.session.append_message(user(f"message {number}")))

    def check(self, reader: PostgresStore) -> None:
        """All is there, once, in its order, each behind the one before."""
        log = reader.read(self.session.ref)
        said = [entry for entry in log.tree.entries if entry.id in set(self.made)]
        assert [entry.id for entry in said] == self.made
        assert len(log.tree.entries) == len({entry.id for entry in log.tree.entries})
        info = reader.get_info(self.session.ref)
        assert info is not None
        messages = [entry for entry in log.tree.entries if entry.type == "message"]
        assert info.message_count == len(messages)


def test_many_threads_share_statements_and_each_gets_its_own_answer(store: PostgresStore) -> None:
    writers = [Writer(talk(store)) for _ in range(WRITERS)]
    before = store.database.round_trips
    assert not any(at_once(writers))
    assert store.database.round_trips - before < WRITERS * EACH * 3 / 4
    for writer in writers:
        assert len(writer.made) == EACH
        writer.check(store)
        assert [entry.id for entry in writer.session.get_entries()][2:] == writer.made
        assert not writer.session.warnings


def test_one_thread_alone_sends_one_statement_for_each(url: str) -> None:
    store = PostgresStore(f"{url}&pool=1")
    writer = Writer(talk(store))
    before = store.database.round_trips
    writer()
    assert store.database.round_trips - before == EACH
    writer.check(store)
    store.close()


def test_only_who_cannot_append_hears_of_it(store: PostgresStore) -> None:
    writers = [Writer(talk(store)) for _ in range(WRITERS)]
    gone, trashed, renamed, behind = (writer.session.ref for writer in writers[:4])
    store.delete(gone, permanently=True)
    store.delete(trashed)
    with SessionManager.open(renamed, storage=store) as other:
        other.set_session_name("another name")
    with SessionManager.open(behind, storage=store) as other:
        theirs = other.append_message(user("theirs"))
    writers[4].session.append_message(user("😀" * 100_000))  # too large to be sent with others
    failed, *others = at_once(writers)
    assert isinstance(failed, PersistenceError)
    assert "deleted for good" in str(failed)
    assert not any(others)
    for writer in writers[1:]:
        assert len(writer.made) == EACH
        writer.check(store)
    assert any("trash" in str(warning) for warning in writers[1].session.warnings)
    assert writers[2].session.session_name == "another name"
    assert writers[3].session.get_entry(theirs) is not None


def test_a_conflict_among_them_is_told_to_the_one_who_compared(store: PostgresStore) -> None:
    writers = [Writer(talk(store)) for _ in range(WRITERS)]
    own = writers[0].session
    revision, entry = own.revision, {"type": "message", "message": user("mine")}
    with SessionManager.open(own.ref, storage=store) as other:
        other.append_message(user("theirs"))
    raised = at_once(
        [lambda: own.append_many([entry], expected_revision=revision), *writers[1:]],
    )
    assert isinstance(raised[0], ConflictError)
    assert not any(raised[1:])
    for writer in writers[1:]:
        writer.check(store)


def test_a_session_that_is_locked_keeps_nobody_else_waiting(
    store: PostgresStore, server: Server, database: str
) -> None:
    writers = [Writer(talk(store)) for _ in range(WRITERS)]
    # the one that has to wait holds a connection; the other is for those who need not
    sid = writers[0].session._session.log.place.sid  # type: ignore[attr-defined]
    with psycopg.connect(server.url(database)) as other:
        other.execute("SELECT 1 FROM st_session WHERE sid = %s FOR UPDATE", (sid,))
        waiting = threading.Thread(target=writers[0])
        waiting.start()
        assert not any(at_once(writers[1:]))
        assert not writers[0].made
    waiting.join(60)
    for writer in writers:
        assert len(writer.made) == EACH
        writer.check(store)


@pytest.mark.parametrize("fault", ["answers", "calls", "connections"])
def test_a_line_that_is_cut_loses_nothing_and_repeats_nothing(url: str, fault: str) -> None:
    with proxied(url) as (proxy, through):
        store = PostgresStore(f"{through}&pool=2")
        writers = [Writer(talk(store)) for _ in range(WRITERS)]
        is_over = threading.Event()

        def strike() -> None:
            while not is_over.wait(0.05):
                if fault == "answers":
                    proxy.swallow_answers(1)
                elif fault == "calls":
                    proxy.cut_calls(1)
                else:
                    proxy.cut_all()

        striking = threading.Thread(target=strike)
        striking.start()
        raised = at_once(writers)
        is_over.set()
        striking.join()
        store.close()
    assert not any(raised)
    reader = PostgresStore(url)
    for writer in writers:
        assert len(writer.made) == EACH
        writer.check(reader)
        assert len(reader.read(writer.session.ref).tree.entries) == EACH + 2
    reader.close()


def test_each_statement_is_for_one_tenant(server: Server, database: str) -> None:
    names = [f"combined{number}" for number in range(4)]
    stores = [PostgresStore(f"{server.url(database)}?pool=2&tenant={name}") for name in names]
    assert len({id(store.database.pool) for store in stores}) == 1
    writers = [
        Writer(SessionManager.create(CWD, id=f"s{at // 4}", storage=stores[at % 4]))
        for at in range(WRITERS)
    ]
    for writer in writers:
        writer.session.append_message(assistant("begun"))
    assert not any(at_once(writers))
    for at, writer in enumerate(writers):
        writer.check(stores[at % 4])
    for store in stores:
        assert len(store.list()) == WRITERS // 4
        store.close()


def test_followers_are_told_of_what_was_sent_together(store: PostgresStore) -> None:
    writers = [Writer(talk(store)) for _ in range(WRITERS)]
    watches = [store.watch(writer.session.ref) for writer in writers[:3]]
    for watch in watches:
        assert not watch.wait(0)
    assert not any(at_once(writers))
    for watch in watches:
        assert watch.wait(10)
        watch.close()


def test_a_serializable_database_takes_them(
    server: Server, database: str, store: PostgresStore
) -> None:
    writers = [Writer(talk(store)) for _ in range(WRITERS)]
    server.execute(f"ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'")
    try:
        store.close()
        assert not any(at_once(writers))
    finally:
        server.execute(f"ALTER DATABASE {database} RESET default_transaction_isolation")
        store.close()
    for writer in writers:
        writer.check(store)


def test_behind_pgbouncer_it_works_too(server: Server, database: str) -> None:
    with pooled(server) as pooler:
        store = PostgresStore(f"{pooler.url(database)}?tenant=combined_pooled&pool=2")
        writers = [Writer(talk(store)) for _ in range(WRITERS)]
        assert not any(at_once(writers))
        for writer in writers:
            writer.check(store)
        store.close()


def test_a_database_that_lacks_the_function_takes_one_by_one(server: Server) -> None:
    name = "without_append_each"
    server.execute(f"CREATE DATABASE {name} TEMPLATE st_template")
    server.execute("DROP FUNCTION st_append_each", name)
    store = PostgresStore(f"{server.url(name)}?pool=2")
    writers = [Writer(talk(store)) for _ in range(WRITERS)]
    assert not any(at_once(writers))
    for writer in writers:
        writer.check(store)
    store.close()
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_statements_for_the_same_sessions_in_any_order_are_no_deadlock(
    store: PostgresStore, server: Server, database: str
) -> None:
    sessions = [talk(store) for _ in range(12)]
    sids = [session._session.log.place.sid for session in sessions]  # type: ignore[attr-defined]
    for session in sessions:
        session.close()
    reads = "SELECT sid, head, last, epoch, header_revision FROM st_session WHERE sid = ANY (%s)"
    call = (
        "SELECT sid FROM st_append_each(%s, %s, %s, %s, %s, %s, %s::text[], %s, %s, %s, %s, %s, "
        "%s, %s::text[], %s::timestamptz[])"
    )
    appended: list[tuple[int, str]] = []
    tenant = store.database.address.tenant

    def write() -> None:
        with psycopg.connect(server.url(database), autocommit=True) as own:
            own.execute("SELECT set_config('sessiontree.tenant', %s, false)", (tenant,))
            for _ in range(60):
                rows = own.execute(reads, (sids,)).fetchall()
                random.shuffle(rows)
                ids = [random.randbytes(4).hex() for _ in rows]
                count = len(rows)
                some = own.execute(
                    call,
                    (
                        [row[0] for row in rows],
                        [row[1] for row in rows],
                        [row[2] for row in rows],
                        [row[3] for row in rows],
                        [row[4] for row in rows],
                        ids,
                        [row[2] for row in rows],
                        ["message"] * count,
                        ["2026-01-01T00:00:00.000Z"] * count,
                        [b"{}"] * count,
                        [1] * count,
                        [False] * count,
                        ["complete"] * count,
                        [None] * count,
                        [None] * count,
                    ),
                ).fetchall()
                own_ids = dict(zip((row[0] for row in rows), ids, strict=True))
                appended.extend((sid, own_ids[sid]) for (sid,) in some)

    assert not any(at_once([write] * 6))
    assert len(appended) > 60
    with psycopg.connect(server.url(database)) as own:
        rows = own.execute(
            "SELECT sid, id FROM st_entry WHERE sid = ANY (%s) AND line = '{}'", (sids,)
        ).fetchall()
    assert sorted(rows) == sorted(appended)


PROCESS = """
import sys, threading
from sessiontree import SessionManager
from sessiontree.stores.postgres.store import PostgresStore
store = PostgresStore(sys.argv[1])
sessions = [SessionManager.open(ref, storage=store) for ref in sys.argv[2:]]
lock = threading.Lock()
def write(session):
    while True:
        made = session.append_message({"role": "user", "content": "more", "timestamp": 1})
        with lock:
            print(session.ref, made, flush=True)
threads = [threading.Thread(target=write, args=(session,), daemon=True) for session in sessions]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_processes_that_are_killed_lose_nothing_that_was_acknowledged(
    store: PostgresStore, url: str
) -> None:
    groups = []
    for _ in range(3):
        refs = []
        for _ in range(8):
            with talk(store) as session:
                refs.append(session.ref)
        groups.append(refs)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, f"{url}&pool=2", *refs],
            stdout=subprocess.PIPE,
            text=True,
        )
        for refs in groups
    ]
    promised: dict[str, set[str]] = {}
    for process in processes:
        assert process.stdout is not None
        for _ in range(100):
            ref, made = process.stdout.readline().split()
            promised.setdefault(ref, set()).add(made)
    for process in processes:
        process.send_signal(signal.SIGKILL)
    for process in processes:
        assert process.stdout is not None
        with process:
            whole = [line.split() for line in process.stdout if line.endswith("\n")]
        for ref, made in whole:
            promised.setdefault(ref, set()).add(made)
    for ref, ids in promised.items():
        found = [entry.id for entry in store.read(ref).tree.entries]
        assert ids <= set(found)
        assert len(found) == len(set(found))
    # in one look: the server may still be at a statement of those that were killed
    counts = store.database.run(
        "SELECT s.messages, (SELECT count(*) FROM st_entry e WHERE e.sid = s.sid) "
        "FROM st_session s WHERE s.tenant = (SELECT st_tenant())"
    )
    assert len(counts) == 24
    assert all(messages == entries for messages, entries in counts)


# -- the order of threads, without a database ------------------------------------------------------


def plain(sid: int) -> PlainAppend:
    """An append to a session."""
    return PlainAppend(
        *(sid, 0, "last", 0, 0, "id", None, "message", "time", b"{}", 1),
        *(False, "complete", None, None),
    )


class Line:
    """A server whose answers come when they are let through."""

    def __init__(self) -> None:
        self.together: list[list[int]] = []
        self.alone: list[tuple[int, bool]] = []
        self.let = threading.Event()
        self.error: BaseException | None = None

    def send(self, batch: Sequence[PlainAppend]) -> list[tuple[int, int, int]]:
        self.together.append([each.sid for each in batch])
        if self.error is not None:
            raise self.error
        return [(each.sid, 1, 1) for each in batch if each.sid % 5]

    def send_one(self, sid: int) -> Callable[[bool], str]:
        def send(is_again: bool) -> str:
            self.alone.append((sid, is_again))
            if sid == 1:
                self.let.wait(30)
            return f"alone {sid}"

        return send


def through(
    line: Line, sids: Sequence[int], *, is_let: bool = True
) -> tuple[dict[int, object], Combiner]:
    """The answers of appends that come while the first one is under way."""
    combiner = Combiner(line.send, 1)
    answers: dict[int, object] = {}

    def append(sid: int) -> None:
        found: Answer | str | BaseException
        try:
            found = combiner.append(plain(sid), line.send_one(sid))
        except BaseException as error:
            found = error
        answers[sid] = found

    combiner._peak = 100.0
    threads = [threading.Thread(target=append, args=(sid,), daemon=True) for sid in sids]
    for thread in threads:
        thread.start()
        while not line.alone:
            time.sleep(0.001)
    if is_let:
        deadline = time.monotonic() + 10
        while len(combiner._waiting) < len(sids) - 1 and time.monotonic() < deadline:
            with contextlib.suppress(IndexError):
                time.sleep(0.0001)
            if line.together:
                break
        line.let.set()
    for thread in threads[1:]:
        thread.join(30)
    line.let.set()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert not combiner._waiting
    assert not combiner._lanes
    assert combiner._inside == 0
    return answers, combiner


def test_who_got_no_answer_sends_again_by_itself() -> None:
    line = Line()
    answers, _ = through(line, [1, 2, 3, 4, 5, 6])
    assert answers[1] == "alone 1"
    assert answers[5] == "alone 5"
    assert (5, True) in line.alone
    assert all(answers[sid] == (1, 1) for sid in (2, 3, 4, 6) if (sid, False) not in line.alone)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("cut")])
def test_a_sender_that_raises_leaves_nobody_waiting(error: BaseException) -> None:
    line = Line()
    line.error = error
    answers, combiner = through(line, [1, 2, 3, 4, 6])
    assert line.together
    interrupted = [sid for sid, found in answers.items() if isinstance(found, BaseException)]
    assert len(interrupted) == (1 if isinstance(error, KeyboardInterrupt) else 0)
    for sid in {2, 3, 4, 6} - {*interrupted}:
        assert answers[sid] == f"alone {sid}"
    if not interrupted:  # a statement that failed may fail again: the next go alone
        assert combiner._rest > 0


def test_a_sender_that_waits_for_long_loses_its_turn() -> None:
    line = Line()
    answers, _ = through(line, [1, 2, 3, 4, 6], is_let=False)
    assert answers[1] == "alone 1"
    assert set(answers) == {1, 2, 3, 4, 6}


def test_a_session_is_in_a_statement_once() -> None:
    line = Line()
    through(line, [1, 2, 2, 2, 3])
    assert all(len(batch) == len(set(batch)) for batch in line.together)
