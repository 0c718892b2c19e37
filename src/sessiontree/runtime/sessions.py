"""Fresh session managers beside the one in use.

Owns how a session is made "like this one": same profile, storage, folder and durability. Each
function leaves the session it is given untouched, so that a move which fails has nothing to undo.
Synchronous: all of it runs on the disk thread.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

from sessiontree.discovery import paths
from sessiontree.discovery.breadcrumbs import write_breadcrumb
from sessiontree.errors import PersistenceError, SessionTreeError
from sessiontree.profiles import Profile
from sessiontree.session.manager import SessionManager
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.files.log import Durability


class NothingToForkError(SessionTreeError):
    """The session is kept nowhere, or holds nothing yet."""

    def __init__(self) -> None:
        super().__init__("Nothing to fork: the session is not on disk")


@dataclass(frozen=True, slots=True)
class SessionSource:
    """Makes sessions of one kind."""

    profile: Profile
    storage: SessionStorage
    durability: Durability
    session_dir: str | None
    """The folder for all sessions, if there is an explicit one."""

    @classmethod
    def of(cls, manager: SessionManager) -> SessionSource:
        """The kind of session that this manager stands on."""
        return cls(
            manager.profile,
            manager.storage if manager.is_persisted else FileSessionStorage(),
            manager.durability,
            manager.session_dir if manager.has_explicit_dir else None,
        )

    def create(self, cwd: str) -> SessionManager:
        """A new session of this project."""
        return SessionManager.create(
            cwd,
            self.session_dir,
            profile=self.profile,
            storage=self.storage,
            durability=self.durability,
        )

    def start_new(self, like: SessionManager, parent_session: str | None) -> SessionManager:
        """A new session, kept where the present one is kept (or nowhere, as that one)."""
        if like.is_persisted:
            fresh = self.create(like.cwd)
        else:
            fresh = SessionManager.in_memory(like.cwd, profile=self.profile)
        if parent_session is not None:
            fresh.new_session(parent_session)
        return fresh

    def open(self, path: str, like: SessionManager) -> SessionManager:
        """The session in a file. The present one's file gives it again, at the same leaf."""
        fresh = self.create(like.cwd)
        fresh.set_session_file(path)
        if like.session_file is not None and fresh.session_file == like.session_file:
            _stand_at(fresh, like.leaf_id)
        return fresh

    def fork(self, like: SessionManager) -> SessionManager:
        """A copy of the present session in a new file, at the same leaf. NothingToForkError."""
        fresh = self._second(like)
        if fresh is None or fresh.fork() is None:
            raise NothingToForkError
        _stand_at(fresh, like.leaf_id)
        return fresh

    def copy(self, path: str, like: SessionManager) -> SessionManager:
        """A copy of the session in a file, in the present one's project; the file is only read."""
        return SessionManager.fork_from(
            path,
            like.cwd,
            self.session_dir,
            profile=self.profile,
            storage=self.storage,
            durability=self.durability,
        )

    def branch(self, like: SessionManager, leaf_id: str | None) -> SessionManager:
        """A new session with just the path to ``leaf_id``; with nothing, for None."""
        if leaf_id is None:
            return self.start_new(like, like.session_file)
        fresh = self._second(like)
        if fresh is None:
            # Kept nowhere, so there is no file to open twice; but leaving such a session changes
            # nothing in it, and both managers may stand on it.
            fresh = copy.copy(like)
        fresh.create_branched_session(leaf_id)
        return fresh

    def discard(self, manager: SessionManager, kept: SessionManager) -> None:
        """Leave a session that was opened in vain; ``kept`` is used on, maybe in the same file."""
        if manager.session_file is None or manager.session_file != kept.session_file:
            manager.close()

    def discard_copy(self, manager: SessionManager, kept: SessionManager) -> None:
        """Leave a fork or branch that was made in vain, and remove its file."""
        if manager.session_file == kept.session_file:
            return
        manager.close()
        if manager.session_file is not None:
            self.storage.unlink(manager.session_file)
            self.storage.unlink(paths.draft_path(manager.session_file))

    def leave_breadcrumb(self, manager: SessionManager) -> None:
        """This terminal works on ``manager``'s session (again)."""
        if manager.session_file is not None and isinstance(self.storage, FileSessionStorage):
            write_breadcrumb(manager.profile, manager.cwd, manager.session_file)

    def _second(self, like: SessionManager) -> SessionManager | None:
        """Another manager on the present session's file; None if there is no file."""
        file = like.session_file
        if file is None:
            return None
        try:
            is_there = any(map(self.storage.exists, (file, paths.draft_path(file))))
        except OSError as error:
            raise PersistenceError.from_os_error(file, error) from error
        if not is_there:
            raise NothingToForkError
        fresh = self.create(like.cwd)
        fresh.set_session_file(file)
        return fresh


def _stand_at(manager: SessionManager, leaf_id: str | None) -> None:
    if manager.leaf_id == leaf_id:
        return
    if leaf_id is None:
        manager.reset_leaf()
    elif manager.get_entry(leaf_id) is not None:
        manager.branch(leaf_id)
