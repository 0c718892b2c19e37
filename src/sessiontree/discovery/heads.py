"""Read the head of a session file: header and earliest prompt, from its first few kilobytes.

For callers that look at many files without reading them whole. A prefix that ends in the middle of
a line, even of the header, still gives the fields before the cut.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from sessiontree.model import codec
from sessiontree.model.header import find_header
from sessiontree.model.lines import BOM, Record, read_line
from sessiontree.model.messages import as_text, text_of
from sessiontree.storage.base import SessionStorage

PREFIX_BYTES = 4096
_LONGEST_HEADER_BYTES = 1 << 22

_TYPE = re.compile(rb'\s*\{\s*"type"\s*:\s*"(\w+)"')
_STRING_FIELD = re.compile(r'"(\w+)"\s*:\s*"((?:[^"\\]|\\.)*)("?)', re.DOTALL)
_USER = re.compile(r'"role"\s*:\s*"user"')
_TEXT = re.compile(r'"(?:text|content)"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?$")


class Head(msgspec.Struct):
    """The content of a session's first bytes. ``is_cut`` if the header continues after them."""

    session_id: str
    cwd: str = ""
    timestamp: str | None = None
    title: str | None = None
    first_prompt: str | None = None
    is_cut: bool = False


def read_head(storage: SessionStorage, path: str) -> Head | None:
    """Read a file's head with the complete header; None if it is not a session. Raises OSError.

    Uses a reader, which refuses anything but a regular file: a pipe would block for ever.
    """
    reader = storage.open_reader(path)
    try:
        head = parse_head(reader.read_at(0, PREFIX_BYTES))
        if head is not None and head.is_cut:
            longer = reader.read_at(0, _LONGEST_HEADER_BYTES)
            head = parse_head(longer, _LONGEST_HEADER_BYTES)
        return head
    finally:
        reader.close()


def parse_head(prefix: bytes, limit: int = PREFIX_BYTES) -> Head | None:
    """Parse the head from a file's first bytes; None if they contain no session header.

    A prefix of ``limit`` bytes counts as cut: its last line continues in the file.
    """
    lines = prefix.split(b"\n")
    rest = lines.pop() if len(prefix) >= limit else b""
    records = (
        item
        for number, line in enumerate(lines)
        for item in read_line(line, number, number + 1)
        if isinstance(item, Record)
    )
    start = find_header(records)
    slot_title = start.slot.title if start.slot is not None else None
    if start.first is None:
        return _from_cut_header(rest, slot_title)
    if start.header is None:
        return None
    head = _from_header(start.first.value, slot_title)
    if not any(_note_prompt(head, record.value) for record in records):
        head.first_prompt = _cut_prompt(rest)
    return head


def _from_header(value: dict[str, Any], slot_title: str | None) -> Head:
    title = value.get("title") if slot_title is None else slot_title
    return Head(
        value["id"],
        as_text(value.get("cwd")),
        as_text(value.get("timestamp")) or None,
        as_text(title) or None,
    )


def _note_prompt(head: Head, value: dict[str, Any]) -> bool:
    message = value.get("message")
    if value.get("type") != "message" or not isinstance(message, dict):
        return False
    if message.get("role") != "user":
        return False
    text = text_of(message.get("content"))
    if not text or text.isspace():
        return False
    head.first_prompt = text
    return True


def _from_cut_header(line: bytes, slot_title: str | None) -> Head | None:
    """Parse the fields before the cut of a header longer than the prefix."""
    kind = _TYPE.match(line.removeprefix(BOM))
    if kind is None or kind[1] != b"session":
        return None
    fields: dict[str, str] = {}
    for name, value, quote in _STRING_FIELD.findall(line.decode("utf-8", "ignore")):
        fields.setdefault(name, _unescape(value) if quote or name == "title" else "")
    if not fields.get("id"):
        return None
    head = _from_header(fields, slot_title)
    head.is_cut = True
    return head


def _cut_prompt(line: bytes) -> str | None:
    """Return the beginning of a prompt whose line continues after the prefix."""
    text = line.decode("utf-8", "ignore")
    role = _USER.search(text)
    found = _TEXT.search(text, role.end()) if role else None
    return _unescape(found[1]) or None if found else None


def _unescape(fragment: str) -> str:
    """Decode a JSON string whose end may be missing."""
    try:
        return as_text(
            codec.decode(f'"{_CUT_ESCAPE.sub("", fragment)}"'.encode("utf-8", "replace"))
        )
    except ValueError:
        return fragment
