"""List the sessions of one project or of all (docs/discovery.md).

The figures of a ``SessionInfo`` come from the ``catalogue``; this module decides which files belong
to the listing, which of them are shown, and in what order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from sessiontree.clock import now_ns
from sessiontree.core.gc import with_paused_gc
from sessiontree.discovery.catalogue import OnProgress, Unreadable, survey
from sessiontree.discovery.catalogue.leaves import Status
from sessiontree.discovery.catalogue.summary import Summary
from sessiontree.discovery.last_used import last_use_ms
from sessiontree.discovery.paths import (
    artifacts_dir,
    belongs_to,
    list_session_folders,
    parse_session_file_name,
    session_folders,
)
from sessiontree.discovery.recent import list_session_files
from sessiontree.profiles import Dialect, Profile, get_profile
from sessiontree.storage.base import FileStat, SessionStorage
from sessiontree.storage.file import FileSessionStorage
from sessiontree.text.words import to_moment

if TYPE_CHECKING:  # loaded only when there is a damaged file: listings start quicker
    from sessiontree.discovery.adapters.base import AgentAdapter
    from sessiontree.discovery.moved_projects import MovedProject

NO_MESSAGES = "(no messages)"
_NS_PER_MS = 1_000_000


class SessionInfo:
    """One session in a listing. Times are aware, in UTC."""

    __slots__ = (
        "_text",
        "agent",
        "copy_of",
        "created",
        "cwd",
        "first_message",
        "id",
        "is_kept",
        "is_local",
        "message_count",
        "modified",
        "parent_session",
        "path",
        "size",
        "status",
        "title",
    )

    def __init__(
        self,
        path: str,
        id: str,  # noqa: A002 - the name is fixed
        cwd: str,
        title: str | None,
        parent_session: str | None,
        created: datetime,
        modified: datetime,
        message_count: int,
        first_message: str,
        all_messages_text: str | Callable[[], str],
        size: int,
        status: Status,
        is_local: bool = True,
        agent: str = "",
    ) -> None:
        self.path = path
        self.id = id
        self.cwd = cwd
        self.title = title
        self.parent_session = parent_session
        self.created = created
        self.modified = modified
        self.message_count = message_count
        self.first_message = first_message
        self._text = all_messages_text
        self.size = size
        self.status: Status = status
        self.is_local = is_local
        """Whether the session belongs to the project that was asked about, if one was."""
        self.agent = agent
        """The agent that wrote it, by its name; empty if that was not asked."""
        self.is_kept = False
        """Whether its file is gone, and this is the copy that ``keep`` made."""
        self.copy_of: str | None = None
        """The path of the session of which this is a copy: imported from it, forked, resumed into
        another file. Set where the sessions of agents are listed or found."""

    @property
    def all_messages_text(self) -> str:
        """The text of all user and assistant messages. Read when first asked for, then kept.

        Empty if the file is gone by then.
        """
        if not isinstance(self._text, str):
            self._text = self._text()
        return self._text

    def read_messages_text(self) -> str:
        """Read the same text without caching it, for searches through thousands of sessions."""
        return self._text if isinstance(self._text, str) else self._text()

    @property
    def artifacts_dir(self) -> str:
        return artifacts_dir(self.path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SessionInfo):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _COMPARED)

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in _COMPARED)
        return f"SessionInfo({fields})"


_COMPARED = tuple(name for name in SessionInfo.__slots__ if name not in ("_text", "copy_of"))


class SessionList(list[SessionInfo]):
    """Sessions, newest first, and those that the listing left out.

    ``total`` counts what there is to list, if the list is a part of it; None if that is not known.
    The ``empty_count`` sessions in ``empty`` have no message; ``unreadable`` files could not be
    read or are not sessions; ``moved`` names projects that may be this one under an older path, if
    it has no sessions itself.
    """

    def __init__(self, sessions: Iterable[SessionInfo] = ()) -> None:
        super().__init__(sessions)
        self.total: int | None = None
        self.empty: list[SessionInfo] = []
        self.empty_count = 0
        self.unreadable: list[Unreadable] = []
        self.moved: list[MovedProject] = []

    @property
    def damaged(self) -> list[SessionInfo]:
        """The listed sessions with unreadable parts."""
        return [session for session in self if session.status == "damaged"]


def list_sessions(
    cwd: str | os.PathLike[str],
    session_dir: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
    *,
    profile: str | Profile | None = None,
    storage: SessionStorage | None = None,
) -> SessionList:
    """List the sessions of one project, newest first; those without a message are only counted.

    With an explicit ``session_dir``, list all in it; ``is_local`` marks this project's.
    """
    chosen = get_profile(profile)
    store = storage if storage is not None else FileSessionStorage()
    if session_dir is not None:
        folders = [os.path.abspath(session_dir)]
        listed = _list_folders(folders, on_progress, chosen, store, None)
        belongs = belongs_to(cwd)
        for info in (*listed, *listed.empty):
            info.is_local = belongs(info.cwd)
        return listed
    found = _list_folders(session_folders(chosen, cwd), on_progress, chosen, store, belongs_to(cwd))
    if not found:
        from sessiontree.discovery.moved_projects import find_moved_projects

        found.moved = find_moved_projects(cwd, profile=chosen, storage=store)
    return found


def list_all_sessions(
    on_progress: OnProgress | None = None,
    *,
    profile: str | Profile | None = None,
    storage: SessionStorage | None = None,
) -> SessionList:
    """List the sessions of all projects of a profile, newest first."""
    chosen = get_profile(profile)
    store = storage if storage is not None else FileSessionStorage()
    try:
        folders = sorted(list_session_folders(chosen, store))
    except OSError as error:
        found = SessionList()
        found.unreadable.append(Unreadable(chosen.sessions_dir, error.strerror or str(error)))
        return found
    return _list_folders(folders, on_progress, chosen, store, None)


def make_session_info(
    stat: FileStat,
    summary: Summary,
    dialect: Dialect,
    storage: SessionStorage,
    *,
    adapter: AgentAdapter | None = None,
) -> SessionInfo:
    """Make the listing's line for one summarized file, which ``adapter`` read."""
    path = stat.path
    named = parse_session_file_name(path) if summary.session_id is None else None
    session_id = summary.session_id
    if session_id is None:
        session_id = named[1] if named else os.path.basename(path)
    used_ms = last_use_ms(summary.last_message_ms, summary.timestamp, stat)
    modified = to_moment(min(used_ms * _NS_PER_MS, now_ns()))
    return SessionInfo(
        path,
        session_id,
        summary.cwd,
        summary.title(dialect),
        summary.parent_session,
        _created(summary.timestamp, path) or modified,
        modified,
        summary.message_count,
        NO_MESSAGES if summary.first_message is None else summary.first_message,
        partial(_read_text, storage, path, adapter),
        stat.size,
        summary.status,
        agent=adapter.name if adapter is not None else "",
    )


def in_order(found: Iterable[tuple[FileStat, SessionInfo]]) -> list[SessionInfo]:
    """Sort sessions as listings show them: those used last first.

    A fork has its source's last message, so of several used at the same time creation decides.
    """

    def key(item: tuple[FileStat, SessionInfo]) -> tuple[datetime, datetime, int, str]:
        stat, info = item
        return info.modified, info.created, stat.mtime_ns, stat.path

    return [info for _, info in sorted(found, key=key, reverse=True)]


def _read_text(storage: SessionStorage, path: str, adapter: AgentAdapter | None) -> str:
    from sessiontree.discovery.texts import read_all_text

    return read_all_text(storage, path, adapter)


def _created(timestamp: str | None, path: str) -> datetime | None:
    moment = _parse_time(timestamp)
    if moment is None:
        named = parse_session_file_name(path)
        moment = _parse_time(named[0]) if named else None
    return moment


def _parse_time(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if text else None
        if moment is not None:
            if moment.tzinfo is UTC:
                return moment
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        pass
    return None


@with_paused_gc  # thousands of objects are made, none of them garbage
def _list_folders(
    folders: list[str],
    on_progress: OnProgress | None,
    profile: Profile,
    storage: SessionStorage,
    belongs: Callable[[str], bool] | None,
) -> SessionList:
    made = SessionList()

    def report(folder: str, error: OSError) -> None:
        made.unreadable.append(Unreadable(folder, error.strerror or str(error)))

    files = [stat for folder in folders for stat in list_session_files(storage, folder, report)]
    surveyed = survey(files, storage, on_progress)
    made.unreadable += surveyed.unreadable
    found: list[tuple[FileStat, SessionInfo]] = []
    for stat, summary in surveyed.found:
        if belongs is not None and not belongs(summary.cwd):
            continue
        if summary.is_headless and not summary.message_count:
            made.unreadable.append(Unreadable(stat.path, "no session header"))
        else:
            found.append((stat, make_session_info(stat, summary, profile.dialect, storage)))
    for info in in_order(found):
        (made if info.message_count else made.empty).append(info)
    made.empty_count = len(made.empty)
    return made
