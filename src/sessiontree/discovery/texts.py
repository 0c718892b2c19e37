"""The texts of a session: what was said by whom, for searching and for whole-text filters.

Reads through a storage's reader; tool results are passed over by their frames unless wanted.
Texts are as the file has them: a text that was cut on disk stays cut here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from sessiontree.discovery import frames
from sessiontree.discovery.blocks import Block, line_end, read_blocks
from sessiontree.model.ids import parse_timestamp
from sessiontree.model.messages import text_of
from sessiontree.model.scanning import Record, read_line
from sessiontree.storage.base import SessionStorage, SessionStorageReader

SPOKEN_ROLES = frozenset(("user", "assistant"))
TOOL_ROLES = frozenset(("toolResult", "bashExecution"))


class SaidText(msgspec.Struct, frozen=True, gc=False):
    """The text of one message, and where its line is."""

    entry_id: str
    role: str
    time_ms: int | None
    text: str
    offset: int


class _Piece(msgspec.Struct, gc=False):
    type: Any = None
    text: Any = None


class _Message(msgspec.Struct, gc=False):
    role: Any = None
    content: str | list[_Piece] | None = None
    timestamp: Any = None
    command: Any = None
    output: Any = None


class _Line(msgspec.Struct, gc=False):
    type: Any = None
    id: Any = None
    timestamp: Any = None
    message: _Message | None = None


_decode_line = msgspec.json.Decoder(_Line).decode


def read_texts(
    reader: SessionStorageReader, start: int, size: int, *, include_tools: bool = False
) -> Iterator[SaidText]:
    """What was said between ``start``, the beginning of a line, and ``size``, in file order."""
    for block in read_blocks(reader, start, size):
        if not block.is_long_line:
            yield from texts_of_block(block, include_tools)
        elif include_tools:
            whole = reader.read_at(block.offset, block.length)
            yield from texts_of_line(whole, block.offset)


def texts_of_block(block: Block, include_tools: bool = False) -> Iterator[SaidText]:
    """What the whole lines of a block say."""
    data, at, cut = block.data, 0, block.cut
    startswith = data.startswith
    while at < cut:
        end = line_end(data, at, cut)
        if include_tools or not (
            startswith(frames.TOOL_RESULT, at + frames.AT_ROLE_NAME)
            and startswith(frames.ROLE, at + frames.AT_ROLE)
            and startswith(frames.TIME, end - frames.TIME_FROM_END)
            and data.find(frames.ENTRY, at + 1, end) < 0
        ):
            yield from texts_of_line(data[at:end], block.offset + at)
        at = end + 1


def texts_of_line(line: bytes, offset: int) -> Iterator[SaidText]:
    """What one line says: usually one text or none."""
    try:
        fields = _decode_line(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        for item in read_line(line, offset, 0):
            if isinstance(item, Record):
                yield from _text_of_record(item.value, offset)
        return
    message = fields.message
    if fields.type != "message" or message is None:
        return
    content = message.content
    if isinstance(content, list):
        content = " ".join(
            piece.text for piece in content if piece.type == "text" and isinstance(piece.text, str)
        )
    yield from _say(
        fields.id,
        message.role,
        message.timestamp,
        fields.timestamp,
        _shell_text(message.command, message.output)
        if message.role == "bashExecution"
        else content or "",
        offset,
    )


def read_all_text(storage: SessionStorage, path: str) -> str:
    """All user and assistant text of a session; empty if the file cannot be read."""
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


def _text_of_record(value: dict[str, Any], offset: int) -> Iterator[SaidText]:
    message = value.get("message")
    if value.get("type") != "message" or not isinstance(message, dict):
        return
    text = text_of(message.get("content"))
    if message.get("role") == "bashExecution":
        text = _shell_text(message.get("command"), message.get("output"))
    yield from _say(
        value.get("id"),
        message.get("role"),
        message.get("timestamp"),
        value.get("timestamp"),
        text,
        offset,
    )


def _say(
    entry_id: object, role: object, time: object, timestamp: object, text: str, offset: int
) -> Iterator[SaidText]:
    if role not in SPOKEN_ROLES and role not in TOOL_ROLES:
        return
    if not isinstance(time, (int, float)) or isinstance(time, bool):
        time = parse_timestamp(timestamp)
    try:
        time_ms = int(time) if time is not None else None
    except (OverflowError, ValueError):
        time_ms = None
    yield SaidText(entry_id if isinstance(entry_id, str) else "", str(role), time_ms, text, offset)


def _shell_text(command: object, output: object) -> str:
    return "\n".join(text for text in (command, output) if isinstance(text, str) and text)
