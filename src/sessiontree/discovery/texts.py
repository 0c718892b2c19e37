"""Read the texts of a session's messages, for searches and whole-text filters.

Reads through a storage's reader and skips tool results by their frames unless they are wanted. A
text that was trimmed on disk stays trimmed here. Lines of other agents go to their adapters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from sessiontree.discovery.catalogue import fast_lines
from sessiontree.discovery.catalogue.fast_lines import BLOCK_BYTES, line_end, read_blocks
from sessiontree.discovery.kept import open_session
from sessiontree.model.ids import parse_timestamp
from sessiontree.model.lines import Record, read_line
from sessiontree.model.messages import text_of
from sessiontree.storage.base import SessionStorage, SessionStorageReader

if TYPE_CHECKING:
    from sessiontree.discovery.adapters.base import AgentAdapter

SPOKEN_ROLES = frozenset(("user", "assistant"))
TOOL_ROLES = frozenset(("toolCall", "toolResult", "bashExecution"))
# A number beyond this is not a time; a year 287,396 is.
_MOST_MS = 1 << 53
_LAST_BYTES = 1 << 16


class SaidText(msgspec.Struct, frozen=True, gc=False):
    """The text of one message, and its line's offset. Each tool call has a text of its own."""

    entry_id: str
    role: str
    time_ms: int | None
    text: str
    offset: int


class _Piece(msgspec.Struct, gc=False):
    type: Any = None
    text: Any = None


class _Call(_Piece, gc=False):
    name: Any = None
    arguments: Any = None


class _Message(msgspec.Struct, gc=False):
    role: Any = None
    content: str | list[_Piece] | None = None
    timestamp: Any = None


class _ToolMessage(_Message, gc=False):
    content: str | list[_Call] | None = None  # type: ignore[assignment]
    command: Any = None
    output: Any = None


class _Line(msgspec.Struct, gc=False):
    type: Any = None
    id: Any = None
    timestamp: Any = None
    message: _Message | None = None


class _ToolLine(_Line, gc=False):
    message: _ToolMessage | None = None


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_tool_line = msgspec.json.Decoder(_ToolLine).decode


IsSilent = Callable[[bytes, int, int], bool]
"""Whether a line, a range of some bytes, certainly says nothing but tool output."""


def speaking_lines(
    reader: SessionStorageReader, start: int, size: int, is_silent: IsSilent | None
) -> Iterator[tuple[bytes, int]]:
    """Yield the lines from ``start``, the beginning of one, to ``size``, with their offsets.

    With ``is_silent`` those are left out that say nothing but tool output.
    """
    for block in read_blocks(reader, start, size):
        if block.is_long_line:
            if is_silent is None:
                yield reader.read_at(block.offset, block.length), block.offset
            continue
        data, at, cut = block.data, 0, block.cut
        while at < cut:
            end = line_end(data, at, cut)
            if is_silent is None or not is_silent(data, at, end):
                yield data[at:end], block.offset + at
            at = end + 1


def speaking_lines_backwards(
    reader: SessionStorageReader, start: int, end: int, is_silent: IsSilent | None
) -> Iterator[tuple[bytes, int]]:
    """The same lines, the last one first: who stops early has read only the end of the file."""
    length = _LAST_BYTES
    while start < end:
        begin = max(start, end - length)
        data = reader.read_at(begin, end - begin)
        # a line that the beginning cuts belongs to what is read next
        cut = 0 if begin == start else data.find(b"\n") + 1
        is_in_one_line = begin > start and cut in (0, len(data))
        if is_in_one_line and length < BLOCK_BYTES:
            length *= 4
            continue
        if is_in_one_line or len(data) < end - begin:  # a very long line; a file that was cut
            yield from reversed(list(speaking_lines(reader, start, end, is_silent)))
            return
        stop = len(data) - data.endswith(b"\n")
        while stop >= cut:
            first = max(cut, data.rfind(b"\n", cut, stop) + 1)
            if is_silent is None or not is_silent(data, first, stop):
                yield data[first:stop], begin + first
            stop = first - 1
        end, length = begin + cut, min(length * 2, BLOCK_BYTES)


def read_texts(
    reader: SessionStorageReader,
    start: int,
    size: int,
    *,
    include_tools: bool = False,
    adapter: AgentAdapter | None = None,
) -> Iterator[SaidText]:
    """Yield the texts between ``start``, the beginning of a line, and ``size``, in file order.

    ``adapter`` reads another agent's lines.
    """
    is_silent = fast_lines.is_tool_result if adapter is None else adapter.is_silent
    spoken = adapter.texts_of_line if adapter is not None else texts_of_line
    lines = speaking_lines(reader, start, size, None if include_tools else is_silent)
    texts = (
        said for line, offset in lines for said in spoken(line, offset, include_tools=include_tools)
    )
    return adapter.drop_repeated(texts) if adapter is not None else texts


def texts_of_line(line: bytes, offset: int, *, include_tools: bool = False) -> Iterator[SaidText]:
    """The texts of one line: usually one or none; a line with calls of tools has more."""
    try:
        fields = _decode_tool_line(line) if include_tools else _decode_line(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        for item in read_line(line, offset, 0):
            if isinstance(item, Record):
                yield from _texts_of_record(item.value, offset, include_tools)
        return
    message = fields.message
    if fields.type != "message" or message is None:
        return
    time_ms = _time_ms(message.timestamp, fields.timestamp)
    entry_id = fields.id if isinstance(fields.id, str) else ""
    content = message.content
    if isinstance(content, list):
        text = " ".join(
            piece.text for piece in content if piece.type == "text" and isinstance(piece.text, str)
        )
    else:
        text = content or ""
    if isinstance(message, _ToolMessage):
        if message.role == "bashExecution":
            text = join_strings([message.command, message.output])
        for piece in content if isinstance(content, list) else ():
            if isinstance(piece, _Call) and piece.type == "toolCall":
                called = join_strings([piece.name, piece.arguments])
                yield SaidText(entry_id, "toolCall", time_ms, called, offset)
    if _is_wanted(message.role, include_tools):
        yield SaidText(entry_id, message.role, time_ms, text, offset)


def read_all_text(storage: SessionStorage, path: str, adapter: AgentAdapter | None = None) -> str:
    """Read all user and assistant text of a session; empty if the file can't be read."""
    try:
        reader = open_session(adapter, path, storage)
    except OSError:
        return ""
    try:
        said = read_texts(reader, 0, reader.stat().size, adapter=adapter)
        return " ".join(item.text for item in said if item.role in SPOKEN_ROLES and item.text)
    except OSError:
        return ""
    finally:
        reader.close()


def _texts_of_record(value: dict[str, Any], offset: int, include_tools: bool) -> Iterator[SaidText]:
    """As ``texts_of_line``, for a record that only the careful parser could read."""
    message = value.get("message")
    if value.get("type") != "message" or not isinstance(message, dict):
        return
    role, content = message.get("role"), message.get("content")
    time_ms = _time_ms(message.get("timestamp"), value.get("timestamp"))
    entry_id = value["id"] if isinstance(value.get("id"), str) else ""
    text = text_of(content)
    if include_tools:
        if role == "bashExecution":
            text = join_strings([message.get("command"), message.get("output")])
        for piece in content if isinstance(content, list) else ():
            if isinstance(piece, dict) and piece.get("type") == "toolCall":
                called = join_strings([piece.get("name"), piece.get("arguments")])
                yield SaidText(entry_id, "toolCall", time_ms, called, offset)
    if _is_wanted(role, include_tools):
        yield SaidText(entry_id, str(role), time_ms, text, offset)


def _is_wanted(role: object, include_tools: bool) -> bool:
    # what a file says is a role need not be hashable
    return isinstance(role, str) and (
        role in SPOKEN_ROLES or (include_tools and role in TOOL_ROLES)
    )


def _time_ms(time: object, timestamp: object) -> int | None:
    """The message's own time in milliseconds, else the entry's."""
    if not isinstance(time, (int, float)) or isinstance(time, bool):
        return parse_timestamp(timestamp)
    return int(time) if -_MOST_MS < time < _MOST_MS else None


def join_strings(value: object) -> str:
    """All strings in a value, one a line; keys are not said by anyone."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, list):
            waiting += reversed(item)
        elif isinstance(item, dict):
            waiting += reversed(item.values())
    return "\n".join(found)
