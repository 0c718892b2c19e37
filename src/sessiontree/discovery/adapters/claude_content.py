"""Convert Claude Code's content blocks, prompts and usage. Knows nothing of threads or files.

Blocks are those of Anthropic's Messages API. Blocks without a counterpart are returned as left
over, so that the caller can keep them.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from sessiontree.discovery.adapters.records import (
    WireRecord,
    get_count,
    get_list,
    get_object,
    get_text,
    make_usage,
)

API = "anthropic-messages"
SYNTHETIC_MODEL = "<synthetic>"
INTERRUPTED = "[Request interrupted by user"

_STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
    "refusal": "error",
}
_MARKUP_TAGS = (
    "<command-name>",
    "<command-message>",
    "<command-args>",
    "<local-command-",
)


class Content(msgspec.Struct):
    """Converted blocks, and blocks without a counterpart."""

    blocks: list[dict[str, Any]] = msgspec.field(default_factory=list)
    left_over: list[Any] = msgspec.field(default_factory=list)


def convert_prompt(content: object) -> Content:
    """Convert text and images of a user's content; the caller handles ``tool_result`` blocks."""
    if isinstance(content, str):
        return Content([{"type": "text", "text": content}] if content else [])
    converted = Content()
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            continue
        made = _text_or_image(block)
        if made is None:
            converted.left_over.append(block)
        else:
            converted.blocks.append(made)
    return converted


def convert_tool_result(content: object) -> Content:
    """The content of a ``tool_result`` block: a string, or text and images."""
    return convert_prompt(content)


def convert_reply(content: object, provider: str) -> Content:
    """Convert an assistant's blocks. Keep a signature only if its provider is known.

    Anthropic verifies a thinking block's signature and refuses a foreign one, so reasoning of
    a model behind another provider keeps its text alone.
    """
    if isinstance(content, str):
        return Content([{"type": "text", "text": content}] if content else [])
    converted = Content()
    for block in content if isinstance(content, list) else []:
        made = _reply_block(block, provider)
        if made is None:
            converted.left_over.append(block)
        elif made:
            converted.blocks.append(made)
    return converted


def _reply_block(block: object, provider: str) -> dict[str, Any] | None:
    """Convert a block; empty if it has no content, None if it has no counterpart."""
    if not isinstance(block, dict):
        return None
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return {"type": "text", "text": block["text"]} if block["text"] else {}
        case "thinking" if isinstance(block.get("thinking"), str):
            return _thinking(block, provider)
        case "redacted_thinking" if get_text(block, "data") and provider == "anthropic":
            return {
                "type": "thinking",
                "thinking": "[Reasoning redacted]",
                "thinkingSignature": block["data"],
                "redacted": True,
            }
        case "tool_use" if get_text(block, "id") and get_text(block, "name"):
            return {
                "type": "toolCall",
                "id": block["id"],
                "name": block["name"],
                "arguments": _arguments(block.get("input")),
            }
    return None


def _thinking(block: WireRecord, provider: str) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "thinking", "thinking": block["thinking"]}
    signature = get_text(block, "signature")
    if signature is not None and provider == "anthropic":
        made["thinkingSignature"] = signature
    # Newer files may keep only a thought's signature, without its text.
    return made if made["thinking"] or "thinkingSignature" in made else {}


def _arguments(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    return {} if value is None else {"input": value}


def _text_or_image(block: object) -> dict[str, Any] | None:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return None
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return {"type": "text", "text": block["text"]}
        case "image":
            source = get_object(block, "source")
            data = get_text(source, "data")
            if source.get("type") == "base64" and data is not None:
                mime = get_text(source, "media_type") or "image/png"
                return {"type": "image", "data": data, "mimeType": mime}
            url = get_text(source, "url")
            if url is not None:
                return {"type": "text", "text": f"[image: {url}]"}
    return None


def find_provider(model: str) -> str:
    """Guess the provider by the model's spelling: Anthropic, Bedrock, Vertex, or another."""
    if "anthropic.claude" in model:
        return "amazon-bedrock"
    if model.startswith("claude"):
        return "google-vertex" if "@" in model else "anthropic"
    if model == SYNTHETIC_MODEL:
        return "anthropic"
    provider, slash, _ = model.partition("/")
    return provider if slash and provider else "unknown"


def find_stop_reason(value: object, has_calls: bool) -> str:
    """Convert a stop reason; an answer without one either called tools or simply ended."""
    known = _STOP_REASONS.get(value) if isinstance(value, str) else None
    return known or ("toolUse" if has_calls else "stop")


def read_usage(usage: WireRecord, cost: object) -> dict[str, Any]:
    """Convert Anthropic's token counts; ``cost`` is in dollars, if an old file has one."""
    return make_usage(
        get_count(usage, "input_tokens"),
        get_count(usage, "output_tokens"),
        get_count(usage, "cache_read_input_tokens"),
        get_count(usage, "cache_creation_input_tokens"),
        read_dollars(cost),
    )


def read_dollars(cost: object) -> float:
    """A cost as a finite number of dollars; 0 for what is none."""
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        return 0.0
    try:
        return float(cost) if math.isfinite(cost) else 0.0
    except OverflowError:  # a whole number beyond any float
        return 0.0


def tool_results(content: object) -> list[WireRecord]:
    """The ``tool_result`` blocks of a user's content that name their call."""
    return [
        block
        for block in (content if isinstance(content, list) else [])
        if isinstance(block, dict)
        and block.get("type") == "tool_result"
        and get_text(block, "tool_use_id")
    ]


def tool_calls(content: object) -> dict[str, str]:
    """Id and name of every tool called in an assistant's content."""
    return {
        block["id"]: block["name"]
        for block in (content if isinstance(content, list) else [])
        if isinstance(block, dict)
        and block.get("type") == "tool_use"
        and get_text(block, "id")
        and get_text(block, "name")
    }


def plain_text(content: object) -> str:
    """The text of a user's content, blocks joined."""
    if isinstance(content, str):
        return content
    blocks = convert_prompt(content).blocks
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


# Plain searches, not patterns: a hostile text must cost no more than its length.


def is_command_markup(text: str) -> bool:
    """Whether a prompt consists only of the tags of a slash command or its output."""
    stripped = text.strip()
    return stripped.startswith(_MARKUP_TAGS) and stripped.endswith(">")


def is_queued_prompt(attachment: WireRecord) -> bool:
    """Whether the user typed this prompt while the model was working."""
    return (
        attachment.get("type") == "queued_command"
        and attachment.get("commandMode", "prompt") == "prompt"
    )


def typed_command(text: str) -> str | None:
    """Return the slash command in markup, with its arguments, as the user typed it."""
    name = (_between(text, "<command-name>", "</command-name>") or "").strip()
    arguments = (_between(text, "<command-args>", "</command-args>") or "").strip()
    return f"{name} {arguments}".strip() if name else None


def command_output(text: str) -> str | None:
    """Return the output of a slash command."""
    for stream in ("stdout", "stderr"):
        opening, closing = f"<local-command-{stream}>", f"</local-command-{stream}>"
        if text.strip().startswith(opening):
            return _between(text, opening, closing)
    return None


_AROUND = (
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "system-reminder",
    "user-prompt-submit-hook",
    "local-command-caveat",
    "task-notification",
    "skill",
)
"""The elements that Claude Code, its editor extensions and skills put before or after a prompt."""


def split_prompt(
    blocks: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split content into what Claude Code added and what the user typed, keeping every byte."""
    around: list[dict[str, Any]] = []
    typed: list[dict[str, Any]] = []
    for block in blocks:
        if block["type"] != "text":
            typed.append(block)
            continue
        found, rest = split_text(block["text"])
        around += ({"type": "text", "text": text} for text in found)
        if rest or not found:
            typed.append({**block, "text": rest})
    return around, typed


def split_text(text: str) -> tuple[list[str], str]:
    """The elements around a text, in order, and the text without them."""
    before: list[str] = []
    after: list[str] = []
    start, end = 0, len(text)
    while (found := _leading_element(text, start)) is not None:
        before.append(text[slice(*found)])
        start = _skip_space(text, found[1])
    while len(after) < _MOST_AFTER and (found := _trailing_element(text, start, end)) is not None:
        after.insert(0, text[slice(*found)])
        end = start + len(text[start : found[0]].rstrip())
    return [*before, *after], text[start:end]


_MOST_AFTER = 20
"""The most elements to look for behind a prompt: each search may read all of it."""


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _leading_element(text: str, start: int) -> tuple[int, int] | None:
    """Return start and end of the element that a text begins with; None without one."""
    start = _skip_space(text, start)
    for tag in _AROUND:
        if text.startswith((f"<{tag}>", f"<{tag} "), start):
            closing = f"</{tag}>"
            end = text.find(closing, start)
            return (start, end + len(closing)) if end >= 0 else None
    return None


def _trailing_element(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return start and end of the element that a text ends with; None without one."""
    while end > start and text[end - 1].isspace():
        end -= 1
    for tag in _AROUND:
        if text.endswith(f"</{tag}>", start, end):
            found = max(text.rfind(f"<{tag}>", start, end), text.rfind(f"<{tag} ", start, end))
            return (found, end) if found >= 0 else None
    return None


def bash_input(text: str) -> str | None:
    """Return the shell command that the user ran with ``!``."""
    stripped = text.strip()
    if stripped.startswith("<bash-input>") and stripped.endswith("</bash-input>"):
        return _between(stripped, "<bash-input>", "</bash-input>")
    return None


def bash_output(text: str) -> str | None:
    """Return such a command's output."""
    stripped = text.strip()
    if not stripped.startswith("<bash-stdout>"):
        return None
    if not stripped.endswith(("</bash-stdout>", "</bash-stderr>")):
        return None
    parts = (
        _between(stripped, "<bash-stdout>", "</bash-stdout>"),
        _between(stripped, "<bash-stderr>", "</bash-stderr>"),
    )
    return "\n".join(part for part in parts if part)


def _between(text: str, opening: str, closing: str) -> str | None:
    start = text.find(opening)
    end = text.find(closing, start + len(opening)) if start >= 0 else -1
    return text[start + len(opening) : end] if end >= 0 else None


def thinking_level(record: WireRecord) -> str | None:
    """Return the thinking level a prompt was sent with, if its record names one."""
    metadata = get_object(record, "thinkingMetadata")
    if metadata.get("disabled") is True:
        return "off"
    named = get_text(metadata, "level") or get_text(record, "effort")
    return _LEVELS.get(named) if named else None


_LEVELS = {
    "none": "off",
    "off": "off",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "xhigh",
}


def has_interruption(content: object) -> bool:
    """Whether a user's content reports that the answer before it was interrupted."""
    texts = [content] if isinstance(content, str) else get_list({"content": content}, "content")
    for block in texts:
        text = block if isinstance(block, str) else _block_text(block)
        if text.startswith(INTERRUPTED):
            return True
    return False


def _block_text(block: object) -> str:
    return (get_text(block, "text") or "") if isinstance(block, dict) else ""
