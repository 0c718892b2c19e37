"""``PostgresStore``: sessions in a PostgreSQL database, which any number of processes may share.

A ref is a session's id, behind its scope if it has one. Rows and statements belong to the modules
beside this one; open sessions to ``log``.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

from psycopg.types.json import Jsonb

from sessiontree.clock import Clock, now_ms
from sessiontree.core.translation import EntryTranslator, translate_entry
from sessiontree.errors import (
    AmbiguousSessionError,
    PersistenceError,
    SessionExistsError,
    SessionNotFoundError,
    StoreError,
)
from sessiontree.model import codec
from sessiontree.model.entries import Entry
from sessiontree.model.header import Header, get_title
from sessiontree.profiles import Dialect, Profile, get_profile
from sessiontree.stores.base import (
    Announce,
    Durability,
    EntryPlace,
    ListMark,
    Ref,
    SessionLog,
    TrashedSession,
    Watch,
)
from sessiontree.stores.identity import (
    clean_name,
    derive_header,
    make_session_id,
    new_entry,
    require_durability,
)
from sessiontree.stores.postgres import statements
from sessiontree.stores.postgres.address import Address, parse_address, read_ref, spell_ref
from sessiontree.stores.postgres.blobs import DatabaseBlobs
from sessiontree.stores.postgres.database import Database
from sessiontree.stores.postgres.figures import figures_of
from sessiontree.stores.postgres.listing import (
    TRASH_COLUMNS,
    find_in_scopes,
    find_named,
    find_rows,
    latest_ref,
    list_rows,
    read_info,
    ref_of,
    trashed,
    trashed_sid,
)
from sessiontree.stores.postgres.log import PostgresLog
from sessiontree.stores.postgres.rows import (
    Place,
    name_words,
    rows_of,
    scope_key,
    session_columns,
)
from sessiontree.stores.postgres.spelling import prefix_end, spell_key, unspell
from sessiontree.stores.postgres.statements import OURS
from sessiontree.stores.postgres.watch import RowWatch

if TYPE_CHECKING:
    from sessiontree.discovery.listing import SessionInfo, SessionList
    from sessiontree.discovery.search.hits import SearchResults
    from sessiontree.discovery.search.times import Since

_LOCATE = f"SELECT sid FROM st_session WHERE scope = %s AND id = %s AND deleted IS NULL AND {OURS}"
_HEADER = (
    "SELECT sid, header, dialect, answered FROM st_session "
    f"WHERE scope = %s AND id = %s AND deleted IS NULL AND {OURS}"
)
_LAST_LINE = (
    "SELECT e.line FROM st_session s JOIN st_entry e ON e.sid = s.sid AND e.seq <= s.head "
    "WHERE s.scope = %s AND s.id = %s AND s.deleted IS NULL AND s.tenant = (SELECT st_tenant()) "
    "ORDER BY e.seq DESC LIMIT 1"
)
_FIND_ENTRY = (
    "SELECT s.id, s.scope, e.id FROM st_entry e JOIN st_session s USING (sid) "
    "WHERE e.id = %s AND e.tenant = (SELECT st_tenant()) AND s.deleted IS NULL "
    "ORDER BY s.modified DESC"
)
# Sent again, it finds the session that it has removed by the batch.
_TRASH = (
    "WITH found AS (SELECT sid AS own FROM st_session WHERE scope = %s AND id = %s "
    f"AND (deleted IS NULL OR (%s AND batch = %s)) AND {OURS} "
    "ORDER BY deleted DESC NULLS LAST LIMIT 1) "
    "UPDATE st_session s SET deleted = coalesce(s.deleted, clock_timestamp()), batch = %s, "
    "revision = revision + 1 FROM found WHERE s.sid = found.own "
    f"RETURNING {TRASH_COLUMNS}"
)
_LIST_TRASH = (
    f"SELECT {TRASH_COLUMNS} FROM st_session WHERE deleted IS NOT NULL AND {OURS} "
    "ORDER BY deleted DESC"
)
_EMPTY_TRASH = (
    "SELECT st_purge(array(SELECT sid FROM st_session "
    f"WHERE deleted < %s AND {OURS} ORDER BY deleted LIMIT %s))"
)
_CAN_WRITE = (
    "SELECT current_setting('transaction_read_only') = 'off' "
    "AND has_table_privilege('st_session', 'UPDATE') AND has_table_privilege('st_entry', 'INSERT')"
)
_PURGED_AT_ONCE = 100
_OF_ID = f"SELECT sid FROM st_session WHERE scope = %s AND id = %s AND {OURS}"
_IN_TRASH = (
    f"SELECT sid, id, scope, cwd FROM st_session WHERE deleted IS NOT NULL AND {OURS} "
    "AND (sid = %s OR (id >= %s AND (%s::text IS NULL OR id < %s))) ORDER BY deleted DESC"
)
_RESTORE = (
    "UPDATE st_session s SET deleted = NULL, revision = revision + 1 "
    f"WHERE sid = %s AND {OURS} AND NOT EXISTS (SELECT FROM st_session o WHERE "
    "o.tenant = s.tenant AND o.scope = s.scope AND o.id = s.id AND o.deleted IS NULL "
    "AND o.sid <> s.sid) RETURNING sid"
)


class PostgresStore:
    """The sessions of one database, or of one tenant of it.

    Connecting is left to the first statement. Raises StoreError for anything but such a URL.
    """

    def __init__(
        self,
        url: str | Address,
        profile: str | Profile | None = None,
        *,
        clock: Clock = now_ms,
    ) -> None:
        address = parse_address(url) if isinstance(url, str) else url
        self.profile = get_profile(profile)
        self.clock = clock
        self.is_kept = True
        self.database = Database(address)
        self._blobs = DatabaseBlobs(self.database)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    @property
    def url(self) -> str:
        """Its URL without a password."""
        return self.database.address.shown

    @property
    def dialect(self) -> Dialect:
        """The dialect of new sessions."""
        return self.profile.dialect

    @property
    def can_write(self) -> bool:
        """Whether this role may change sessions. A reader may not, and a replica takes no changes.

        Raises StoreError.
        """
        ((can_write,),) = self.database.run(_CAN_WRITE)
        return bool(can_write)

    def make_session_id(self) -> str:
        """A UUIDv7 in each dialect: two machines never make the same id in the same millisecond."""
        return make_session_id("pi", self.clock)

    # -- sessions --------------------------------------------------------------------------

    def create(
        self,
        header: Header,
        *,
        durability: Durability = "flush",
        is_new_id: bool = True,
        beside: SessionLog | None = None,  # noqa: ARG002 - it has no folder
    ) -> PostgresLog:
        """A new session; its row appears with the first entry, or at once if its id was chosen.

        Raises SessionExistsError.
        """
        require_durability(durability)
        log = PostgresLog(self, header, self.dialect, durability)
        if not is_new_id:
            log.claim()
        return log

    def open(
        self,
        ref: Ref,
        *,
        cwd: str | None = None,  # noqa: ARG002 - its header says so
        durability: Durability = "flush",
    ) -> PostgresLog:
        """An existing session. Raises SessionNotFoundError, PersistenceError."""
        require_durability(durability)
        return PostgresLog.load(self, ref, durability)

    def read(self, ref: Ref) -> PostgresLog:
        """The same to look at; nothing can be written."""
        return PostgresLog.load(self, ref, is_read_only=True)

    def copy(
        self,
        log: SessionLog,
        header: Header,
        entries: Sequence[Entry] | None = None,
        *,
        announce: Announce | None = None,
    ) -> PostgresLog:
        """A new session with all that an open one has, or with these entries; in the server.

        Raises PersistenceError.
        """
        if not isinstance(log, PostgresLog) or log.place is None:
            raise StoreError("only a session of this store can be copied in it")
        made = PostgresLog(self, header, log.dialect, log.durability)
        if announce is not None:
            announce(made)
        if entries is None:
            return self._copy_whole(log, made)
        return self._copy_entries(log, made, entries)

    def _copy_whole(self, log: PostgresLog, made: PostgresLog) -> PostgresLog:
        made.is_draft = log.is_draft
        columns = session_columns(made.header, made.scope, made.dialect)
        self._send_copy(log, made, columns, (None,) * 5)
        # Read again: the server may have copied more than was read of the source.
        return PostgresLog.load(self, made.ref, made.durability)

    def _copy_entries(
        self, log: PostgresLog, made: PostgresLog, entries: Sequence[Entry]
    ) -> PostgresLog:
        respelled = [None if log.holds(entry) else log.spell(entry) for entry in entries]
        figures = figures_of(entries, log.tree)
        made.is_draft = not figures.is_answered
        columns = session_columns(made.header, made.scope, made.dialect, figures)
        rows = rows_of(_respelled(entries, respelled))
        sid = self._send_copy(
            log, made, columns, (rows.ids, rows.parents, rows.kinds, rows.times, respelled)
        )
        lengths = [
            entry.length if line is None else len(line)
            for entry, line in zip(entries, respelled, strict=True)
        ]
        made.take_copied(sid, entries, lengths, codec.encode(made.header))
        return made

    def _send_copy(
        self,
        log: PostgresLog,
        made: PostgresLog,
        columns: dict[str, object],
        rows: tuple[object, ...],
    ) -> int:
        """Have the server copy these rows of a session, or all for five Nones; the copy's number.

        Raises PersistenceError.
        """
        assert log.place is not None  # ``copy`` refuses others
        sid = secrets.randbits(62)
        words = name_words(made.dialect, get_title(made.header), log.tree.info_name(), None)
        told = Jsonb({**columns, "sid": sid})
        parameters = (log.place.sid, told, codec.encode(made.header), words, *rows)
        (verdict,) = self.database.run(statements.COPY, parameters)[0]
        if verdict == "missing":
            raise PersistenceError(log.name, "no longer exists; it was not copied")
        if verdict != "ok":
            message = f"could not be copied: there is a session {made.ref} already"
            raise PersistenceError(log.name, message)
        return sid

    def fork(
        self,
        ref: Ref,
        cwd: str,
        *,
        scope: str | None = None,
        durability: Durability = "flush",
    ) -> PostgresLog:
        """A copy of a whole session in another project. The source is only read.

        Raises SessionNotFoundError, PersistenceError.
        """
        require_durability(durability)
        source = self._read_header(ref, durability)
        is_pi = self.dialect == "pi"
        is_other_dialect = source.dialect != self.dialect
        if is_other_dialect:
            source = PostgresLog.load(self, ref, durability, is_read_only=True)
        title = get_title(source.header)
        name = source.tree.info_name() if is_other_dialect else None
        parent = source.ref if is_pi else str(source.header.get("id", source.ref))
        header = derive_header(
            source.header,
            (name or title) if not is_pi else None,
            cwd,
            self.dialect,
            parent,
            self,
            scope=scope,
        )
        if not is_other_dialect:
            copy = self.copy(source, header)
        else:
            translator = EntryTranslator(self.profile)
            copy = PostgresLog(self, header, self.dialect, durability)
            translated = [translate_entry(entry, translator) for entry in source.tree.entries]
            copy.append([Entry.from_wire(entry.decode()) for entry in translated])
            copy.tree.leaf_id = copy.tree.last_id
        if is_pi and title is not None:
            entry = new_entry(copy, "session_info", {"name": clean_name(title)})
            copy.append((entry,))
            copy.tree.leaf_id = entry.id
        return copy

    def _read_header(self, ref: Ref, durability: Durability) -> PostgresLog:
        """Read only the header of a session, which is enough for the server to copy it.

        Raises SessionNotFoundError, PersistenceError.
        """
        session_id, scope = read_ref(ref)
        found = self.database.run(_HEADER, (scope_key(scope), spell_key(session_id)))
        if not found:
            raise SessionNotFoundError(ref)
        sid, line, dialect, is_answered = found[0]
        header = cast("Header", codec.decode(bytes(line)))
        own: Dialect = "pi" if dialect == "pi" else "omp"
        log = PostgresLog(self, header, own, durability, is_read_only=True)
        log.place = Place(sid)
        log.is_draft = not is_answered
        return log

    # -- finding ---------------------------------------------------------------------------

    def exists(self, ref: Ref) -> bool:
        """Whether anything of a session is kept, be it a draft. Raises PersistenceError."""
        session_id, scope = read_ref(ref)
        return self.locate(session_id, scope=scope) is not None

    def get_info(self, ref: Ref) -> SessionInfo | None:
        """The listing's line of one session, a draft too; None if it doesn't exist."""
        return read_info(self, *read_ref(ref))

    def read_last_line(self, ref: Ref) -> bytes | None:
        """The line that was written last; None if there is none."""
        session_id, scope = read_ref(ref)
        found = self.database.run(_LAST_LINE, (scope_key(scope), spell_key(session_id)))
        return bytes(found[0][0]) if found else None

    def locate(self, session_id: str, *, scope: str | None = None) -> Ref | None:
        """The session that has exactly this id, a draft too; None if there is none."""
        found = self.database.run(_LOCATE, (scope_key(scope), spell_key(session_id)))
        return spell_ref(session_id, scope) if found else None

    def latest(self, cwd: str | None, *, scope: str | None = None) -> Ref | None:
        """The session of a project or scope that was used last; None if there is none."""
        return latest_ref(self, cwd, scope)

    def list(
        self,
        cwd: str | None = None,
        *,
        scope: str | None = None,
        limit: int | None = None,
        before: ListMark | None = None,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> SessionList:
        """The sessions of a project, a scope, or all, newest first; at most ``limit`` of them."""
        return list_rows(self, cwd, scope, limit, before, on_progress)

    def find(
        self, prefix: str, *, cwd: str | None = None, scope: str | None = None
    ) -> Sequence[SessionInfo]:
        """The sessions and drafts whose id begins so, newest first; of a project, scope, or all."""
        return find_rows(self, prefix, cwd, scope)

    def find_named(
        self, name: str, *, cwd: str | None = None, scope: str | None = None
    ) -> Sequence[SessionInfo]:
        """The sessions of exactly this name, newest first; of a project, a scope, or all."""
        return find_named(self, name, cwd, scope)

    def find_in_scopes(self, prefix: str) -> Sequence[SessionInfo]:
        """The sessions of all scopes whose id begins so, newest first."""
        return find_in_scopes(self, prefix)

    def find_entry(self, entry_id: str) -> Sequence[EntryPlace]:
        """Find the entries of this id, in all sessions."""
        rows = self.database.run(_FIND_ENTRY, (spell_key(entry_id),))
        return [EntryPlace(ref_of(key, scope), unspell(found)) for key, scope, found in rows]

    def search(
        self,
        query: str,
        *,
        cwd: str | None = None,
        scope: str | None = None,
        role: str | None = None,
        since: Since | None = None,
        include_tools: bool = False,
        limit: int | None = 20,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> SearchResults:
        """The sessions that contain the words of a query, best first."""
        from sessiontree.stores.postgres.search import search_rows

        return search_rows(
            self,
            query,
            cwd=cwd,
            scope=scope,
            role=role,
            since=since,
            include_tools=include_tools,
            limit=limit,
            on_progress=on_progress,
        )

    def search_accepted(
        self,
        query: str,
        accept: Callable[[SessionInfo], bool],
        *,
        cwd: str | None = None,
        scope: str | None = None,
        role: str | None = None,
        since: Since | None = None,
        include_tools: bool = False,
        limit: int | None = 20,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> SearchResults:
        """The same, of those sessions that ``accept`` takes, be they far behind the best."""
        from sessiontree.stores.postgres.search import search_rows

        return search_rows(
            self,
            query,
            cwd=cwd,
            scope=scope,
            role=role,
            since=since,
            include_tools=include_tools,
            limit=limit,
            on_progress=on_progress,
            accept=accept,
        )

    def index_soon(self, sid: int) -> None:
        """Note the words of a session that was just left. Best effort: a search would do it."""
        from sessiontree.stores.postgres.texts import index_session

        index_session(self.database, sid)

    def read_text(self, ref: Ref) -> str:
        """All that users and models said in a session; empty if it is gone."""
        from sessiontree.stores.postgres.texts import read_all_text

        return read_all_text(self, ref)

    def watch(self, ref: Ref) -> Watch:
        """Waits for others to write to a session."""
        return RowWatch(self, ref)

    # -- removing --------------------------------------------------------------------------

    def delete(
        self, ref: Ref, *, permanently: bool = False, batch: str | None = None
    ) -> TrashedSession | None:
        """Move a session to the trash, or remove it with all that only it needs.

        Raises SessionNotFoundError, PersistenceError.
        """
        session_id, scope = read_ref(ref)
        key = (scope_key(scope), spell_key(session_id))
        if permanently:
            sids = [sid for (sid,) in self.database.run(_OF_ID, key)]
            if not sids:
                raise SessionNotFoundError(ref)
            self.database.run(statements.PURGE, (sids,))
            return None
        batch = batch or secrets.token_hex(8)
        rows = self.database.run(
            _TRASH, (*key, False, batch, batch), again=(*key, True, batch, batch)
        )
        if not rows:
            raise SessionNotFoundError(ref)
        return trashed(rows[0])

    def list_trash(self) -> Sequence[TrashedSession]:
        """List the trash, what was removed last first."""
        return [trashed(row) for row in self.database.run(_LIST_TRASH)]

    def purge(self, before: datetime) -> int:
        """Delete for good what was removed before this time; how many sessions."""
        count = 0
        while rows := self.database.run(_EMPTY_TRASH, (before, _PURGED_AT_ONCE)):
            if not rows[0][0]:
                break
            count += rows[0][0]
        return count

    def restore(self, session_id: str) -> Ref:
        """Take a session out of the trash; its ref.

        The id, its beginning, or a ref. Raises SessionNotFoundError, AmbiguousSessionError,
        SessionExistsError.
        """
        wanted, scope = read_ref(session_id)
        key = spell_key(wanted)
        end = prefix_end(key)
        sid = trashed_sid(session_id)
        rows = [
            row
            for row in self.database.run(_IN_TRASH, (sid, key, end, end))
            if scope is None or row[2] == scope_key(scope)
        ]
        if not rows:
            raise SessionNotFoundError(session_id)
        exact = [row for row in rows if row[0] == sid or row[1] == key] or rows
        places = {(row[1], row[2]) for row in exact}
        if len(places) > 1:
            raise AmbiguousSessionError(session_id, [ref_of(*place) for place in sorted(places)])
        sid, found_key, found_scope, _ = exact[0]
        ref = ref_of(found_key, found_scope)
        if not self.database.run(_RESTORE, (sid,)):
            raise SessionExistsError(unspell(found_key), ref)
        return ref

    # -- beside the entries ----------------------------------------------------------------

    def put_blob(self, data: bytes) -> str:
        """Keep a large value; its reference."""
        return self._blobs.put(data)

    def get_blob(self, ref: str) -> bytes | None:
        """The value that a reference names; None if it is not there."""
        return self._blobs.get(ref)

    def artifacts_dir(self, ref: Ref) -> str | None:  # noqa: ARG002
        """None: what a session has beside its entries stays on the machine that made it."""
        return None

    def close(self) -> None:
        """Close idle connections."""
        self.database.pool.close()


def _respelled(
    entries: Sequence[Entry], lines: Sequence[bytes | None]
) -> Iterator[tuple[Entry, bytes]]:
    """Entries for ``st_copy``, which takes all of one that has no line here from the source."""
    for entry, line in zip(entries, lines, strict=True):
        yield entry, line if line is not None else _NO_LINE


_NO_LINE = b'{"parentId":null}'
