"""Programs that share a session through the builder's calls, and are killed: nothing is lost.

Each worker does batches, compare-and-append, records and entries with parents of its own, and says
what was acknowledged. What is in the session afterwards must follow from that, in every store.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import Server, shared_server
from tests.samples import assistant, user
from tests.torture import workers
from tests.torture.conftest import Budget

from sessiontree import SessionManager
from sessiontree.errors import ConflictError, EntryExistsError
from sessiontree.model.entries import LEAF_MARKER, Entry
from sessiontree.session.records import RECORD
from sessiontree.stores import open_store

CWD = "/work/builders"
ID = "shared"
PIECE = "piece"
Figures = Callable[[str, float], None]
Said = tuple[str, Any]


@pytest.fixture(scope="module")
def server() -> Server:
    return shared_server(os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())))


@pytest.fixture(params=["file", "memory", "postgres"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Iterator[str]]:
    """The URLs of as many stores as one wants."""
    kind: str = request.param
    numbers = itertools.count()
    if kind == "postgres":
        server: Server = request.getfixturevalue("server")
        name = f"builders_{os.getpid()}"
        server.execute(f"CREATE DATABASE {name} TEMPLATE st_template")
        yield (f"{server.url(name)}?tenant=t{number}" for number in numbers)
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")
    elif kind == "file":
        yield (f"file:{tmp_path}/agent{number}" for number in numbers)
    else:
        yield (f"memory:builders-{os.getpid()}-{number}" for number in numbers)


class Worker:
    """A program with a session open that others use, too; it knows what must be true of its own."""

    def __init__(self, url: str, dice: random.Random, say: workers.Acknowledge) -> None:
        self.dice, self.say = dice, say
        self.url = url
        self.name = f"{dice.getrandbits(48):012x}"
        self.batches = itertools.count()
        self.session = self.open()

    def open(self) -> SessionManager:
        return SessionManager.open_or_create(ID, CWD, storage=self.url)

    def work(self, until: Callable[[], bool]) -> None:
        steps = [self.append, self.batch, self.batch, self.place, self.count, self.count]
        steps += [self.follow_the_leaf, self.follow_the_leaf, self.remember, self.move]
        rare = [self.repeat, self.rename, self.rewrite, self.reopen, self.look]
        while not until():
            self.dice.choice(rare if self.dice.random() < 0.1 else steps)()
        self.session.close()

    # -- steps -----------------------------------------------------------------------------

    def pieces(self, count: int) -> list[dict[str, Any]]:
        """A batch: each of its entries says which it belongs to, and of how many it is which."""
        batch = f"{self.name}-{next(self.batches)}"
        chosen = {} if self.dice.random() < 0.5 else {"id": batch}
        return [
            {
                "type": "custom",
                "customType": PIECE,
                "data": [batch, number, count],
                **({"id": f"{chosen['id']}-{number}"} if chosen else {}),
            }
            for number in range(count)
        ]

    def keep(self, made: list[str]) -> None:
        """The entries are in the tree as they were made; tell of them."""
        for entry_id in made:
            entry = self.session.get_entry(entry_id)
            assert entry is not None
            self.say("entry", [entry_id, entry.parent_id])

    def append(self) -> None:
        before = self.session.leaf_id
        made = self.session.append_message(workers.message(self.dice))
        entry = self.session.get_entry(made)
        assert entry is not None
        assert (entry.parent_id, self.session.leaf_id) == (before, made)
        self.keep([made])

    def batch(self) -> None:
        before = self.session.leaf_id
        made = self.session.append_many(self.pieces(self.dice.choice((1, 2, 5, 30))))
        parents = [entry.parent_id for entry in map(self.session.get_entry, made) if entry]
        assert parents == [before, *made[:-1]]
        assert self.session.leaf_id == made[-1]
        self.keep(made)

    def place(self) -> None:
        """Entries with parents of their own leave the leaf."""
        before = self.session.leaf_id
        pieces = self.pieces(self.dice.choice((1, 3)))
        parents = [self.any_id() for _ in pieces]
        for piece, parent in zip(pieces, parents, strict=True):
            piece["parentId"] = parent
        made = self.session.append_many(pieces)
        found = [entry.parent_id for entry in map(self.session.get_entry, made) if entry]
        assert found == parents
        assert self.session.leaf_id == before
        self.keep(made)

    def count(self) -> None:
        """Count one up, in a record that all of them count in: no number may be given twice."""
        self.session.refresh()
        number = (self.session.get_record("number") or 0) + 1
        record = {"key": "number", "value": number}
        revision = self.session.revision
        try:
            made = self.session.append_many(
                [{"type": "custom", "customType": RECORD, "data": record}],
                expected_revision=revision,
            )
        except ConflictError as error:
            if error.revision == revision:
                raise
            return
        assert self.session.revision != revision
        self.say("number", number)
        self.keep(made)

    def follow_the_leaf(self) -> None:
        """Go on where the conversation stands, only if it still does."""
        self.session.catch_up()
        leaf = self.session.leaf_id
        try:
            made = self.session.append_many(self.pieces(2), expected_leaf=leaf)
        except ConflictError as error:
            if error.leaf_id == leaf:
                raise
            return
        entry = self.session.get_entry(made[0])
        assert entry is not None
        self.say("follows", [made[0], entry.parent_id])
        self.keep(made)

    def remember(self) -> None:
        number = next(self.batches)
        made = self.session.set_record(self.name, number)
        assert self.session.get_record(self.name) == number
        self.say("record", [self.name, number])
        self.keep([made])

    def move(self) -> None:
        wanted = self.any_id()
        self.session.branch(wanted)
        self.session.persist_leaf()
        marked = self.session.leaf_entry
        assert marked is not None
        if marked.id != wanted:
            assert (marked.parent_id, marked.data["customType"]) == (wanted, LEAF_MARKER)

    def repeat(self) -> None:
        """An id that is there, or a parent that is not, lets nothing of a batch in."""
        pieces = self.pieces(3)
        pieces[2]["id"] = self.any_id()
        with pytest.raises(EntryExistsError):
            self.session.append_many(pieces)

    def rename(self) -> None:
        self.session.set_session_name(f"name {self.dice.random()}")

    def rewrite(self) -> None:
        self.session.rewrite_entries()

    def reopen(self) -> None:
        if self.dice.random() < 0.5:
            self.session.close()
        else:
            self.session.abandon()
        self.session = self.open()

    def look(self) -> None:
        before = self.session.leaf_id
        self.session.refresh()
        assert self.session.leaf_id == before

    def any_id(self) -> str:
        entries = self.session.get_entries()
        return self.dice.choice(entries[-40:]).id


def begin(url: str) -> None:
    """The session, with an answer in it."""
    with SessionManager.open_or_create(ID, CWD, storage=url) as session:
        session.append_message(user("begin"))
        session.append_message(assistant("answer"))


def work_killed(url: str, rng: random.Random, budget: Budget, figures: Figures) -> list[Said]:
    """A few processes at a time; each is killed after a while and another takes its place."""

    def run(dice: random.Random, say: workers.Acknowledge) -> None:
        Worker(url, dice, say).work(lambda: False)

    def start() -> tuple[workers.Child, float]:
        child = workers.start(run, rng.getrandbits(32))
        return child, time.monotonic() + rng.uniform(0.05, 1.5)

    said: list[Said] = []
    count = rng.choice((2, 3, 4))
    end = time.monotonic() + min(8.0, budget.seconds)
    running = [start() for _ in range(count)]
    while running:
        child, until = running.pop(0)
        time.sleep(max(0.0, until - time.monotonic()))
        said += child.kill()
        figures("kills", 1)
        if time.monotonic() < end:
            running.append(start())
            running.sort(key=lambda each: each[1])
    return said


def work_in_threads(url: str, rng: random.Random, budget: Budget) -> list[Said]:
    """The same in threads of this process, which nobody kills."""
    kept = open_store(url)  # for as long as somebody has it
    said: list[Said] = []
    end = time.monotonic() + min(4.0, budget.seconds)

    def run(seed: int) -> None:
        worker = Worker(url, random.Random(seed), lambda key, value: said.append((key, value)))
        worker.work(lambda: time.monotonic() > end)

    with ThreadPoolExecutor(max_workers=3) as pool:
        list(pool.map(run, [rng.getrandbits(32) for _ in range(3)]))
    kept.close()
    return said


def check(url: str, said: list[Said]) -> int:
    """What was acknowledged is there, once and in its place; what is there makes sense."""
    with SessionManager.open_or_create(ID, CWD, storage=url) as session:
        entries = session.get_entries()
        revision = session.revision
        told = [str(warning) for warning in session.warnings]
        with SessionManager.open(session.ref, storage=session.store) as other:
            assert other.revision == revision
    assert not [each for each in told if "appended by another" not in each]
    by_id = {entry.id: entry for entry in entries}
    assert len(by_id) == len(entries)
    for key, value in said:
        if key in ("entry", "follows"):
            entry_id, parent_id = value
            assert entry_id in by_id, f"lost: {entry_id}"
            assert by_id[entry_id].parent_id == parent_id
    check_batches(entries)
    numbers = [value for key, value in records(entries) if key == "number"]
    assert numbers == list(range(1, len(numbers) + 1))
    acknowledged = [value for key, value in said if key == "number"]
    assert max(Counter(acknowledged).values(), default=1) == 1
    assert set(acknowledged) <= set(numbers)
    check_followers(entries, {value[0] for key, value in said if key == "follows"})
    kept = dict(records(entries))
    for name, number in dict(value for key, value in said if key == "record").items():
        assert kept[name] >= number  # one more may have been written and not acknowledged
    return len(entries)


def records(entries: list[Entry]) -> Iterator[tuple[str, Any]]:
    for entry in entries:
        if entry.data.get("customType") == RECORD:
            yield entry.data["data"]["key"], entry.data["data"]["value"]


def check_batches(entries: list[Entry]) -> None:
    """Of each batch all is there, in one piece and in its order, or nothing."""
    pieces = [
        (at, *entry.data["data"])
        for at, entry in enumerate(entries)
        if entry.data.get("customType") == PIECE
    ]
    for batch, found in itertools.groupby(pieces, key=lambda piece: piece[1]):
        places = list(found)
        first, count = places[0][0], places[0][3]
        assert places == [(first + n, batch, n, count) for n in range(count)]


def check_followers(entries: list[Entry], followers: set[str]) -> None:
    """Who went on from the leaf went on from where the last entry before had left it."""
    by_id = {entry.id: entry for entry in entries}
    for before, entry in itertools.pairwise(entries):
        if entry.id in followers:
            assert unmarked(by_id, entry.parent_id) == unmarked(by_id, before.id)


def unmarked(by_id: dict[str, Entry], entry_id: str | None) -> str | None:
    while entry_id is not None and by_id[entry_id].data.get("customType") == LEAF_MARKER:
        entry_id = by_id[entry_id].parent_id
    return entry_id


def test_what_builders_were_told_is_true(
    urls: Iterator[str], rng: random.Random, budget: Budget, figures: Figures
) -> None:
    while True:
        url = next(urls)
        begin(url)
        if url.startswith("memory:"):
            kept = open_store(url)
            said = work_in_threads(url, rng, budget)
        else:
            kept = None
            said = work_killed(url, rng, budget, figures)
        figures("entries", check(url, said))
        figures("acknowledged", len(said))
        if kept is not None:
            kept.close()
        if not budget.is_left():
            return
