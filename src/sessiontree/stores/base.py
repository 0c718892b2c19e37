"""The seam between sessions and wherever they are kept: stores, and the log of an open session.

A ``SessionStore`` keeps sessions: it makes, opens, copies, moves, lists, finds, searches and
deletes them. A ``SessionLog`` is one of them, open: entries go in, and what others wrote comes out
as part of its tree. Everything above works with these two and with ``Ref``, the name of a session
in its store, which only the store can read: a path, a row's id.

What a log promises, whatever is below it:

- **Returned means kept.** When ``append`` returns, a killed process loses none of the entries, and
  all of them are there or, if it raises, none (as far as the store can tell: an answer may be lost
  after the commit).
- **A child of the leaf is always valid.** ``append`` never conflicts with what others write; their
  entries come into the tree first, and the leaf stays where it was.
- **Work that must not be interleaved with other writers goes through ``settle``**: everything is
  read before it, and no other process writes during it, under a lock or by trying again.
- **Errors latch.** After a failed write every further one raises the same error until ``recover``.
- **Nothing that was read changes by itself**: an ``Entry`` goes on being the same object.

One thread at a time uses a log; any number of threads may use a store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from sessiontree.clock import Clock
from sessiontree.core.tree import SessionTree
from sessiontree.model.entries import Entry
from sessiontree.model.header import Header
from sessiontree.model.lines import SessionWarning
from sessiontree.profiles import Dialect, Profile

if TYPE_CHECKING:
    from sessiontree.discovery.listing import SessionInfo, SessionList
    from sessiontree.discovery.search.hits import SearchResults
    from sessiontree.discovery.search.times import Since

Ref: TypeAlias = str
"""Names a session inside its store. Only its store reads it."""

Durability = Literal["flush", "entry"]
"""When appends wait for the medium: at a flush, or at every entry."""

Announce: TypeAlias = "Callable[[SessionLog], object]"
"""Called with a copy before anything of it is kept."""

StrPath: TypeAlias = str | os.PathLike[str]

_T = TypeVar("_T")


class EntryPlace(msgspec.Struct, frozen=True):
    """The place of an entry: its session, and its id in it."""

    ref: Ref
    entry_id: str


@dataclass(frozen=True, slots=True)
class TrashedSession:
    """A session in the trash. ``id`` names it there, ``path`` is the ref that it had.

    ``title`` is its name, else the beginning of its first prompt.

    Sessions that one command removed have the same ``batch``, and come back together.
    """

    id: str
    path: Ref
    session_id: str
    title: str | None
    cwd: str
    removed_at: str
    batch: str


ListMark: TypeAlias = "tuple[datetime, Ref]"
"""A place in a listing: ``modified`` and ``path`` of a session that was listed."""


class Watch(Protocol):
    """Waits for others to write to a session."""

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait; whether something may have changed. False after ``timeout_s`` without a change."""

    def close(self) -> None:
        """Stop waiting: also a ``wait`` under way in another thread, which then gives False."""


class SessionLog(Protocol):
    """One open session."""

    is_touched: bool
    """Whether entries were appended, or an id taken, through this log since it was last left."""

    @property
    def store(self) -> SessionStore:
        """The store that keeps it."""

    @property
    def ref(self) -> Ref:
        """Its name in the store. A move may change it."""

    @property
    def dialect(self) -> Dialect:
        """The dialect of its entries."""

    @property
    def durability(self) -> Durability:
        """The moment at which appends wait for the medium."""

    @property
    def header(self) -> Header:
        """The session's own record: id, cwd, title, ..., as a wire object."""

    @property
    def tree(self) -> SessionTree:
        """All entries, and the leaf. Another object if the session turned out to be another one."""

    @property
    def is_draft(self) -> bool:
        """Whether listings leave it out because nothing has been answered yet."""

    @property
    def is_started(self) -> bool:
        """Whether anything of the session is kept yet, be it the header alone."""

    @property
    def has_failed(self) -> bool:
        """Whether an error is latched."""

    @property
    def foreign(self) -> int:
        """The number of entries that others have appended since the session was opened here."""

    @property
    def revision(self) -> str:
        """A text that differs after each write by anyone, as far as it has been read here.

        The same for everyone who has read the same; "0" while nothing is written.
        """

    @property
    def warnings(self) -> list[SessionWarning]:
        """The repairs that reading or writing made, in their order."""

    def is_removed(self) -> bool:
        """Whether somebody has deleted the session since it was read: to the trash, or for good.

        Closing it then writes nothing. False if the store can't tell.
        """

    def warn(self, *warnings: SessionWarning) -> None:
        """Tell something among the warnings."""

    def check(self) -> None:
        """Raise the latched error, if there is one."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries, all of them or none; then they are in the tree, the leaf where it was.

        Each hangs on an entry of the session or on one before it. Raises EntryExistsError for an id
        that the session has, PersistenceError, and TypeError for what JSON cannot hold.
        """

    def settle(self, work: Callable[[], _T]) -> _T:
        """Run ``work`` with everything read and no other process writing; may be nested.

        A store without locks repeats it when somebody was faster, so ``work`` must be repeatable.
        """

    def refresh(self) -> None:
        """Read what others appended. Cheap if there is nothing.

        There is nothing in a session that somebody has deleted: only the next write raises.
        """

    def rewrite(self, *, find_changes: bool = False) -> None:
        """Write what differs from the store: with ``find_changes``, also edited ``data``."""

    def write_header(self, fields: Mapping[str, Any]) -> None:
        """Set header fields and write them; None removes one. A failure changes nothing."""

    def set_header(self, fields: Mapping[str, Any]) -> None:
        """Set header fields of a session of which nothing is written yet."""

    def move(self, cwd: str, scope: str | None = None) -> None:
        """Move the session to another project, all of it or nothing."""

    def discard(self) -> None:
        """Remove a draft without content; any other session stays."""

    def destroy(self) -> None:
        """Remove a copy that will not be used, whatever is in it. Best effort."""

    def delete(self, *, permanently: bool = False) -> None:
        """Close and delete the session; every later write raises PersistenceError."""

    def flush(self) -> None:
        """Everything appended is on the medium when this returns."""

    def recover(self) -> None:
        """Forget a latched error, and save again what may not have been saved. May raise it."""

    def close(self) -> None:
        """Close the session; its entries stay readable."""


@runtime_checkable
class KeepsBlobs(Protocol):
    """A log whose lines may name large values that are kept beside them."""

    def keep_blob(self, data: bytes) -> str:
        """Keep a value that a line will name; its reference. Raises PersistenceError."""


@runtime_checkable
class KnowsLastLines(Protocol):
    """A store that tells the end of a session without reading it."""

    def read_last_line(self, ref: Ref) -> bytes | None:
        """The line that was written last; None if there is none, or it is a long one."""


@runtime_checkable
class FindsNames(Protocol):
    """A store that finds names without listing all that it has."""

    def find_named(
        self, name: str, *, cwd: str | None = None, scope: str | None = None
    ) -> Sequence[SessionInfo]:
        """The sessions of exactly this name, newest first; of a project, a scope, or all."""

    def find_in_scopes(self, prefix: str) -> Sequence[SessionInfo]:
        """The sessions of all scopes whose id begins so, newest first."""


@runtime_checkable
class SearchesAccepted(Protocol):
    """A store whose ``search`` may not give all sessions: it can look for some among them."""

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
        """As ``search``, but only sessions that ``accept`` takes; no such one is missed."""


@runtime_checkable
class MakesIds(Protocol):
    """A store that makes the ids of new sessions, because the dialect's are too short for it.

    An id of omp's has 16 random bits behind the millisecond: enough for one machine.
    """

    def make_session_id(self) -> str:
        """Make a new id. Many machines do so at the same time, without asking one another."""


@runtime_checkable
class SetsTimes(Protocol):
    """A store in which a session's last use is a time that can be set: the mtime of its file."""

    def get_time_ns(self, ref: Ref) -> int:
        """When the session was used last. Raises OSError if it does not exist."""

    def set_time_ns(self, ref: Ref, time_ns: int) -> None:
        """Set when the session was used last. Best effort."""


@runtime_checkable
class SessionStore(Protocol):
    """A place that keeps sessions."""

    @property
    def url(self) -> str:
        """The URL for ``open_store``, without a password: may be shown and logged."""

    @property
    def profile(self) -> Profile:
        """The profile that the sessions belong to."""

    @property
    def dialect(self) -> Dialect:
        """The dialect of new sessions."""

    @property
    def is_kept(self) -> bool:
        """Whether sessions outlive their manager: only then has one a ref that others can open."""

    @property
    def clock(self) -> Clock:
        """The time that sessions and entries are given."""

    def create(
        self,
        header: Header,
        *,
        durability: Durability = "flush",
        is_new_id: bool = True,
        beside: SessionLog | None = None,
    ) -> SessionLog:
        """A new session, of which nothing is written before its first entry.

        An id that is not new, but a caller's choice, is taken at once, by one of several who want
        it. ``beside`` is a session of the same project that may tell where it goes. Raises
        SessionExistsError.
        """

    def open(
        self, ref: Ref, *, cwd: str | None = None, durability: Durability = "flush"
    ) -> SessionLog:
        """An existing session. ``cwd`` is its project if it does not say.

        Raises SessionNotFoundError, NotASessionError, PersistenceError.
        """

    def read(self, ref: Ref) -> SessionLog:
        """The same to look at: nothing is migrated, repaired or locked, and writing fails."""

    def copy(
        self,
        log: SessionLog,
        header: Header,
        entries: Sequence[Entry] | None = None,
        *,
        announce: Announce | None = None,
    ) -> SessionLog:
        """A new session with all that an open one has, or with these entries, some respelled.

        Not on the medium before it is flushed. ``announce`` is called with it before anything of it
        is kept, so that a caller can remove a copy that it doesn't use.
        """

    def fork(
        self,
        ref: Ref,
        cwd: str,
        *,
        scope: str | None = None,
        durability: Durability = "flush",
    ) -> SessionLog:
        """A copy of a whole session in another project. The source is only read."""

    def list(
        self,
        cwd: str | None = None,
        *,
        scope: str | None = None,
        limit: int | None = None,
        before: ListMark | None = None,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> SessionList:
        """List the sessions of a project, of a scope, or of all; newest first, without drafts.

        The order is ``modified``, then another that never changes; at most ``limit`` are listed, of
        those behind ``before``. ``SessionList.total`` counts all of them, whatever the limit, or is
        None. A database reads no entries for this.
        """

    def exists(self, ref: Ref) -> bool:
        """Whether anything of a session is kept, be it a draft. Raises PersistenceError."""

    def get_info(self, ref: Ref) -> SessionInfo | None:
        """The listing's line of one session, a draft too; None if it doesn't exist."""

    def locate(self, session_id: str, *, scope: str | None = None) -> Ref | None:
        """The session that has exactly this id, a draft too; None if there is none.

        Ids are looked for among the sessions of one scope, or among those of none.
        """

    def find(
        self, prefix: str, *, cwd: str | None = None, scope: str | None = None
    ) -> Sequence[SessionInfo]:
        """The sessions whose id begins so, drafts too, newest first."""

    def find_entry(self, entry_id: str) -> Sequence[EntryPlace]:
        """Find the entries of this id, in all sessions."""

    def latest(self, cwd: str | None, *, scope: str | None = None) -> Ref | None:
        """The session of a project or scope to continue; None if there is none."""

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
        """Find the sessions that contain the words of a query, best first.

        ``role``, ``since`` and ``include_tools`` mean what they mean to ``sessiontree.search``.
        ``sessiontree.stores.matching`` has it for a store without an index of words.
        """

    def delete(
        self, ref: Ref, *, permanently: bool = False, batch: str | None = None
    ) -> TrashedSession | None:
        """Move a session to the trash; return its entry there, None if it is gone for good.

        ``permanently`` removes it with all that only it needs. ``batch`` is that of a session that
        was removed before by the same command.
        """

    def list_trash(self) -> Sequence[TrashedSession]:
        """List what is in the trash, what was removed last first."""

    def restore(self, session_id: str) -> Ref:
        """Take a session out of the trash; return its ref.

        Also by the id that it has in the trash. Raises SessionNotFoundError, and
        AmbiguousSessionError if several removed sessions have this id.
        """

    def purge(self, before: datetime) -> int:
        """Delete for good what was removed before this time; return the number of sessions."""

    def watch(self, ref: Ref) -> Watch:
        """Waits for others to write to a session."""

    def artifacts_dir(self, ref: Ref) -> str | None:
        """A folder on this machine for what belongs to a session beside its entries, if any."""

    def close(self) -> None:
        """Close connections. Open logs may stop working."""
