"""Messages of a session file ⇄ messages of pydantic-ai, without loss.

Owns whole messages; blocks and parts are `parts`' business, requests and agents are not known
here. Loads pydantic-ai, so only agents built on it import this module.

Each wire message becomes one pydantic-ai message. What has no place there (unknown fields and
blocks, an image that is not valid base64, odd numbers in ``usage``) is kept in its ``metadata``,
which is never sent to a model, and comes back from there: whatever a message holds, it returns
unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from sessiontree.agents import NOT_INSTALLED

try:
    from pydantic_ai.messages import (
        BinaryContent,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        ToolReturnPart,
        UserPromptPart,
    )
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(NOT_INSTALLED, name=error.name) from error

from sessiontree.agents.parts import (
    request_usage,
    response_parts,
    text_or_none,
    to_datetime,
    to_milliseconds,
    user_blocks,
    user_items,
    wire_content,
    wire_usage,
)
from sessiontree.core.llm import convert_to_llm, system_text
from sessiontree.model.messages import WireMessage, as_text

KEPT = "sessiontree"
"""The key in ``metadata`` under which goes what pydantic-ai has no place for."""

_PROVIDER_NAMES = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "azure-responses": "azure",
}

_FINISH: Mapping[str, Literal["stop", "length", "tool_call", "error"]] = {
    "stop": "stop",
    "length": "length",
    "toolUse": "tool_call",
    "error": "error",
}
_STOP: Mapping[str, str] = {
    "stop": "stop",
    "length": "length",
    "tool_call": "toolUse",
    "content_filter": "error",
    "error": "error",
}


def to_model_messages(
    messages: Iterable[WireMessage], *, lossless: bool = True
) -> list[ModelMessage]:
    """The messages as pydantic-ai's, the extended roles turned into user messages first.

    Without ``lossless`` nothing is kept aside, which is enough for a request and cheaper.
    """
    made = []
    for message in convert_to_llm(messages):
        converted = _to_model(message)
        if lossless and message.get("role") != "system":
            _keep(converted, message)
        made.append(converted)
    return made


def from_model_messages(messages: Iterable[ModelMessage]) -> list[WireMessage]:
    """The messages as a session file has them. System prompts from elsewhere are left out.

    A request of several parts becomes several messages.
    """
    made: list[WireMessage] = []
    for message in messages:
        wire = _from_model(message)
        kept = (message.metadata or {}).get(KEPT)
        if len(wire) == 1 and isinstance(kept, dict):
            _restore(wire[0], kept)
        made.extend(wire)
    return made


def provider_name(provider: object) -> str:
    """pydantic-ai's name of the service behind a provider of ours."""
    return _PROVIDER_NAMES.get(provider, provider) if isinstance(provider, str) else "unknown"


# --- wire → pydantic-ai -----------------------------------------------------------------------


def _to_model(message: WireMessage) -> ModelMessage:
    match message.get("role"):
        case "assistant":
            return _response(message)
        case "toolResult":
            return _tool_result(message)
        case "system":
            return _system(message)
        case _:
            return _user(message)


def _system(message: WireMessage) -> ModelRequest:
    """The prompt as text; sections and tools, which have no place there, are kept aside."""
    when = to_datetime(message.get("timestamp"))
    part = SystemPromptPart(system_text(message), timestamp=when)
    return ModelRequest([part], timestamp=when, metadata={KEPT: {"fields": message}})


def _user(message: WireMessage) -> ModelRequest:
    when = to_datetime(message.get("timestamp"))
    content = message.get("content")
    prompt = user_items(content) if isinstance(content, list) else as_text(content)
    return ModelRequest([UserPromptPart(prompt, timestamp=when)], timestamp=when)


def _tool_result(message: WireMessage) -> ModelRequest:
    when = to_datetime(message.get("timestamp"))
    content = message.get("content")
    items = user_items(content) if isinstance(content, list) else [as_text(content)]
    texts = [item for item in items if isinstance(item, str)]
    part = ToolReturnPart(
        as_text(message.get("toolName")),
        "\n".join(texts) if len(texts) == len(items) else items,
        as_text(message.get("toolCallId")),
        metadata=message.get("details"),
        timestamp=when,
        outcome="failed" if message.get("isError") is True else "success",
    )
    return ModelRequest([part], timestamp=when)


def _response(message: WireMessage) -> ModelResponse:
    provider = provider_name(message.get("provider"))
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    stop = message.get("stopReason")
    return ModelResponse(
        response_parts(content if isinstance(content, list) else [], provider),
        usage=request_usage(message.get("usage")),
        model_name=text_or_none(message.get("model")),
        provider_name=provider,
        timestamp=to_datetime(message.get("timestamp")),
        finish_reason=_FINISH.get(stop) if isinstance(stop, str) else None,
        state="interrupted" if stop == "aborted" else "complete",
        provider_response_id=text_or_none(message.get("responseId")),
    )


# --- pydantic-ai → wire -----------------------------------------------------------------------


def _from_model(message: ModelMessage) -> list[WireMessage]:
    if isinstance(message, ModelResponse):
        return [_assistant(message)]
    made = []
    for part in message.parts:
        match part:
            case UserPromptPart():
                content = part.content
                blocks = content if isinstance(content, str) else user_blocks(content)
                made.append(
                    {
                        "role": "user",
                        "content": blocks,
                        "timestamp": to_milliseconds(part.timestamp),
                    }
                )
            case ToolReturnPart():
                made.append(_tool_result_message(part))
            case SystemPromptPart() if KEPT in (message.metadata or {}):
                made.append({"role": "system"})
            case _:
                pass
    return made


def _tool_result_message(part: ToolReturnPart) -> WireMessage:
    content = part.content
    if isinstance(content, BinaryContent) or (
        isinstance(content, list) and all(isinstance(item, str | BinaryContent) for item in content)
    ):
        blocks = user_blocks(content if isinstance(content, list) else [content])
    else:
        blocks = [{"type": "text", "text": part.model_response_str(wrap_if_error=False)}]
    message: WireMessage = {
        "role": "toolResult",
        "toolCallId": part.tool_call_id,
        "toolName": part.tool_name,
        "content": blocks,
        "isError": part.outcome != "success",
        "timestamp": to_milliseconds(part.timestamp),
    }
    if part.metadata is not None:
        message["details"] = part.metadata
    return message


def _assistant(message: ModelResponse) -> WireMessage:
    stop = "aborted" if message.state == "interrupted" else _STOP.get(message.finish_reason or "")
    made: WireMessage = {
        "role": "assistant",
        "content": wire_content(message.parts),
        "provider": message.provider_name or "unknown",
        "model": message.model_name or "unknown",
        "usage": {
            **wire_usage(message.usage),
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
        },
        "stopReason": stop or ("toolUse" if message.tool_calls else "stop"),
        "timestamp": to_milliseconds(message.timestamp),
    }
    if message.provider_response_id is not None:
        made["responseId"] = message.provider_response_id
    return made


# --- what has no place ------------------------------------------------------------------------


def _keep(made: ModelMessage, message: WireMessage) -> None:
    """Put into ``metadata`` what converting back would not restore exactly."""
    (back,) = _from_model(made)
    kept: dict[str, Any] = {}
    blocks = _differing_blocks(message.get("content"), back.get("content"))
    if blocks:
        kept["blocks"] = blocks
    fields = {
        key: value
        for key, value in message.items()
        if not (key == "content" and blocks is not None)
        and not (key in back and _same(value, back[key]))
    }
    if fields:
        kept["fields"] = fields
    if absent := [key for key in back if key not in message]:
        kept["absent"] = absent
    if kept:
        made.metadata = {KEPT: kept}


def _differing_blocks(content: object, back: object) -> dict[str, Any] | None:
    """The blocks that came back otherwise, by place; None if the contents cannot be compared so."""
    if not (isinstance(content, list) and isinstance(back, list) and len(content) == len(back)):
        return None
    pairs = zip(content, back, strict=True)
    return {str(at): ours for at, (ours, its) in enumerate(pairs) if not _same(ours, its)}


def _restore(wire: WireMessage, kept: Mapping[str, Any]) -> None:
    content = wire.get("content")
    for at, block in kept.get("blocks", {}).items():
        if isinstance(content, list) and int(at) < len(content):
            content[int(at)] = block
    wire.update(kept.get("fields", {}))
    for key in kept.get("absent", ()):
        wire.pop(key, None)


def _same(ours: object, its: object) -> bool:
    """Whether two JSON values are the same to the type: 1, 1.0 and True are three values."""
    try:
        return json.dumps(ours, sort_keys=True) == json.dumps(its, sort_keys=True)
    except (RecursionError, TypeError, ValueError):
        return False
