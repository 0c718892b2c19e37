"""LangChain's messages as messages of a session. Knows nothing of sessions or stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from sessiontree.adapters import readable
from sessiontree.adapters.readable import Block
from sessiontree.model.messages import WireMessage, as_text, text_or_none

PROVIDER = "langgraph"


def message_of(message: BaseMessage, at_ms: int) -> WireMessage | None:
    """The message of a session; None if it says nothing, but removes another one."""
    blocks = [*_blocks(message.content)]
    match message:
        case HumanMessage():
            return readable.user(blocks, at_ms)
        case AIMessage():
            return _answer(message, blocks, at_ms)
        case ToolMessage():
            return readable.tool_result(
                blocks,
                at_ms,
                call_id=as_text(message.tool_call_id),
                tool=as_text(message.name),
                is_error=message.status == "error",
            )
        case FunctionMessage():
            return readable.tool_result(blocks, at_ms, call_id="", tool=as_text(message.name))
        case SystemMessage():
            said = "".join(as_text(block.get("text")) for block in blocks)
            return {"role": "system", "content": said, "timestamp": at_ms}
        case ChatMessage() if message.role == "assistant":
            return readable.assistant(blocks, at_ms, provider=PROVIDER)
        case ChatMessage():
            return readable.user(blocks, at_ms)
    return None


def _answer(message: AIMessage, blocks: list[Block], at_ms: int) -> WireMessage:
    blocks += [
        readable.tool_call(call.get("id"), call.get("name"), call.get("args"))
        for call in message.tool_calls
    ]
    said = message.response_metadata
    model = said.get("model_name") or said.get("model")
    provider = said.get("model_provider") or said.get("ls_provider")
    return readable.assistant(
        blocks,
        at_ms,
        provider=provider if isinstance(provider, str) and provider else PROVIDER,
        model=text_or_none(model),
        agent=message.name,
        usage=_usage(message.usage_metadata),
    )


def _usage(used: Mapping[str, Any] | None) -> dict[str, int]:
    """Counts of tokens; LangChain's ``input_tokens`` includes what a cache read or wrote."""
    if not used:
        return {}
    details = used.get("input_token_details")
    cached = details if isinstance(details, dict) else {}
    read, written = _count(cached.get("cache_read")), _count(cached.get("cache_creation"))
    return {
        "input": max(0, _count(used.get("input_tokens")) - read - written),
        "output": _count(used.get("output_tokens")),
        "cache_read": read,
        "cache_write": written,
    }


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _blocks(content: Any) -> Iterable[Block]:
    if isinstance(content, str):
        yield from [readable.text(content)] if content else []
        return
    for block in content if isinstance(content, list) else ():
        if isinstance(block, str):
            yield readable.text(block)
        elif isinstance(block, dict):
            yield from _block(block)


def _block(block: dict[str, Any]) -> Iterable[Block]:
    match block:
        case {"type": "text" | "output_text" | "input_text", "text": str(text)}:
            yield readable.text(text)
        case {"type": "thinking", "thinking": str(said)}:
            yield readable.thinking(said, block.get("signature"))
        case {"type": "reasoning", "reasoning": str(said)}:
            yield readable.thinking(said)
        case {"type": "tool_use" | "tool_call" | "function_call" | "input_json_delta"}:
            return  # its message has it among the tool calls
        case {"type": "image_url", "image_url": {"url": str(url)}} | {
            "type": "image_url",
            "image_url": str(url),
        }:
            yield _image_at(url)
        case {"type": "image", "base64": str(data)}:
            yield readable.image(data, as_text(block.get("mime_type")) or "image/png")
        case {"type": "image", "source": {"type": "base64", "data": str(data)}}:
            source = block["source"]
            yield readable.image(data, as_text(source.get("media_type")) or "image/png")
        case {"type": "image", "url": str(url)}:
            yield _image_at(url)
        case {"type": str(kind)}:
            yield readable.text(f"[{kind}]")


def _image_at(url: str) -> Block:
    head, comma, data = url.partition(";base64,")
    if comma and head.startswith("data:"):
        return readable.image(data, head.removeprefix("data:") or "image/png")
    return readable.text(f"[image {url}]")
