"""What can be done to a prompt history, each with the state it needs: targets of the attacks."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sessiontree import HistoryStorage
from sessiontree.history.database import HistoryDatabase

OLD = [f"old prompt {number}" for number in range(8)]
MANY = [f"old prompt {number} " + "x" * 300 for number in range(100)]
OMP_SCHEMA = """
CREATE TABLE history (id INTEGER PRIMARY KEY AUTOINCREMENT, prompt TEXT NOT NULL UNIQUE,
  created_at INTEGER NOT NULL DEFAULT 0, cwd TEXT, session_id TEXT);
CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id');
CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN
  INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt); END;
"""


@dataclass(frozen=True, slots=True)
class State:
    """A history, and what must never be lost of it.

    ``prompts``: all that can be read. ``damaged``: bytes that are not to be thrown away.
    """

    history: HistoryStorage
    prompts: list[str]
    damaged: tuple[bytes, ...] = ()


Prepare = Callable[[Path], State]
Act = Callable[[State], list[str]]


@dataclass(frozen=True, slots=True)
class HistoryOperation:
    """``prepare`` makes a history at a path; ``act`` is what will be refused, and what it added."""

    name: str
    prepare: Prepare
    act: Act


def ticking() -> Callable[[], float]:
    seconds = itertools.count(1_760_000_000)
    return lambda: float(next(seconds))


# -- states ------------------------------------------------------------------------------------


def nothing(path: Path) -> State:
    """No file, and no folder for it."""
    return State(HistoryStorage(path), [])


def closed(path: Path, prompts: list[str] = OLD) -> State:
    clock = ticking()
    with HistoryStorage(path, clock=clock) as history:
        for prompt in prompts:
            history.add(prompt)
    return State(HistoryStorage(path, clock=clock), list(prompts))


def in_use(path: Path) -> State:
    """Both connections are open, and the journal holds prompts."""
    state = closed(path)
    state.history.add("in the journal")
    assert state.history.flush(10)
    assert len(state.history.recent(100)) == len(OLD) + 1
    return State(state.history, [*state.prompts, "in the journal"])


def deleted_in_use(path: Path) -> State:
    state = in_use(path)
    for file in path.parent.iterdir():
        file.unlink()
    return State(state.history, [])


def replaced_in_use(path: Path) -> State:
    """Another process has taken it for damaged, and gone on in a new one."""
    state = in_use(path)
    database = HistoryDatabase(str(path))
    database.rebuild()
    database.close()
    return state


def of_omp(path: Path) -> State:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(OMP_SCHEMA)
        database.executemany("INSERT INTO history (prompt) VALUES (?)", [(old,) for old in OLD])
        database.commit()
    path.chmod(0o600)
    return State(HistoryStorage(path), OLD)


def no_database(path: Path) -> State:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database at all " * 100)
    return State(HistoryStorage(path), [], (path.read_bytes(),))


def set_aside_before(path: Path) -> State:
    """A damaged one was set aside a moment ago, and now there is another."""
    first = no_database(path)
    assert first.history.recent() == []
    path.write_bytes(b"no database either " * 100)
    return State(HistoryStorage(path), [], (*first.damaged, path.read_bytes()))


def half_damaged(path: Path) -> State:
    """The pages of the prompts in the middle cannot be read, those at the ends can."""
    closed(path, MANY).history.close()
    with closing(sqlite3.connect(path)) as database:
        size = database.execute("PRAGMA page_size").fetchone()[0]
    raw = bytearray(path.read_bytes())
    place = raw.index(MANY[50].encode()) // size * size
    raw[place : place + 64] = b"\xff" * 64
    path.write_bytes(raw)
    readable = [prompt for prompt in MANY if not place <= raw.find(prompt.encode()) < place + size]
    assert MANY[0] in readable
    assert MANY[-1] in readable
    return State(HistoryStorage(path), readable, (bytes(raw[place : place + size]),))


def damaged_with_journal(path: Path) -> State:
    """The last prompt is only in the journal, which others use too, and nothing can be added."""
    state = in_use(path)
    _break_tables(path)
    return state


def damaged_index(path: Path) -> State:
    state = closed(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("DELETE FROM history_fts_data WHERE id > 10")
        database.commit()
    return state


def broken_tables(path: Path) -> State:
    state = closed(path)
    _break_tables(path)
    return state


def _break_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TRIGGER more AFTER INSERT ON history BEGIN INSERT INTO nowhere VALUES (1); END"
        )
        database.commit()


# -- operations --------------------------------------------------------------------------------


def add(state: State) -> list[str]:
    """Two prompts, which are there from the start and are written in the end."""
    for prompt in ("new one", "new two"):
        state.history.add(prompt)
    assert state.history.flush(20), f"not written: {state.history.error}"
    assert state.history.error is None
    return ["new one", "new two"]


def add_and_close(state: State) -> list[str]:
    state.history.add("new")
    state.history.close()
    return ["new"]


def recall(state: State) -> list[str]:
    found = [entry.prompt for entry in state.history.recent(1_000)]
    assert sorted(found) == sorted(state.prompts), "recalled something else"
    return []


def look_for(state: State) -> list[str]:
    # not the very text of any prompt: the index is asked
    found = [entry.prompt for entry in state.history.search("prompt ol", 1_000)]
    assert sorted(found) == sorted(each for each in state.prompts if "old" in each)
    return []


def rebuild(state: State) -> list[str]:
    """What ``doctor --repair`` does."""
    database = HistoryDatabase(state.history.path)
    try:
        database.rebuild()
    finally:
        database.close()
    return []


def _over(names: str, prepare: Prepare, *acts: Act) -> Iterator[HistoryOperation]:
    for act in acts:
        name = act.__name__.replace("_", " ")
        yield HistoryOperation(f"{name}: {names}", prepare, act)


HISTORY_OPERATIONS = [
    *_over("no folder yet", nothing, add, add_and_close, recall, look_for),
    *_over("closed", closed, add, add_and_close, recall, look_for, rebuild),
    *_over("in use", in_use, add, add_and_close, recall, look_for, rebuild),
    *_over("deleted in use", deleted_in_use, add, recall),
    *_over("replaced in use", replaced_in_use, add, recall),
    *_over("of omp", of_omp, add, recall, look_for),
    *_over("no database", no_database, add, add_and_close, recall, rebuild),
    *_over("set aside before", set_aside_before, recall),
    *_over("half damaged", half_damaged, add, recall),
    *_over("damaged with a journal", damaged_with_journal, add, rebuild),
    *_over("damaged index", damaged_index, look_for, rebuild),
    *_over("broken tables", broken_tables, add, recall),
]
