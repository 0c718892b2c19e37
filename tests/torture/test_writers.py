"""Many processes on one session: no line lost, torn or twice there; no lock outlives its owner."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.torture import workers
from tests.torture.conftest import Budget

from sessiontree import FileSessionStorage, SessionManager
from sessiontree.discovery.listing import list_sessions
from sessiontree.storage import locks
from sessiontree.stores.files.reader import load_document

Figures = Callable[[str, float], None]


@pytest.fixture(autouse=True)
def _agent_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.setenv("SESSIONTREE_CACHE_DIR", str(tmp_path / "cache"))


def begin(folder: Path, number: int) -> Path:
    path = folder / "shared" / f"s{number}.jsonl"
    with SessionManager.open(path) as session:
        session.append_message({"role": "user", "content": "begin", "timestamp": 0})
        session.append_message({"role": "assistant", "content": [], "timestamp": 0})
    return path


# -- what the processes do ---------------------------------------------------------------------


def write_until(
    path: Path, seeded: random.Random, acknowledge: workers.Acknowledge, deadline: float
) -> None:
    """Append, and now and then whatever else rewrites, merges or reads the file."""
    session = SessionManager.open(path)
    while time.monotonic() < deadline:
        roll = seeded.random()
        entries = session.get_entries()
        if roll < 0.86:
            made = workers.message(seeded)
            acknowledge(session.append_message(made), made)
        elif roll < 0.89:
            session.set_session_name(f"name {seeded.random()}")
        elif roll < 0.91:
            session.append_compaction("summary", seeded.choice(entries).id, 1)
        elif roll < 0.93:
            session.rewrite_entries()
        elif roll < 0.96:
            session.branch(seeded.choice(entries).id)
        elif roll < 0.98:
            session.refresh()
        else:
            session.close()
            session = SessionManager.open(path)
    session.close()


def read_until(
    path: Path, seeded: random.Random, acknowledge: workers.Acknowledge, deadline: float
) -> None:
    """Look at the file in every way that listings and viewers do; it only ever grows."""
    storage = FileSessionStorage()
    seen: dict[str, bytes] = {}
    looks = 0
    while time.monotonic() < deadline:
        raw = path.read_bytes()
        for line in raw[: raw.rfind(b"\n") + 1].splitlines():
            json.loads(line)
        document = load_document(storage, str(path))
        assert document is not None
        lines = {entry.id: entry.line() for entry in document.tree.entries}
        gone = [line for entry_id, line in seen.items() if entry_id not in lines]
        assert not gone, f"was there and is gone: {gone[0][:300]!r}"
        seen = lines
        # a look may come while the last line is being written, and see its beginning
        reader = document.payloads.reader
        torn = [
            text
            for text in document.skipped
            if b"\n" in reader.read_at(text.offset, document.end - text.offset)
        ]
        assert not torn, "half a line in the middle"
        reader.close()
        listed = list_sessions(path.parent, path.parent)
        assert [info.path for info in listed] == [str(path)]
        assert listed[0].message_count >= 2
        looks += 1
    acknowledge("looks", looks)


def check_shared(path: Path, promised: dict[str, Any]) -> None:
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    counts = Counter(line["id"] for line in lines[1:])
    assert max(counts.values()) == 1, "a line was written twice"
    found = {line["id"]: line for line in lines[1:]}
    assert not promised.keys() - found.keys(), "a line was lost"
    assert all(line["parentId"] in (None, *found) for line in lines[1:]), "unreachable"
    session = SessionManager.open(path)
    assert not [str(warning) for warning in session.warnings]
    for entry_id, made in promised.items():
        entry = session.get_entry(entry_id)
        assert entry is not None
        assert entry.data["message"] == made
    reached, stack = 0, session.get_tree()
    while stack:
        node = stack.pop()
        reached += 1
        stack += node.children
    assert reached == len(lines) - 1
    assert not [name for name in os.listdir(path.parent) if name.endswith(".tmp")]


@pytest.mark.share(2)
def test_many_processes_write_one_session(
    tmp_path: Path, rng: random.Random, budget: Budget, figures: Figures
) -> None:
    round_number = 0
    while budget.is_left() or round_number == 0:
        round_number += 1
        path = begin(tmp_path, round_number)
        count = rng.choice([2, 3, 4, 8, 16])
        deadline = time.monotonic() + min(2.5, max(1.0, budget.seconds / 4))

        def write(
            seeded: random.Random,
            acknowledge: workers.Acknowledge,
            path: Path = path,
            deadline: float = deadline,
        ) -> None:
            write_until(path, seeded, acknowledge, deadline)

        def read(
            seeded: random.Random,
            acknowledge: workers.Acknowledge,
            path: Path = path,
            deadline: float = deadline,
        ) -> None:
            read_until(path, seeded, acknowledge, deadline)

        writers = [workers.start(write, rng.getrandbits(32)) for _ in range(count)]
        readers = [workers.start(read, rng.getrandbits(32)) for _ in range(1)]
        promised = {key: made for each in workers.collect(writers) for key, made in each}
        looks = [found for each in workers.collect(readers) for found in each]
        check_shared(path, promised)
        path.unlink()
        figures("writers", count)
        figures("lines", len(promised))
        figures("looks", sum(number for _, number in looks))


def test_writers_that_have_no_locks_still_lose_no_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rng: random.Random,
    budget: Budget,
    figures: Figures,
) -> None:
    """As on a network file system: each line is one write to the end, whoever else writes."""
    monkeypatch.setattr(locks, "fcntl", NoLocks())
    round_number = 0
    while budget.is_left() or round_number == 0:
        round_number += 1
        path = begin(tmp_path, round_number)
        deadline = time.monotonic() + min(1.5, max(0.5, budget.seconds / 4))

        def write(
            seeded: random.Random,
            acknowledge: workers.Acknowledge,
            path: Path = path,
            deadline: float = deadline,
        ) -> None:
            session = SessionManager.open(path)
            while time.monotonic() < deadline:
                made = workers.message(seeded)
                acknowledge(session.append_message(made), made)

        children = [workers.start(write, rng.getrandbits(32)) for _ in range(4)]
        promised = {key: made for each in workers.collect(children) for key, made in each}
        # one who met half of another's line ends it first: a blank line may be left of that
        lines = [json.loads(line) for line in path.read_bytes().splitlines() if line]
        found = {line["id"] for line in lines[1:]}
        assert not promised.keys() - found, "a line was lost"
        assert len(found) == len(lines) - 1, "a line was written twice"
        path.unlink()
        figures("lines", len(promised))


class NoLocks:
    """``fcntl`` on a file system that knows no locks."""

    def __getattr__(self, name: str) -> Any:
        return getattr(fcntl, name)

    def flock(self, fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def test_a_file_system_without_locks_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = begin(tmp_path, 0)
    monkeypatch.setattr(locks, "fcntl", NoLocks())
    session = SessionManager.open(path)
    for _ in range(3):
        session.append_message({"role": "user", "content": "x", "timestamp": 1})
    session.set_session_name("name")
    said = [str(warning) for warning in session.warnings if "lock" in str(warning)]
    assert len(said) == 1
    session.close()


def test_the_lock_of_a_dead_process_never_blocks(
    tmp_path: Path, rng: random.Random, budget: Budget, figures: Figures
) -> None:
    path = begin(tmp_path, 0)
    with SessionManager.open(path) as session:
        while budget.is_left():

            def hold(seeded: random.Random, acknowledge: workers.Acknowledge) -> None:
                writer = FileSessionStorage().open_writer(str(path))
                writer.lock()
                acknowledge("held", 1)
                while True:
                    time.sleep(60)

            child = workers.start(hold, 0)
            child.wait_for_word()
            child.kill()
            began = time.monotonic()
            session.append_message({"role": "user", "content": "x", "timestamp": 1})
            assert time.monotonic() - began < 5, "waited for a dead process"
            figures("dead holders", 1)
