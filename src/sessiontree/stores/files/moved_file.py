"""Tell those who have a session open where its file has gone.

A move writes a new file and takes the old name away. Who has the old file open is told in two ways:

- Other windows of ours find a note at the end of the old file, which has no name any more: only
  who has it open can read it. It is written after the name is gone, so that a move that ends early
  leaves the old file as it was.
- Other programs find a link at the old place, if one is left there. Through it pi and omp append to
  the new file. ``gc`` removes such a link when it is old and the session is not open.
"""

from __future__ import annotations

import os

from sessiontree.model import codec
from sessiontree.storage.base import SessionStorage, SessionStorageReader, SessionStorageWriter
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.regular import leads_beside

_MOVED = "sessiontree.moved"
_NOTE_BYTES = 1 << 16


def take_name_away(storage: SessionStorage, path: str, new_path: str, *, leave_link: bool) -> None:
    """Remove the old file's name, or let it lead to the new file."""
    if not leave_link:
        storage.unlink(path)
        return
    folder, name = os.path.split(path)
    link = os.path.join(folder, f".{name}.{os.urandom(4).hex()}.link")
    os.symlink(new_path, link)
    try:
        os.replace(link, path)
    except BaseException:
        os.unlink(link)
        raise


def clear_link(storage: SessionStorage, path: str) -> None:
    """Remove the link that an earlier move left at a place where the session goes back to.

    Written through, it would be the file that the move is about to remove. OSError.
    """
    if isinstance(storage, FileSessionStorage) and os.path.islink(path) and leads_beside(path):
        os.unlink(path)


def is_withdrawn(storage: SessionStorage, path: str) -> bool:
    """Whether the old file's name is gone, or leads elsewhere."""
    return os.path.islink(path) or not storage.exists(path)


def leave_note(writer: SessionStorageWriter, new_path: str) -> None:
    """Say in the old file, which has no name any more, where the session is now. OSError."""
    writer.write_line(codec.encode({"customType": _MOVED, "path": new_path}) + b"\n")


def find_note(reader: SessionStorageReader, end: int) -> str | None:
    """Where the session has gone, if the file that was read up to ``end`` says so."""
    size = reader.stat().size
    if size <= end:
        return None
    start = max(end, size - _NOTE_BYTES)
    *_, last = reader.read_at(start, size - start).rstrip(b"\n").split(b"\n")
    return _read_note(last)


def without_notes(lines: bytes) -> bytes:
    """Whole lines without those that are notes."""
    if _MOVED.encode() not in lines:
        return lines
    return b"".join(line + b"\n" for line in lines.split(b"\n")[:-1] if _read_note(line) is None)


def _read_note(line: bytes) -> str | None:
    try:
        said = codec.decode(line)
        path = said["path"] if said.get("customType") == _MOVED and "type" not in said else None
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
    return path if isinstance(path, str) and os.path.isabs(path) else None
