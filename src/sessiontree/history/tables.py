"""The tables of a ``history.db``, and their rows as prompts.

Works on a given connection and knows nothing of files. A database made by omp or xcsh is used
unchanged, without adding a column, index or trigger.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

_MOST_SECONDS = 1 << 53
_SCHEMA = (
    """CREATE TABLE history (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        prompt TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        cwd TEXT
    )""",
    "CREATE INDEX idx_history_created_at ON history(created_at DESC)",
    "CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content='history', content_rowid='id')",
    # The names are omp's where omp has one, so that its own rebuild of the table replaces ours.
    """CREATE TRIGGER history_ai AFTER INSERT ON history BEGIN
        INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt);
    END""",
    """CREATE TRIGGER history_ad AFTER DELETE ON history BEGIN
        INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);
    END""",
    """CREATE TRIGGER history_au AFTER UPDATE OF prompt ON history BEGIN
        INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);
        INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt);
    END""",
)
_NEEDED_COLUMNS = frozenset({"id", "prompt", "created_at", "cwd"})

# omp keeps every prompt once (a UNIQUE column): there a repeated prompt becomes the newest again.
INSERT = """INSERT INTO history (prompt, created_at, cwd) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET created_at = excluded.created_at, cwd = excluded.cwd"""
SELECT = "SELECT id, prompt, created_at, cwd FROM history"
REBUILD_INDEX = "INSERT INTO history_fts(history_fts) VALUES ('rebuild')"


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One prompt. ``id`` is None while it waits to be written; ``created_at`` is Unix seconds."""

    id: int | None
    prompt: str
    created_at: int
    cwd: str | None


def entry_from_row(row: tuple[int, object, object, object]) -> HistoryEntry:
    """Make a prompt of a selected row."""
    number, prompt, created_at, cwd = row
    # SQLite columns hold any type; another program's row must not break ours.
    seconds = 0
    if isinstance(created_at, int | float) and -_MOST_SECONDS < created_at < _MOST_SECONDS:
        seconds = int(created_at)
    return HistoryEntry(number, _text(prompt), seconds, None if cwd is None else _text(cwd))


def row_from_entry(entry: HistoryEntry) -> tuple[str, int, str | None]:
    """Make the row to insert."""
    return entry.prompt, entry.created_at, entry.cwd


def read_leniently(connection: sqlite3.Connection) -> None:
    """Let it replace what is not UTF-8, and know ``contains(prompt, casefolded needle)``."""
    connection.text_factory = _text
    connection.create_function("contains", 2, _contains, deterministic=True)


def find_tables(connection: sqlite3.Connection) -> set[str]:
    """The names of the history's tables, and of what belongs to them; none in a new database."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'history%'")
    return {row[0] for row in names}


def require_columns(connection: sqlite3.Connection) -> None:
    """Raise OperationalError unless the table of prompts has the required columns."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(history)")}
    if not columns >= _NEEDED_COLUMNS:
        raise sqlite3.OperationalError("not a prompt history: its tables are another program's")


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of a new database. Takes the write lock, so only who writes does it."""
    if find_tables(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not find_tables(connection):  # another process may have been first
            for statement in _SCHEMA:
                connection.execute(statement)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _contains(prompt: object, needle: str) -> bool:
    return needle in _text(prompt).casefold()
