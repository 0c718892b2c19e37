"""Entries and sessions as rows of the database, and rows as entries and sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sessiontree.discovery.search.words import split_words
from sessiontree.model import codec
from sessiontree.model.dialects import session_name
from sessiontree.model.entries import Entry
from sessiontree.model.header import Header, get_cwd, get_parent, get_timestamp, get_title
from sessiontree.model.ids import parse_timestamp
from sessiontree.model.messages import text_or_none
from sessiontree.profiles import Dialect
from sessiontree.stores.postgres.figures import Figures
from sessiontree.stores.postgres.lines import RowLines
from sessiontree.stores.postgres.spelling import is_hashed, spell, spell_key, unspell

_LONGEST_SHOWN = 4_000
_LONGEST_WORD = 200
_MOST_NAME_WORDS = 200
_KEYS = slice(1, 5)


@dataclass(slots=True)
class Place:
    """The place up to which a session was read: the last entry, and the counters of its row."""

    sid: int
    head: int = 0
    last_key: str | None = None
    epoch: int = 0
    revision: int = 1
    header_revision: int = 0

    def __str__(self) -> str:
        return f"{self.epoch}.{self.revision}.{self.head}"


@dataclass(frozen=True, slots=True)
class EntryRows:
    """Entries to write, column by column, in the order of ``st_append``'s parameters."""

    ids: list[str]
    parents: list[str | None]
    kinds: list[str]
    times: list[str]
    lines: list[bytes]

    @property
    def size(self) -> int:
        """The bytes they would be in a file."""
        return sum(map(len, self.lines)) + len(self.lines)


def rows_of(lines: Iterable[tuple[Entry, bytes]]) -> EntryRows:
    """The rows of entries with their lines. The columns say what the line says."""
    rows = EntryRows([], [], [], [], [])
    for entry, line in lines:
        rows.ids.append(spell_key(entry.id))
        parent = parent_in_line(entry, line)
        rows.parents.append(spell_key(parent) if parent is not None else None)
        rows.kinds.append(spell_key(entry.type))
        rows.times.append(spell_key(entry.timestamp))
        rows.lines.append(line)
    return rows


def parent_in_line(entry: Entry, line: bytes) -> str | None:
    """The parent that a line names: an orphan's line goes on naming the one that is lost."""
    if entry.parent_id is None and b'"parentId":null' not in line:
        return text_or_none(codec.decode(line).get("parentId"))
    return entry.parent_id


def entries_of(rows: Sequence[tuple[Any, ...]], lines: RowLines) -> list[Entry]:
    """The entries of rows (number, id, parent, kind, time, length, line or None) in order."""
    made: list[Entry] = []
    place = lines.place
    add = made.append
    odd: list[Entry] = []
    for number, key, parent, kind, time, length, line in rows:
        entry = Entry(
            "message" if kind == "message" else kind,  # one text for all of them
            key,
            parent,
            time,
            lines,
            place(number, length, line),
            length,
        )
        if "\x1a" in key or "\x1a" in kind or "\x1a" in time or (parent and "\x1a" in parent):
            odd.append(entry)
        add(entry)
    for entry in odd:
        _unspell(entry)
    return made


def _unspell(entry: Entry) -> None:
    """Say what the columns of an entry spell; hashes are in its line."""
    if any(map(is_hashed, (entry.id, entry.type, entry.timestamp, entry.parent_id or ""))):
        said = Entry.from_wire(entry.decode())
        entry.id, entry.type, entry.timestamp = said.id, said.type, said.timestamp
        entry.parent_id = said.parent_id
        return
    entry.id, entry.type, entry.timestamp = map(unspell, (entry.id, entry.type, entry.timestamp))
    if entry.parent_id is not None:
        entry.parent_id = unspell(entry.parent_id)


def shown(text: str | None) -> str | None:
    """The part of a text that a listing may need, spelled for a column."""
    return spell(text[:_LONGEST_SHOWN]) if text is not None else None


def session_columns(
    header: Header, scope: str | None, dialect: Dialect, figures: Figures | None = None
) -> dict[str, Any]:
    """The columns of a new row beside the header's bytes."""
    columns: dict[str, Any] = {
        "scope": scope_key(scope),
        "id": spell_key(str(header.get("id", ""))),
        "cwd": spell_key(get_cwd(header)),
        "dialect": dialect,
        "title": shown(get_title(header)),
        "parent": shown(get_parent(header)),
        "created": created(header),
    }
    if figures is not None:
        columns |= {
            "answered": figures.is_answered,
            "info_name": shown(figures.info_name),
            "short_summary": shown(figures.short_summary),
            "first_message": shown(figures.first_message),
            "status": figures.status,
            "messages": figures.messages,
            "said": to_time(figures.last_said_ms),
        }
    return columns


def scope_key(scope: str | None) -> str:
    """A scope as a column holds it: empty for none."""
    return "" if scope is None else spell_key("@" + scope)


def created(header: Header) -> str | None:
    """The session's beginning, for a column; None if it is not stated, or in no calendar."""
    time_ms = parse_timestamp(get_timestamp(header))
    return to_time(time_ms)


def to_time(time_ms: int | None) -> str | None:
    """Unix milliseconds as a time that PostgreSQL reads."""
    if time_ms is None:
        return None
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def name_words(
    dialect: Dialect, title: str | None, info_name: str | None, short_summary: str | None
) -> str:
    """The words of a session's name, for its column."""
    name = session_name(dialect, title, info_name, short_summary) or ""
    words = [word.text for word in split_words(name[:_LONGEST_SHOWN])]
    return spell_words(words[:_MOST_NAME_WORDS])


def spell_words(words: Iterable[str]) -> str:
    """A set of words as a tsvector is written."""
    return " ".join(map(quote_word, sorted({cut_word(word) for word in words})))


def cut_word(word: str) -> str:
    """The part of a word that an index holds; the rest is compared when it is found."""
    return word[:_LONGEST_WORD]


def quote_word(word: str) -> str:
    """A word as it is written in a tsvector or a tsquery."""
    escaped = word.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
