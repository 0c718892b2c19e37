"""Maintain the database of a store: look, clean up, check, let roles in."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import psycopg
from psycopg import sql

from sessiontree.errors import PersistenceError, StoreError
from sessiontree.stores.postgres.blobs import DatabaseBlobs
from sessiontree.stores.postgres.pool import Connection
from sessiontree.stores.postgres.schema import find_differences, find_owner, read_state
from sessiontree.stores.postgres.statements import OURS
from sessiontree.stores.postgres.texts import index_session, unindexed

if TYPE_CHECKING:
    from sessiontree.stores.postgres.database import Database

Right = Literal["owner", "writer", "reader"]
OnProgress = Callable[[int, int], object]

_PURGED_AT_ONCE = 100
_INDEXED_AT_ONCE = 200

_COUNTS = (
    "SELECT count(*) FILTER (WHERE answered AND deleted IS NULL), "
    "count(*) FILTER (WHERE NOT answered AND deleted IS NULL), "
    "count(*) FILTER (WHERE deleted IS NOT NULL), coalesce(sum(head), 0)::bigint, "
    "coalesce(sum(bytes), 0)::bigint, "
    "count(*) FILTER (WHERE answered AND deleted IS NULL AND is_behind), "
    f"max(modified) FROM st_session WHERE {OURS}"
)
_BLOBS = f"SELECT count(*), coalesce(sum(size), 0)::bigint FROM st_blob WHERE {OURS}"


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """The facts that ``store status`` shows, as far as the tenant's rows go."""

    url: str
    server: str
    version: int
    oldest_client: int
    is_usable: bool
    is_encrypted: bool
    role: str = ""
    tenant: str = ""
    sessions: int = 0
    drafts: int = 0
    trashed: int = 0
    entries: int = 0
    bytes: int = 0
    unindexed: int = 0
    blobs: int = 0
    blob_bytes: int = 0
    last_used: str | None = None
    keep_days: int | None = None
    trash_days: int | None = None


def read_status(database: Database) -> StoreStatus:
    """Look at the tables, and count. Raises StoreError, PersistenceError."""
    state = read_state(database)
    try:
        with database.connect() as connection:
            server = str(connection.info.parameter_status("server_version"))
            is_encrypted = bool(connection.pgconn.ssl_in_use)
    except psycopg.Error as error:
        raise database.explain(error) from error
    about = (
        database.address.shown,
        server,
        state.version,
        state.oldest_client,
        state.is_usable,
        is_encrypted,
    )
    if not state.is_usable:
        return StoreStatus(*about)
    (counts,) = database.run(_COUNTS)
    (blobs,) = database.run(_BLOBS)
    (who,) = database.run("SELECT current_user::text, st_tenant()")
    keep_days, trash_days = read_policy(database)
    last_used = counts[6]
    return StoreStatus(
        *about,
        role=who[0],
        tenant=who[1],
        sessions=counts[0],
        drafts=counts[1],
        trashed=counts[2],
        entries=counts[3],
        bytes=counts[4],
        unindexed=counts[5],
        blobs=blobs[0],
        blob_bytes=blobs[1],
        last_used=last_used.isoformat() if last_used is not None else None,
        keep_days=keep_days,
        trash_days=trash_days,
    )


# -- retention and cleaning ----------------------------------------------------------------------


def read_policy(database: Database) -> tuple[int | None, int | None]:
    """Read after how many days sessions go to the trash, and are deleted; None is never."""
    rows = database.run(f"SELECT keep_days, trash_days FROM st_policy WHERE {OURS}")
    return (rows[0][0], rows[0][1]) if rows else (None, None)


def write_policy(database: Database, keep_days: int | None, trash_days: int | None) -> None:
    """Set both numbers of days for this tenant."""
    database.run(
        "INSERT INTO st_policy (tenant, keep_days, trash_days) VALUES (st_tenant(), %s, %s) "
        "ON CONFLICT (tenant) DO UPDATE SET keep_days = excluded.keep_days, "
        "trash_days = excluded.trash_days",
        (keep_days, trash_days),
    )


@dataclass(slots=True)
class Cleaning:
    """The result of ``store vacuum``."""

    indexed: int = 0
    trashed: int = 0
    purged: int = 0
    blobs: int = 0


def vacuum(database: Database, on_progress: OnProgress | None = None) -> Cleaning:
    """Follow the retention policy, note missing words, and drop blobs that nothing names.

    Safe to interrupt and to run at any time, several at once too.
    """
    made = Cleaning()
    keep_days, trash_days = read_policy(database)
    if keep_days is not None:
        made.trashed = _until_none(
            database,
            "WITH old AS (SELECT sid FROM st_session WHERE deleted IS NULL "
            f"AND modified < now() - %s * interval '1 day' AND {OURS} ORDER BY modified LIMIT %s), "
            "done AS (UPDATE st_session s SET deleted = clock_timestamp(), batch = 'policy', "
            "revision = revision + 1 FROM old WHERE s.sid = old.sid RETURNING 1) "
            "SELECT count(*) FROM done",
            keep_days,
        )
    if trash_days is not None:
        made.purged = _until_none(
            database,
            "SELECT st_purge(array(SELECT sid FROM st_session WHERE "
            f"deleted < now() - %s * interval '1 day' AND {OURS} ORDER BY deleted LIMIT %s))",
            trash_days,
        )
    made.indexed = _index_all(database, on_progress)
    made.blobs = DatabaseBlobs(database).drop_unused()
    return made


def _until_none(database: Database, statement: str, days: int) -> int:
    """Repeat a step until nothing is left; return the number of sessions."""
    total = 0
    while count := database.run(statement, (days, _PURGED_AT_ONCE))[0][0]:
        total += count
    return total


def _index_all(database: Database, on_progress: OnProgress | None) -> int:
    done = 0
    while waiting := unindexed(database, _INDEXED_AT_ONCE):
        before = done
        for sid in waiting:
            done += index_session(database, sid)
            if on_progress is not None:
                on_progress(done, done + len(waiting))
        if done == before:
            break  # another process is at it, or this role may only read
    return done


# -- checking ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be; ``is_repaired`` if it is now."""

    what: str
    is_repaired: bool = False


_WRONG_COUNTS = (
    "SELECT s.sid, s.id FROM st_session s LEFT JOIN LATERAL (SELECT coalesce(max(e.seq), 0) AS "
    "head, count(*) FILTER (WHERE e.kind = 'message') AS messages FROM st_entry e "
    "WHERE e.sid = s.sid) x ON true WHERE s.tenant = (SELECT st_tenant()) "
    "AND (x.head > s.head OR x.messages <> s.messages)"
)
_RECOUNT = (
    "UPDATE st_session s SET head = greatest(s.head, x.head), last = NULL, messages = x.messages, "
    "revision = revision + 1 FROM (SELECT coalesce(max(e.seq), 0) AS head, "
    "count(*) FILTER (WHERE e.kind = 'message') AS messages FROM st_entry e WHERE e.sid = %s) x "
    "WHERE s.sid = %s AND s.tenant = (SELECT st_tenant())"
)
_ORPHANS = (
    "SELECT count(*) FROM st_entry e WHERE e.tenant = (SELECT st_tenant()) AND NOT EXISTS "
    "(SELECT FROM st_session s WHERE s.sid = e.sid)"
)
_IS_OPEN = (
    "SELECT has_schema_privilege('public', current_schema(), 'CREATE'), "
    "quote_ident(current_schema())"
)
_WRONG_BLOBS = (
    f"SELECT encode(sha, 'hex') FROM st_blob WHERE {OURS} AND data IS NOT NULL "
    "AND sha256(data) <> sha"
)
_LOST_BLOBS = (
    "SELECT count(*) FROM st_blob_use u WHERE u.tenant = (SELECT st_tenant()) AND NOT EXISTS "
    "(SELECT FROM st_blob b WHERE b.tenant = u.tenant AND b.sha = u.sha)"
)
_PARENTS = (
    "SELECT s.id, count(*) FROM st_entry e JOIN st_session s USING (sid) WHERE e.parent IS NOT "
    "NULL AND s.tenant = (SELECT st_tenant()) AND NOT EXISTS (SELECT FROM st_entry p "
    "WHERE p.sid = e.sid AND p.id = e.parent) GROUP BY s.id"
)


def check(database: Database, *, repair: bool = False) -> list[Finding]:
    """Compare the rows with one another; with ``repair`` counters are counted again."""
    found = [Finding(difference) for difference in find_differences(database)]
    for sid, session_id in database.run(_WRONG_COUNTS):
        if repair:
            database.run(_RECOUNT, (sid, sid))
        found.append(Finding(f"session {session_id}: its counters differ from its rows", repair))
    for session_id, count in database.run(_PARENTS):
        found.append(Finding(f"session {session_id}: {count} entries name a parent that is lost"))
    ((is_open, schema),) = database.run(_IS_OPEN)
    if is_open:
        found.append(
            Finding(
                f"anybody may put functions beside ours, which others would run: "
                f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC"
            )
        )
    ((orphans,),) = database.run(_ORPHANS)
    if orphans:
        found.append(Finding(f"{orphans} entries belong to no session"))
    for (digest,) in database.run(_WRONG_BLOBS):
        found.append(Finding(f"blob {digest}: its content is not what its hash says"))
    ((lost,),) = database.run(_LOST_BLOBS)
    if lost:
        found.append(Finding(f"{lost} blobs that sessions name are missing"))
    try:
        gone = DatabaseBlobs(database).find_lost()
    except PersistenceError as error:
        return [*found, Finding(f"large blobs were not looked at: {error}")]
    return [*found, *(Finding(f"blob {digest}: its object is not there") for digest in gone)]


# -- roles ---------------------------------------------------------------------------------------

_TABLES = ("st_session", "st_entry", "st_text", "st_blob", "st_blob_use", "st_policy")
_ROLE = re.compile(r"[^\x00]{1,63}")


def grant(database: Database, role: str, right: Right, tenant: str | None = None) -> str | None:
    """Let a role of the server use the store; with a ``tenant`` it sees that one's rows only.

    Return the tenant that it is bound to now; None if it may name any.

    A right that was given before is taken first. Raises StoreError.
    """
    if not _ROLE.fullmatch(role):
        raise StoreError(f"{role!r} is not the name of a role")
    if right == "owner" and tenant is not None:
        raise StoreError("an owner sees all tenants: grant owner without --tenant")
    name = sql.Identifier(role)
    tables = sql.SQL(", ").join(map(sql.Identifier, _TABLES))
    try:
        with database.connect() as connection, connection.transaction():
            connection.execute(sql.SQL("REVOKE ALL ON {}, st_gone FROM {}").format(tables, name))
            connection.execute(sql.SQL(_TAKE_FUNCTIONS).format(name))
            for statement in _rights(right):
                connection.execute(sql.SQL(statement).format(tables=tables, role=name))
            if right == "owner":
                owners = sql.Identifier(_find_owners(connection))
                connection.execute(sql.SQL("GRANT {} TO {} WITH ADMIN OPTION").format(owners, name))
            # without a tenant a writer or reader stays bound to the one it has
            (bound,) = connection.execute(
                "INSERT INTO st_member AS m (role, tenant) VALUES (%s, %s) ON CONFLICT (role) "
                "DO UPDATE SET tenant = coalesce(excluded.tenant, CASE WHEN %s THEN m.tenant END) "
                "RETURNING tenant",
                (role, tenant, right != "owner"),
            ).fetchone() or (None,)
            return cast("str | None", bound)
    except psycopg.Error as error:
        raise database.explain(error) from error


def _find_owners(connection: Connection) -> str:
    """The role that has the tables: never a person's, whose other rights are not for others."""
    owner = find_owner(connection)
    if owner is not None and not owner.is_person:
        return owner.name
    (name,) = connection.execute(
        "SELECT left('sessiontree_owners_' || current_database(), 63)"
    ).fetchone() or ("",)
    role = sql.Identifier(name)
    if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone() is None:
        connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(role))
    member = sql.SQL("GRANT {} TO CURRENT_USER WITH ADMIN OPTION")
    connection.execute(member.format(role))
    schema = sql.SQL("GRANT USAGE, CREATE ON SCHEMA {} TO {}")
    found = connection.execute("SELECT current_schema()").fetchone() or ("public",)
    connection.execute(schema.format(sql.Identifier(found[0]), role))
    for kind, what in connection.execute(_OURS_ON_SERVER).fetchall():
        statement = sql.SQL("ALTER {} {} OWNER TO {}")
        connection.execute(statement.format(sql.SQL(kind), sql.SQL(what), role))
    return str(name)


_OURS_ON_SERVER = (
    r"SELECT 'TABLE', oid::regclass::text FROM pg_class WHERE relname LIKE 'st\_%' "
    "AND relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace UNION ALL "
    r"SELECT 'FUNCTION', oid::regprocedure::text FROM pg_proc WHERE proname LIKE 'st\_%' "
    "AND pronamespace = current_schema()::regnamespace"
)


_SEARCH = "FUNCTION st_said(tsquery, text[], bigint, bigint), st_called(tsquery, bigint)"
_TAKE_FUNCTIONS = f"REVOKE EXECUTE ON {_SEARCH}, st_purge(bigint[]) FROM {{}}"


def _rights(right: Right) -> list[Any]:
    search = f"GRANT EXECUTE ON {_SEARCH} TO {{role}}"
    if right == "reader":
        return ["GRANT SELECT ON {tables} TO {role}", search]
    return [
        search,
        "GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {role}",
        "GRANT SELECT, INSERT ON st_gone TO {role}",
        "GRANT EXECUTE ON FUNCTION st_purge(bigint[]) TO {role}",
    ]
