"""The sessions that a server shows: those of a scope, of all agents, to list, search and read.

A server knows a session by its ``key``: a hash of the agent and of the store's ref. So a request
names only sessions that the listing has; no path that a client makes up is ever opened.

Listings are kept for a moment, because one page asks several times. Searches of files are answered
by the index as it is, which a thread keeps up to date (``LiveIndex``).
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sessiontree.discovery.paths import same_cwd
from sessiontree.discovery.pauses import Pauses
from sessiontree.errors import AmbiguousSessionError, SessionNotFoundError, SessionTreeError
from sessiontree.export.view import SessionView, read_view
from sessiontree.profiles import PROFILE_NAMES, get_profile
from sessiontree.scope import Scope
from sessiontree.serving.filtered_search import FilteredSearch, ModelReader
from sessiontree.storage.base import FileStat
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.base import SessionStore

if TYPE_CHECKING:
    from sessiontree.discovery.listing import SessionInfo
    from sessiontree.discovery.search.hits import IndexProgress, SearchHit, SearchResults
    from sessiontree.discovery.search.live import LiveIndex
    from sessiontree.importers.foreign import ForeignDocument

KEEP_S = 2.0
STALE_S = 10.0
"""Seconds after which a listing is made again before it is shown; a younger one is shown first."""
INDEXING_S = 20.0
"""Seconds that a search waits for the index, unless somebody is typing it."""
_LEAST_PREFIX = 4
_FIRST_PAGE_S = 0.2
"""Seconds that indexing waits for the first page."""


@dataclass(frozen=True, slots=True)
class Row:
    """One session in a listing. ``is_own``: an agent of pi's family, whose sessions we write."""

    key: str
    agent: str
    ref: str
    id: str
    cwd: str
    title: str
    """Its name, else its first prompt; untrusted, and of any length."""
    is_named: bool
    message_count: int
    created: datetime | None
    modified: datetime
    size: int
    status: str = "complete"
    is_own: bool = True
    parent: str = ""
    """The session that it was forked from, by its id or its file."""
    info: SessionInfo | None = None
    """The listing's line."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A session with the words of a search, and the message that shows them best."""

    row: Row
    entry_id: str
    role: str
    time: datetime | None
    snippet: str
    marks: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class Hits:
    """The results of a search. ``total`` is None if it didn't look at all sessions."""

    hits: list[Hit] = field(default_factory=list)
    total: int | None = 0
    indexing: IndexProgress | None = None
    """The progress of the index, while it lacks sessions."""
    meant: str | None = None
    """A query that would find something, if this one finds nothing."""


class ServedSessions:
    """The sessions of a scope. May be used from several threads."""

    def __init__(self, scope: Scope) -> None:
        is_one = scope.is_profile_named or scope.session_dir is not None or scope.url is not None
        self.scope = scope.reaching("all", agents=None if is_one else "all")
        self._lock = threading.Lock()
        self._rows: list[Row] = []
        self._by_key: dict[str, Row] = {}
        self._copies: dict[str, str] = {}
        self._listed_at = float("-inf")
        self._models = ModelReader()
        self._index = _make_index(self.scope)
        self._listed = threading.Event()
        self._starting = threading.Lock()
        self._first: threading.Thread | None = None
        self._again: threading.Thread | None = None
        self._pauses = Pauses()
        self.progress = (0, 0)
        """The sessions read so far and their total, for the first listing, which may take a
        while."""

    @property
    def is_files(self) -> bool:
        """Whether the sessions are files."""
        return self.scope.files is not None

    def list(self, *, fresh: bool = False) -> Sequence[Row]:
        """All sessions with messages, newest first, as they were a moment ago unless ``fresh``.

        A listing is made again after ``KEEP_S``: by another thread if it is not old, so that
        no request waits. While a thread lists them, the listing before it counts.
        """
        self._pauses.note_question()
        age = time.monotonic() - self._listed_at
        if not fresh and KEEP_S < age < STALE_S:
            self._list_again()
            return self._rows
        if not self._lock.acquire(blocking=fresh or not self._rows):
            return self._rows
        try:
            if fresh or time.monotonic() - self._listed_at > KEEP_S:
                profile = self.scope.store.profile.name
                infos = self.scope.list(self._take_progress)
                self._rows = [_row(info.agent or profile, info) for info in infos]
                self._by_key = {row.key: row for row in self._rows}
                told = ((info.path, info.copy_of) for info in infos)
                self._copies = {path: whole for path, whole in told if whole is not None}
                self._models = ModelReader()
                self._listed_at = time.monotonic()
            return self._rows
        finally:
            self._lock.release()

    def _list_again(self) -> None:
        """List in the background in a pause between questions, unless a thread does so."""

        def work() -> None:
            try:
                self._pauses.wait()
                with suppress(SessionTreeError, OSError):  # the next request says it
                    self.list(fresh=True)
            finally:
                self._again = None

        with self._starting:
            if self._again is None:
                self._again = threading.Thread(target=work, daemon=True)
                self._again.start()

    def _take_progress(self, done: int, total: int) -> None:
        self.progress = (done, total)

    def prepare(self) -> None:
        """Begin to list and to index, in the background."""

        def work() -> None:
            with suppress(SessionTreeError, OSError):  # a request says it
                self.list()
            self._listed.set()
            if self._index is not None:
                self._index.wake(_FIRST_PAGE_S)

        with self._starting:
            if self._first is None:
                self._first = threading.Thread(target=work, daemon=True)
                self._first.start()

    def is_ready(self, patience_s: float) -> bool:
        """Whether the first listing is done, which reads each session once; else ``progress``."""
        if self._first is None:
            self.prepare()
        return self._listed.wait(patience_s)

    def close(self) -> None:
        """End what runs in the background."""
        if self._index is not None:
            self._index.close()

    def forget(self) -> None:
        """Drop the listing: a session was changed."""
        with self._lock:
            self._listed_at = float("-inf")

    def get(self, key: str) -> Row:
        """The session with this key. Raises SessionNotFoundError."""
        self.list()
        row = self._by_key.get(key)
        if row is None:
            self.list(fresh=True)
            row = self._by_key.get(key)
        if row is None:
            raise SessionNotFoundError(key, "There is no such session any more.")
        return row

    def find(self, value: str, agent: str | None = None) -> Row:
        """The session with this key, id, beginning of an id, or name.

        Raises SessionNotFoundError, AmbiguousSessionError with the rows.
        """
        wanted = value.strip()
        rows = [row for row in self.list() if agent is None or row.agent == agent]
        can_begin = len(wanted) >= _LEAST_PREFIX
        for found in (
            [row for row in rows if wanted in (row.key, row.id)],
            [row for row in rows if can_begin and row.id.startswith(wanted)],
            [row for row in rows if wanted and row.is_named and row.title.strip() == wanted],
        ):
            if len(found) > 1:
                raise AmbiguousSessionError(value, found)
            if found:
                return found[0]
        raise SessionNotFoundError(value)

    def find_all(self, query: str) -> Sequence[Row]:
        """The sessions that a query's filters leave, newest first; its words don't count.

        Raises FilterError.
        """
        wanted = FilteredSearch.of(query, self.scope)
        wanted.models = self._models
        if not wanted.filters.is_about_sessions:
            return self.list()
        return [row for row in self.list() if row.info is not None and wanted.accepts(row.info)]

    def search_filtered(
        self,
        query: str,
        *,
        include_tools: bool = False,
        limit: int = 20,
        is_typing: bool = False,
        with_meant: bool = True,
    ) -> Hits:
        """Find sessions by the words of a query, of those that its filters leave, best first.

        ``is_typing``: its last word may go on. ``with_meant``: if it finds nothing, look for one
        that does, which takes longer. Raises FilterError.
        """
        wanted = FilteredSearch.of(query, self.scope)
        wanted.models = self._models
        filters = wanted.filters
        if self._index is None or not filters.words:
            found = wanted.search(include_tools=include_tools, limit=limit)
        else:
            is_narrow = filters.is_about_sessions
            found = self._index.search(
                filters.words,
                role=filters.role,
                include_tools=include_tools or filters.in_tools,
                limit=limit,
                among={row.ref for row in self.find_all(query)} if is_narrow else None,
                copies=self._copies,
                is_typing=is_typing,
            )
        made = self._hits(found)
        if not made.hits and with_meant:
            made.meant = wanted.near_miss(include_tools=include_tools).query
        return made

    def search(
        self,
        query: str,
        *,
        project: str | None = None,
        agent: str | None = None,
        role: str | None = None,
        since: datetime | None = None,
        include_tools: bool = False,
        limit: int = 20,
    ) -> Hits:
        """Find sessions by the words in their messages, best first."""
        if self._index is not None:
            self._index.wait(INDEXING_S)
            among = None
            if project is not None or agent is not None:
                rows = (row for row in self.list() if agent in (None, row.agent))
                among = {row.ref for row in rows if project is None or is_in(row, project)}
            return self._hits(
                self._index.search(
                    query,
                    role=role,
                    since=since,
                    include_tools=include_tools,
                    limit=limit,
                    among=among,
                    copies=self._copies,
                )
            )
        scope = self.scope
        if project is not None:
            scope = replace(scope, cwd=project, reach="project")
        found = scope.search(
            query, role=role, since=since, include_tools=include_tools, limit=limit
        )
        found[:] = [hit for hit in found if agent in (None, hit.profile)]
        return self._hits(found)

    def _hits(self, found: SearchResults) -> Hits:
        is_behind = found.is_indexing and self.is_files
        hits = [self._hit(hit) for hit in found if hit.session.copy_of is None]
        return Hits(hits, found.total, found.indexing if is_behind else None)

    @contextmanager
    def open(self, row: Row) -> Iterator[SessionView]:
        """Read a session; nothing is written.

        Raises SessionNotFoundError, NotASessionError, PersistenceError.
        """
        with self.read(row) as view:
            yield view

    def read(self, row: Row) -> SessionView:
        """The same for longer: close the view after use."""
        if row.is_own:
            return read_view(self.scope.store_of(row.ref), row.ref)
        return read_foreign(row.ref, row.agent)

    @property
    def can_write(self) -> bool:
        """Whether sessions can be changed: a database may let this user only look.

        Raises StoreError if that can't be asked.
        """
        return bool(getattr(self.scope.store, "can_write", True))

    def resume_command(self, row: Row) -> str | None:
        """The command that continues a session, in any folder; None if its agent has none."""
        if self.scope.url is not None:
            if not row.ref.isprintable():
                return None
            return shlex.join(["sessiontree", "--store", self.scope.store.url, "--resume", row.ref])
        from sessiontree.discovery.native_agent import NoNativeCommandError, native_command

        try:
            return native_command(row.agent, row.ref, row.id, row.cwd or None).shell
        except NoNativeCommandError:
            # Its project is gone, say: Sessiontree itself asks what to do.
            is_plain = row.is_own and row.ref.isprintable()
            return shlex.join(["sessiontree", "--resume", row.ref]) if is_plain else None

    def watch(self, row: Row) -> SessionWatch:
        """Tells whether a session has changed."""
        return SessionWatch(self.scope.store_of(row.ref) if row.is_own else None, row)

    # -- making rows -----------------------------------------------------------------------

    def _hit(self, hit: SearchHit) -> Hit:
        row = self._by_key.get(make_key(hit.profile, hit.path)) or _row(hit.profile, hit.session)
        return Hit(row, hit.entry_id, hit.role, hit.time, hit.snippet, hit.marks)


class SessionWatch:
    """Tells whether a session of any agent was written to. A look costs no more than a stat."""

    def __init__(self, store: SessionStore | None, row: Row) -> None:
        self._row = row
        self._watch = store.watch(row.ref) if store is not None else None
        self._seen = self._look()

    def has_changed(self) -> bool:
        """Whether it was written to since this was asked last."""
        if self._watch is not None:
            return self._watch.wait(0)
        found = self._look()
        if found == self._seen:
            return False
        self._seen = found
        return True

    def _look(self) -> FileStat | None:
        """Another agent's session, as its adapter sees it."""
        if self._watch is not None:
            return None
        from sessiontree.discovery.adapters import get_adapter

        try:
            opened = get_adapter(self._row.agent).open(self._row.ref, FileSessionStorage())
            with closing(opened) as reader:
                return reader.stat()
        except OSError:
            return None

    def close(self) -> None:
        """Stop waiting."""
        if self._watch is not None:
            self._watch.close()


def read_foreign(path: str, agent: str | None = None) -> SessionView:
    """A view of another agent's session. Raises NotASessionError, PersistenceError."""
    from sessiontree.importers.foreign import load_foreign

    return _view_of(load_foreign(path, agent=agent))


def read_foreign_end(path: str, agent: str, size: int) -> SessionView | None:
    """A view of the end of another agent's session; None if it takes no less than all of it.

    Raises NotASessionError, PersistenceError.
    """
    from sessiontree.importers.foreign import load_end

    document = load_end(path, agent, size)
    return _view_of(document) if document is not None else None


def _view_of(document: ForeignDocument) -> SessionView:
    return SessionView(
        header={**document.header},
        name=document.title,
        file=document.path,
        tree=document.tree,
        path=document.get_branch(),
    )


def make_key(agent: str, ref: str) -> str:
    """Name a session for clients: the same after a restart, and not a path."""
    named = f"{agent}\0{ref}".encode("utf-8", "surrogatepass")
    return blake2b(named, digest_size=8).hexdigest()


def is_in(row: Row, project: str) -> bool:
    """Whether a session belongs to a project."""
    return row.cwd == project or same_cwd(row.cwd, project)


def to_time(text: str) -> datetime:
    """A day or a time as an aware one; without a zone it is local. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.astimezone()).astimezone(UTC)


def _make_index(scope: Scope) -> LiveIndex | None:
    """The index of these sessions; None for a database, and for a folder of its own."""
    is_usual = scope.url is None and scope.profile == get_profile(scope.profile.name)
    if not is_usual or scope.session_dir is not None:
        return None
    from sessiontree.discovery.search.live import LiveIndex

    return LiveIndex(profile=None if scope.agents else scope.profile, agents=scope.agents)


def _row(agent: str, info: SessionInfo) -> Row:
    return Row(
        make_key(agent, info.path),
        agent,
        info.path,
        info.id,
        info.cwd,
        info.title or info.first_message,
        bool(info.title),
        info.message_count,
        info.created,
        info.modified,
        info.size,
        info.status,
        agent in PROFILE_NAMES,
        info.parent_session or "",
        info,
    )
