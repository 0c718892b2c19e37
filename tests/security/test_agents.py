"""Other agents' sessions in which everything that anybody could have chosen is hostile."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest
from tests.agent_kinds import KINDS
from tests.cli.conftest import Result
from tests.torture.commands import run_command

from .test_terminal import HOSTILE, assert_harmless

_WORD = re.compile(r"[a-z]+([._-][a-z]+)*")
"""What names a kind of thing; without it a record would mean something else, or nothing."""
KEY = "sk-ant-api03-" + "a1B2c3D4e5" * 5
COMMANDS = [
    ("ls", "--all-agents"),
    ("ls", "--all-agents", "--json"),
    ("search", "column", "--tools"),
    ("search", "column", "--json"),
    ("usage", "--all-agents", "--by", "session"),
    ("usage", "--all-agents", "--by", "project"),
    ("usage", "--all-agents", "--by", "model", "--json"),
    ("keep",),
    ("keep", "--status"),
    ("keep", "--status", "--json"),
]
OF_ONE = [
    ("show", "--full"),
    ("show", "--json"),
    ("tree", "--all"),
    ("tree", "--json"),
    ("export",),
    ("usage",),
    ("open", "--print"),
    ("open", "--json"),
    ("import", "--dry-run"),
    ("import", "--cwd", "/srv/shop"),
]


def spoil(value: object, hostile: str) -> object:
    if isinstance(value, dict):
        return {key: spoil(each, hostile) for key, each in value.items()}
    if isinstance(value, list):
        return [spoil(each, hostile) for each in value]
    is_chosen = isinstance(value, str) and _WORD.fullmatch(value) is None
    return f"{value}{hostile}" if is_chosen else value


def spoil_json(text: str, hostile: str) -> str:
    return json.dumps(spoil(json.loads(text), hostile), ensure_ascii=False)


def spoil_text(text: str, hostile: str) -> object:
    """A column's text, and the values within if it is JSON."""
    try:
        return spoil_json(text, hostile)
    except ValueError:
        return spoil(text, hostile)


def make_spoiled(agent: str, home: Path, hostile: str) -> str:
    """A session of this agent, with something hostile in each of its strings; its path."""
    sample = KINDS[agent](home)
    for root in sample.roots:
        for path in [each for each in root.rglob("*") if each.is_file()]:
            spoil_file(path, hostile)
    return str(sample.path)


def spoil_file(path: Path, hostile: str) -> None:
    if path.suffix == ".jsonl":
        lines = [spoil_json(line, hostile) for line in path.read_text().splitlines()]
        path.write_bytes("\n".join(lines).encode("utf-8", "backslashreplace") + b"\n")
    elif path.suffix == ".db":
        spoil_database(path, hostile.replace("\ud83d", ""))
    elif path.suffix not in (".db-wal", ".db-shm"):
        path.write_text(path.read_text().rstrip("\n") + hostile.replace("\ud83d", ""))


def spoil_database(path: Path, hostile: str) -> None:
    """Every text in every table, but what joins the tables."""
    with sqlite3.connect(path) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            for _, column, kind, *_ in database.execute(f"PRAGMA table_info({table})").fetchall():
                if kind != "TEXT" or column == "id" or column.endswith("_id"):
                    continue
                for row, value in database.execute(f"SELECT rowid, {column} FROM {table}"):
                    if isinstance(value, str):
                        made = spoil_text(value, hostile)
                        database.execute(
                            f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (made, row)
                        )
    database.close()


@pytest.mark.parametrize("agent", sorted(KINDS))
def test_no_escape_sequence_of_any_agents_session_is_printed(
    agent: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_spoiled(agent, home, f"{HOSTILE}\ud83d")
    monkeypatch.chdir(home)
    printed = ""
    for command in [*COMMANDS, *([name, path, *more] for name, *more in OF_ONE)]:
        shown = run_command([*command])
        assert_harmless(Result(0, shown, ""))
        printed += shown
    assert "zebra" in printed
    assert "Imported" in printed


@pytest.mark.parametrize("agent", sorted(KINDS))
def test_every_export_of_any_agents_session_can_leave_secrets_out(agent: str, home: Path) -> None:
    path = make_spoiled(agent, home, f" {KEY}")
    for kind in ("markdown", "html", "json"):
        assert KEY in run_command(["export", path, "--format", kind])
        exported = run_command(["export", path, "--format", kind, "--redact"])
        assert KEY not in exported
        assert "walrus" in exported
