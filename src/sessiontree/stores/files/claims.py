"""Claim ids that callers choose: find their sessions, and give an id to one of several callers.

A session's file is named after its time and its id, so that two with one id can lie side by side. A
process that chooses an id therefore looks and writes its draft while it holds one lock for all ids
of the folder tree; the lock is an empty file, `.ids.lock`, which stays."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sessiontree.discovery import paths
from sessiontree.discovery.heads import read_head
from sessiontree.errors import PersistenceError, SessionExistsError
from sessiontree.model.header import get_scope
from sessiontree.storage.regular import leads_beside
from sessiontree.stores.base import Ref

if TYPE_CHECKING:
    from sessiontree.stores.files.log import FileLog
    from sessiontree.stores.files.store import FileStore

_LOCK = ".ids.lock"


def claim_id(log: FileLog) -> None:
    """Write the draft of a new session with nothing in it, unless another one has its id.

    Raises SessionExistsError, SessionBusyError, PersistenceError.
    """
    store = log.store
    session_id = log.header.get("id", "")
    scope = get_scope(log.header)
    folder = store.folder_for(log.header.get("cwd", ""), scope) if scope else store.root
    try:
        store.storage.ensure_dir(folder)
        with contextlib.closing(store.storage.open_writer(os.path.join(folder, _LOCK))) as gate:
            gate.lock()
            taken = find_id(store, session_id, scope)
            if taken is not None:
                raise SessionExistsError(session_id, taken)
            log.start()
            log.is_touched = True  # without entries, closing removes it
    except OSError as error:
        raise PersistenceError.from_os_error(folder, error) from error


def find_id(store: FileStore, session_id: str, scope: str | None) -> Ref | None:
    """The file, or the draft, of the session that has exactly this id; the newest of several."""
    found = [
        path
        for folder in store.folders(scope)
        for path in _candidates(store, folder)
        if _has_id(store, path, session_id)
    ]
    return max(found, key=os.path.basename, default=None)


def _candidates(store: FileStore, folder: str) -> Iterator[str]:
    """Session files, and drafts that have none yet.

    A draft without a header is one that its owner is just about to begin, or that a crash left:
    no process may open it yet. To claim the id means to wait for the lock, and to look again.
    """
    try:
        names = set(store.storage.list_names(folder))
    except OSError:
        return
    for name in names:
        if name.startswith("."):
            target = paths.session_of_draft(name)
            if target is not None and target not in names and _has_begun(store, folder, name):
                yield os.path.join(folder, target)
        elif name.endswith(paths.SESSION_SUFFIX):
            path = os.path.join(folder, name)
            if not leads_beside(path):
                yield path


def _has_begun(store: FileStore, folder: str, draft: str) -> bool:
    try:
        return store.storage.stat(os.path.join(folder, draft)).size > 0
    except OSError:  # by now it has its file, or is gone
        return True


def _has_id(store: FileStore, path: str, session_id: str) -> bool:
    named = paths.parse_session_file_name(path)
    if named is not None:
        return named[1] == session_id
    for file in (path, paths.draft_path(path)):
        with contextlib.suppress(OSError):
            head = read_head(store.storage, file)
            return head is not None and head.session_id == session_id
    return False
