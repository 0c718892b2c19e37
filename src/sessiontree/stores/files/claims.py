"""Claim ids that callers choose: find their sessions, and give an id to one of several callers.

A session's file is named after its time and its id, so that two with one id can lie side by side. A
process that chooses an id therefore looks and writes its draft while it holds one lock for all ids
of the folder tree; the lock is an empty file, `.ids.lock`. It stays, but for that of a scope, which
goes with the scope's last session: a process that waited for it finds it without its name, and
begins again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from sessiontree.discovery import paths
from sessiontree.discovery.heads import read_head
from sessiontree.errors import PersistenceError, SessionBusyError, SessionExistsError
from sessiontree.model.header import get_scope
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.regular import leads_beside
from sessiontree.stores.base import Ref
from sessiontree.stores.files.folders import work_in

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

    def claim() -> None:
        taken = find_id(store, session_id, scope)
        if taken is not None:
            raise SessionExistsError(session_id, taken)
        log.start()
        log.is_touched = True  # without entries, closing removes it

    try:
        work_in(store.storage, folder, partial(_hold_ids, store.storage, folder, claim))
    except OSError as error:
        raise PersistenceError.from_os_error(folder, error) from error


def _hold_ids(storage: SessionStorage, folder: str, work: Callable[[], None]) -> None:
    """Do something while no other process claims an id in the folder. Raises FileNotFoundError."""
    while True:
        with contextlib.closing(storage.open_writer(os.path.join(folder, _LOCK))) as gate:
            if gate.lock() is not None:
                work()
                return


def remove_empty_scope(storage: SessionStorage, folder: str) -> bool:
    """Remove the folder of a scope, if nothing but the lock is left in it; whether it is gone.

    Without a session nothing shall say that there was such a scope. Best effort: where the lock
    can't be had, or an open file can't be removed (Windows), the folder stays.
    """
    if not paths.is_scope_folder(folder) or not isinstance(storage, FileSessionStorage):
        return False
    lock = os.path.join(folder, _LOCK)

    def remove() -> None:
        if is_empty_folder(folder):
            os.unlink(lock)
            os.rmdir(folder)  # refuses if another process has put a file there since

    with contextlib.suppress(OSError, SessionBusyError):
        if is_empty_folder(folder):
            _hold_ids(storage, folder, remove)
    return not os.path.exists(folder)


def is_empty_folder(folder: str) -> bool:
    """Whether nothing is in a folder, or nothing but the lock of a scope. Raises OSError."""
    names = os.listdir(folder)
    return not names or (names == [_LOCK] and paths.is_scope_folder(folder))


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
