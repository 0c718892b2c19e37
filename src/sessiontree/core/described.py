"""Describe entries in words, for `show`, `tree`, the chat, the tree picker and Markdown.

Each description is one line of unescaped session text: escape it before showing it.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Any

from sessiontree.core.usage import arguments_text, model_ref_of, read_usage
from sessiontree.model.dialects import read_model_change
from sessiontree.model.entries import WireEntry
from sessiontree.model.messages import as_text, text_of

# The arguments that say what a call is about, the first that is there; names of several agents.
_TELLING = ("command", "path", "file_path", "filePath", "pattern", "query", "url", "task", "prompt")
_HEAD_CHARACTERS = 64 * 1024
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def describe_state(kind: str, data: WireEntry) -> tuple[str, str] | None:
    """Name and value of an entry beside the conversation: ``("model", "acme/large")``.

    None if entries of this type (``kind``) have no such description.
    """
    match kind:
        case "model_change":
            change = read_model_change(data)
            return "model", change[1] if change else "?"
        case "thinking_level_change":
            return "thinking", as_text(data.get("thinkingLevel")) or "off"
        case "mode_change":
            return "mode", as_text(data.get("mode")) or "none"
        case "label":
            return "label", as_text(data.get("label")) or "(cleared)"
        case "session_info":
            return "name", as_text(data.get("name")) or "(cleared)"
        case "context_edit":
            return "context", describe_edit(data)
        case "usage":
            return "usage", describe_usage(data)
        case _:
            return None


def describe_edit(data: Mapping[str, Any]) -> str:
    """Describe a ``context_edit``: ``1a2b3c4d left out``."""
    target, replacement = as_text(data.get("targetId")) or "?", data.get("replacement")
    if replacement is None:
        return f"{target} left out"
    content = replacement.get("content") if isinstance(replacement, dict) else None
    text = text_of(content).strip()
    return f"{target} now reads: {text}" if text else f"{target} emptied"


def describe_usage(data: Mapping[str, Any]) -> str:
    """Describe a ``usage`` entry: ``cache_warm: acme/large, 50,000 tokens, $0.02``."""
    parts = [model_ref_of(data) or "?"]
    used = read_usage(data.get("usage"))
    if used is not None:
        parts.append(f"{used.total_tokens:,} tokens")
        parts += [f"${used.cost:.2f}"] if used.cost else []
    note = as_text(data.get("note"))
    return (
        f"{as_text(data.get('kind')) or 'usage'}: {', '.join(parts)}{f' ({note})' if note else ''}"
    )


def describe_system(message: Mapping[str, Any]) -> str:
    """Describe a system message: ``prompt, sections tools and cwd, 8 tools added``."""
    parts = ["prompt"] if text_of(message.get("content")).strip() else []
    sections = message.get("sections")
    if isinstance(sections, dict) and sections:
        parts.append(f"sections {', '.join(map(str, sections))}")
    for key, word in (("toolsAdded", "added"), ("toolsRemoved", "removed")):
        tools = message.get(key)
        if isinstance(tools, list) and tools:
            parts.append(f"{len(tools)} {'tool' if len(tools) == 1 else 'tools'} {word}")
    return "; ".join(parts) or "nothing"


def describe_call(name: str, arguments: object) -> str:
    """Describe a call: its command, its path, its pattern."""
    if not isinstance(arguments, Mapping):
        return ""
    match name:
        case "grep" | "find" | "glob":
            what, where = _text(arguments, "pattern", "query"), _text(arguments, "path")
            return f"{what} in {where}" if what and where else what or where
        case "read":
            return _text(arguments, "path", "file_path") + _line_range(arguments)
        case "todo" | "todo_write" | "TodoWrite" if isinstance(arguments.get("todos"), list):
            return _describe_todos(arguments["todos"])
        case _:
            telling = _text(arguments, *_TELLING)
            if telling:
                return telling
    return _rest(arguments)


def _describe_todos(todos: list[Any]) -> str:
    """How many tasks are done, and the one under way."""
    tasks = [task for task in todos if isinstance(task, Mapping)]
    done = sum(task.get("status") == "completed" for task in tasks)
    active = [task for task in tasks if task.get("status") == "in_progress"]
    now = _text(active[0], "content") if active else ""
    return f"{done} of {len(todos)} done" + (f" · {now}" if now else "")


def describe_size(name: str, arguments: object) -> str:
    """Describe the size of a write, which its result doesn't show. Empty for other tools."""
    if name != "write" or not isinstance(arguments, Mapping):
        return ""
    content = arguments.get("content")
    return _count_lines(content) if isinstance(content, str) else ""


def describe_result(message: Mapping[str, Any]) -> str:
    """Describe a result: ``12 lines``, ``exit 1``, an image; empty if there is nothing."""
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
    """Count the image blocks of a content."""
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


def describe_image(block: Mapping[str, Any]) -> str:
    """``image · png · 640×480 · 34 KB``, as far as it is known."""
    mime = block.get("mimeType")
    kind = mime.removeprefix("image/") if isinstance(mime, str) and mime else "unknown kind"
    name = block.get("fileName") or block.get("name")
    parts = [name if isinstance(name, str) and name else "image", kind]
    data = block.get("data")
    if not isinstance(data, str) or data.startswith("blob:"):
        return " · ".join([*parts, "its data is missing"])
    size = image_size(data)
    if size is not None:
        parts.append(f"{size[0]}×{size[1]}")
    parts.append(_amount(len(data.rstrip("=")) * 3 // 4))
    return " · ".join(parts)


def describe_image_briefly(block: Mapping[str, Any]) -> str:
    """``[image: image/png, 34 KB]``."""
    kind = as_text(block.get("mimeType")) or "unknown kind"
    data = as_text(block.get("data"))
    if data.startswith("blob:"):
        return f"[image: {kind}, its data is missing]"
    size = len(data) * 3 // 4
    return (
        f"[image: {kind}, {size / 1024:.0f} KB]" if size >= 1024 else f"[image: {kind}, {size} B]"
    )


def image_size(data: str) -> tuple[int, int] | None:
    """Width and height of base64 image data, read off its head; None if it can't be told."""
    try:
        head = base64.b64decode(data[:_HEAD_CHARACTERS] + "===", validate=False)
    except (binascii.Error, ValueError):
        return None
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return struct.unpack(">II", head[16:24])
        if head[:6] in (b"GIF87a", b"GIF89a"):
            return struct.unpack("<HH", head[6:10])
        if head.startswith(b"\xff\xd8"):
            return _jpeg_size(head)
    except struct.error:
        return None
    return None


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(head):
        if head[at] != 0xFF:
            return None
        marker = head[at + 1]
        if marker in _JPEG_SIZES:
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        (length,) = struct.unpack(">H", head[at + 2 : at + 4])
        at += 2 + max(2, length)
    return None


def _amount(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:.0f} KB" if size < 1024 * 1024 else f"{size / 1024 / 1024:.1f} MB"
