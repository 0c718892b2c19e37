"""A session file in blocks of whole lines, read with little copying and little memory."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sessiontree.discovery.catalogue import fast_lines
from sessiontree.storage.base import SessionStorageReader

# Small enough to stay in the processor's cache while it is looked through several times.
BLOCK_BYTES = 1 << 19
_LONG_LINE_BYTES = 4 << 20


class Block(msgspec.Struct):
    """Whole lines at ``offset``: the first ``cut`` bytes of ``data``.

    ``long_line`` if instead this is the beginning of one tool result of many megabytes that is
    ``length`` bytes long in all, recognised by its frame and not held.
    """

    offset: int
    data: bytes
    cut: int
    length: int
    is_long_line: bool = False


def read_blocks(reader: SessionStorageReader, start: int, size: int) -> Iterator[Block]:
    """The bytes from ``start``, the beginning of a line, to ``size``.

    Only the last line of the last block may lack its newline. A line that a block cuts is read
    again with the next one: that copies less than joining pieces would.
    """
    offset, length = start, BLOCK_BYTES
    while offset < size:
        data = reader.read_at(offset, min(length, size - offset))
        is_last = offset + len(data) >= size or len(data) < length
        cut = len(data) if is_last else data.rfind(b"\n") + 1
        if cut:
            yield Block(offset, data, cut, cut)
            if is_last:
                return
            offset, length = offset + cut, BLOCK_BYTES
            continue
        end = None
        if length >= _LONG_LINE_BYTES and fast_lines.LongLine.fits(data):
            end = _follow(reader, data, offset + len(data), size)
        if end is None:
            length *= 4
            continue
        yield Block(offset, data, len(data), end - offset, is_long_line=True)
        offset, length = end, BLOCK_BYTES


def _follow(reader: SessionStorageReader, beginning: bytes, offset: int, size: int) -> int | None:
    """The end of a long line, newline included, if it is a whole tool result; else None."""
    line = fast_lines.LongLine(beginning)
    while offset < size:
        piece = reader.read_at(offset, min(BLOCK_BYTES, size - offset))
        cut = piece.find(b"\n")
        line.feed(piece if cut < 0 else piece[:cut])
        if cut >= 0:
            return offset + cut + 1 if line.is_message() else None
        if not piece:
            return None
        offset += len(piece)
    return None


def line_end(data: bytes, start: int, cut: int) -> int:
    """Where the line at ``start`` ends, its newline not included."""
    end = data.find(b"\n", start, cut)
    return cut if end < 0 else end
