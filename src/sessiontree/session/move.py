"""Moving an open session to another project: file, artifacts, header; all of it or nothing.

The new file is complete before the old one goes, and the old one goes last. Whatever ends a move
early, Ctrl-C too, what is on disk then decides: as long as the old file is there the move is taken
back, and from then on it is completed. So there is one session at any time, and it is known where.
"""

from __future__ import annotations

import contextlib
import os
from typing import cast

from sessiontree.discovery import paths
from sessiontree.discovery.heads import read_head
from sessiontree.errors import NotASessionError, PersistenceError
from sessiontree.session.live import LiveSession
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.open_elsewhere import find_users
from sessiontree.stores.files.log import SessionLog
from sessiontree.stores.files.moved_file import is_withdrawn, take_name_away
from sessiontree.stores.files.reader import load_document
from sessiontree.stores.place import Place


def move_live(session: LiveSession, place: Place) -> None:
    """Move an open session to another project. PersistenceError, and then it stays where it was."""
    session.log.check()
    if session.log.document is None:
        _move_unwritten(session, place)
        return
    move = _Move(session, place)
    try:
        session.write_header(lambda: session.catch_up(move.run), cwd=place.cwd)
    except BaseException as error:
        if move.is_done:
            session.follow_file(place, move.path)
        if isinstance(error, OSError):
            raise PersistenceError.from_os_error(move.path, error) from error
        raise


def _move_unwritten(session: LiveSession, place: Place) -> None:
    before = session.place
    try:
        _point_at(session, place)
    except BaseException:
        _point_at(session, before)
        raise


def _point_at(session: LiveSession, place: Place) -> None:
    session.change_header(cwd=place.cwd)
    if isinstance(session.log, SessionLog):
        session.log.path = os.path.join(place.session_dir, os.path.basename(session.log.path))
    session.place = place


class _Move:
    """One move of a session that has a file. What it has done so far is told by the disk."""

    def __init__(self, session: LiveSession, place: Place) -> None:
        self._session = session
        self._log = cast("SessionLog", session.log)
        self._place = place
        self._storage = place.storage
        self._old_artifacts = paths.artifacts_dir(self._log.path)
        self._has_artifacts = False
        self._old_file: str | None = None
        self._is_used = False
        self.is_done = False
        self.path = os.path.join(place.session_dir, os.path.basename(self._log.path))

    @property
    def _new_file(self) -> str:
        """A draft moves as a draft."""
        return os.path.join(self._place.session_dir, os.path.basename(self._log.file))

    def run(self) -> None:
        """Do it, or leave things as they were; with the file held. OSError, PersistenceError."""
        try:
            self._run()
            self.is_done = True
        except BaseException:
            self._settle()
            raise

    def _run(self) -> None:
        if self.path == self._log.path:
            self._old_file = self._log.file
            self._session.write_anew()
            self._session.place = self._place
            return
        self._storage.ensure_dir(self._place.session_dir)
        for file in {self.path, self._new_file}:
            if self._storage.exists(file) and not _is_leftover(self._session, file):
                raise PersistenceError(file, "is there already; the session was not moved")
        self._old_file = self._log.file
        self._is_used = isinstance(self._storage, FileSessionStorage) and bool(
            find_users(self._old_file)
        )
        self._session.move(self._place, self.path, self._commit)

    def _commit(self) -> None:
        self._has_artifacts = self._storage.exists(self._old_artifacts)
        if self._has_artifacts:
            self._storage.rename(self._old_artifacts, paths.artifacts_dir(self.path))
        if self._old_file is not None:
            take_name_away(self._storage, self._old_file, self._new_file, leave_link=self._is_used)

    def _settle(self) -> None:
        """It ended early: see whether it is done, and if not take it back."""
        if self._old_file is None:
            return  # not begun
        with contextlib.suppress(OSError):
            if self._old_file == self._new_file:
                head = read_head(self._storage, self._new_file)
                self.is_done = head is not None and head.cwd == self._place.cwd
                return
            self.is_done = is_withdrawn(self._storage, self._old_file)
            if not self.is_done:
                self._take_back()

    def _take_back(self) -> None:
        # also when the rename itself was done and only its sync failed
        if self._has_artifacts and not self._storage.exists(self._old_artifacts):
            with contextlib.suppress(OSError):
                self._storage.rename(paths.artifacts_dir(self.path), self._old_artifacts)
        self._storage.unlink(self._new_file)


def _is_leftover(session: LiveSession, path: str) -> bool:
    """Whether a file is what an earlier, failed move of this session left, and holds no more."""
    try:
        found = load_document(session.place.storage, path)
    except (OSError, NotASessionError):
        return False
    if found is None:
        return True
    found.payloads.reader.close()
    return found.header.get("id") == session.header.get("id") and all(
        entry.id in session.tree.by_id for entry in found.tree.entries
    )
