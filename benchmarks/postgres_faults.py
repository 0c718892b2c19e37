"""Appends while something goes wrong again and again: is each there, and once?

Each fault has a server of its own. Writers note the id of every append that returned; in the end
the database is asked for all of them.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from tests.postgres.proxy import proxied

from benchmarks.postgres_driver import begin, message
from benchmarks.postgres_ground import DATABASE, Ground, grounded
from sessiontree import SessionManager
from sessiontree.stores.postgres.store import PostgresStore

WRITERS = 40
"""More than a pool has connections: so that appends are sent together, too."""
SESSIONS = 32
"""So the first few have two writers, the others one."""
_PAUSE_S = 0.25
_KILL = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sessiontree' "
    "AND random() < 0.5"
)


@dataclass(frozen=True)
class Endured:
    """What became of appends under a fault."""

    times: int
    appended: int
    lost: int
    twice: int
    errors: int
    seconds: float

    @property
    def is_harmed(self) -> bool:
        """Whether anything was lost, is there twice, or raised; or whether nothing went wrong."""
        return bool(self.lost or self.twice or self.errors or not self.times)

    def __str__(self) -> str:
        cells = (self.times, self.appended, self.lost, self.twice, self.errors)
        return " | ".join([*(f"{each:,}" for each in cells), f"{self.seconds:,.0f}"])


@dataclass(frozen=True)
class Broken:
    """A store's URL, and what makes the fault happen once."""

    url: str
    strike: Callable[[], object]


Fault = Callable[[Ground], AbstractContextManager[Broken]]


@contextmanager
def _answers_swallowed(ground: Ground) -> Iterator[Broken]:
    with proxied(ground.url) as (proxy, url):
        yield Broken(url, lambda: proxy.swallow_answers(3))


@contextmanager
def _calls_cut(ground: Ground) -> Iterator[Broken]:
    with proxied(ground.url) as (proxy, url):
        yield Broken(url, lambda: proxy.cut_calls(3))


@contextmanager
def _connections_cut(ground: Ground) -> Iterator[Broken]:
    with proxied(ground.url) as (proxy, url):
        yield Broken(url, proxy.cut_all)


@contextmanager
def _backends_killed(ground: Ground) -> Iterator[Broken]:
    yield Broken(ground.url, lambda: ground.server.execute(_KILL))


@contextmanager
def _server_crashes(ground: Ground) -> Iterator[Broken]:
    def crash() -> None:
        ground.server.stop("immediate")
        ground.server.start()
        time.sleep(2)

    yield Broken(ground.url, crash)


@contextmanager
def _serializable(ground: Ground) -> Iterator[Broken]:
    ground.server.execute(
        f"ALTER DATABASE {DATABASE} SET default_transaction_isolation = 'serializable'"
    )
    yield Broken(ground.url, lambda: None)  # several on one session are what fails there


FAULTS: dict[str, Fault] = {
    "answers swallowed after the commit": _answers_swallowed,
    "calls cut before the server": _calls_cut,
    "all connections cut": _connections_cut,
    "backends killed": _backends_killed,
    "the server stopped at once, and started": _server_crashes,
    "serializable isolation": _serializable,
}


def endure(fault: Fault, count: int) -> Endured:
    """Append so many entries under a fault, to own and to shared sessions; look what is there."""
    with grounded() as ground, fault(ground) as broken:
        store = PostgresStore(broken.url)
        refs = []
        for _ in range(SESSIONS):
            with begin(store) as session:
                refs.append(session.ref)
        promised: list[str] = []
        failed: list[BaseException] = []

        def write(number: int) -> None:
            try:
                with SessionManager.open(refs[number % SESSIONS], storage=store) as own:
                    promised.extend(
                        own.append_message(message(f"{number} {at}"))
                        for at in range(count // WRITERS)
                    )
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        times = seen = 0
        while any(thread.is_alive() for thread in threads):
            if len(promised) > seen or not times:  # else it would be an outage, which may raise
                seen = len(promised)
                broken.strike()
                times += 1
            time.sleep(_PAUSE_S)
        seconds = time.perf_counter() - started
        store.close()
        ids, texts = _find(PostgresStore(ground.url), refs)
    lost = len(set(promised) - ids)
    twice = sum(times - 1 for times in texts.values())
    return Endured(times, len(promised), lost, twice, len(failed), seconds)


def _find(store: PostgresStore, refs: list[str]) -> tuple[set[str], Counter[str]]:
    """The ids and the texts that the database has."""
    ids: set[str] = set()
    texts: Counter[str] = Counter()
    for ref in refs:
        for entry in store.read(ref).tree.entries[2:]:
            ids.add(entry.id)
            if entry.type == "message":  # one who left somewhere else notes where
                texts[str(entry.decode()["message"]["content"])] += 1
    store.close()
    return ids, texts
