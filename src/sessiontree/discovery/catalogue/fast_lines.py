"""The frame of a message's line: enough to count it without parsing what is in it.

Most bytes of a session are tool results, which neither listings nor searches want. All writers put
the same keys first and the message's own time last, so a line that begins and ends so, and in which
no second entry begins, is a whole message. A line that differs in the least is left to a real
parser. What frames can not see is damage that leaves both ends of one line intact, and an entry
glued to a torn one that a third line still names as its parent (two writers on a full disk).
"""

from __future__ import annotations

ENTRY = b'{"type":"message","id":"'
"""How every message's line begins. In text its quotes would be escaped, so anywhere else it means
two entries on one line."""

ID_BYTES = 8
AT_ID = len(ENTRY)
AT_PARENT = AT_ID + len('12345678","parentId":"')
# Not so framed: a root (its parent is null) and whatever has ids of another length.
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
    """Whether the line from ``start`` to ``end`` is framed as one whole tool result."""
    return (
        data.startswith(TOOL_RESULT, start + AT_ROLE_NAME)
        and data.startswith(ROLE, start + AT_ROLE)
        and data.startswith(ENTRY, start)
        and data.startswith(TIME, end - TIME_FROM_END)
        and data.find(ENTRY, start + 1, end) < 0
    )


class LongLine:
    """A tool result longer than a piece of the file: followed to its end without keeping it."""

    __slots__ = ("_is_whole", "_tail")

    @staticmethod
    def fits(beginning: bytes) -> bool:
        """Whether a line that begins like this may be followed."""
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
