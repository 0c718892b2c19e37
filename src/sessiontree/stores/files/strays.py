"""Move lines that another program wrote to a session's old place into the session.

A program that opens the file by its name for each line (pi) does not notice a move. If no link was
left, its next line makes a new file there, without a header. Its first entry continues one that the
moved session has: that proves where it belongs. Its lines are appended there, and a link takes its
place, through which the program goes on.

Crash order: the lines are on their way first, then the stray file's name goes. Done again, lines
that are there already are left out.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from sessiontree.discovery import paths
from sessiontree.discovery.heads import read_head
from sessiontree.errors import NotASessionError, PersistenceError
from sessiontree.model.lines import Record, read_line
from sessiontree.model.messages import text_or_none
from sessiontree.model.recognition import is_entry
from sessiontree.storage.base import SessionStorage, SessionStorageReader, SessionStorageWriter
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.files.left_behind import LeftBehind, gather
from sessiontree.stores.files.moved_file import leave_note, take_name_away
from sessiontree.stores.files.reader import load_document

if TYPE_CHECKING:
    from sessiontree.stores.files.store import FileStore

_HEAD_BYTES = 1 << 20


def find_home(store: FileStore, path: str) -> str | None:
    """Find the session that a file without a header continues; None if there is none."""
    named = paths.parse_session_file_name(path)
    if named is None or not isinstance(store.storage, FileSessionStorage):
        return None
    with contextlib.suppress(OSError):
        parent_id = _first_parent(store.storage, path)
        if parent_id is None:
            return None
        for place in store.other_places(path):
            if os.path.islink(place) or not os.path.exists(place):
                continue
            head = read_head(store.storage, place)
            if head is None or head.session_id != named[1]:
                continue
            if _has_entry(store.storage, place, parent_id):
                return place
    return None


def bring_home(store: FileStore, path: str, home: str, writer: SessionStorageWriter) -> None:
    """Append the lines of a stray file, which is held, to its session; leave a link in its place.

    OSError, PersistenceError.
    """
    from sessiontree.stores.files.opening import open_log  # opening brings strays home

    storage = store.storage
    reader = storage.open_reader(path)
    try:
        size = reader.stat().size
        if reader.read_at(size - 1, 1) != b"\n":
            writer.write_line(b"\n")
        log = open_log(store, home)
    except BaseException:
        reader.close()
        raise
    try:
        log.take_over(reader)
        take_name_away(storage, path, home, leave_link=True)
        leave_note(writer, home)
    finally:
        log.close()


def continues(storage: SessionStorage, path: str, home: str) -> bool:
    """Whether a file without a header continues an entry of the session at ``home``. OSError."""
    parent_id = _first_parent(storage, path)
    return parent_id is not None and _has_entry(storage, home, parent_id)


def put_back_over(storage: SessionStorage, kept: str, path: str) -> None:
    """Put a session that was set aside back where a program has gone on without it. OSError.

    Its lines are first appended to the session, then the session takes the place of its file.
    """
    reader = storage.open_reader(path)
    try:
        stray = LeftBehind(reader, 0)
        held = storage.read(kept)
        known = set(held.split(b"\n"))
        lines = [line for line in stray.read().split(b"\n") if line and line not in known]
        writer = storage.open_writer(kept, create=False)
        try:
            end = b"" if held.endswith(b"\n") else b"\n"
            writer.write_line(end + b"".join(line + b"\n" for line in lines))
            writer.fsync()
        finally:
            writer.close()
        stray.take()
        storage.rename(kept, path)
        gather(storage, path, stray)
    finally:
        reader.close()


def gather_strays(store: FileStore, files: list[str]) -> list[tuple[str, str]]:
    """Bring home what is stray among these files; each that was, and where its lines are now."""
    found = []
    for path in files:
        home = find_home(store, path)
        if home is None:
            continue
        with contextlib.suppress(OSError, PersistenceError):  # opening it reports the error
            store.open(path).close()
            if os.path.islink(path):
                found.append((path, home))
    return found


def _first_parent(storage: SessionStorage, path: str) -> str | None:
    """What the first entry of a file continues; None if the file begins with anything else."""
    reader = storage.open_reader(path)
    try:
        return _read_parent(reader)
    finally:
        reader.close()


def _read_parent(reader: SessionStorageReader) -> str | None:
    size = reader.stat().size
    line = reader.read_at(0, min(size, _HEAD_BYTES)).partition(b"\n")[0]
    if len(line) == _HEAD_BYTES:
        line = reader.read_at(0, size).partition(b"\n")[0]
    items = list(read_line(line, 0, 1))
    if len(items) != 1 or not isinstance(items[0], Record) or not is_entry(items[0].value):
        return None
    return text_or_none(items[0].value.get("parentId"))


def _has_entry(storage: SessionStorage, path: str, entry_id: str) -> bool:
    try:
        document = load_document(storage, path)
    except NotASessionError:
        return False
    if document is None:
        return False
    document.payloads.reader.close()
    return entry_id in document.tree.by_id
