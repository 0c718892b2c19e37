"""What the group ``postgres`` measures on one server; targets and the table are in ``postgres``.

Everything noisy is measured in turns: a block of ours, a block of the floor, and so on; the ratio
is that of the medians.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.postgres_server import as_user, tool

from benchmarks.postgres_driver import ANSWER, begin, message
from benchmarks.postgres_ground import (
    COMMON,
    HAN,
    RARE,
    TEXT,
    USUAL,
    Ground,
    far_away,
    fill_entries,
    fill_sessions,
)
from benchmarks.world import CHECKOUT
from sessiontree import SessionManager
from sessiontree.stores import open_store
from sessiontree.stores.base import SessionStore
from sessiontree.stores.postgres.store import PostgresStore
from sessiontree.stores.postgres.upkeep import vacuum
from sessiontree.stores.transfer import transfer

_BLOCK = 20

Work = Callable[[], object]


def time_in_turns(works: Mapping[str, Work], turns: int, block: int = 1) -> dict[str, float]:
    """Milliseconds of each, once: the median of blocks that were taken in turns."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(turns):
        for name, work in works.items():
            started = time.perf_counter()
            for _ in range(block):
                work()
            taken[name].append((time.perf_counter() - started) * 1e3 / block)
    return {name: statistics.median(times) for name, times in taken.items()}


# -- appends ---------------------------------------------------------------------------------------


def appends(url: str, turns: int, floor_url: str | None = None) -> dict[str, float]:
    """An append, a bare INSERT of the same text, and a bare round trip."""
    import psycopg

    with begin(url) as session, psycopg.connect(floor_url or url, autocommit=True) as floor:
        floor.prepare_threshold = None
        sid, line = time.time_ns(), TEXT.encode()
        numbers = iter(range(10**9))

        def insert() -> None:
            number = next(numbers)
            floor.execute(
                "INSERT INTO floor (sid, seq, id, line) VALUES (%s, %s, %s, %b)",
                (sid, number, f"{number:08x}", line),
            )

        return time_in_turns(
            {
                "us": lambda: session.append_message(message(TEXT)),
                "floor": insert,
                "trip": lambda: floor.execute("SELECT 1"),
            },
            turns,
            _BLOCK,
        )


def far_appends(ground: Ground, turns: int, delay_s: float) -> dict[str, float]:
    """The same through a proxy."""
    with far_away(ground, delay_s) as url:
        return appends(url, turns)


def grown_appends(ground: Ground, entries: int, turns: int) -> dict[str, float]:
    """An append to a session of many entries, and to one of a hundred."""
    with long_session(ground, entries) as long, begin(ground.url) as short:
        for _ in range(100):
            short.append_message(message(TEXT))
        return time_in_turns(
            {
                "long": lambda: long.append_message(message(TEXT)),
                "short": lambda: short.append_message(message(TEXT)),
            },
            turns,
            _BLOCK,
        )


@contextmanager
def long_session(ground: Ground, entries: int, url: str | None = None) -> Iterator[SessionManager]:
    """A session of so many entries, open."""
    with begin(url or ground.url) as session:
        made = {"type": "message", "message": message(TEXT)}
        for _ in range(entries // 1_000):
            session.append_many([made] * 1_000)
        yield session


def many_writers(ground: Ground, count: int, seconds: float, turns: int) -> dict[str, float]:
    """Appends per second of writers with a session each, in four processes; and pgbench's."""
    ours, floor = [], []
    for _ in range(turns):
        floor.append(_pgbench(ground, count, seconds))
        ours.append(_write(ground, count, seconds))
    return {"us": statistics.median(ours), "floor": statistics.median(floor)}


def _pgbench(ground: Ground, clients: int, seconds: float) -> float:
    """Transactions per second of pgbench, one INSERT each."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        script = Path(folder, "insert.sql")
        script.write_text(
            "\\set seq random(1, 9000000000000000000)\n"
            f"INSERT INTO floor VALUES (:client_id + {time.time_ns()}, :seq, 'id', '{TEXT}');\n"
        )
        script.chmod(0o644)
        command = [
            *(tool("pgbench"), "-n", "-h", "127.0.0.1", "-p", str(ground.server.port)),
            *("-U", "postgres", "-c", str(clients), "-j", "2", "-T", str(max(1, round(seconds)))),
            *("-M", "extended", "-f", str(script), "bench"),
        ]
        done = subprocess.run(
            as_user(command), capture_output=True, text=True, check=True, cwd=folder
        )
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("tps = ")]
    return float(line.split()[2])


def _write(ground: Ground, count: int, seconds: float) -> float:
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.postgres_driver", "writers"),
                json.dumps(
                    {"url": ground.url, "count": count // 4, "seconds": seconds, "text": TEXT}
                ),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate()[0] for process in processes]
    return float(sum(json.loads(each)["per_s"] for each in told))


def one_session(ground: Ground, writers: int, count: int) -> dict[str, float]:
    """Appends per second of writers that share one session, and how many entries are there."""
    store = PostgresStore(ground.url)
    with begin(store) as session:
        ref = session.ref
    opened = [SessionManager.open(ref, storage=store) for _ in range(writers)]
    failed: list[BaseException] = []

    def write(own: SessionManager) -> None:
        try:
            for _ in range(count // writers):
                own.append_message(message(TEXT))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(each,)) for each in opened]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed_s = time.perf_counter() - started
    found = len(store.read(ref).tree.entries) - 2
    for each in opened:
        each.close()
    return {
        "per_s": found / elapsed_s,
        "errors": len(failed),
        "lost": writers * (count // writers) - found,
    }


# -- reading ---------------------------------------------------------------------------------------


def reading(ground: Ground, entries: int, turns: int) -> dict[str, float]:
    """Opening a long session here and from a file, its context, and a fork of it."""
    store = PostgresStore(ground.url)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        files = open_store(f"file:{folder}")
        with long_session(ground, entries) as made:
            ref = made.ref
            kept = made.get_entries()[-20].id
            made.append_compaction("what was said", kept, 100_000)
            made.append_message(ANSWER)
        copied = _copy_to(files, store, ref)
        told = time_in_turns(
            {
                "open": lambda: store.open(ref).close(),
                "file": lambda: files.open(copied).close(),
                "fork": lambda: store.fork(ref, "/work/other").close(),
            },
            turns,
        )
        before = store.database.round_trips
        opened = SessionManager.open(ref, storage=store)
        told["open trips"] = store.database.round_trips - before
        opened.build_session_context()
        told["context trips"] = store.database.round_trips - before
        opened.close()
    return told


def _copy_to(target: SessionStore, store: PostgresStore, ref: str) -> str:
    info = store.get_info(ref)
    assert info is not None
    assert not transfer(store, target, [info]).failed
    found = target.locate(info.id)
    assert found is not None
    return found


def listing(ground: Ground, few: int, many: int, turns: int) -> dict[str, float]:
    """Fifty sessions of few and of many: of all projects, and of one."""
    works: dict[str, Work] = {}
    for name, count in (("few", few), ("many", many)):
        fill_sessions(ground, name, count)
        store = PostgresStore(ground.member(name))
        assert len(store.list(limit=50)) == 50
        works[name] = partial(store.list, limit=50)
        works[f"{name}, a project"] = partial(store.list, "/work/p7", limit=50)
    return time_in_turns(works, turns, 5)


QUERIES = {
    "the commonest word": COMMON,
    "a usual word": USUAL,
    "a rare word": RARE,
    "two words": f"{COMMON} {USUAL}",
    "a phrase": f'"w1 {COMMON}"',
    "two Han characters": HAN,
}


def searching(ground: Ground, entries: int, turns: int) -> tuple[dict[str, float], dict[str, int]]:
    """Milliseconds of each query and of noting the words, and how many sessions were found."""
    size = 100
    fill_entries(ground, "search", entries // size, size)
    store = PostgresStore(ground.member("search"))
    started = time.perf_counter()
    assert vacuum(store.database).indexed == entries // size
    indexing_s = time.perf_counter() - started
    with ground.connect() as connection:
        connection.execute("VACUUM ANALYZE st_text")
        connection.execute("VACUUM ANALYZE st_session")
    found = {name: len(store.search(query)) for name, query in QUERIES.items()}
    works = {name: partial(store.search, query) for name, query in QUERIES.items()}
    told = time_in_turns(works, turns)
    told["indexing, µs an entry"] = indexing_s * 1e6 / entries
    return told, found


def sizes(ground: Ground) -> dict[str, float]:
    """Bytes an entry of the database takes: rows, their keys, and the search."""
    sql = (
        "SELECT (SELECT count(*) FROM st_entry), sum(pg_table_size(c.oid)), "
        "sum(pg_indexes_size(c.oid)), pg_total_relation_size('st_text'), "
        "(SELECT count(*) FROM st_text) FROM pg_class c WHERE c.relname ~ '^st_entry_[0-9]$'"
    )
    with ground.connect() as connection:
        row: Any = connection.execute(sql).fetchone()
    entries, rows, keys, text, texts = map(float, row)
    return {"rows": rows / entries, "keys": keys / entries, "search": text / max(1.0, texts)}


def costs(ground: Ground, count: int) -> dict[str, float]:
    """What the server itself spends on each operation: µs of its processor, bytes of its log.

    Of a database that ``searching`` has filled. The simulation of a fleet replays them
    (``benchmarks.fleet``). The processor's time hardly depends on what else the machine does.
    """
    store = PostgresStore(ground.member("search"))
    (first,) = [info.path for info in store.list(limit=1)]
    works: dict[str, Work] = {
        "open": lambda: store.open(first).close(),
        "list": lambda: store.list(limit=50),
        "search": lambda: store.search(USUAL),
    }
    told = {name: _server_us(store, work, count) for name, work in works.items()}
    with begin(store) as session:
        log_before = _log_position(ground)
        told["append"] = _server_us(store, partial(_append_one, session), count)
        told["log bytes"] = (_log_position(ground) - log_before) / count
        with store.database.connection() as connection:
            pid = connection.info.backend_pid
        before = _processor_s(pid)
        log_before = _log_position(ground)
    # its words were noted when it was left
    told["index"] = (_processor_s(pid) - before) * 1e6 / count
    told["index log bytes"] = (_log_position(ground) - log_before) / count
    return told


def _append_one(session: SessionManager) -> None:
    session.append_message(message(TEXT))


def _server_us(store: PostgresStore, work: Work, count: int) -> float:
    """The processor's time of the server for one; the least of a few blocks."""
    found = []
    for _ in range(5):
        with store.database.connection() as connection:
            pid = connection.info.backend_pid
        before = _processor_s(pid)
        for _ in range(max(1, count // 5)):
            work()
        found.append((_processor_s(pid) - before) * 1e6 / max(1, count // 5))
    return min(found)


def _processor_s(pid: int) -> float:
    """How long a process has run so far."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _log_position(ground: Ground) -> int:
    ((position,),) = ground.server.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    return int(str(position))
