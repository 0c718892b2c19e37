"""Index the names of sessions in a table of their own.

A name is the title that a listing shows. It is short and, unlike messages, may change; so the table
keeps its text, which FTS5 needs to delete the row later.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence

from sessiontree.discovery.search.query import Term
from sessiontree.discovery.search.words import TOKENIZER, spell_for_index
from sessiontree.discovery.sources import Source
from sessiontree.discovery.texts import SaidText
from sessiontree.storage.base import FileStat

NAME_ROLE = "name"
# As many as the catalogue looks up one by one, rather than reading all of their folders' rows.
_AT_ONCE = 32
TABLE = f"CREATE VIRTUAL TABLE names USING fts5(name, tokenize={TOKENIZER})"

ReadNames = Callable[[Sequence[FileStat]], dict[str, str]]
"""Gives the names of those of these files that have one, by their paths."""


def names_reader(source_of: Callable[[str], Source]) -> ReadNames:
    """Read names as each file's agent spells them."""

    def read(stats: Sequence[FileStat]) -> dict[str, str]:
        named: dict[str, str] = {}
        by_source: dict[int, list[FileStat]] = {}  # agents take turns where the newest come first
        for stat in stats:
            by_source.setdefault(id(source_of(stat.path)), []).append(stat)
        for same in by_source.values():
            source = source_of(same[0].path)
            for start in range(0, len(same), _AT_ONCE):
                for stat, summary in source.survey_some(same[start : start + _AT_ONCE]).found:
                    title = source.title(summary)
                    if title is not None:
                        named[stat.path] = title
        return named

    return read


def texts_of(name: str | None) -> list[SaidText]:
    """The name as a text to look in; it belongs to no entry."""
    return [SaidText("", NAME_ROLE, None, name, 0)] if name else []


def put_name(database: sqlite3.Connection, no: int, name: str | None) -> None:
    """Set the name of the session with this number."""
    drop_names(database, [no])
    if name:
        database.execute(
            "INSERT INTO names (rowid, name) VALUES (?, ?)", (no, spell_for_index(name))
        )


def drop_names(database: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Remove the names of the sessions with these numbers."""
    database.executemany("DELETE FROM names WHERE rowid = ?", [(no,) for no in numbers])


def match_names(database: sqlite3.Connection, term: Term) -> set[int]:
    """Find the numbers of the sessions with a term in their name."""
    found = database.execute("SELECT rowid FROM names WHERE names MATCH ?", (term.expression,))
    return {no for (no,) in found}
