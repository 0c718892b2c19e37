"""The disk side of a session picker: listing, renaming and removing sessions, each with its undo.

Synchronous: pickers run all of it in threads. Listing never writes; renaming appends to the
session's log, and removing moves the session to the trash.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from sessiontree.discovery.listing import SessionInfo, SessionList
from sessiontree.discovery.paths import belongs_to, session_folders
from sessiontree.discovery.recent import RecentSessionInfo, get_recent_sessions
from sessiontree.discovery.texts import read_all_text
from sessiontree.errors import SessionTreeError
from sessiontree.maintenance.renaming import rename_session
from sessiontree.scope import Scope
from sessiontree.stores.files.store import FileStore
from sessiontree.tui import safe_text

Breadth = Literal["project", "all", "agents"]
"""What Tab switches between: this project, all projects, all projects of all agents."""
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

    def __init__(self, scope: Scope, candidates: Sequence[SessionInfo] | None = None) -> None:
        self.scope = scope
        self.candidates = candidates

    @property
    def breadths(self) -> tuple[Breadth, ...]:
        """What there is to switch between; nothing if the caller gave the candidates."""
        if self.candidates is not None:
            return ("all",)
        return ("project", "all", "agents") if self.scope.others else ("project", "all")

    # -- looking ---------------------------------------------------------------------------------

    def glance(self, breadth: Breadth) -> list[SessionInfo]:
        """List the newest few sessions: of files their beginnings, quick but incomplete."""
        if self.candidates is not None:
            return list(self.candidates)
        scope, files = self._reaching(breadth), self.scope.files
        if files is None:
            return list(scope.list(limit=_GLANCE))
        if scope.session_dir is not None and breadth == "project":
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

    def load(self, breadth: Breadth, on_progress: Progress | None = None) -> SessionList:
        """List all sessions of this breadth. Raises errors of the store."""
        if self.candidates is not None:
            return SessionList(self.candidates)
        return self._reaching(breadth).list(on_progress)

    def _reaching(self, breadth: Breadth) -> Scope:
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
        store = self.scope.store_of(info.path)
        item = store.delete(info.path)
        assert item is not None
        trash_id = item.id

        def take_back() -> str:
            store.restore(trash_id)
            return "Restored from the trash"

        return Undo("removed", info.path, take_back)


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
