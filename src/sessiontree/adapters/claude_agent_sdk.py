"""``SessiontreeSessionStore``: the transcripts of the Claude Agent SDK, kept as sessions.

    ClaudeAgentOptions(session_store=SessiontreeSessionStore(storage="file:/srv/agent"))

One session holds a conversation and its subagents' transcripts. Its entries are the SDK's records,
exactly and in order, and at the same time the messages that every reader of sessions shows
(``claude_records``). A ``project_key`` is a scope: its sessions are listed and searched together.

Nothing the SDK does destroys anything but ``delete``: it moves the session to the trash, or with
``delete_permanently`` removes it for good. Deleting one subagent's transcript hides its records
from the SDK; they stay in the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self, TypeVar, cast
from urllib.parse import quote

from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fold_session_summary,
)

from sessiontree.adapters.claude_records import (
    AGENT,
    DELETED,
    FIELD,
    SUMMARY,
    Threads,
    Wire,
    record_of,
    thread_of,
)
from sessiontree.adapters.learned import LearnedSession, LearnedSessions, ListedSessions
from sessiontree.adapters.sessions import OpenSessions, append, key_of
from sessiontree.discovery.adapters.records import get_count, get_object, get_text
from sessiontree.errors import SessionNotFoundError, SessionTreeError
from sessiontree.logs import get_logger
from sessiontree.model.entries import LEAF_MARKER, Entry
from sessiontree.profiles import Profile
from sessiontree.session.manager import SessionManager
from sessiontree.stores import Storage
from sessiontree.stores.base import SessionLog

__all__ = ["SessiontreeSessionStore"]

logger = get_logger(__name__)

R = TypeVar("R")


class SessiontreeSessionStore:
    """A ``SessionStore`` of the Claude Agent SDK on any store of Sessiontree.

    ``storage`` is a store, its URL or a storage of bytes, by default the files of ``profile``.
    ``scope`` comes before the project keys, for instance to keep tenants apart.
    """

    def __init__(
        self,
        *,
        storage: Storage | None = None,
        profile: str | Profile | None = None,
        scope: str | None = None,
        delete_permanently: bool = False,
    ) -> None:
        self.scope = scope
        self.delete_permanently = delete_permanently
        self._sessions = OpenSessions(AGENT, storage=storage, profile=profile)
        self.store = self._sessions.store
        """Where the sessions are kept."""
        self._transcripts = LearnedSessions(_Transcript)
        self._listed = ListedSessions(self.store, _read_listed)

    # -- the protocol ----------------------------------------------------------------------

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Keep a batch of records; those with a uuid that the transcript has are passed over."""
        if not entries:
            return
        records = cast("list[Wire]", entries)
        folders = (get_text(each, "cwd") for each in records)
        folder = next((cwd for cwd in folders if cwd and cwd.startswith("/")), None)
        await self._sessions.run(
            key["session_id"],
            lambda session: self._transcripts.of(session).append(key, records),
            scope=self.scope_of(key["project_key"]),
            header={"cwd": folder} if folder is not None else None,
        )

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All records of a transcript, in order; None if there are none."""
        path = key.get("subpath")
        return await self._if_there(key, lambda found: found.load(path)) or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, and when each was written to last."""
        found = await self._sessions.elsewhere(lambda: self._list(project_key))
        return [{"session_id": each.session_id, "mtime": each.written_ms} for each in found]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The summary of each session, as the SDK has made it of the records."""
        found = await self._sessions.elsewhere(lambda: self._list(project_key))
        return [
            {"session_id": each.session_id, "mtime": each.written_ms, "data": each.summary}
            for each in found
        ]

    async def delete(self, key: SessionKey) -> None:
        """Delete a session with its subagents' transcripts, or one of those."""
        path = key.get("subpath")
        if path is not None:
            await self._if_there(key, lambda found: found.delete(path))
            return
        scope = self.scope_of(key["project_key"])
        await self._sessions.elsewhere(
            lambda: self._sessions.delete(
                key["session_id"], permanently=self.delete_permanently, scope=scope
            )
        )

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session's subagents."""
        return await self._if_there(key, _Transcript.subkeys) or []

    # -- its own ---------------------------------------------------------------------------

    def scope_of(self, project_key: str) -> str:
        """The scope of a project's sessions, for ``SessionManager.list`` and ``search``."""
        name = quote(project_key, safe="", errors="surrogatepass")
        return name if self.scope is None else f"{self.scope}/{name}"

    async def aclose(self) -> None:
        """Close all sessions. The store can be used again."""
        await self._sessions.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # -- on a thread -----------------------------------------------------------------------

    async def _if_there(
        self, key: SessionKey | SessionListSubkeysKey, work: Callable[[_Transcript], R]
    ) -> R | None:
        """Return the result of ``work`` for a session that exists."""
        try:
            return await self._sessions.run(
                key["session_id"],
                lambda session: work(self._transcripts.of(session)),
                create=False,
                scope=self.scope_of(key["project_key"]),
            )
        except SessionNotFoundError:
            return None

    def _list(self, project_key: str) -> list[_Listed]:
        return self._listed.of_scope(self.scope_of(project_key))


class _Transcript(LearnedSession):
    """An open session, and the state of its threads."""

    def __init__(self, session: SessionManager) -> None:
        self.session = session
        super().__init__(session)

    def _forget(self) -> None:
        self._threads = Threads()

    def _learn(self, entry: Entry) -> None:
        try:
            self._threads.learn(entry.decode())
        except (SessionTreeError, ValueError, TypeError, KeyError) as error:
            _warn(self.session, entry, error)

    def _note_seen(self, entries: Sequence[Entry]) -> None:
        super()._note_seen(entries)
        self._threads.seen = len(entries)
        self._threads.is_ahead = False

    def catch_up(self) -> Sequence[Entry]:
        if self._threads.is_ahead:
            self._restart()  # what was to be written was not
        return super().catch_up()

    def _append(self, make: Callable[[], Iterable[Wire]]) -> None:
        """Append what ``make`` gives; the conversation goes on where its last record is."""

        def plan() -> list[Wire]:
            self.catch_up()
            made = list(make())
            self._threads.is_ahead = bool(made)
            return made

        if append(self.session, plan):
            tip = self._threads.tip
            if tip is not None:
                self.session.branch(tip)
            self._note_seen(self.session.get_entries())

    def append(self, key: SessionKey, records: list[Wire]) -> None:
        path = key.get("subpath")
        fresh: list[Wire] = []

        def make() -> Iterator[Wire]:
            threads = self._threads
            fresh[:] = _unknown(threads, records, path)
            now_ms = max(self.session.store.clock(), threads.written_ms + 1)
            if path is None:
                yield from self._summarise(key, fresh)
            for record in fresh:
                yield from threads.make(record, path, now_ms)
            if path is not None and fresh and threads.tip is not None:
                # after a crash the last entry is the leaf: not that of a subagent
                yield threads.note(LEAF_MARKER, None)

        self._append(make)
        name = self.session.session_name
        title = self._threads.title_in(fresh, is_named=name is not None)
        if path is None and title is not None and title != name:
            self.session.set_session_name(title)

    def _summarise(self, key: SessionKey, records: list[Wire]) -> Iterator[Wire]:
        """An entry with the SDK's summary, if these records change it."""
        threads = self._threads
        known: SessionSummaryEntry = {
            "session_id": key["session_id"],
            "mtime": threads.written_ms,
            "data": threads.summary,
        }
        folded = fold_session_summary(known, key, cast("list[SessionStoreEntry]", records))
        if folded["data"] != threads.summary:
            yield threads.note(SUMMARY, folded["data"], isSummary=True)

    def load(self, path: str | None) -> list[Any]:
        """The records of a thread, in order; those that cannot be read are left out."""
        found: list[Any] = []
        for entry in self.catch_up():
            try:
                data = entry.decode()
                if _is_deletion(data, path):
                    found.clear()
                elif _is_record(data) and thread_of(data[FIELD]) == path:
                    found.append(record_of(data))
            except (SessionTreeError, ValueError, TypeError, KeyError) as error:
                _warn(self.session, entry, error)
        return found

    def subkeys(self) -> list[str]:
        self.catch_up()
        return [path for path in self._threads.paths if path is not None]

    def delete(self, path: str) -> None:
        def make() -> Iterator[Wire]:
            if path in self._threads.paths:
                yield self._threads.note(DELETED, None, deleted=path)

        self._append(make)


class _Listed:
    """The facts about a session in lists."""

    def __init__(self, session_id: str, written_ms: int, summary: Wire) -> None:
        self.session_id = session_id
        self.written_ms = written_ms
        self.summary = summary


def _read_listed(log: SessionLog) -> _Listed | None:
    """Read from the end: when the conversation was written to last, and its summary."""
    if log.header.get("harness") != AGENT:
        return None
    written_ms, summary = 0, None
    needle = f'"{FIELD}"'.encode()
    for entry in reversed(log.tree.entries):
        if written_ms and summary is not None:
            break
        raw = entry.raw()
        if raw is not None and (needle not in raw or (written_ms and _SUMMARY not in raw)):
            continue
        data = entry.decode()
        kept = get_object(data, FIELD)
        if kept.get("isSummary") is True:
            summary = summary or get_object(data, "data")
        elif not written_ms and _is_record(data) and thread_of(kept) is None:
            written_ms = get_count(kept, "at")
    return _Listed(key_of(log.header), written_ms, summary or {}) if written_ms else None


_SUMMARY = b'"isSummary"'


def _unknown(threads: Threads, records: Iterable[Wire], path: str | None) -> list[Wire]:
    """The records that the thread does not have: a batch may come again, in part or whole."""
    found, uuids = [], set()
    for record in records:
        uuid = get_text(record, "uuid")
        if uuid is not None and (uuid in uuids or threads.has(uuid, path)):
            continue
        uuids.add(uuid)
        found.append(record)
    return found


def _is_record(data: Wire) -> bool:
    kept = get_object(data, FIELD)
    return "at" in kept and kept.get("isPart") is not True


def _is_deletion(data: Wire, path: str | None) -> bool:
    return path is not None and get_object(data, FIELD).get("deleted") == path


def _warn(session: SessionManager, entry: Entry, error: Exception) -> None:
    logger.warning("%s: entry %s left out: %s", session.ref, entry.id, error)
