"""The disk side of a session picker: listing, renaming and removing sessions, each with its undo.

Synchronous: pickers run all of it in threads. Listing never writes; renaming appends to the
session's log, and removing moves the session to the trash.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from sessiontree.discovery.listing import SessionInfo, SessionList, list_all_sessions, list_sessions
from sessiontree.discovery.paths import belongs_to, session_folders
from sessiontree.discovery.recent import RecentSessionInfo, get_recent_sessions
from sessiontree.discovery.search.texts import read_all_text
from sessiontree.errors import SessionTreeError
from sessiontree.maintenance.renaming import rename_session
from sessiontree.profiles import Profile, list_profiles
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.files.trash import TrashItem, move_to_trash, restore
from sessiontree.tui import safe_text

Scope = Literal["project", "all", "agents"]
"""This project, all projects of the profile, or all agents of this user."""
Progress = Callable[[int, int], object]

_GLANCE = 40
_SHOWN_NAME = 50


@dataclass(frozen=True, slots=True)
class Undo:
    """How to undo the last change, and how to report that."""

    what: str
    path: str
    run: Callable[[], str]
    """Undo the change; return the words that report it."""


class SessionShelf:
    """List, rename and remove the sessions that a picker offers."""

    def __init__(
        self,
        cwd: str,
        profile: Profile,
        session_dir: str | None = None,
        candidates: Sequence[SessionInfo] | None = None,
    ) -> None:
        self.cwd = cwd
        self.profile = profile
        self.session_dir = session_dir
        self.candidates = candidates
        self._storage = FileSessionStorage()
        self._others = [
            one
            for one in list_profiles()
            if one.sessions_dir != profile.sessions_dir
            and self._storage.list_dirs(one.sessions_dir)
        ]

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes to switch between; only one if the caller gave the candidates."""
        if self.candidates is not None:
            return ("all",)
        return ("project", "all", "agents") if self._others else ("project", "all")

    def profile_of(self, path: str) -> Profile:
        """Find the profile in whose folders a session lies."""
        for one in self._others:
            if path.startswith(os.path.join(one.sessions_dir, "")):
                return one
        return self.profile

    # -- looking ---------------------------------------------------------------------------------

    def glance(self, scope: Scope) -> list[SessionInfo]:
        """List the newest few sessions by the beginnings of their files: quick, but incomplete."""
        if self.candidates is not None:
            return list(self.candidates)
        if self.session_dir is not None and scope == "project":
            folders, belongs = [self.session_dir], None
        elif scope == "project":
            folders, belongs = session_folders(self.profile, self.cwd), belongs_to(self.cwd)
        else:
            profiles = [self.profile, *(self._others if scope == "agents" else ())]
            folders, belongs = self._newest_folders(profiles), None
        found = [
            recent
            for folder in folders
            for recent in get_recent_sessions(folder, _GLANCE, storage=self._storage)
            if recent.head is not None and recent.head.first_prompt is not None
            if belongs is None or belongs(recent.cwd)
        ]
        found.sort(key=lambda recent: recent.modified, reverse=True)
        return [self._as_info(recent) for recent in found[:_GLANCE]]

    def load(self, scope: Scope, on_progress: Progress | None = None) -> SessionList:
        """List all sessions of the scope. Raises errors of the storage."""
        if self.candidates is not None:
            return SessionList(self.candidates)
        if scope == "project":
            return list_sessions(self.cwd, self.session_dir, on_progress, profile=self.profile)
        found = list_all_sessions(on_progress, profile=self.profile)
        if scope == "agents":
            for other in self._others:
                theirs = list_all_sessions(on_progress, profile=other)
                found += theirs
                found.unreadable += theirs.unreadable
                found.empty_count += theirs.empty_count
        return found

    def _newest_folders(self, profiles: Sequence[Profile]) -> list[str]:
        folders = [
            folder for one in profiles for folder in self._storage.list_dirs(one.sessions_dir)
        ]
        # Reading a few of each would be slow with hundreds of projects: the newest folders do.
        return sorted(folders, key=_folder_time, reverse=True)[:10]

    def _as_info(self, recent: RecentSessionInfo) -> SessionInfo:
        path, head = recent.path, recent.head
        storage = self._storage
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
            lambda: read_all_text(storage, path),
            0,
            "complete",
        )

    # -- changing --------------------------------------------------------------------------------

    def rename(self, info: SessionInfo, name: str) -> Undo:
        """Rename a session; an empty name clears it. Raises SessionTreeError, OSError."""
        before = info.title or ""
        rename_session(self._storage, info.path, name)

        def take_back() -> str:
            rename_session(self._storage, info.path, before)
            shown = safe_text.fit(safe_text.one_line(before), _SHOWN_NAME)
            return f"The name is {shown} again" if before else "The name is gone again"

        return Undo("renamed", info.path, take_back)

    def remove(self, info: SessionInfo) -> Undo:
        """Move a session to the trash. Raises SessionTreeError, OSError."""
        item: TrashItem = move_to_trash(info.path, profile=self.profile_of(info.path))

        def take_back() -> str:
            restore(item)
            return "Restored from the trash"

        return Undo("removed", info.path, take_back)


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
