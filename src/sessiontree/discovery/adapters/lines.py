"""Yield the lines of a session with their offsets, however long they are."""

from __future__ import annotations

from collections.abc import Iterator

from sessiontree.storage.base import SessionStorageReader

_CHUNK_BYTES = 1 << 20


def read_lines(reader: SessionStorageReader, start: int, end: int) -> Iterator[tuple[bytes, int]]:
    """Yield the lines from ``start``, the beginning of one, to ``end``, without newlines."""
    offset, at = start, start
    pending: list[bytes] = []
    while at < end:
        chunk = reader.read_at(at, min(_CHUNK_BYTES, end - at))
        if not chunk:
            break
        at += len(chunk)
        first, *rest = chunk.split(b"\n")
        pending.append(first)
        if rest:
            for line in (b"".join(pending), *rest[:-1]):
                if line:
                    yield line, offset
                offset += len(line) + 1
            pending = [rest[-1]]
    last = b"".join(pending)
    if last:
        yield last, offset
