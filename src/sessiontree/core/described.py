"""Describe entries in words, for `show`, `tree`, the chat, the tree picker and Markdown.

Each description is one line of unescaped session text: escape it before showing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessiontree.core.usage import model_ref_of, read_usage
from sessiontree.model.dialects import read_model_change
from sessiontree.model.entries import WireEntry
from sessiontree.model.messages import as_text, text_of


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
