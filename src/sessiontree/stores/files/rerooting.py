"""Give one session another project: a new header, a new place, every other byte unchanged.

Crash order: the new file is whole and on the disk, then the artifacts follow, then the old file
goes. Whatever happens in between, the old file is still there, and doing it again finishes it. The
session's lock is held throughout, so that no line is appended to a file that is about to go.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from sessiontree.discovery.catalogue.fast_lines import line_end
from sessiontree.discovery.paths import SESSION_SUFFIX, artifacts_dir
from sessiontree.errors import NotASessionError, PersistenceError
from sessiontree.model import codec
from sessiontree.model.header import find_header
from sessiontree.model.lines import Record, read_line
from sessiontree.storage import omp_lock
from sessiontree.storage.base import (
    FileRange,
    FileStat,
    Piece,
    SessionStorage,
    SessionStorageReader,
    read_chunks,
)
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.files.left_behind import LeftBehind, append_lines, gather
from sessiontree.stores.files.moved_file import (
    find_staging,
    has_one_name,
    leave_note,
    put_in_place,
    take_name_away,
)
from sessiontree.stores.files.reader import require_session

_HEAD_BYTES = 1 << 16


def reroot_session(
    storage: SessionStorage,
    path: str,
    new_path: str,
    new_cwd: str,
    new_paths: Mapping[str, str],
    *,
    leave_link: bool = False,
) -> None:
    """Move a session file (or draft) and its artifacts to ``new_path`` and project ``new_cwd``.

    ``new_paths`` says where its parent session went, if it did. ``leave_link`` is for a session
    that another program has open: it finds the new file through a link at the old place. Raises
    NotASessionError, PersistenceError if something else is at ``new_path``, SessionBusyError,
    OSError.
    """
    require_session(storage, path)
    reader = storage.open_reader(path)
    try:
        old = LeftBehind(reader, reader.stat().size)
        _move_locked(storage, reader, old, path, new_path, new_cwd, new_paths, leave_link)
        with contextlib.suppress(OSError):
            gather(storage, new_path, old)
    finally:
        reader.close()


def _move_locked(
    storage: SessionStorage,
    reader: SessionStorageReader,
    old: LeftBehind,
    path: str,
    new_path: str,
    new_cwd: str,
    new_paths: Mapping[str, str],
    leave_link: bool,
) -> None:
    writer = storage.open_writer(path, create=False)
    try:
        size = writer.lock()
        if size is None or not writer.owns(reader.stat()):
            raise PersistenceError(path, "was moved by another program meanwhile")
        before, header, after = _split_head(reader, path, old.end)
        header["cwd"] = new_cwd
        parent = header.get("parentSession")
        if isinstance(parent, str) and parent in new_paths:
            header["parentSession"] = new_paths[parent]
        head = before + codec.encode(header)
        if new_path == path:
            _rewrite(storage, reader, old, head, after, path)
            return
        staged = find_staging(storage, new_path)
        try:
            _write_new(storage, reader, head, after, old.end, path, new_path, staged)
            _move_artifacts(storage, path, new_path)

            def finish() -> None:
                append_lines(storage, staged, old)
                put_in_place(storage, staged, new_path)
                take_name_away(storage, path, new_path, leave_link=leave_link)

            is_alone = has_one_name(storage, path)
            omp_lock.hold(path, finish)
        finally:
            if staged != new_path:
                storage.unlink(staged)
        if is_alone:
            with contextlib.suppress(OSError):
                leave_note(writer, new_path)
    finally:
        writer.close()


def _rewrite(
    storage: SessionStorage,
    reader: SessionStorageReader,
    old: LeftBehind,
    head: bytes,
    after: int,
    path: str,
) -> None:
    """Write another header in the same place."""

    def growth() -> bytes:
        lines = old.read()
        old.take()
        return lines

    stat, pieces = reader.stat(), _pieces(reader, head, after, old.end)
    storage.write_atomic(path, pieces, growth=growth)
    _keep_time(storage, path, stat)


def _write_new(
    storage: SessionStorage,
    reader: SessionStorageReader,
    head: bytes,
    after: int,
    end: int,
    path: str,
    new_path: str,
    staged: str,
) -> None:
    if staged == new_path and storage.exists(new_path):
        if not _has_content(storage, new_path, _content(reader, head, after, end)):
            raise PersistenceError(path, f"{new_path} is in the way")
        return
    stat = reader.stat()
    storage.ensure_dir(os.path.dirname(new_path))
    storage.write_atomic(staged, _pieces(reader, head, after, end))
    _keep_time(storage, staged, stat)


def _pieces(reader: SessionStorageReader, head: bytes, after: int, end: int) -> list[Piece]:
    return [head, FileRange(reader, after, end - after)]


def _keep_time(storage: SessionStorage, path: str, stat: FileStat) -> None:
    """Listings and --continue go by the time of a file; being moved is not being worked on."""
    if isinstance(storage, FileSessionStorage):
        with contextlib.suppress(OSError):
            os.utime(path, ns=(stat.mtime_ns, stat.mtime_ns))


def _move_artifacts(storage: SessionStorage, path: str, new_path: str) -> None:
    if path.endswith(SESSION_SUFFIX):
        old_artifacts, new_artifacts = artifacts_dir(path), artifacts_dir(new_path)
        if storage.exists(old_artifacts) and not storage.exists(new_artifacts):
            storage.rename(old_artifacts, new_artifacts)


def _split_head(
    reader: SessionStorageReader, path: str, size: int
) -> tuple[bytes, dict[str, Any], int]:
    """What stands before the header, the header, and where what follows it begins."""
    length = _HEAD_BYTES
    while True:
        data = reader.read_at(0, min(length, size))
        found = find_header(_records_in(data, is_whole=len(data) == size))
        if found.first is not None and found.header is not None:
            at = found.first.offset
            return data[:at], found.first.value, at + found.first.length
        if found.first is not None or len(data) >= size:
            raise NotASessionError(path, "no session header")
        length *= 4


def _records_in(data: bytes, *, is_whole: bool) -> Iterator[Record]:
    """Yield the records of whole lines; the last one may continue unless the data ``is_whole``."""
    start = 0
    while start < len(data):
        end = line_end(data, start, len(data))
        if end == len(data) and not is_whole:
            return
        for item in read_line(data[start:end], start, 1):
            if isinstance(item, Record):
                yield item
        start = end + 1


def _content(reader: SessionStorageReader, head: bytes, after: int, size: int) -> Iterator[bytes]:
    yield head
    yield from read_chunks(reader, after, size)


def _has_content(storage: SessionStorage, path: str, content: Iterator[bytes]) -> bool:
    """Whether a file has exactly this content, left there by a move that did not finish."""
    reader = storage.open_reader(path)
    try:
        offset = 0
        for piece in content:
            if reader.read_at(offset, len(piece)) != piece:
                return False
            offset += len(piece)
        return reader.stat().size == offset
    finally:
        reader.close()
