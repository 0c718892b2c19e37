"""Notes for programs that have a session open: where its file went, or that it was deleted.

A move writes a new file and takes the old name away. A process that has the old file open learns of
it in two ways:

- Other windows of ours find a note at the end of the old file, which has no name any more: only
  who has it open can read it. It is written after the name is gone, so that a move that ends early
  leaves the old file as it was.
- Other programs find a link at the old place, if one is left there. Through it pi and omp append to
  the new file. ``gc`` removes such a link when it is old and the session is not open.

A session that is deleted for good gets such a note, too: otherwise another window would write it
again from what it still has. A file that only lost its name was deleted by some other program.
"""

from __future__ import annotations

import contextlib
import os
import stat

from sessiontree.model import codec
from sessiontree.storage.base import SessionStorage, SessionStorageReader, SessionStorageWriter
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.regular import leads_beside
from sessiontree.storage.temp_files import make_temp_path

_MOVED = "sessiontree.moved"
_DELETED = "sessiontree.deleted"
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


def find_staging(storage: SessionStorage, path: str) -> str:
    """Find where to write the file of a session that goes to ``path``; mostly that is there.

    An earlier move may have left a link at a place where the session goes back to. Other programs
    write through it until the very moment in which the new file takes its place: without it they
    would begin a file of their own there, which the move would then replace. So the new file waits
    beside it.
    """
    return make_temp_path(path) if _is_link_of_move(storage, path) else path


def put_in_place(storage: SessionStorage, staged: str, path: str) -> None:
    """Let the file that was written beside a link take its place. OSError."""
    if staged != path:
        storage.rename(staged, path)


def _is_link_of_move(storage: SessionStorage, path: str) -> bool:
    return isinstance(storage, FileSessionStorage) and os.path.islink(path) and leads_beside(path)


def is_withdrawn(storage: SessionStorage, path: str) -> bool:
    """Whether the old file's name is gone, or leads elsewhere."""
    return os.path.islink(path) or not storage.exists(path)


def has_one_name(storage: SessionStorage, path: str) -> bool:
    """Whether a file has this name only: a note in it would be found under any other.

    Neither a link has, nor a file that a backup shares.
    """
    if not isinstance(storage, FileSessionStorage):
        return True
    found = os.lstat(path)
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def leave_note(writer: SessionStorageWriter, new_path: str) -> None:
    """Say in the old file, which has no name any more, where the session is now. OSError."""
    _write_note(writer, {"customType": _MOVED, "path": new_path})


def unlink_for_good(storage: SessionStorage, path: str) -> None:
    """Remove a session's file, and tell the windows that have it open. OSError, SessionBusyError.

    The lock is held, so that an append comes before, and is deleted, or after, and is refused.
    """
    try:
        writer = storage.open_writer(path, create=False) if has_one_name(storage, path) else None
    except OSError:
        writer = None  # it may not be written to
    if writer is None:
        storage.unlink(path)
        return
    try:
        writer.lock()
        storage.unlink(path)
        with contextlib.suppress(OSError):
            _write_note(writer, {"customType": _DELETED})
    finally:
        writer.close()


def _write_note(writer: SessionStorageWriter, note: dict[str, str]) -> None:
    """Write it on a line of its own, also behind half a line that a crash has left."""
    writer.write_line(b"\n" + codec.encode(note) + b"\n")


def find_note(reader: SessionStorageReader, end: int) -> str | None:
    """The session's new place, if the file that was read up to ``end`` names it."""
    note = _read_note(_last_line(reader, end))
    path = note.get("path") if note.get("customType") == _MOVED else None
    return path if isinstance(path, str) and os.path.isabs(path) else None


def was_deleted(reader: SessionStorageReader, end: int) -> bool:
    """Whether the file that was read up to ``end`` says that its session was deleted for good."""
    return _read_note(_last_line(reader, end)).get("customType") == _DELETED


def without_notes(lines: bytes) -> bytes:
    """Whole lines without those that are notes, or blank because of one."""
    if _MOVED.encode() not in lines and _DELETED.encode() not in lines:
        return lines
    kept = (line for line in lines.split(b"\n")[:-1] if line and not _read_note(line))
    return b"".join(line + b"\n" for line in kept)


def _last_line(reader: SessionStorageReader, end: int) -> bytes:
    """The last line of what came after ``end``; empty if nothing did."""
    size = reader.stat().size
    if size <= end:
        return b""
    start = max(end, size - _NOTE_BYTES)
    return reader.read_at(start, size - start).rstrip(b"\n").rpartition(b"\n")[2]


def _read_note(line: bytes) -> dict[str, object]:
    """The note in a line; empty for any other line."""
    try:
        said = codec.decode(line)
        is_note = said.get("customType") in (_MOVED, _DELETED) and "type" not in said
    except (ValueError, TypeError, AttributeError):
        return {}
    return dict(said) if is_note else {}
