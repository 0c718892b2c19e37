"""SIGKILL at random moments: every acknowledged entry is there, and every file opens."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.torture import workers
from tests.torture.conftest import Budget

from sessiontree import HistoryStorage, SessionManager
from sessiontree.discovery.listing import list_sessions

Figures = Callable[[str, float], None]


@pytest.fixture(autouse=True)
def _agent_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.setenv("SESSIONTREE_CACHE_DIR", str(tmp_path / "cache"))


def begin(tmp_path: Path, name: str = "s.jsonl") -> Path:
    path = tmp_path / "sessions" / name
    with SessionManager.open(path) as session:
        session.append_message({"role": "user", "content": "begin", "timestamp": 0})
    return path


def check_session(path: Path, promised: dict[str, Any]) -> None:
    session = SessionManager.open(path)
    for entry_id, made in promised.items():
        entry = session.get_entry(entry_id)
        assert entry is not None, f"entry {entry_id} is lost"
        assert entry.data["message"] == made
    assert not [warning for warning in session.warnings if "blob" in str(warning)]
    session.build_session_context()
    session.get_tree()


@pytest.mark.share(2)
def test_killed_while_working_on_a_session(
    tmp_path: Path, rng: random.Random, budget: Budget, figures: Figures
) -> None:
    promised: dict[str, Any] = {}
    path = begin(tmp_path)
    round_number = 0
    while budget.is_left():
        if len(promised) > 400:
            promised, round_number = {}, round_number + 1
            path = begin(tmp_path, f"s{round_number}.jsonl")

        def work(
            seeded: random.Random, acknowledge: workers.Acknowledge, path: Path = path
        ) -> None:
            workers.work_on(SessionManager.open(path), seeded, acknowledge)

        children = [workers.start(work, rng.getrandbits(32)) for _ in range(rng.choice([1, 1, 3]))]
        workers.pause(rng)
        for child in children:
            for entry_id, made in child.kill():
                promised[entry_id] = made
            figures("kills", 1)
        check_session(path, promised)
        figures("acknowledged entries checked", len(promised))
    with SessionManager.open(path) as session:
        session.rewrite_entries()
    leftovers = [name for name in os.listdir(path.parent) if name.endswith(".tmp")]
    assert not [name for name in leftovers if name.startswith(f".{path.name}.")]


@pytest.mark.share(2)
def test_killed_while_a_new_session_begins(
    tmp_path: Path, rng: random.Random, budget: Budget, figures: Figures
) -> None:
    """The draft, its promotion, and the prompt typed before the first answer."""
    while budget.is_left():

        def work(seeded: random.Random, acknowledge: workers.Acknowledge) -> None:
            session = SessionManager.create(tmp_path / "project")
            acknowledge("file", session.session_file)
            for _ in range(6):
                made = workers.message(seeded)
                acknowledge(session.append_message(made), made)

        child = workers.start(work, rng.getrandbits(32))
        workers.pause(rng)
        promised = dict(child.kill())
        figures("kills", 1)
        file = promised.pop("file", None)
        if file is not None and promised:
            check_session(Path(file), promised)


@pytest.mark.share(2)
def test_killed_while_forking_moving_and_migrating(
    tmp_path: Path, rng: random.Random, budget: Budget, figures: Figures
) -> None:
    """The session is whole at the old place or the new one, never at neither."""
    while budget.is_left():
        source = SessionManager.create(tmp_path / "project")
        made = [workers.message(rng) for _ in range(8)]
        made.append({**workers.message(rng), "role": "assistant"})
        promised = {source.append_message(message): message for message in made}
        source.close()
        file, session_id = Path(source.session_file or ""), source.session_id
        if rng.random() < 0.3:
            lines = file.read_bytes().splitlines()
            header = {**json.loads(lines[0]), "version": 2}
            file.write_bytes(b"\n".join([json.dumps(header).encode(), *lines[1:]]) + b"\n")

        def work(
            seeded: random.Random, acknowledge: workers.Acknowledge, file: Path = file
        ) -> None:
            session = SessionManager.open(file)
            while True:
                session.move_to(tmp_path / seeded.choice(["project", "second", "third"]))
                acknowledge("moved", session.cwd)
                SessionManager.fork_from(str(session.session_file), tmp_path / "fork").close()

        child = workers.start(work, rng.getrandbits(32))
        workers.pause(rng)
        child.kill()
        figures("kills", 1)
        found = [
            Path(folder) / name
            for folder, _, names in os.walk(tmp_path / "agent" / "sessions")
            for name in names
            if session_id in name
            and name.endswith(".jsonl")
            # a link that an earlier move left may lead nowhere after a later one
            and (Path(folder) / name).exists()
        ]
        assert found, "the session is nowhere"
        for path in found:
            check_session(path, promised)
        for path in found:  # only now: one may be the link that a move left to another
            path.unlink(missing_ok=True)


@pytest.mark.share(2)
def test_killed_while_the_catalogue_is_refreshed(
    tmp_path: Path, rng: random.Random, budget: Budget, figures: Figures
) -> None:
    project = tmp_path / "project"
    for index in range(30):
        with SessionManager.create(project) as session:
            session.append_message({"role": "user", "content": f"u{index}", "timestamp": 1})
            session.append_message(workers.message(rng) | {"role": "assistant"})
    while budget.is_left():
        with SessionManager.create(project) as session:
            session.append_message({"role": "assistant", "content": [], "timestamp": 1})

        def work(seeded: random.Random, acknowledge: workers.Acknowledge) -> None:
            while True:
                list_sessions(project)
                acknowledge("listed", 1)

        children = [workers.start(work, 0) for _ in range(2)]
        workers.pause(rng)
        for child in children:
            child.kill()
            figures("kills", 1)
        listed = {info.path: info.message_count for info in list_sessions(project)}
        scanned = {path: count_messages(path) for path in listed}
        folder = Path(session.session_dir)
        assert listed == scanned
        assert len(listed) == len(list(folder.glob("*.jsonl")))
        if len(listed) > 150:
            for path in list(listed)[60:]:
                os.unlink(path)


def count_messages(path: str) -> int:
    lines = Path(path).read_bytes().splitlines()
    return sum(json.loads(line)["type"] == "message" for line in lines)


@pytest.mark.share(2)
def test_killed_while_the_prompt_history_is_written(
    tmp_path: Path, rng: random.Random, budget: Budget, figures: Figures
) -> None:
    database = tmp_path / "history.db"
    drained: list[str] = []
    while budget.is_left():
        token = f"{rng.getrandbits(40):010x}"

        def work(
            seeded: random.Random, acknowledge: workers.Acknowledge, token: str = token
        ) -> None:
            history = HistoryStorage(database)
            history.add(f"first {token}", cwd="/p")
            history.close()
            acknowledge("closed", token)
            history = HistoryStorage(database)
            while True:
                history.add(f"prompt {seeded.random()} {token}", cwd="/p")

        child = workers.start(work, rng.getrandbits(32))
        workers.pause(rng)
        drained += [value for key, value in child.kill() if key == "closed"]
        figures("kills", 1)
        history = HistoryStorage(database)
        found = (
            {entry.prompt for entry in history.search(f"first {drained[-1]}", 5)} if drained else ()
        )
        history.close()
        assert not drained or f"first {drained[-1]}" in found
    connection = sqlite3.connect(database)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    figures("prompts acknowledged", len(drained))
