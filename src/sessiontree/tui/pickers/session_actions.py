"""The disk side of a session picker: listing, renaming and removing sessions, each with its undo.

Synchronous: pickers run all of it in threads. Listing never writes; renaming appends to the
session's log, and removing moves the session to the trash.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from sessiontree.discovery.adapters import get_adapter
from sessiontree.discovery.listing import SessionInfo, SessionList
from sessiontree.discovery.native_agent import NativeCommand, native_command
from sessiontree.discovery.paths import belongs_to, list_session_folders, session_folders
from sessiontree.discovery.recent import RecentSessionInfo, get_recent_sessions
from sessiontree.discovery.sources import find_sources
from sessiontree.discovery.texts import read_all_text
from sessiontree.errors import SessionTreeError
from sessiontree.profiles import PROFILE_NAMES
from sessiontree.scope import Scope
from sessiontree.stores.files.store import FileStore
from sessiontree.tui import safe_text

Breadth = Literal["folder", "project", "all", "agents"]
"""What Tab switches between: the open session's folder (unless it is a usual one), this project,
all projects, all projects of all agents."""
Progress = Callable[[int, int], object]

_GLANCE = 40
_SHOWN_NAME = 50


@dataclass(frozen=True, slots=True)
class Undo:
    """The undoing of the last change, and the notice about it."""

    what: str
    path: str
    run: Callable[[], str]
    """Undo the change; return the words that report it."""


class SessionShelf:
    """List, rename and remove the sessions that a picker offers."""

    def __init__(
        self,
        scope: Scope,
        candidates: Sequence[SessionInfo] | None = None,
        folder: str | None = None,
    ) -> None:
        """``folder`` is listed first, as if it was a project: where a session lies."""
        self.scope = scope
        self.candidates = candidates
        self.folder = folder
        self._has_others: bool | None = None

    @property
    def breadths(self) -> tuple[Breadth, ...]:
        """The breadths to switch between; none if the caller gave the candidates."""
        if self.candidates is not None:
            return ("all",)
        has_others = bool(self.scope.others) if self._has_others is None else self._has_others
        near: tuple[Breadth, ...] = ("project", "all")
        near = ("folder", *near) if self.folder is not None else near
        return (*near, "agents") if has_others else near

    def look_for_others(self) -> bool:
        """Find out whether any other agent has sessions, of all that have an adapter."""
        if self.candidates is None and self._has_others is None and self.scope.files is not None:
            own = self.scope.profile.name
            self._has_others = any(
                next(source.places.files(), None) is not None
                for source in find_sources("all")
                if source.adapter.name != own
            )
        return bool(self._has_others)

    def expect_others(self) -> bool:
        """Offer all agents, as soon as one is asked for by its name; False if there are none."""
        if self.candidates is None and self.scope.files is not None and self._has_others is None:
            self._has_others = True
        return bool(self._has_others)

    def expect_none_else(self) -> None:
        """Offer other agents no longer: none was found."""
        self._has_others = False

    @property
    def is_surely_bare(self) -> bool:
        """Whether the profile has no session in any project, as one look at its folder tells."""
        scope = self.scope
        if self.candidates is not None or self.folder is not None or scope.session_dir is not None:
            return False
        files = scope.files
        try:
            return files is not None and not list_session_folders(scope.profile, files.storage)
        except OSError:  # what can't be looked at may have some
            return False

    def is_foreign(self, info: SessionInfo) -> bool:
        """Whether the session belongs to another agent than the one whose sessions these are."""
        return self.scope.url is None and self.scope.agent_of(info) != self.scope.profile.name

    # -- looking ---------------------------------------------------------------------------------

    def glance(self, breadth: Breadth) -> list[SessionInfo]:
        """List the newest few sessions: of files their beginnings, quick but incomplete."""
        if self.candidates is not None:
            return list(self.candidates)
        scope, files = self.reaching(breadth), self.scope.files
        if files is None:
            return list(scope.list(limit=_GLANCE))
        if breadth == "agents":
            return self._glance_at_agents()
        if breadth == "folder" and self.folder is not None:
            folders, belongs = [self.folder], None
        elif scope.session_dir is not None and breadth == "project":
            folders, belongs = [scope.session_dir], None
        elif breadth == "project":
            folders, belongs = session_folders(scope.profile, scope.cwd), belongs_to(scope.cwd)
        else:
            folders, belongs = self._newest_folders(files, scope), None
        found = [
            recent
            for folder in folders
            for recent in get_recent_sessions(folder, _GLANCE, storage=files.storage)
            if recent.head is not None and recent.head.first_prompt is not None
            if belongs is None or belongs(recent.cwd)
        ]
        found.sort(key=lambda recent: recent.modified, reverse=True)
        return [_as_info(recent, files) for recent in found[:_GLANCE]]

    def _glance_at_agents(self) -> list[SessionInfo]:
        """The newest few sessions of all agents, by their files' times."""
        sources = find_sources("all")
        newest = sorted(
            (
                (stat.mtime_ns, number, stat)
                for number, source in enumerate(sources)
                for stat in source.places.files()
                if stat.path not in source.places.parts
            ),
            key=lambda each: each[:2],
            reverse=True,
        )[:_GLANCE]
        found = [
            source.make_info(stat, summary)
            for number, source in enumerate(sources)
            for stat, summary in source.survey_some(
                [stat for _, of, stat in newest if of == number]
            ).found
            if summary.message_count
        ]
        return sorted(found, key=lambda info: info.modified, reverse=True)

    def load(self, breadth: Breadth, on_progress: Progress | None = None) -> SessionList:
        """List all sessions of this breadth. Raises errors of the store."""
        if self.candidates is not None:
            return SessionList(self.candidates)
        if breadth == "folder" and self.folder is not None:
            store = FileStore(profile=self.scope.profile, session_dir=self.folder)
            return store.list(None, on_progress=on_progress)
        return self.reaching(breadth).list(on_progress)

    def reaching(self, breadth: Breadth) -> Scope:
        """The scope with the sessions of this breadth."""
        if breadth == "project":
            return self.scope.reaching("project")
        return self.scope.reaching("all", agents="all" if breadth == "agents" else None)

    def _newest_folders(self, files: FileStore, scope: Scope) -> list[str]:
        folders = [
            folder
            for store in scope.stores
            for folder in files.storage.list_dirs(store.profile.sessions_dir)
        ]
        # Reading a few of each would be slow with hundreds of projects: the newest folders do.
        return sorted(folders, key=_folder_time, reverse=True)[:10]

    # -- changing --------------------------------------------------------------------------------

    def rename(self, info: SessionInfo, name: str) -> Undo:
        """Rename a session; an empty name clears it. Raises SessionTreeError, OSError."""
        from sessiontree.maintenance.annotations import rename_session  # slow to load

        self._check_is_ours(info, "rename")
        before = info.title or ""
        store = self.scope.store_of(info.path)
        rename_session(store, info.path, name)

        def take_back() -> str:
            rename_session(store, info.path, before)
            shown = safe_text.fit(safe_text.one_line(before), _SHOWN_NAME)
            return f"The name is {shown} again" if before else "The name is gone again"

        return Undo("renamed", info.path, take_back)

    def remove(self, info: SessionInfo) -> Undo:
        """Move a session to the trash. Raises SessionTreeError, OSError."""
        self._check_is_ours(info, "remove")
        store = self.scope.store_of(info.path)
        item = store.delete(info.path)
        assert item is not None
        trash_id = item.id

        def take_back() -> str:
            store.restore(trash_id)
            return "Restored from the trash"

        return Undo("removed", info.path, take_back)

    def _check_is_ours(self, info: SessionInfo, verb: str) -> None:
        """Raise SessionTreeError for a session of a program whose files are only read."""
        agent = self.scope.agent_of(info)
        if self.scope.url is None and agent not in PROFILE_NAMES:
            title = get_adapter(agent).title
            raise SessionTreeError(f"Only {title} itself can {verb} its sessions")

    # -- sessions of other agents ----------------------------------------------------------------

    def command_of(self, info: SessionInfo) -> NativeCommand:
        """Return how to open a session in its own agent. Raises NoNativeCommandError."""
        return native_command(self.scope.agent_of(info), info.path, info.id, info.cwd or None)

    def continue_here(self, info: SessionInfo) -> str:
        """Return the file to continue a session in: its own, or a copy in our format.

        Raises SessionTreeError.
        """
        agent = self.scope.agent_of(info)
        if agent in PROFILE_NAMES:
            return info.path
        from sessiontree.importers.imports import import_session

        return import_session(info.path, agent=agent, storage=self.scope.store).path


def _as_info(recent: RecentSessionInfo, files: FileStore) -> SessionInfo:
    path, head = recent.path, recent.head
    return SessionInfo(
        path,
        recent.id,
        recent.cwd,
        recent.title,
        None,
        recent.modified,
        recent.modified,
        0,
        (head.first_prompt if head else None) or "",
        lambda: read_all_text(files.storage, path),
        0,
        "complete",
    )


def explain_failure(error: Exception) -> str:
    """Explain a failed change in one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


CHANGE_ERRORS = (SessionTreeError, OSError, ValueError)
"""The errors that a change may raise."""


def _folder_time(folder: str) -> float:
    try:
        return os.stat(folder).st_mtime
    except OSError:
        return 0.0


def unread_texts(
    infos: Iterable[SessionInfo], has_text: Callable[[str], bool]
) -> list[SessionInfo]:
    """List the sessions whose text is not known yet, newest first."""
    missing = [info for info in infos if not has_text(info.path)]
    return sorted(missing, key=lambda info: info.modified, reverse=True)
