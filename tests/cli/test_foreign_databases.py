"""Agents that keep sessions in SQLite: whatever is asked, nothing of theirs changes by a byte.

Their databases have a log (``-wal``) with content that is in no other file: committed, and begun
but not committed. Whoever opens such a database as usual empties the log into it, or makes files.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.agent_databases import Database, GooseDatabase, HermesDatabase, OpenCodeDatabase
from tests.agent_kinds import Sample, make_goose, make_hermes, make_opencode

from .conftest import Machine

MAKERS: dict[str, Callable[[Path], Sample]] = {
    "opencode": make_opencode,
    "goose": make_goose,
    "hermes": make_hermes,
}
COMMITTED, BEGUN = "narwhal", "wolpertinger"
LARGE = " and so on" * 40_000
"""More than its cache holds: SQLite writes it to the log before it is committed."""


def reopen(agent: str, home: Path) -> tuple[Database, Callable[[str, str], object]]:
    """The database as its agent opens it, and how a prompt comes into a session."""
    if agent == "opencode":
        opencode = OpenCodeDatabase(home)
        opencode._count, opencode._at_ms = 50, opencode._at_ms + 60_000
        return opencode, opencode.prompt
    if agent == "goose":
        goose = GooseDatabase(home)
        return goose, lambda session, text: goose.say(session, "user", text)
    hermes = HermesDatabase(home)
    return hermes, lambda session, text: hermes.message(session, "user", text)


def picture(folder: Path) -> dict[str, tuple[object, ...]]:
    """A folder and what is in it: names, rights, owners, times of change, every byte.

    Not the time of the inode: for root, SQLite gives a log the owner that it has.
    """
    made: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        found = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        facts = (found.st_mode, found.st_uid, found.st_gid, found.st_ino, found.st_mtime_ns)
        made[str(path.relative_to(folder))] = (*facts, data)
    return made


@pytest.mark.parametrize("owner", ["running", "killed", "copied"])
@pytest.mark.parametrize("agent", MAKERS)
def test_a_database_with_content_in_its_log_stays_as_it_is(
    machine: Machine, tmp_path: Path, agent: str, owner: str
) -> None:
    home = machine.home if owner == "running" else tmp_path / "elsewhere"
    sample = MAKERS[agent](home)
    database, say = reopen(agent, home)
    database.run("PRAGMA wal_autocheckpoint = 0")
    database.run("PRAGMA cache_size = 5")
    say(sample.id, f"And a {COMMITTED}?")
    log = Path(f"{database.path}-wal")
    committed = log.stat().st_size
    database.run("BEGIN")
    say(sample.id, f"A {BEGUN}, too{LARGE}")
    assert log.stat().st_size > committed > 0
    if owner != "running":  # a killed agent leaves all files; a copied folder may lack the index
        shutil.copytree(home, machine.home, dirs_exist_ok=True)
        if owner == "copied":
            next(machine.home.rglob("*-shm")).unlink()
    folder = machine.home / database.path.parent.relative_to(home)
    before = picture(folder)
    assert len(before) == (3 if owner == "copied" else 4)

    for command, expected in (
        (("ls", "--all-agents"), sample.id),
        (("search", COMMITTED), COMMITTED),
        (("search", "zebra", "--tools"), "zebra"),
        (("show", sample.id), COMMITTED),
        (("tree", sample.id), COMMITTED),
        (("usage", "--all-agents", "--by", "agent", "--json"), agent),
        (("keep",), ""),
        (("keep", "--status"), ""),
        (("import", sample.id), ""),
        (("import", "--all"), ""),
        (("search", COMMITTED), COMMITTED),
        (("ls", "--all-agents"), sample.id),
    ):
        done = machine.run(*command)
        assert done.code == 0, (command, done)
        assert expected in done.out, (command, done)
        assert picture(folder) == before, command
    assert machine.run("search", BEGUN).code == 1, "what was not committed is not there"
    assert picture(folder) == before

    database.run("COMMIT")  # nobody stood in its agent's way
    database.close()
    if owner == "running":
        assert machine.run("search", BEGUN).code == 0
