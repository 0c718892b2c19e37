"""The SQL of open sessions. What is longer than a statement is a function in the schema.

Every statement names the tenant itself: a superuser's would otherwise see all of them.
"""

from __future__ import annotations

from typing import Any

from sessiontree.stores.postgres.address import read_ref
from sessiontree.stores.postgres.database import Statement
from sessiontree.stores.postgres.rows import scope_key
from sessiontree.stores.postgres.spelling import spell_key

IS_THERE = "ST001"
"""What ``st_append`` raises for an entry that already exists."""

OURS = "tenant = (SELECT st_tenant())"

_INLINE_BYTES = 1 << 20
"""The size of a session up to which opening it also reads its lines."""

SESSION_WIDTH = 8
HEADER, DIALECT = 4, 5

# The first row is the session's, the others are its entries': a join would send the header with
# each of them, and sort them, because it doesn't know beforehand in which partition they are.
_WHOLE = (
    "WITH s AS MATERIALIZED (SELECT * FROM st_session s "
    "WHERE {where} AND s.tenant = (SELECT st_tenant())) "
    "SELECT sid, epoch, revision, header_revision, header, dialect, answered, head, "
    "NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::text, NULL::integer, NULL::bytea "
    "FROM s UNION ALL (SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
    "e.seq, e.id, e.parent, e.kind, e.time, octet_length(e.line), "
    f"CASE WHEN (SELECT bytes FROM s) <= {_INLINE_BYTES} THEN e.line END FROM st_entry e "
    "WHERE e.sid = (SELECT sid FROM s) AND e.seq <= (SELECT head FROM s) ORDER BY e.seq)"
)
READ_SESSION = _WHOLE.format(where="s.sid = %s")
_OPEN = _WHOLE.format(where="s.scope = %s AND s.id = %s AND s.deleted IS NULL")

_APPEND_TO = (
    "SELECT verdict, head, epoch, revision, header_revision, header, id, parent, kind, time, line "
    "FROM {tenant}st_append({sid}, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, {lines}, %s, %s, %s, "
    "%s, %s, %s, %s, %s, %s::tsvector, %s::bytea[], %s, %s)"
)
# a list of one line would take the client longer to spell
_LINES = ("%b::bytea[]", "ARRAY[%b::bytea]")
_APPEND = [_APPEND_TO.format(tenant="", sid="%s", lines=lines) for lines in _LINES]
_APPEND_AS = [
    _APPEND_TO.format(
        tenant="set_config('sessiontree.tenant', %s, true) t, LATERAL ",
        # so the function waits for the name
        sid="CASE WHEN t IS NOT NULL THEN %s::bigint END",
        lines=lines,
    )
    for lines in _LINES
]


def append(
    tenant: str | None,
    where: tuple[Any, ...],
    what: tuple[Any, ...],
    *,
    is_again: bool,
    is_one: bool,
) -> Statement:
    """The statement that appends entries; the name of the tenant goes along in it."""
    sql = (_APPEND if tenant is None else _APPEND_AS)[is_one]
    first = where if tenant is None else (tenant, *where)
    return Statement(
        sql,
        (*first, is_again, *what),
        (*first, True, *what),
        names_tenant=True,
        is_frequent=True,
    )


_APPEND_EACH = (
    "SELECT sid, head, revision FROM {tenant}st_append_each({sids}, %s, %s, %s, %s, %s, %s, %s, "
    "%s, %b::bytea[], %s, %s, %s, %s, %s)"
)
_APPEND_EACH_AS = _APPEND_EACH.format(
    tenant="set_config('sessiontree.tenant', %s, true) t, LATERAL ",
    sids="CASE WHEN t IS NOT NULL THEN %s::bigint[] END",
)
_APPEND_EACH = _APPEND_EACH.format(tenant="", sids="%s")


def append_each(tenant: str | None, what: tuple[Any, ...]) -> Statement:
    """The statement that appends an entry to each of several sessions of a tenant."""
    if tenant is None:
        return Statement(_APPEND_EACH, what, names_tenant=True, is_frequent=True)
    return Statement(_APPEND_EACH_AS, (tenant, *what), names_tenant=True, is_frequent=True)


READ_ON = (
    "SELECT s.epoch, s.revision, s.header_revision, "
    "CASE WHEN s.header_revision <> %s THEN s.header END, s.deleted IS NOT NULL, s.answered, "
    "%s::text IS NOT DISTINCT FROM "
    "(SELECT l.id FROM st_entry l WHERE l.sid = s.sid AND l.seq = %s), "
    "e.seq, e.id, e.parent, e.kind, e.time, e.line "
    "FROM st_session s LEFT JOIN st_entry e ON e.sid = s.sid AND e.seq > %s AND e.seq <= s.head "
    "WHERE s.sid = %s AND s.tenant = (SELECT st_tenant()) ORDER BY e.seq"
)

READ_LINES = f"SELECT seq, line FROM st_entry WHERE sid = %s AND seq BETWEEN %s AND %s AND {OURS}"

REWRITE = (
    "WITH o AS MATERIALIZED (SELECT * FROM unnest(%s::text[], %s::text[], %b::bytea[]) "
    "AS o(id, parent, line)), grown AS (SELECT coalesce(sum(octet_length(o.line) - "
    "octet_length(e.line)), 0) AS bytes FROM o JOIN st_entry e ON e.sid = %s AND e.id = o.id), "
    "s AS (UPDATE st_session SET epoch = epoch + 1, revision = revision + 1, indexed = 0, "
    "bytes = bytes + (SELECT bytes FROM grown), first_message = %s, "
    "info_name = coalesce(%s, info_name), short_summary = coalesce(%s, short_summary) "
    f"WHERE sid = %s AND revision = %s AND {OURS} RETURNING sid, epoch, revision) "
    "UPDATE st_entry e SET parent = o.parent, line = o.line FROM s, o "
    "WHERE e.sid = s.sid AND e.id = o.id RETURNING s.epoch, s.revision, e.seq, e.id"
)

WRITE_HEADER = (
    "UPDATE st_session SET bytes = bytes + octet_length(%b::bytea) - octet_length(header), "
    "header = %b::bytea, title = %s, cwd = %s, parent = %s, "
    "names = %s::tsvector || st_own_mark(), header_revision = header_revision + 1, "
    "revision = revision + 1 "
    f"WHERE sid = %s AND header_revision = %s AND deleted IS NULL AND {OURS} "
    "RETURNING header_revision, revision, head"
)

USE_BLOBS = (
    "INSERT INTO st_blob_use (tenant, sha, sid) SELECT st_tenant(), b.sha, %s "
    "FROM unnest(%s::bytea[]) AS b(sha) ON CONFLICT DO NOTHING"
)

LOCK = f"SELECT sid FROM st_session WHERE sid = %s AND {OURS} FOR NO KEY UPDATE"
IS_GONE = f"SELECT 1 FROM st_gone WHERE sid = %s AND {OURS}"
IS_REMOVED = (
    f"SELECT 1 FROM st_session WHERE sid = %s AND deleted IS NOT NULL AND {OURS} "
    f"UNION ALL SELECT 1 FROM st_gone WHERE sid = %s AND {OURS}"
)
BRING_BACK = f"UPDATE st_session SET deleted = NULL WHERE sid = %s AND {OURS}"
PURGE = "SELECT st_purge(%s)"
DISCARD = (
    f"WITH d AS (DELETE FROM st_session WHERE sid = %s AND NOT answered AND head = %s AND {OURS} "
    "RETURNING sid) DELETE FROM st_entry e USING d WHERE e.sid = d.sid"
)

COPY = (
    "SELECT st_copy(%s, %s, %b::bytea, %s::tsvector, %s::text[], %s::text[], %s::text[], "
    "%s::text[], %b::bytea[])"
)


def open_session(ref: str) -> tuple[str, tuple[Any, ...]]:
    """The statement that reads the session of a ref with the places of its entries."""
    session_id, scope = read_ref(ref)
    return _OPEN, (scope_key(scope), spell_key(session_id))
