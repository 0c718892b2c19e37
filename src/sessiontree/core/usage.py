"""Add up a session's recorded tokens and costs, and estimate the tokens of messages.

Five things of a session may say what they cost: an assistant's message; a tool's result, if the
tool called a model; a compaction and a branch summary, which a model wrote; a ``usage`` entry, for
any other call (keeping a cache warm, say).

Pure. Reads the wire objects as they come: a ``usage`` that is missing, empty or of the wrong types
counts as nothing and never fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sessiontree.model.messages import WireMessage

CHARACTERS_PER_TOKEN = 4
IMAGE_TOKENS = 1_200


class Usage(msgspec.Struct, frozen=True):
    """Tokens by kind, and US dollars. Supports addition."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: float = 0.0
    reasoning: int = 0
    """The part of ``output`` that was thinking."""
    cache_write_1h: int = 0
    """The part of ``cache_write`` that is kept for an hour."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.total_tokens + other.total_tokens,
            self.cost + other.cost,
            self.reasoning + other.reasoning,
            self.cache_write_1h + other.cache_write_1h,
        )


def usage_of(message: Mapping[str, Any]) -> Usage | None:
    """Return an assistant message's usage; None for other roles or without usage."""
    return read_usage(message.get("usage")) if message.get("role") == "assistant" else None


def read_usage(raw: object) -> Usage | None:
    """Read a ``usage`` object of the file; None for anything else."""
    if not isinstance(raw, dict):
        return None

    def count(key: str) -> int:
        return int(_number(raw.get(key)))

    parts = [count(key) for key in ("input", "output", "cacheRead", "cacheWrite")]
    total = count("totalTokens") or sum(parts)
    thought, lasting = count("reasoning"), count("cacheWrite1h")
    cost = _cost(raw.get("cost"))
    return Usage(parts[0], parts[1], parts[2], parts[3], total, cost, thought, lasting)


def usage_of_entry(entry: Mapping[str, Any]) -> Usage | None:
    """Return the usage recorded in an entry of any type; None without any."""
    match entry.get("type"):
        case "message":
            message = entry.get("message")
            if isinstance(message, dict) and message.get("role") in _PAID_ROLES:
                return read_usage(message.get("usage"))
            return None
        case "usage" | "compaction" | "branch_summary":
            return read_usage(entry.get("usage"))
        case _:
            return None


_PAID_ROLES = ("assistant", "toolResult")
PAID_TYPES = frozenset(("message", "usage", "compaction", "branch_summary"))
"""Types of entries that may say what they used."""


def total_usage(entries: Iterable[Mapping[str, Any]]) -> Usage:
    """Add up the usage of all entries."""
    return sum((used for entry in entries if (used := usage_of_entry(entry))), Usage())


def model_ref_of(message: Mapping[str, Any]) -> str | None:
    """Return ``provider/model`` of an assistant message or a ``usage`` entry, if complete."""
    provider, model = message.get("provider"), message.get("model")
    if isinstance(provider, str) and isinstance(model, str) and provider and model:
        return f"{provider}/{model}"
    return None


def paid_model_of(entry: Mapping[str, Any]) -> str | None:
    """``provider/model`` of the model that an entry's usage counts for, if the entry says so.

    For an answer that is the model which the provider reported: a router's name is only a request.
    """
    message = entry.get("message") if entry.get("type") == "message" else entry
    if not isinstance(message, dict):
        return None
    physical = message.get("responseModel")
    if isinstance(physical, str) and physical:
        return model_ref_of({**message, "model": physical})
    return model_ref_of(message)


class MessageCounts(msgspec.Struct, frozen=True):
    """The number of messages of each kind."""

    user: int = 0
    assistant: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    total: int = 0


def count_messages(messages: Iterable[Mapping[str, Any]]) -> MessageCounts:
    """Count by role; tool calls are counted inside assistant messages."""
    user = assistant = calls = results = total = 0
    for message in messages:
        total += 1
        match message.get("role"):
            case "user":
                user += 1
            case "assistant":
                assistant += 1
                calls += sum(1 for _ in blocks_of(message, "toolCall"))
            case "toolResult":
                results += 1
            case _:
                pass
    return MessageCounts(user, assistant, calls, results, total)


def blocks_of(message: Mapping[str, Any], kind: str) -> Iterable[Mapping[str, Any]]:
    """Yield the content blocks of one kind; skip invalid blocks."""
    content = message.get("content")
    if not isinstance(content, list):
        return ()
    return (block for block in content if isinstance(block, dict) and block.get("type") == kind)


# --- estimates --------------------------------------------------------------------------------


def estimate_text(text: str) -> int:
    """Estimate the tokens of a text by a rule of thumb, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def estimate_message(message: Mapping[str, Any]) -> int:
    """Estimate the tokens that a message adds to a context by a rule of thumb."""
    role = message.get("role")
    if role in ("user", "custom", "toolResult", "assistant"):
        characters, images = _content_size(message.get("content"))
    elif role == "system":
        characters, images = _system_size(message), 0
    elif role == "bashExecution":
        if message.get("excludeFromContext"):
            return 0
        characters, images = _length(message.get("command")) + _length(message.get("output")), 0
    elif role in ("branchSummary", "compactionSummary"):
        characters, images = _content_size(message.get("blocks"))
        characters += _length(message.get("summary"))
    else:
        return 0
    return -(-characters // CHARACTERS_PER_TOKEN) + images * IMAGE_TOKENS


class ContextEstimate(msgspec.Struct, frozen=True):
    """An estimate of the context: tokens a provider counted, plus those that came after."""

    tokens: int
    counted: int = 0
    estimated: int = 0


def estimate_context(messages: Sequence[WireMessage], trust_from: int = 0) -> ContextEstimate:
    """Estimate a conversation's tokens: the last good ``usage`` plus the messages after it.

    A usage before ``trust_from`` is not believed: it counted messages that a later compaction took
    out. An answer that failed or was aborted has no good usage.
    """
    for index in range(len(messages) - 1, max(trust_from, 0) - 1, -1):
        counted = _good_usage(messages[index])
        if counted:
            after = sum(estimate_message(message) for message in messages[index + 1 :])
            return ContextEstimate(counted + after, counted, after)
    guess = sum(estimate_message(message) for message in messages)
    return ContextEstimate(guess, 0, guess)


def _good_usage(message: Mapping[str, Any]) -> int:
    if message.get("stopReason") in ("error", "aborted"):
        return 0
    used = usage_of(message)
    return 0 if used is None else used.total_tokens


def _content_size(content: object) -> tuple[int, int]:
    if isinstance(content, str):
        return len(content), 0
    if not isinstance(content, list):
        return 0, 0
    characters = images = 0
    for block in content:
        if not isinstance(block, dict):
            continue
        match block.get("type"):
            case "text":
                characters += _length(block.get("text"))
            case "thinking":
                characters += _length(block.get("thinking"))
            case "toolCall":
                characters += _length(block.get("name")) + len(arguments_text(block))
            case "image":
                images += 1
            case _:
                pass
    return characters, images


def _system_size(message: Mapping[str, Any]) -> int:
    sections, tools = message.get("sections"), message.get("toolsAdded")
    size = _content_size(message.get("content"))[0]
    size += sum(map(_length, sections.values())) if isinstance(sections, dict) else 0
    return size + (len(_json(tools)) if isinstance(tools, list) else 0)


def arguments_text(call: Mapping[str, Any]) -> str:
    """Encode a tool call's arguments as compact JSON."""
    return _json(call.get("arguments"))


def _json(value: object) -> str:
    try:
        import json  # asked for tool calls only

        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError):
        return "{…}"


def _length(value: object) -> int:
    return len(value) if isinstance(value, str) else 0


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        return 0.0
    return number if math.isfinite(number) and number > 0 else 0.0


def _cost(raw: object) -> float:
    if not isinstance(raw, dict):
        return 0.0
    total = _number(raw.get("total"))
    if total:
        return total
    return sum(_number(raw.get(key)) for key in ("input", "output", "cacheRead", "cacheWrite"))
