"""The sessions of agents that are described by their turns, and the copies that ``keep`` makes."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
from pathlib import Path
from unittest import mock

from tests.agent_kinds import KINDS
from tests.agent_samples import claude_answer, claude_prompt, put_claude
from tests.torture import hostile
from tests.torture.commands import is_safe, run_command
from tests.torture.hostile import Target, agent_dirs
from tests.torture.mutations import mutate, mutate_rows

from sessiontree import SessionManager, SessionTreeError
from sessiontree.discovery.kept import kept_dir
from sessiontree.importers.foreign import load_foreign
from sessiontree.importers.imports import import_session
from sessiontree.maintenance import schedules
from sessiontree.maintenance.keeping import keep_sessions
from sessiontree.maintenance.kept_restoring import restore_session
from sessiontree.storage import sqlite

_GENERAL = [
    ["ls", "--all-agents", "--all", "--json"],
    ["search", "walrus", "--tools"],
    ["usage", "--all-agents", "--all", "--by", "session"],
    ["keep"],
    ["keep", "--status"],
]
_OF_ONE = [
    ["show", "--full"],
    ["show", "--json"],
    ["tree", "--all"],
    ["export", "--format", "html"],
    ["export", "--redact"],
    ["open", "--print"],
    ["usage"],
]


class AgentSessions(Target):
    """A session of another agent, in whose files or rows something was spoiled."""

    name = "other agents"

    def make_seeds(self) -> list[bytes]:
        self.homes = {}
        for agent, make in sorted(KINDS.items()):
            home = self.folder / agent
            self.homes[agent] = os.path.relpath(make(home).path, home)
        lines = [path.read_bytes() for path in self.folder.rglob("*.jsonl")]
        return [b"{}", *lines]

    def __call__(self, rng: random.Random) -> str:
        agent = rng.choice(sorted(self.homes))
        room = self.room()
        home = room / "home"
        shutil.copytree(self.folder / agent, home)
        path = rng.choice(sorted(each for each in home.rglob("*") if each.is_file()))
        if path.suffix == ".db" and rng.random() < 0.8:
            _spoil_database(path, rng, self.seeds)
        else:
            path.write_bytes(mutate(path.read_bytes(), rng, self.seeds))
        try:
            with agent_dirs(room):
                self._look(agent, home / self.homes[agent], rng)
        except SessionTreeError:
            return "refused"
        return "read"

    def read(self, data: bytes, rng: random.Random) -> None:
        raise NotImplementedError

    def _look(self, agent: str, path: Path, rng: random.Random) -> None:
        for command in rng.sample(_GENERAL, 2):
            _require_safe(command)
        name, *options = rng.choice(_OF_ONE)
        _require_safe([name, str(path), *options])
        load_foreign(path)
        report = import_session(path, agent=agent, cwd="/srv/shop")
        hostile.look_at(SessionManager.open(report.path))
        import_session(path, agent=agent, cwd="/srv/shop")


def _require_safe(command: list[str]) -> None:
    # the machine's own crontab is not among what is spoiled, and the cage lets nothing start
    with mock.patch.object(schedules, "run_command", return_value=(1, "no crontab for them")):
        shown = run_command(command)
    assert command[-1] == "html" or is_safe(shown), f"{command} printed control characters"


def _spoil_database(path: Path, rng: random.Random, seeds: list[bytes]) -> None:
    """Spoil rows of any table, or the JSON in one of their cells."""
    if rng.random() < 0.5:
        mutate_rows(path, rng)
        return
    with contextlib.closing(sqlite3.connect(path)) as database:
        cells = []
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            for _, column, *_ in database.execute(f"PRAGMA table_info({table})").fetchall():
                found = database.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
                cells += [
                    (table, column, row, value)
                    for row, value in found
                    if isinstance(value, str) and value[:1] in "{["
                ]
        table, column, row, value = rng.choice(cells)
        spoiled = mutate(value.encode(), rng, seeds)
        held = spoiled if rng.random() < 0.2 else spoiled.decode("utf-8", "replace")
        database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (held, row))
        database.commit()


class KeptCopies(Target):
    """Packs of kept sessions: what a copy gives is what was kept, or an error."""

    name = "kept copies"

    def make_seeds(self) -> list[bytes]:
        room = self.folder / "sound"
        room.mkdir()
        with agent_dirs(room):
            self.contents = {}
            for number in range(4):
                one = f"{number}1111111-1111-4111-8111-111111111111"
                talk = [claude_prompt(f"find the quokka {number}"), claude_answer("x" * 40_000)]
                path = put_claude(room / "home", one, *talk)
                os.utime(path, (1_760_000_000, 1_760_000_000))
                self.contents[os.path.relpath(path, room)] = path.read_bytes()
                keep_sessions()
            self.packs = sorted(Path(kept_dir()).glob("*.pack"))
        return [path.read_bytes() for path in self.packs]

    def read(self, data: bytes, rng: random.Random) -> None:
        room = self.room()
        room.rmdir()
        shutil.copytree(self.folder / "sound", room)
        with agent_dirs(room):
            folder = Path(kept_dir())
            (folder / self.packs[0].name).write_bytes(data)
            if rng.random() < 0.5:
                (folder / "00000007.pack").write_bytes(data)
            if rng.random() < 0.5:
                shutil.rmtree(room / "cache")  # else the index knows another pack
            if rng.random() < 0.5:
                shutil.rmtree(room / "home")
            for command in rng.sample(_GENERAL, 2):
                _require_safe(command)
            for name, content in self.contents.items():
                self._restore(room / name, content)
            keep_sessions()

    def _restore(self, path: Path, content: bytes) -> None:
        with contextlib.suppress(SessionTreeError, *sqlite.FAILURES):
            restore_session(str(path))
        assert not path.exists() or path.read_bytes() == content, "restored something else"
