"""Fresh session managers beside the one in use.

A new session is made "like this one": same profile, store, folder and durability. Each function
leaves the session it is given untouched, so that a move which fails has nothing to undo. None of
them writes the terminal's breadcrumb: the move does, once it has succeeded. Synchronous: all of it
runs on the disk thread.
"""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass

from sessiontree.errors import SessionTreeError
from sessiontree.session.manager import SessionManager
from sessiontree.stores import choose_store
from sessiontree.stores.base import Durability, SessionStore
from sessiontree.stores.finding import ref_of_path, with_given_profile
from sessiontree.stores.identity import new_header


class NothingToForkError(SessionTreeError):
    """The session is kept nowhere, or holds nothing yet."""

    def __init__(self) -> None:
        super().__init__("Nothing to fork: the session is not on disk")


@dataclass(frozen=True, slots=True)
class SessionSource:
    """Makes sessions of one kind."""

    store: SessionStore
    durability: Durability

    @classmethod
    def of(cls, manager: SessionManager) -> SessionSource:
        """The kind of session that this manager works on; files, if that one is kept nowhere."""
        store = manager.store
        if not store.is_kept:
            store = choose_store(None, manager.profile)
        # the profile was given for this session; of another file its folder says whose it is
        return cls(with_given_profile(store, False), manager.durability)

    def ref_of(self, path: str | os.PathLike[str]) -> str:
        """The store's ref for a path: of files the absolute path, else the given value."""
        return ref_of_path(self.store, path)

    def start_new(self, like: SessionManager, parent_session: str | None) -> SessionManager:
        """A new session, kept where the present one is kept (or nowhere, as that one)."""
        store = self.store if like.is_persisted else like.store
        header = new_header(
            store,
            like.cwd,
            parent_session=parent_session,
            scope=like.scope,
        )
        log = store.create(header, durability=self.durability)
        return SessionManager(log, like.cwd, leaves_breadcrumb=False)

    def open(self, path: str, like: SessionManager) -> SessionManager:
        """The session of a path or ref. The present one's gives it again, at the same leaf."""
        fresh = self._open(path, like)
        if like.session_file is not None and fresh.session_file == like.session_file:
            _restore_leaf(fresh, like.leaf_id)
        return fresh

    def fork(self, like: SessionManager) -> SessionManager:
        """A copy of the present session in a new file, at the same leaf. NothingToForkError."""
        fresh = self._second(like)
        if fresh is None or fresh.fork() is None:
            raise NothingToForkError
        _restore_leaf(fresh, like.leaf_id)
        return fresh

    def copy(self, path: str, like: SessionManager) -> SessionManager:
        """A copy of the session in a file, in the present one's project; the file is only read."""
        log = self.store.fork(path, like.cwd, durability=self.durability)
        return SessionManager(log, like.cwd, leaves_breadcrumb=False)

    def branch(self, like: SessionManager, leaf_id: str | None) -> SessionManager:
        """Make a new session with just the path to ``leaf_id``; an empty one for None."""
        if leaf_id is None:
            return self.start_new(like, like.session_file)
        fresh = self._second(like)
        if fresh is None:
            # Kept nowhere, so it cannot be opened twice; but leaving such a session changes
            # nothing in it, and both managers may use it.
            fresh = copy.copy(like)
        fresh.create_branched_session(leaf_id)
        return fresh

    def discard(self, manager: SessionManager, kept: SessionManager) -> None:
        """Close a session that is not needed after all; ``kept`` stays in use, maybe on the same
        file."""
        if manager.session_file is None or manager.session_file != kept.session_file:
            manager.close()

    def discard_copy(self, manager: SessionManager, kept: SessionManager) -> None:
        """Close and remove a fork or branch that is not needed after all."""
        if manager.session_file != kept.session_file:
            manager.discard()

    def _second(self, like: SessionManager) -> SessionManager | None:
        """Another manager on the present session; None if that is kept nowhere."""
        ref = like.session_file
        if ref is None:
            return None
        if not self.store.exists(ref):
            raise NothingToForkError
        return self._open(ref, like)

    def _open(self, path: str, like: SessionManager) -> SessionManager:
        log = self.store.open(path, cwd=like.cwd, durability=self.durability)
        return SessionManager(log, like.cwd, leaves_breadcrumb=False)


def _restore_leaf(manager: SessionManager, leaf_id: str | None) -> None:
    if manager.leaf_id == leaf_id:
        return
    if leaf_id is None:
        manager.reset_leaf()
    elif manager.get_entry(leaf_id) is not None:
        manager.branch(leaf_id)
