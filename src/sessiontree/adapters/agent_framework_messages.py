"""Messages of Microsoft's agent-framework as messages of a session.

A message of the framework holds what several messages of a session do: each result of a tool is
one of its own. System messages have none and are only kept.

Knows nothing of sessions, stores or the framework: it takes messages as dictionaries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sessiontree.adapters import readable
from sessiontree.adapters.readable import Block
from sessiontree.model.messages import WireMessage, as_text

PROVIDER = "agent-framework"

Message = dict[str, Any]

_CALLS = ("function_call", "mcp_server_tool_call")
_RESULTS = ("function_result", "mcp_server_tool_result")


def messages_of(
    message: Mapping[str, Any],
    at_ms: int,
    tool_names: Mapping[str, str],
    usage: Mapping[str, Any] | None = None,
    model: str | None = None,
) -> list[WireMessage]:
    """The messages for a framework's; ``tool_names`` has the tool of each call by its id."""
    contents = [each for each in _list(message.get("contents")) if isinstance(each, dict)]
    made = [_result(each, at_ms, tool_names) for each in contents if each.get("type") in _RESULTS]
    rest = [each for each in contents if each.get("type") not in _RESULTS]
    blocks = [block for content in rest for block in _blocks(content)]
    if not blocks or message.get("role") == "system":
        return made
    if message.get("role") == "user":
        return [*made, readable.user(blocks, at_ms)]
    told = next((each.get("usage_details") for each in rest if each.get("type") == "usage"), usage)
    answer = readable.assistant(
        blocks,
        at_ms,
        provider=PROVIDER,
        model=model,
        agent=as_text(message.get("author_name")),
        usage=_usage(told),
    )
    return [answer, *made]


def calls_in(message: Mapping[str, Any]) -> dict[str, str]:
    """The tools that a message calls, by the ids of the calls."""
    return {
        as_text(each.get("call_id")): as_text(each.get("name")) or as_text(each.get("tool_name"))
        for each in _list(message.get("contents"))
        if isinstance(each, dict) and each.get("type") in _CALLS
    }


def skip_replayed(before: Sequence[Message], given: Sequence[Message]) -> Sequence[Message]:
    """The new ones of these messages, if a caller sends a grown conversation again.

    ``before`` is the conversation, or as much of its end as could be repeated and one message more.
    """
    known, coming = [_identity(each) for each in before], [_identity(each) for each in given]
    if not known:
        return given
    is_prompt = before[-1].get("role") == "user" and known[-1][0] != "id"
    for start in range(len(coming) - len(known) + 1):
        if coming[start : start + len(known)] == known:
            if start == 0 and len(known) == 1 and is_prompt:
                break  # the same question once more
            return given[start + len(known) :]
    for count in range(min(len(known), len(coming)), 0, -1):
        if known[-count:] == coming[:count] and not (count == 1 and is_prompt):
            return given[count:]
    return given


def _identity(message: Message) -> tuple[Any, ...]:
    if message.get("message_id") is not None:
        return ("id", message["message_id"])
    contents = json.dumps(message.get("contents"), sort_keys=True, default=str)
    return ("contents", message.get("role"), contents)


def _result(content: Mapping[str, Any], at_ms: int, tool_names: Mapping[str, str]) -> WireMessage:
    items = [each for each in _list(content.get("items")) if isinstance(each, dict)]
    blocks = [block for each in items for block in _blocks(each)]
    value = content.get("result", content.get("output"))
    if not blocks and value is not None:
        blocks = [readable.text(readable.as_json(value))]
    call_id = as_text(content.get("call_id"))
    return readable.tool_result(
        blocks,
        at_ms,
        call_id=call_id,
        tool=tool_names.get(call_id, ""),
        is_error=content.get("exception") is not None,
    )


def _blocks(content: Mapping[str, Any]) -> Iterable[Block]:
    match content:
        case {"type": "text", "text": str(text)}:
            yield readable.text(text)
        case {"type": "text_reasoning", "text": str(text)}:
            yield readable.thinking(text)
        case {"type": "function_call" | "mcp_server_tool_call"}:
            name = content.get("name") or content.get("tool_name")
            yield readable.tool_call(content.get("call_id"), name, _arguments(content))
        case {"type": "data", "uri": str(uri)}:
            yield _data(uri)
        case {"type": "uri", "uri": str(uri)}:
            yield readable.text(f"[{uri}]")
        case {"type": "hosted_file", "file_id": str(name)}:
            yield readable.text(f"[file {name}]")
        case {"type": "error", "message": str(text)}:
            yield readable.text(text)


def _arguments(content: Mapping[str, Any]) -> object:
    given = content.get("arguments")
    try:
        return json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return None


def _data(uri: str) -> Block:
    kind, has_data, data = uri.removeprefix("data:").partition(";base64,")
    if has_data and kind.startswith("image/"):
        return readable.image(data, kind)
    return readable.text(f"[{kind}]" if has_data else "[data]")


def _usage(details: object) -> dict[str, int]:
    if not isinstance(details, dict):
        return {}
    names = {
        "input": "input_token_count",
        "output": "output_token_count",
        "cache_read": "cache_read_input_token_count",
        "cache_write": "cache_creation_input_token_count",
    }
    counts = {ours: details.get(theirs) for ours, theirs in names.items()}
    usage = {name: count for name, count in counts.items() if type(count) is int}
    cached = usage.get("cache_read", 0) + usage.get("cache_write", 0)
    if "input" in usage:
        usage["input"] = max(0, usage["input"] - cached)
    return usage


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
