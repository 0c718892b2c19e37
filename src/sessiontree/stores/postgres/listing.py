"""List and find sessions in PostgreSQL by their rows, a page at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from sessiontree.discovery.catalogue.leaves import Status
from sessiontree.discovery.listing import NO_MESSAGES, SessionInfo, SessionList
from sessiontree.discovery.search.words import find_words
from sessiontree.model.dialects import session_name
from sessiontree.model.ids import format_timestamp
from sessiontree.profiles import Dialect
from sessiontree.stores.base import ListMark, TrashedSession
from sessiontree.stores.postgres.address import read_ref, spell_ref
from sessiontree.stores.postgres.database import Statement
from sessiontree.stores.postgres.pool import Row
from sessiontree.stores.postgres.rows import cut_word, quote_word, scope_key
from sessiontree.stores.postgres.spelling import prefix_end, spell, spell_key, unspell
from sessiontree.stores.postgres.statements import OURS

if TYPE_CHECKING:
    from sessiontree.stores.postgres.store import PostgresStore

PAGE = 1_000
_MOST_COUNTED = 100_000
_MOST_FOUND = 1_000
_MOST_WORDS = 20
COLUMNS = (
    "sid, scope, id, cwd, dialect, title, info_name, short_summary, first_message, parent, status, "
    "messages, bytes, created, modified, answered"
)
_BEHIND = (
    "minute <= date_bin('1 minute', %s, '2000-01-01 00:00:00+00') "
    "AND (modified, id, scope) < (%s, %s, %s)"
)
IN_ORDER = Statement("SET LOCAL enable_sort = off")
"""Has a page read by an index. What a project holds the planner does not know, for no tenant shall
learn it from its plans; it expects few sessions, and would sort all of them."""
_ORDER = "ORDER BY minute DESC, modified DESC, id DESC, scope DESC"


def list_rows(
    store: PostgresStore,
    cwd: str | None,
    scope: str | None,
    limit: int | None,
    before: ListMark | None = None,
    on_progress: Callable[[int, int], object] | None = None,
) -> SessionList:
    """The sessions of a project, a scope, or all, newest first."""
    made = SessionList()
    if limit == 0:
        made.total = _count(store, *filter_of(cwd, scope))
        return made
    left = limit
    for rows in pages(store, *filter_of(cwd, scope), limit, _behind(before)):
        for row in rows[:left]:
            info = make_info(store, row)
            (made if info.message_count else made.empty).append(info)
        left = None if limit is None else limit - len(made)
        if on_progress is not None:
            on_progress(len(made), len(made))
        if left is not None and left <= 0:
            break
    made.empty_count = len(made.empty)
    if before is None and (limit is None or left):
        made.total = len(made)
    return made


def _count(store: PostgresStore, where: str, parameters: tuple[Any, ...]) -> int | None:
    """Count the sessions to list; None if there are too many to count."""
    ((count,),) = store.database.run(
        f"SELECT count(*) FROM (SELECT FROM st_session WHERE {where} AND {OURS} AND deleted IS "
        "NULL AND answered AND messages > 0 LIMIT %s) x",
        (*parameters, _MOST_COUNTED + 1),
    )
    return count if count <= _MOST_COUNTED else None


def _behind(mark: ListMark | None) -> tuple[Any, ...]:
    """The condition for the rows behind a place in a listing, as its rows are sorted."""
    if mark is None:
        return ()
    modified, ref = mark
    session_id, scope = read_ref(ref)
    return modified, modified, spell_key(session_id), scope_key(scope)


def pages(
    store: PostgresStore,
    where: str,
    parameters: tuple[Any, ...],
    limit: int | None = None,
    behind: tuple[Any, ...] = (),
) -> Iterator[list[Row]]:
    """Pages of sessions, each from behind the last row of the one before."""
    size = PAGE if limit is None else max(1, min(PAGE, limit))
    while True:
        sql = (
            f"SELECT {COLUMNS} FROM st_session WHERE {where} AND {OURS} AND deleted IS NULL "
            f"AND answered {'AND ' + _BEHIND if behind else ''} "
            f"{_ORDER} LIMIT %s"
        )
        page = Statement(sql, (*parameters, *behind, size))
        rows = store.database.run_all([IN_ORDER, page])[1]
        yield rows
        if len(rows) < size:
            return
        behind = (rows[-1][14], rows[-1][14], rows[-1][2], rows[-1][1])


def filter_of(cwd: str | None, scope: str | None, table: str = "") -> tuple[str, tuple[Any, ...]]:
    """The condition for the sessions of a project, a scope, or all, and its values."""
    if scope is not None:
        return f"{table}scope = %s", (scope_key(scope),)
    if cwd is None:
        return "true", ()
    spellings = _spellings(cwd)
    if len(spellings) == 1:  # then an index has them in their order
        return f"{table}scope = '' AND {table}cwd = %s", (spellings[0],)
    return f"{table}scope = '' AND {table}cwd = ANY (%s)", (spellings,)


def _spellings(cwd: str) -> list[str]:
    """A project by its path as it is given, and as it is without links."""
    return [spell_key(each) for each in dict.fromkeys((cwd, os.path.realpath(cwd)))]


def read_info(store: PostgresStore, session_id: str, scope: str | None) -> SessionInfo | None:
    """The listing's line of one session, a draft too; None if it doesn't exist."""
    rows = store.database.run(
        f"SELECT {COLUMNS} FROM st_session WHERE scope = %s AND id = %s AND deleted IS NULL "
        f"AND {OURS}",
        (scope_key(scope), spell_key(session_id)),
    )
    return make_info(store, rows[0]) if rows else None


def find_rows(
    store: PostgresStore, prefix: str, cwd: str | None, scope: str | None
) -> list[SessionInfo]:
    """The sessions and drafts whose id begins so, newest first."""
    where, parameters = filter_of(cwd, scope)
    if scope is None and cwd is None:
        where = "scope = ''"
    end = prefix_end(spell_key(prefix))
    rows = store.database.run(
        f"SELECT {COLUMNS} FROM st_session WHERE {where} AND {OURS} AND deleted IS NULL "
        f"AND id >= %s {'AND id < %s' if end is not None else ''} "
        f"{_ORDER} LIMIT %s",
        (*parameters, spell_key(prefix), *(() if end is None else (end,)), _MOST_FOUND),
    )
    return [make_info(store, row) for row in rows]


def find_named(
    store: PostgresStore, name: str, cwd: str | None, scope: str | None
) -> list[SessionInfo]:
    """The sessions of exactly this name, newest first: by its words, or by the columns."""
    where, parameters = filter_of(cwd, scope)
    wanted = name.strip()
    words = [quote_word(cut_word(word)) for word in dict.fromkeys(find_words(wanted))]
    said = spell(wanted)
    is_named = (
        "sid IN (SELECT st_called(%s::tsquery, NULL))"
        if words
        else "%s IN (title, info_name, short_summary)"
    )
    rows = store.database.run(
        f"SELECT {COLUMNS} FROM st_session WHERE {where} AND {OURS} AND deleted IS NULL "
        f"AND answered AND {is_named} {_ORDER} LIMIT %s",
        (*parameters, " & ".join(words[:_MOST_WORDS]) if words else said, _MOST_FOUND),
    )
    found = [make_info(store, row) for row in rows]
    return [info for info in found if info.title and info.title.strip() == wanted]


def find_in_scopes(store: PostgresStore, prefix: str) -> list[SessionInfo]:
    """The sessions of scopes whose id begins so, newest first."""
    end = prefix_end(spell_key(prefix))
    rows = store.database.run(
        f"SELECT {COLUMNS} FROM st_session WHERE scope <> '' AND {OURS} AND deleted IS NULL "
        f"AND answered AND id >= %s {'AND id < %s' if end is not None else ''} {_ORDER} LIMIT %s",
        (spell_key(prefix), *(() if end is None else (end,)), _MOST_FOUND),
    )
    return [make_info(store, row) for row in rows]


def latest_ref(store: PostgresStore, cwd: str | None, scope: str | None) -> str | None:
    """The session of a project or scope that was used last."""
    found = list_rows(store, cwd, scope, 1)
    return found[0].path if found else None


def make_info(store: PostgresStore, row: Row) -> SessionInfo:
    """The listing's line for a row."""
    names = [None if text is None else unspell(text) for text in row[5:10]]
    title, info_name, short_summary, first_message, parent = names
    dialect: Dialect = "pi" if row[4] == "pi" else "omp"
    created, modified = _moment(row[13]), _moment(row[14])
    ref = ref_of(row[2], row[1])
    return SessionInfo(
        ref,
        unspell(row[2]),
        unspell(row[3]),
        session_name(dialect, title, info_name, short_summary),
        parent,
        created,
        modified,
        row[11],
        NO_MESSAGES if first_message is None else first_message,
        partial(store.read_text, ref),
        row[12],
        cast("Status", row[10]),
    )


def ref_of(id_key: str, scope: str) -> str:
    """The ref of a session by its row's id and scope."""
    return spell_ref(unspell(id_key), unspell(scope[1:]) if scope else None)


def _moment(found: datetime) -> datetime:
    return found.astimezone(UTC)


TRASH_COLUMNS = (
    "sid, scope, id, cwd, dialect, title, info_name, short_summary, deleted, batch, first_message"
)
_TRASHED = "trash-"
_PROMPT_CHARACTERS = 80


def trashed(row: Row) -> TrashedSession:
    """A session in the trash, of a row of ``TRASH_COLUMNS``."""
    names = [None if text is None else unspell(text) for text in row[5:8]]
    dialect: Dialect = "pi" if row[4] == "pi" else "omp"
    prompt = " ".join(unspell(row[10] or "").split())[:_PROMPT_CHARACTERS]
    return TrashedSession(
        f"{_TRASHED}{row[0]:x}",
        ref_of(row[2], row[1]),
        unspell(row[2]),
        session_name(dialect, *names) or prompt or None,
        unspell(row[3]),
        format_timestamp(round(row[8].timestamp() * 1000)),
        row[9] or "",
    )


def trashed_sid(trash_id: str) -> int | None:
    """The row that an id in the trash names, if it is one."""
    digits = trash_id.removeprefix(_TRASHED)
    if digits == trash_id or len(digits) > 16:
        return None
    try:
        return int(digits, 16)
    except ValueError:
        return None
