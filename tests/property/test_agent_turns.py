"""Odd and damaged records of other agents are read as far as they can be, and never fail."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent_kinds import KINDS

from sessiontree.discovery import catalogue
from sessiontree.discovery.adapters import get_adapter
from sessiontree.discovery.agent_sessions import list_agent_sessions
from sessiontree.discovery.sources import find_sources
from sessiontree.importers.foreign import load_foreign
from sessiontree.storage.file import FileSessionStorage

ODD: list[Any] = [
    *(None, True, 0, -1, 1e308, 2**70, "", "x", "\ud800", "../..", "\x00", [], {}, [[]]),
    *([{}], {"": {}}, {"text": 1}, ["a", {"type": 5}], 10**25, -0.5, "2026-13-45T99:99"),
]


def mutate(value: Any, chance: random.Random, depth: int = 0) -> Any:
    """Replace, drop or repeat parts of a value."""
    if chance.random() < 0.06:
        return chance.choice(ODD)
    if depth > 12:
        return value
    if isinstance(value, dict):
        return {
            (chance.choice(["id", "type", "x"]) if chance.random() < 0.02 else key): mutate(
                each, chance, depth + 1
            )
            for key, each in value.items()
            if chance.random() > 0.03
        }
    if isinstance(value, list):
        made = [mutate(each, chance, depth + 1) for each in value]
        return made * 2 if chance.random() < 0.05 else made
    return value


def damage_lines(path: Path, chance: random.Random) -> None:
    lines = []
    for line in path.read_text().splitlines():
        try:
            made = json.dumps(mutate(json.loads(line), chance))
        except ValueError:
            made = line
        if chance.random() < 0.05:
            made = made[: chance.randrange(len(made) + 1)]
        lines += [made] * (2 if chance.random() < 0.1 else 1)
    if chance.random() < 0.2:
        chance.shuffle(lines)
    path.write_text("\n".join(lines) + "\n", errors="surrogatepass")


def damage_rows(path: Path, chance: random.Random) -> None:
    """Change values in the rows, also to those of other types."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA foreign_keys = OFF")
    names = [
        row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    for table in names:
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        for row in database.execute(f"SELECT rowid, * FROM {table}").fetchall():
            for column, value in zip(columns, row[1:], strict=True):
                made = value
                if isinstance(value, str) and value[:1] in ("{", "["):
                    made = json.dumps(mutate(json.loads(value), chance))
                elif chance.random() < 0.03:
                    made = chance.choice([None, -1, 2**62, 1.5, "", b"\xff\xfe", "x" * 300])
                try:
                    database.execute(
                        f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (made, row[0])
                    )
                except (sqlite3.IntegrityError, UnicodeEncodeError):
                    continue
    database.commit()
    database.close()


def read_everything(agent: str) -> None:
    """Use all of what an adapter offers; what a listing counts is what an import makes."""
    catalogue.forget_process_memory()
    adapter = get_adapter(agent)
    (source,) = find_sources(agent)
    for info in (found := list_agent_sessions(agent)) + found.empty:
        document = load_foreign(info.path, agent=agent)
        assert document.report.messages == info.message_count or source.places.parts
        document.get_tree()
        document.build_session_context()
        assert document.warnings is not None
        reader = adapter.open(info.path, FileSessionStorage())
        data = reader.read_at(0, reader.stat().size)
        for line in data.split(b"\n"):
            for tools in (False, True):
                list(adapter.texts_of_line(line, 0, include_tools=tools))
        adapter.resume_command(info.path, info.id)
    source.survey_answers()


@pytest.mark.parametrize("agent", sorted(KINDS))
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_odd_records_never_fail(
    agent: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("odd")
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
        sample = KINDS[agent](home)
        is_file = sample.path.is_file()
        if is_file:
            damage_lines(sample.path, chance)
        else:
            damage_rows(sample.path.parent, chance)
        read_everything(agent)
        # and bytes that are not even JSON, or no database any more
        file = sample.path if is_file else sample.path.parent
        data = bytearray(file.read_bytes())
        for _ in range(chance.randrange(1, 30)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        file.write_bytes(data)
        catalogue.forget_process_memory()
        if is_file:
            read_everything(agent)
        else:
            list_agent_sessions(agent)
        shutil.rmtree(home)
