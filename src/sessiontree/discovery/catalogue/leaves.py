"""Find a session's leaf and status by reading the file backwards.

The leaf is the last entry; the path goes up by ``parentId``. The last message of a user, the model
or a tool on the path decides the status (``SessionInfo.status``). Usually that is the last line or
one just above it, so the walk stops as soon as the status is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from sessiontree.model.lines import Record, read_line
from sessiontree.model.messages import as_text
from sessiontree.storage.base import SessionStorageReader

Status = Literal["complete", "interrupted", "error", "aborted", "empty", "damaged"]

_BACKWARD_BYTES = 1 << 16
_HEAD_TYPES = ("session", "title")
_UNKNOWN_PARENT = object()


class Leaf(msgspec.Struct, array_like=True, gc=False):
    """The last entry of a file's first ``end`` bytes, and the session's status there."""

    entry_id: str
    status: Status
    end: int


class _Message(msgspec.Struct, gc=False, rename={"stop_reason": "stopReason"}):
    role: Any = None
    stop_reason: Any = None


class _Entry(msgspec.Struct, gc=False, rename={"entry_id": "id", "parent_id": "parentId"}):
    type: str
    entry_id: str
    parent_id: str | msgspec.UnsetType | None = msgspec.UNSET
    message: _Message | None = None


_decode_entry = msgspec.json.Decoder(_Entry).decode


def find_leaf(
    reader: SessionStorageReader,
    end: int,
    last_block: bytes,
    known: Leaf | None,
    *,
    is_chain: bool = False,
) -> Leaf:
    """Find the leaf of a file's first ``end`` bytes.

    ``last_block`` is the part read last. ``known`` is the leaf of an earlier, shorter state
    of the file; the walk stops there. In a file that ``is_chain`` (version 1) an entry
    without a parent follows the one before it; in any other an entry with a null parent is a root.
    """
    leaf_id: str | None = None
    wanted: object = _UNKNOWN_PARENT
    for offset, line in _lines_backwards(reader, end, last_block):
        if known is not None and offset < known.end:
            if wanted is _UNKNOWN_PARENT or wanted == known.entry_id:
                return Leaf(known.entry_id if leaf_id is None else leaf_id, known.status, end)
            known = None
        for entry in _entries_backwards(line, offset):
            if wanted is not _UNKNOWN_PARENT and entry.entry_id != wanted:
                continue
            leaf_id = entry.entry_id if leaf_id is None else leaf_id
            status = _judge_entry(entry, line)
            parent_id = msgspec.UNSET if is_chain and not entry.parent_id else entry.parent_id
            if status is not None or parent_id is None:
                return Leaf(leaf_id, status or "complete", end)
            wanted = _UNKNOWN_PARENT if parent_id is msgspec.UNSET else parent_id
    return Leaf(leaf_id or "", "complete", end)


def _judge_entry(entry: _Entry, line: bytes) -> Status | None:
    if entry.type != "message" or entry.message is None:
        return None
    message = entry.message
    return judge_message(message.role, message.stop_reason, lambda: b'"toolCall"' in line)


def judge_message(
    role: object, stop_reason: object, has_calls: Callable[[], bool]
) -> Status | None:
    """The status of a session that ends with this message; None if it does not decide."""
    if role in ("user", "toolResult"):
        return "interrupted"
    if role != "assistant":
        return None  # what an extension or the user's own shell said asks for no answer
    match stop_reason:
        case "error":
            return "error"
        case "aborted":
            return "aborted"
        case "toolUse" | "length":
            return "interrupted"
        case "stop":
            return "complete"
    return "interrupted" if has_calls() else "complete"


def _entries_backwards(line: bytes, offset: int) -> Iterator[_Entry]:
    try:
        entry = _decode_entry(line)
        if entry.type not in _HEAD_TYPES:
            yield entry
        return
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    for item in reversed(read_line(line, offset, 0)):
        if isinstance(item, Record) and item.value.get("type") not in _HEAD_TYPES:
            yield _from_wire(item.value)


def _from_wire(value: dict[str, Any]) -> _Entry:
    parent = value.get("parentId", msgspec.UNSET)
    message = value.get("message")
    return _Entry(
        as_text(value.get("type")),
        as_text(value.get("id")),
        parent if isinstance(parent, str) or parent is msgspec.UNSET else None,
        _Message(message.get("role"), message.get("stopReason"))
        if isinstance(message, dict)
        else None,
    )


def _lines_backwards(
    reader: SessionStorageReader, end: int, last_block: bytes
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines before ``end``, last first, with their offsets."""
    block, start = last_block, end - len(last_block)
    length = _BACKWARD_BYTES
    while True:
        first = 0 if start == 0 else _first_whole_line(reader, block, start)
        at = len(block)
        while at > first:
            begin = block.rfind(b"\n", first, at - 1) + 1 or first
            line = block[begin:at].rstrip(b"\n")
            if line:
                yield start + begin, line
            at = begin
        if start == 0:
            return
        boundary = start + first
        length = length if first < len(block) else length * 4
        start = max(0, boundary - length)
        block = reader.read_at(start, boundary - start)


def _first_whole_line(reader: SessionStorageReader, block: bytes, start: int) -> int:
    """Return the start of the first line that is wholly in ``block``."""
    if not block or reader.read_at(start - 1, 1) == b"\n":
        return 0
    found = block.find(b"\n")
    return len(block) if found < 0 else found + 1
