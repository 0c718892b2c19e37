"""Read the texts of a session's messages, for searches and whole-text filters.

Reads through a storage's reader and skips tool results by their frames unless they are wanted. A
text that was trimmed on disk stays trimmed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from sessiontree.discovery.catalogue import fast_lines
from sessiontree.discovery.catalogue.fast_lines import Block, line_end, read_blocks
from sessiontree.model.ids import parse_timestamp
from sessiontree.model.lines import Record, read_line
from sessiontree.model.messages import text_of
from sessiontree.storage.base import SessionStorage, SessionStorageReader

SPOKEN_ROLES = frozenset(("user", "assistant"))
TOOL_ROLES = frozenset(("toolCall", "toolResult", "bashExecution"))
# What is beyond this is no time; a year 287,396 is.
_MOST_MS = 1 << 53


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


def read_texts(
    reader: SessionStorageReader, start: int, size: int, *, include_tools: bool = False
) -> Iterator[SaidText]:
    """Yield the texts between ``start``, the beginning of a line, and ``size``, in file order."""
    for block in read_blocks(reader, start, size):
        if not block.is_long_line:
            yield from texts_of_block(block, include_tools)
        elif include_tools:
            whole = reader.read_at(block.offset, block.length)
            yield from texts_of_line(whole, block.offset, include_tools=True)


def texts_of_block(block: Block, include_tools: bool = False) -> Iterator[SaidText]:
    """Yield the texts of a block's lines."""
    data, at, cut = block.data, 0, block.cut
    while at < cut:
        end = line_end(data, at, cut)
        if include_tools or not fast_lines.is_tool_result(data, at, end):
            yield from texts_of_line(data[at:end], block.offset + at, include_tools=include_tools)
        at = end + 1


def texts_of_line(line: bytes, offset: int, *, include_tools: bool = False) -> Iterator[SaidText]:
    """What one line says: usually one text or none; a line with calls of tools says more."""
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


def read_all_text(storage: SessionStorage, path: str) -> str:
    """Read all user and assistant text of a session; empty if the file can't be read."""
    try:
        reader = storage.open_reader(path)
    except OSError:
        return ""
    try:
        said = read_texts(reader, 0, reader.stat().size)
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
