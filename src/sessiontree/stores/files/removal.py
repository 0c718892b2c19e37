"""Remove a session for good: its file, and everything that only it needs.

Order, so that a crash leaves a session that is whole or a blob too many, which `gc` finds: the
session first, then what lies in the trash of it, then the blobs that no other session names, then
what the caches remember. What cannot be read may refer to anything: then the blobs stay."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from sessiontree.discovery import paths
from sessiontree.discovery.breadcrumbs import forget_session
from sessiontree.errors import PersistenceError, SessionNotFoundError
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.base import Ref
from sessiontree.stores.files import trash
from sessiontree.stores.files.claims import remove_empty_scope
from sessiontree.stores.files.moved_file import unlink_for_good
from sessiontree.stores.files.references import find_references, references_in

if TYPE_CHECKING:
    from sessiontree.stores.files.store import FileStore


def remove(store: FileStore, ref: Ref) -> None:
    """Remove a session with its draft, artifacts, set-aside copies, trash, blobs and cache rows.

    Raises SessionNotFoundError, NotASessionError, PersistenceError.
    """
    storage = store.storage
    named = os.path.abspath(ref)
    file = paths.session_of_draft(named) or named
    trash.require_session_name(storage, file)
    trash.require_removable(storage, file)
    pieces = list(trash.belongings(storage, file))
    trashed = [
        item for item in trash.list_trash(store.profile, storage=storage) if item.path == file
    ]
    if not pieces and not trashed:
        raise SessionNotFoundError(file)
    on_disk = isinstance(storage, FileSessionStorage)
    named_blobs = _blobs_of(pieces, [item.folder for item in trashed]) if on_disk else set()
    try:
        for path in (file, paths.draft_path(file)):
            if path in pieces:
                unlink_for_good(storage, path)
        for piece in pieces:
            if piece == paths.artifacts_dir(file):
                storage.remove_dir(piece)
            else:
                storage.unlink(piece)
    except OSError as error:
        raise PersistenceError.from_os_error(file, error) from error
    for item in trashed:
        trash.delete_forever(item, storage=storage)
    if on_disk:
        trash.forget_copy(file)
        _remove_blobs(store, named_blobs, os.path.dirname(file))
        forget_session(store.profile, file, storage=storage)
        _forget(file)
        remove_empty_scope(storage, os.path.dirname(file))


def _blobs_of(pieces: list[str], folders: list[str]) -> set[str]:
    """The hashes of all blobs that these files name."""
    files = [piece for piece in pieces if os.path.isfile(piece)]
    for folder in folders:
        files += [os.path.join(folder, name) for name in os.listdir(folder)]
    found: set[str] = set()
    for file in files:
        if os.path.isfile(file):
            found |= references_in(file)
    return found


def _remove_blobs(store: FileStore, digests: set[str], folder: str) -> None:
    """Remove the blobs that no other file names; all stay if some file cannot be read."""
    if not digests:
        return
    with contextlib.suppress(PersistenceError):
        for digest in digests - find_references(store.profile, [folder]):
            with contextlib.suppress(OSError):
                store.storage.unlink(os.path.join(store.profile.blobs_dir, digest))


def _forget(file: str) -> None:
    """Drop the session's rows from the catalogue and the search index."""
    from sessiontree.discovery import catalogue
    from sessiontree.discovery.search import forget_index

    catalogue.forget(file)
    forget_index()  # removing only its row would leave its words in the index
