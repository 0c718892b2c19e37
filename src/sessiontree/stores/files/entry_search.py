"""Find an entry by its id in all session files of a store, drafts too.

Each file is read once in blocks, and its entries only if it holds the id as a JSON string. There
is no index of entry ids: with one, every append would have to keep it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sessiontree.discovery import paths
from sessiontree.errors import NotASessionError
from sessiontree.model import codec
from sessiontree.storage.base import SessionStorage, read_chunks
from sessiontree.storage.regular import leads_beside
from sessiontree.stores.base import EntryPlace
from sessiontree.stores.files.reader import load_document

if TYPE_CHECKING:
    from sessiontree.stores.files.store import FileStore

_BLOCK = 1 << 20


def find_entry(store: FileStore, entry_id: str) -> list[EntryPlace]:
    """Find the entries of this id, by the path of their session."""
    needle = codec.encode(entry_id)
    found = []
    for path, file in sorted(_files(store)):
        with contextlib.suppress(OSError, NotASessionError):
            if _holds(store.storage, file, needle) and _has_entry(store.storage, file, entry_id):
                found.append(EntryPlace(path, entry_id))
    return found


def _files(store: FileStore) -> Iterator[tuple[str, str]]:
    """Each session's path, and the file that holds it now: itself or its draft."""
    with contextlib.suppress(OSError):
        folders = store.storage.list_dirs(store.root)
        if store.session_dir is not None:
            folders.append(store.session_dir)
        for folder in folders:
            names = set(store.storage.list_names(folder))
            for name in names:
                target = paths.session_of_draft(name)
                if target is not None and target not in names:
                    yield os.path.join(folder, target), os.path.join(folder, name)
                elif name.endswith(paths.SESSION_SUFFIX) and not name.startswith("."):
                    path = os.path.join(folder, name)
                    if not leads_beside(path):
                        yield path, path


def _holds(storage: SessionStorage, file: str, needle: bytes) -> bool:
    with contextlib.closing(storage.open_reader(file)) as reader:
        rest = b""
        for chunk in read_chunks(reader, 0, reader.stat().size, _BLOCK):
            if needle in rest + chunk:
                return True
            rest = chunk[-len(needle) :]
    return False


def _has_entry(storage: SessionStorage, file: str, entry_id: str) -> bool:
    document = load_document(storage, file)
    if document is None:
        return False
    document.payloads.reader.close()
    return entry_id in document.tree.by_id
