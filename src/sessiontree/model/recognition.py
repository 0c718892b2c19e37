"""Recognize a file without a session header: a damaged session, or another program's file. Pure.

A damaged session may be rewritten after a backup; another program's file must stay as it is. So
only what every session has counts as evidence: an entry, or the remains of a header. In doubt the
file belongs to another program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from sessiontree.model.ids import parse_timestamp

ForeignAgent = Literal["claude-code", "codex"]

AGENT_NAMES: Mapping[str, str] = {"claude-code": "Claude Code", "codex": "Codex"}

# Each type of entry with a field that it always has, as its name alone is a word anybody may use.
_ENTRY_FIELDS: Mapping[str, str] = {
    "branch_summary": "summary",
    "compaction": "summary",
    "context_change": "id",
    "context_edit": "targetId",
    "credential_pin": "id",
    "custom": "customType",
    "custom_message": "customType",
    "label": "targetId",
    "mcp_tool_selection": "id",
    "message": "message",
    "mode_change": "mode",
    "model_change": "timestamp",
    "model_usage": "timestamp",
    "reset_boundary": "id",
    "service_tier_change": "id",
    "session_info": "timestamp",
    "session_init": "systemPrompt",
    "thinking_level_change": "thinkingLevel",
    "title_change": "timestamp",
    "ttsr_injection": "injectedRules",
    "usage": "usage",
}
_NEWER_TYPE = re.compile(r"[a-z][a-z_]{1,40}")
_TYPE_NAME = re.compile(r"[A-Za-z][\w.:/-]*")
_OUR_ID = re.compile(r"[0-9a-f]{8}")

_CLAUDE_KEYS = frozenset(("sessionId", "parentUuid", "leafUuid", "uuid", "isSidechain"))
# A tuple: what a file says is a type need not be hashable.
_CODEX_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_HEADER_START = b'{"type":"session"'
_HEADER_KEY = re.compile(rb'"(version|id|timestamp|cwd)"\s*:')


def is_entry(value: Mapping[str, Any]) -> bool:
    """Whether a record is an entry of a session, in any version of the format."""
    kind = value.get("type")
    if not isinstance(kind, str):
        return False
    field = _ENTRY_FIELDS.get(kind)
    if field is None:
        return _is_newer_entry(kind, value)
    if field not in value or (kind == "message" and not isinstance(value["message"], dict)):
        return False
    if "id" in value or "parentId" in value:
        return _has_place(value)
    # version 1: neither id nor parent
    return isinstance(value.get("timestamp"), str)


def _is_newer_entry(kind: str, value: Mapping[str, Any]) -> bool:
    """An entry of a type that only a later version knows, by the fields that all entries have."""
    return (
        _NEWER_TYPE.fullmatch(kind) is not None
        and _has_place(value)
        and _OUR_ID.fullmatch(value["id"]) is not None
        and parse_timestamp(value.get("timestamp")) is not None
    )


def _has_place(value: Mapping[str, Any]) -> bool:
    parent = value.get("parentId", 0)
    return isinstance(value.get("id"), str) and (parent is None or isinstance(parent, str))


def is_damaged_header(value: Mapping[str, Any]) -> bool:
    """Whether a whole record is a header that lacks what makes one valid."""
    if value.get("type") != "session" or isinstance(value.get("id"), str):
        return False
    return any(isinstance(value.get(key), str) for key in ("cwd", "timestamp"))


def is_header_debris(line: bytes) -> bool:
    """Whether a line that is not JSON holds the remains of a header."""
    text = line.strip(b" \t\r\x00")
    if _HEADER_START.startswith(text) or text.startswith(_HEADER_START):
        return len(text) > len(b'{"type":"')
    head = text[:400]
    keys = set(_HEADER_KEY.findall(head))
    return len(keys) > 1 if b'"session"' in head[:200] else {b"id", b"cwd"} <= keys


def is_torn_start(content: bytes) -> bool:
    """Whether this is the beginning of a header and then nothing, or NULs.

    That is what a power cut leaves of a file's first write.
    """
    return _HEADER_START.startswith(content.rstrip(b"\x00"))


def is_of_another_program(value: Mapping[str, Any]) -> bool:
    """Whether a file's first record shows that another program wrote it."""
    if whose_record(value) is not None:
        return True
    kind = value.get("type")
    return (
        isinstance(kind, str)
        and _TYPE_NAME.fullmatch(kind) is not None  # else it may be damage
        and "parentId" not in value
        and kind not in ("session", "title")
        and kind not in _ENTRY_FIELDS
    )


def whose_record(value: Mapping[str, Any]) -> ForeignAgent | None:
    """Return the agent whose transcripts have such records, if they can be imported."""
    if value.get("type") in _CODEX_TYPES and isinstance(value.get("payload"), dict):
        return "codex"
    message = value.get("message")
    has_parts = isinstance(message, dict) and "parts" in message
    if value.keys() & _CLAUDE_KEYS and not (
        {"parentId", "projectHash"} & value.keys() or has_parts
    ):
        return "claude-code"
    return None
