"""Move an open session to another project: file, artifacts, header; all of it or nothing.

The new file is complete before the old one goes, and the old one goes last. Whatever ends a move
early, Ctrl-C too, what is on disk then decides: as long as the old file is there the move is taken
back, and from then on it is completed. So there is one session at any time, and it is known where.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from sessiontree.discovery import paths
from sessiontree.discovery.heads import read_head
from sessiontree.errors import NotASessionError, PersistenceError
from sessiontree.model.header import get_cwd, set_fields
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.open_elsewhere import may_be_written
from sessiontree.stores.files.folders import work_in
from sessiontree.stores.files.moved_file import find_staging, is_withdrawn, take_name_away
from sessiontree.stores.files.reader import load_document

if TYPE_CHECKING:
    from sessiontree.stores.files.log import FileLog


def move_log(log: FileLog, cwd: str, folder: str) -> None:
    """Move an open session to a project. PersistenceError, and then it stays where it was."""
    log.check()
    if log.document is None:
        log.set_header({"cwd": cwd})
        log.path = os.path.join(folder, os.path.basename(log.path))
        return
    move = _Move(log, cwd, folder)
    try:
        log.settle(lambda: log.change_header(move.run, {"cwd": cwd}))
    except BaseException as error:
        if move.is_done:
            log.look_at(move.path)
            set_fields(log.header, {"cwd": cwd})
        if isinstance(error, OSError):
            raise PersistenceError.from_os_error(move.path, error) from error
        raise


class _Move:
    """One move of a session that has a file. The disk shows how far it got."""

    def __init__(self, log: FileLog, cwd: str, folder: str) -> None:
        self._log = log
        self._cwd = cwd
        self._folder = folder
        self._storage = log.store.storage
        self._old_artifacts = paths.artifacts_dir(log.path)
        self._has_artifacts = False
        self._old_file: str | None = None
        self._is_used = False
        self._had_link = False
        self.is_done = False
        self.path = os.path.join(folder, os.path.basename(log.path))

    @property
    def _new_file(self) -> str:
        """A draft moves as a draft."""
        return os.path.join(self._folder, os.path.basename(self._log.file))

    def run(self) -> None:
        """Move, or change nothing; the caller holds the file. OSError, PersistenceError."""
        try:
            self._run()
            self.is_done = True
        except BaseException:
            self._settle()
            raise

    def _run(self) -> None:
        if self.path == self._log.path:
            self._old_file = self._log.file
            self._log.rewrite()
            return
        work_in(self._storage, self._folder, self._write)

    def _write(self) -> None:
        for file in {self.path, self._new_file}:
            if find_staging(self._storage, file) != file:  # a link that an earlier move left
                if file != self._new_file:
                    self._storage.unlink(file)
                continue
            if self._storage.exists(file) and not _is_leftover(self._log, file):
                raise PersistenceError(file, "already exists; the session was not moved")
        self._had_link = find_staging(self._storage, self._new_file) != self._new_file
        self._old_file = self._log.file
        self._is_used = isinstance(self._storage, FileSessionStorage) and may_be_written(
            self._old_file, get_cwd(self._log.header)
        )
        self._log.write_to(self.path, self._commit)

    def _commit(self) -> None:
        self._has_artifacts = self._storage.exists(self._old_artifacts)
        if self._has_artifacts:
            self._storage.rename(self._old_artifacts, paths.artifacts_dir(self.path))
        if self._old_file is not None:
            take_name_away(self._storage, self._old_file, self._new_file, leave_link=self._is_used)

    def _settle(self) -> None:
        """After an early end, check whether the move is complete, and if not undo it."""
        if self._old_file is None:
            return  # not begun
        with contextlib.suppress(OSError):
            if self._old_file == self._new_file:
                head = read_head(self._storage, self._new_file)
                self.is_done = head is not None and head.cwd == self._cwd
                return
            self.is_done = is_withdrawn(self._storage, self._old_file)
            if not self.is_done:
                self._take_back()

    def _take_back(self) -> None:
        # also when the rename itself was done and only its sync failed
        if self._has_artifacts and not self._storage.exists(self._old_artifacts):
            with contextlib.suppress(OSError):
                self._storage.rename(paths.artifacts_dir(self.path), self._old_artifacts)
        if not self._had_link:
            self._storage.unlink(self._new_file)
        elif self._old_file is not None and not os.path.islink(self._new_file):
            # others have found the session through a link there, and go on doing so
            take_name_away(self._storage, self._new_file, self._old_file, leave_link=True)


def _is_leftover(log: FileLog, path: str) -> bool:
    """Whether a file is what an earlier, failed move of this session left, and holds no more."""
    try:
        found = load_document(log.store.storage, path)
    except (OSError, NotASessionError):
        return False
    if found is None:
        return True
    found.payloads.reader.close()
    return found.header.get("id") == log.header.get("id") and all(
        entry.id in log.tree.by_id for entry in found.tree.entries
    )
