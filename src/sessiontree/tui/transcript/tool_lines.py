"""A tool call and its result in a few words. Pure; knows no widget.

Owns which argument of a call says what it does, and how a result is summed up. Both come from a
model or a command: the words are escaped by whoever shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessiontree.core.usage import arguments_text
from sessiontree.model.messages import text_of

# The arguments that say what a call is about, the first that is there; names of several agents.
_TELLING = ("command", "path", "file_path", "filePath", "pattern", "query", "url", "task", "prompt")


def describe_call(name: str, arguments: object) -> str:
    """What a call is about: its command, its path, what it looks for."""
    if not isinstance(arguments, Mapping):
        return ""
    match name:
        case "grep" | "find" | "glob":
            what, where = _text(arguments, "pattern", "query"), _text(arguments, "path")
            return f"{what} in {where}" if what and where else what or where
        case "read":
            return _text(arguments, "path", "file_path") + _line_range(arguments)
        case _:
            telling = _text(arguments, *_TELLING)
            if telling:
                return telling
    return _rest(arguments)


def describe_size(name: str, arguments: object) -> str:
    """How much a call writes: its result says only that it did. Empty for other tools."""
    if name != "write" or not isinstance(arguments, Mapping):
        return ""
    content = arguments.get("content")
    return _count_lines(content) if isinstance(content, str) else ""


def describe_result(message: Mapping[str, Any]) -> str:
    """How much a result is: ``12 lines``, ``exit 1``, an image; empty if there is nothing."""
    details = message.get("details")
    code = details.get("exitCode") if isinstance(details, Mapping) else None
    if isinstance(code, int) and not isinstance(code, bool) and code:
        return f"exit {code}"
    text = text_of(message.get("content"), "\n").strip("\n")
    images = count_images(message.get("content"))
    parts = []
    if text:
        parts.append(_count_lines(text))
    if images:
        parts.append("1 image" if images == 1 else f"{images} images")
    return ", ".join(parts)


def diff_of(message: Mapping[str, Any]) -> str | None:
    """The diff that an edit keeps in its details, if it does."""
    details = message.get("details")
    diff = details.get("diff") if isinstance(details, Mapping) else None
    return diff if isinstance(diff, str) and diff.strip() else None


def count_images(content: object) -> int:
    """How many image blocks a content has."""
    blocks = content if isinstance(content, list) else []
    return sum(1 for b in blocks if isinstance(b, Mapping) and b.get("type") == "image")


def _count_lines(text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    return "1 line" if lines == 1 else f"{lines:,} lines"


def _text(arguments: Mapping[str, Any], *names: str) -> str:
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def _line_range(arguments: Mapping[str, Any]) -> str:
    offset, limit = arguments.get("offset"), arguments.get("limit")
    start = offset if isinstance(offset, int) and offset > 0 else None
    if isinstance(limit, int) and limit > 0:
        first = start or 1
        return f":{first}-{first + limit - 1}"
    return f":{start}" if start else ""


def _rest(arguments: Mapping[str, Any]) -> str:
    if not arguments:
        return ""
    if len(arguments) == 1:
        (value,) = arguments.values()
        if isinstance(value, str):
            return value
    return arguments_text({"arguments": arguments})
