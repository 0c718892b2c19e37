"""Say what a search that found nothing may have meant: words spelled almost the same.

The index knows every word of all sessions. A word that it doesn't know is compared with those; the
nearest one that is used most replaces it. Only the index is asked, no session is read.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator

import msgspec

from sessiontree.discovery.search import index as search_index
from sessiontree.discovery.search.query import parse_query
from sessiontree.discovery.search.words import split_words
from sessiontree.storage import sqlite

_TABLES = ("said", "names", "tools")
_LEAST = 3
"""Letters of the shortest word that may be a mistyped one."""
_LONG = 6
"""Letters from which on two slips are forgiven."""
_PATIENCE_S = 0.5


class NearMiss(msgspec.Struct, frozen=True):
    """The query that was probably meant: ``query``, with other words for the ``unknown`` ones.

    Without a query, all words are known, but no session has all of them; or nothing is near.
    """

    query: str | None = None
    unknown: tuple[str, ...] = ()


def find_near_miss(text: str, *, in_tools: bool = False) -> NearMiss:
    """Find the words that are nearest to those of a query that no session has."""
    words = list(dict.fromkeys(word for term in parse_query(text).wanted for word in term.words))
    try:
        with search_index.open_index() as index:
            if index is None:
                return NearMiss()
            database = index.connection
            unknown = [word for word in words if not _is_known(database, word, in_tools)]
            meant = {word: _nearest(database, word, in_tools) for word in unknown}
    except sqlite.FAILURES:
        return NearMiss()
    instead = {word: near for word, near in meant.items() if near is not None}
    if not instead or len(instead) < len(unknown):
        return NearMiss(None, tuple(unknown))
    return NearMiss(_replace(text, instead), tuple(unknown))


def _replace(text: str, instead: dict[str, str]) -> str:
    made, done = [], 0
    for word in split_words(text):
        if word.text in instead:
            made += [text[done : word.start], instead[word.text]]
            done = word.end
    return "".join([*made, text[done:]])


def _is_known(database: sqlite3.Connection, word: str, in_tools: bool) -> bool:
    return any(
        database.execute(
            f"SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT 1", (f'"{word}"',)
        ).fetchone()
        for table in _TABLES[: 3 if in_tools else 2]
    )


def _nearest(database: sqlite3.Connection, word: str, in_tools: bool) -> str | None:
    """The known word with the fewest slips; of several the one that most texts have."""
    if len(word) < _LEAST or word.isdigit():
        return None
    most = 2 if len(word) >= _LONG else 1
    best: tuple[int, int, str] | None = None
    letters, deadline = set(word), time.monotonic() + _PATIENCE_S
    for number, (term, count) in enumerate(_words_like(database, word, most, in_tools)):
        if number % 1_024 == 0 and time.monotonic() > deadline:
            break
        if len(letters.difference(term)) > most:
            continue
        slips = count_slips(word, term, most)
        if slips is not None and (best is None or (slips, -count, term) < best):
            best = (slips, -count, term)
    return best[2] if best is not None else None


def _words_like(
    database: sqlite3.Connection, word: str, most: int, in_tools: bool
) -> Iterator[tuple[str, int]]:
    """Words of about this length, with how many texts have each."""
    for table in _TABLES[: 3 if in_tools else 2]:
        name = f"{table}_words"
        database.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{name} USING fts5vocab(main, {table}, row)"
        )
        yield from database.execute(
            f"SELECT term, doc FROM temp.{name} WHERE length(term) BETWEEN ? AND ?",
            (len(word) - most, len(word) + most),
        )


def count_slips(one: str, other: str, most: int) -> int | None:
    """Count missing, surplus, wrong and swapped letters; None if more than ``most``."""
    if abs(len(one) - len(other)) > most:
        return None
    if most == 1 and one[:1] != other[:1] and one[-1:] != other[-1:]:
        return None  # quick: most words differ at both ends
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        older, before, row = before, row, [at]
        for to, mate in enumerate(other, 1):
            slips = min(row[-1] + 1, before[to] + 1, before[to - 1] + (letter != mate))
            if at > 1 and to > 1 and letter == other[to - 2] and one[at - 2] == mate:
                slips = min(slips, older[to - 2] + 1)
            row.append(slips)
        if min(row) > most:
            return None
    return row[-1] if row[-1] <= most else None
