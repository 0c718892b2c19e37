"""Read a session file in blocks of whole lines, and recognize messages without parsing them.

Most bytes of a session are tool results, which neither listings nor searches need. All writers put
the same keys first and the message's own time last: the frame of a line. A line with a frame, in
which no second entry begins and no run of zero bytes shows a lost sector, is a whole message, and
can be counted by its frame. Any line that differs goes to the real parser, so a strange file costs
time and no accuracy. A tool result longer than a block is followed to its end without holding it.

A whole entry glued to a torn one (two writers on a full disk) also begins and ends like one line.
The summary's scan finds it by the next line, which names the hidden entry as its parent. Frames
miss two kinds of damage: changed bytes inside an intact frame, and such a hidden entry if the next
line still names the torn one as its parent.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sessiontree.storage.base import SessionStorageReader

ENTRY = b'{"type":"message","id":"'
"""How every message's line begins. In text its quotes would be escaped, so anywhere else it means
two entries on one line."""

ID_BYTES = 8
AT_ID = len(ENTRY)
AT_PARENT = AT_ID + len('12345678","parentId":"')
# Lines without this frame: roots (their parent is null), and entries with ids of another length.
AT_ROLE = AT_PARENT + len('12345678","timestamp":"2026-02-16T10:20:30.000Z')
ROLE = b'","message":{"role":"'
AT_ROLE_NAME = AT_ROLE + len(ROLE)
TIME = b',"timestamp":1'
TIME_FROM_END = len(',"timestamp":1771237230000}}')
MILLISECONDS_FROM_END = len("1771237230000}}")
END = b"}}"

USER = b'user"'
SPOKEN = (USER, b'assistant"')
TOOL_RESULT = b'toolResult"'

_HOLE_STRIDE = 256


def has_hole(data: bytes, start: int, end: int) -> bool:
    """Whether a lost sector left a run of zero bytes in a range.

    Sectors have 512 bytes or more, so a look at every 256th is enough.
    """
    return b"\x00" in data[start:end:_HOLE_STRIDE]


def is_tool_result(data: bytes, start: int, end: int) -> bool:
    """Whether the line from ``start`` to ``end`` has the frame of a whole tool result."""
    return (
        data.startswith(TOOL_RESULT, start + AT_ROLE_NAME)
        and data.startswith(ROLE, start + AT_ROLE)
        and data.startswith(ENTRY, start)
        and data.startswith(TIME, end - TIME_FROM_END)
        and data.find(ENTRY, start + 1, end) < 0
    )


class LongLine:
    """A tool result longer than a block, followed to its end without keeping its bytes."""

    __slots__ = ("_is_whole", "_tail")

    @staticmethod
    def fits(beginning: bytes) -> bool:
        """Whether a line with this beginning can be followed."""
        return (
            beginning.startswith(ENTRY)
            and beginning.startswith(ROLE, AT_ROLE)
            and beginning.startswith(TOOL_RESULT, AT_ROLE_NAME)
        )

    def __init__(self, beginning: bytes) -> None:
        self._is_whole = _is_clean(beginning[1:])
        self._tail = beginning[-TIME_FROM_END:]

    def feed(self, piece: bytes) -> None:
        """Take in the line's next bytes."""
        seam = self._tail + piece[: len(ENTRY)]
        self._is_whole = self._is_whole and _is_clean(seam) and _is_clean(piece)
        self._tail = (self._tail + piece[-TIME_FROM_END:])[-TIME_FROM_END:]

    def is_message(self) -> bool:
        """Whether the line, now complete, ended as a message does."""
        return self._is_whole and self._tail.startswith(TIME) and self._tail.endswith(END)


def _is_clean(data: bytes) -> bool:
    """Whether no entry begins in these bytes and no disk left a hole in them."""
    return ENTRY not in data and not has_hole(data, 0, len(data))


# Small enough to stay in the processor's cache while it is looked through several times.
BLOCK_BYTES = 1 << 19
_LONG_LINE_BYTES = 4 << 20


class Block(msgspec.Struct):
    """Whole lines at ``offset``: the first ``cut`` bytes of ``data``.

    With ``long_line`` it is instead the beginning of one tool result of many megabytes,
    ``length`` bytes in all, recognized by its frame and not held in memory.
    """

    offset: int
    data: bytes
    cut: int
    length: int
    is_long_line: bool = False


def read_blocks(reader: SessionStorageReader, start: int, size: int) -> Iterator[Block]:
    """Yield the bytes from ``start``, the beginning of a line, to ``size``.

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
        if length >= _LONG_LINE_BYTES and LongLine.fits(data):
            end = _follow(reader, data, offset + len(data), size)
        if end is None:
            length *= 4
            continue
        yield Block(offset, data, len(data), end - offset, is_long_line=True)
        offset, length = end, BLOCK_BYTES


def _follow(reader: SessionStorageReader, beginning: bytes, offset: int, size: int) -> int | None:
    """Return the end of a long line, after its newline, if it is a whole tool result."""
    line = LongLine(beginning)
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
    """Return the end of the line at ``start``, before its newline."""
    end = data.find(b"\n", start, cut)
    return cut if end < 0 else end
