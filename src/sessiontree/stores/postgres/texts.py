"""The index of words that a search in the database uses, updated after appends.

An append does not wait for it. Words are noted when a session is left, when somebody searches, and
by ``store vacuum``; ``st_session.indexed`` says up to where. Words are split as everywhere else
(``discovery.search.words``), so Chinese and Japanese are found by their pairs, and a search gives
what it would give over files. Word sets have no positions: phrases are compared with the lines.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from sessiontree.discovery.search.words import find_words
from sessiontree.discovery.texts import SPOKEN_ROLES, texts_of_line
from sessiontree.errors import SessionTreeError
from sessiontree.stores.postgres.database import Statement
from sessiontree.stores.postgres.rows import cut_word, spell_words
from sessiontree.stores.postgres.statements import OURS

if TYPE_CHECKING:
    from sessiontree.stores.postgres.database import Database
    from sessiontree.stores.postgres.store import PostgresStore

_LINES_AT_ONCE = 500
_MOST_WORD_BYTES = 800_000  # a tsvector holds 1 MB
_MOST_MS = 1 << 62

_BEHIND = (
    "SELECT s.indexed, s.head, s.epoch, e.seq, CASE WHEN e.kind = 'message' THEN e.line END "
    "FROM st_session s JOIN st_entry e ON e.sid = s.sid AND e.seq > s.indexed AND e.seq <= s.head "
    "WHERE s.sid = %s AND s.tenant = (SELECT st_tenant()) ORDER BY e.seq LIMIT %s"
)
_FORGET = f"DELETE FROM st_text WHERE sid = %s AND seq > %s AND {OURS}"
_NOTE = (
    "INSERT INTO st_text (sid, seq, role, tenant, said, words) "
    "SELECT %s, t.seq, t.role, st_tenant(), t.said, t.words::tsvector || st_own_mark() "
    "FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::text[]) AS t(seq, role, said, words) "
    "WHERE EXISTS (SELECT FROM st_session s WHERE s.sid = %s AND s.epoch = %s "
    "AND s.tenant = (SELECT st_tenant())) ON CONFLICT DO NOTHING"
)
_DONE = (
    f"UPDATE st_session SET indexed = %s WHERE sid = %s AND epoch = %s AND indexed = %s AND {OURS}"
)
_UNINDEXED = (
    f"SELECT sid FROM st_session WHERE {OURS} AND deleted IS NULL AND answered AND is_behind "
    "AND current_setting('transaction_read_only') = 'off' ORDER BY minute DESC LIMIT %s"
)


def index_session(
    database: Database, sid: int, should_stop: Callable[[], bool] | None = None
) -> bool:
    """Index the words of a session up to its head; return whether that is done. Best effort."""
    try:
        while _index_more(database, sid):
            if should_stop is not None and should_stop():
                return False
    except SessionTreeError:
        return False  # who may only read; the next who writes does it
    return True


def unindexed(database: Database, limit: int) -> list[int]:
    """Sessions of which words are missing, newest first; none on a replica, which takes none."""
    return [sid for (sid,) in database.run_all([unindexed_statement(limit)])[0]]


def unindexed_statement(limit: int) -> Statement:
    """The statement that asks for them."""
    return Statement(_UNINDEXED, (limit,))


def _index_more(database: Database, sid: int) -> bool:
    """Index some of the missing words; return whether there may be more."""
    rows = database.run(_BEHIND, (sid, _LINES_AT_ONCE))
    if not rows:
        return False
    indexed, head, epoch, _, _ = rows[0]
    numbers: list[int] = []
    roles: list[str] = []
    times: list[int | None] = []
    words: list[str] = []
    for _, _, _, number, line in rows:
        if line is None:
            continue
        for role, said, found in _words_of(bytes(line), number):
            numbers.append(number)
            roles.append(role)
            times.append(said)
            words.append(found)
    last = rows[-1][3]
    database.run_all(
        [
            Statement(_FORGET, (sid, indexed)),
            Statement(_NOTE, (sid, numbers, roles, times, words, sid, epoch)),
            Statement(_DONE, (last, sid, epoch, indexed)),
        ]
    )
    return bool(last < head)


def _words_of(line: bytes, number: int) -> list[tuple[str, int | None, str]]:
    """The words of each role in a line, with the time."""
    said_by: dict[str, set[str]] = {}
    times: dict[str, int | None] = {}
    for said in texts_of_line(line, number, include_tools=True):
        found = said_by.setdefault(said.role, set())
        found.update(map(cut_word, find_words(said.text)))
        times[said.role] = said.time_ms
    return [
        (role, times[role], spell_words(_as_many_as_fit(found)))
        for role, found in said_by.items()
        if found
    ]


def _as_many_as_fit(words: set[str]) -> set[str]:
    size = 0
    kept: set[str] = set()
    if sum(map(len, words)) * 4 < _MOST_WORD_BYTES:
        return words
    for word in words:
        size += len(word.encode())
        if size > _MOST_WORD_BYTES:
            break
        kept.add(word)
    return kept


def read_all_text(store: PostgresStore, ref: str) -> str:
    """All that users and models said; empty if the session is gone."""
    with contextlib.suppress(SessionTreeError):
        log = store.read(ref)
        lines = ((entry.raw() or b"") for entry in log.tree.entries if entry.type == "message")
        said = (item for line in lines for item in texts_of_line(line, 0))
        return " ".join(item.text for item in said if item.role in SPOKEN_ROLES and item.text)
    return ""
