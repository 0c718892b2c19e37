"""Messages that every program can read, made of a framework's messages.

The same few forms that the program, other agents and exports show. What has no place in them is
kept beside them (``verbatim``), so nothing here needs to be exact.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sessiontree.adapters.verbatim import plain
from sessiontree.model.messages import AGENT_NAME, UNKNOWN_MODEL, WireMessage, as_text

Block = dict[str, Any]

_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


def user(blocks: Sequence[Block], at_ms: int) -> WireMessage:
    """A person's message; a text alone stands as a string."""
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return {"role": "user", "content": blocks[0]["text"], "timestamp": at_ms}
    return {"role": "user", "content": [*blocks], "timestamp": at_ms}


def assistant(
    blocks: Sequence[Block],
    at_ms: int,
    *,
    provider: str,
    model: str | None = None,
    agent: str | None = None,
    usage: Mapping[str, int] | None = None,
) -> WireMessage:
    """A model's answer, the agent that gives it (``agent``), and its cost (``usage``)."""
    calls = any(block["type"] == "toolCall" for block in blocks)
    message: WireMessage = {
        "role": "assistant",
        "content": [*blocks],
        "provider": provider,
        "model": model or UNKNOWN_MODEL,
        "stopReason": "toolUse" if calls else "stop",
        "timestamp": at_ms,
    }
    if agent:
        message[AGENT_NAME] = agent
    if usage:
        message["usage"] = usage_of(**usage)
    return message


def complete(messages: Iterable[WireMessage], dialect: str) -> None:
    """Add what agents of this dialect rely on: pi's answers always say what they used."""
    for message in messages:
        if dialect == "pi" and message.get("role") == "assistant":
            message.setdefault("usage", usage_of())


def usage_of(
    input: int = 0,  # noqa: A002 - named as in the file
    output: int = 0,
    cache_read: int = 0,
    cache_write: int = 0,
) -> dict[str, Any]:
    """Counts of tokens; ``input`` has none of those that a cache read or wrote."""
    return {
        "input": input,
        "output": output,
        "cacheRead": cache_read,
        "cacheWrite": cache_write,
        "totalTokens": input + output + cache_read + cache_write,
        "cost": dict(_NO_COST),
    }


def tool_result(
    blocks: Sequence[Block], at_ms: int, *, call_id: str, tool: str, is_error: bool = False
) -> WireMessage:
    """The result of a tool."""
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": tool,
        "content": [*blocks],
        "isError": is_error,
        "timestamp": at_ms,
    }


# -- blocks ------------------------------------------------------------------------------------


def text(said: str) -> Block:
    """A text."""
    return {"type": "text", "text": said}


def thinking(said: str, signature: object = None) -> Block:
    """The thoughts of a model before its answer."""
    block = {"type": "thinking", "thinking": said}
    if isinstance(signature, str) and signature:
        block["thinkingSignature"] = signature
    return block


def tool_call(call_id: object, name: object, arguments: object) -> Block:
    """A model's call of a tool."""
    return {
        "type": "toolCall",
        "id": as_text(call_id),
        "name": as_text(name),
        "arguments": plain(arguments) if isinstance(arguments, dict) else {},
    }


def image(data: bytes | str, mime: str) -> Block:
    """A picture: its bytes, or those in base64."""
    encoded = data if isinstance(data, str) else base64.b64encode(data).decode("ascii")
    return {"type": "image", "data": encoded, "mimeType": mime}


def as_json(value: object) -> str:
    """A value in words that a person can read."""
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def milliseconds(stamp: object, otherwise_ms: int) -> int:
    """The time of an ISO date, or of seconds since 1970."""
    try:
        if isinstance(stamp, str):
            return int(datetime.fromisoformat(stamp).timestamp() * 1000)
        if isinstance(stamp, int | float) and not isinstance(stamp, bool):
            return int(stamp * 1000)
    except (ValueError, OverflowError):
        pass
    return otherwise_ms
