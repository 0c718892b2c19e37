"""Write new session files from known entries, for forks and branched sessions.

Entries that need no change are copied byte for byte. A new file is written whole before anything
refers to it, and removed again if it is not used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from sessiontree.discovery import paths
from sessiontree.errors import PersistenceError
from sessiontree.model import codec
from sessiontree.model.entries import Entry
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.blobs import BlobStore
from sessiontree.stores.base import Announce
from sessiontree.stores.files.document import SessionDocument, document_of_copy
from sessiontree.stores.files.folders import work_in
from sessiontree.stores.files.log import FileLog


def write_copy(
    log: FileLog,
    entries: Sequence[Entry],
    *,
    artifacts: str | None = None,
    source_blobs: BlobStore | None = None,
    announce: Announce | None = None,
) -> FileLog:
    """Write a new session's file with known entries; ``artifacts`` are copied beside it."""
    storage = log.store.storage
    head = codec.encode(log.header) + b"\n"

    def write() -> SessionDocument:
        written = work_in(
            storage,
            os.path.dirname(log.path),
            lambda: log.filer.write_file(
                log.file, head, entries, source_blobs=source_blobs, durable=False
            ),
        )
        return document_of_copy(
            storage, log.file, log.header, head, written.placed(), log.filer.blobs
        )

    return settle_copy(log, write, artifacts=artifacts, announce=announce)


def settle_copy(
    log: FileLog,
    write: Callable[[], SessionDocument],
    *,
    artifacts: str | None = None,
    announce: Announce | None = None,
) -> FileLog:
    """Put a log on the file that ``write`` leaves, with copies of ``artifacts`` beside it.

    It is on the medium only after ``flush``: until then its source is still there. If anything
    fails, nothing of it is left. ``announce`` is called with it before anything of it is on disk,
    so that a caller can remove a copy that it doesn't use.
    """
    if announce is not None:
        announce(log)
    try:
        document = write()
        if artifacts is not None:
            copy_folder(log.store.storage, artifacts, paths.artifacts_dir(log.path))
        log.adopt(document, is_draft=log.is_draft)
        log.note_new_name()
    except BaseException as error:
        log.destroy()
        if isinstance(error, OSError):
            raise PersistenceError.from_os_error(log.file, error) from error
        raise
    return log


def finish_copy(copy: FileLog, step: Callable[[], object]) -> None:
    """The last step of a copy; if it fails, the copy is removed again."""
    try:
        step()
    except BaseException:
        copy.destroy()
        raise


def copy_folder(storage: SessionStorage, source: str, target: str) -> int:
    """Copy a folder's files, including subfolders; return how many. Links are not followed."""
    count = 0
    for file in storage.list_files(source):
        if not os.path.islink(file.path):
            storage.ensure_dir(target)
            name = os.path.basename(file.path)
            storage.write_atomic(os.path.join(target, name), storage.read(file.path))
            count += 1
    for folder in storage.list_dirs(source):
        if not os.path.islink(folder):
            count += copy_folder(storage, folder, os.path.join(target, os.path.basename(folder)))
    return count
