"""Content blocks of a session file ⇄ parts of pydantic-ai messages.

Owns the correspondence of single blocks, of token counts and of times. Whole messages, and keeping
what has no place on the other side, are `messages`' business. Loads pydantic-ai.

Signatures and ids go where the living agents keep them, so that a session can be continued by
either:

==================================  ======================================================
pydantic-ai                         wire block
==================================  ======================================================
``ThinkingPart.signature``          ``thinkingSignature``
… with an item id (OpenAI)          ``thinkingSignature``: the reasoning item as JSON
… whose id names a field            ``thinkingSignature``: that name (``reasoning_content``)
… redacted (Anthropic)              the same, and ``redacted: true``
``TextPart.id``                     ``textSignature``
thought signature (Google)          ``thoughtSignature`` (calls), ``textSignature`` (text)
any other ``id``                    ``itemId``
any other ``provider_details``      ``providerDetails``
==================================  ======================================================
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ModelResponsePart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.usage import RequestUsage

from sessiontree.model.messages import as_text

UNREADABLE_IMAGE = "[image that cannot be read]"

Block = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REDACTED = "redacted_thinking"
_REASONING_FIELDS = frozenset({"reasoning", "reasoning_content", "reasoning_text"})
_SIGNATURE = "thought_signature"


# --- what users and tools say ------------------------------------------------------------------


def user_items(blocks: Iterable[object]) -> list[str | BinaryContent]:
    """Text and images for a model; blocks of other kinds are left out."""
    return [item for block in blocks if (item := _user_item(block)) is not None]


def user_blocks(items: Iterable[object]) -> list[Block]:
    """Text and images as blocks; items of other kinds are left out."""
    blocks: list[Block] = []
    for item in items:
        match item:
            case str():
                blocks.append({"type": "text", "text": item})
            case TextContent():
                blocks.append({"type": "text", "text": item.content})
            case BinaryContent():
                blocks.append(_image_block(item))
            case _:
                pass
    return blocks


def _user_item(block: object) -> str | BinaryContent | None:
    if not isinstance(block, dict):
        return None
    match block.get("type"):
        case "text":
            return as_text(block.get("text"))
        case "image":
            return _image(block) or UNREADABLE_IMAGE
        case _:
            return None


def _image(block: Block) -> BinaryContent | None:
    data, mime = block.get("data"), text_or_none(block.get("mimeType"))
    if not isinstance(data, str):
        return None
    try:
        raw = base64.b64decode(data, validate=True)
    except (ValueError, binascii.Error):
        return None
    return BinaryContent(raw, media_type=mime or "image/png")


def _image_block(image: BinaryContent) -> Block:
    data = base64.b64encode(image.data).decode("ascii")
    return {"type": "image", "data": data, "mimeType": image.media_type}


# --- what models say --------------------------------------------------------------------------


def response_parts(blocks: Iterable[object], provider: str) -> list[ModelResponsePart]:
    """The parts of an answer; blocks of unknown kinds are left out."""
    return [part for block in blocks if (part := _part_of(block, provider)) is not None]


def wire_content(parts: Iterable[ModelResponsePart]) -> list[Block]:
    """The content blocks of an answer; parts of kinds we never ask for are left out."""
    return [block for part in parts if (block := _block_of(part)) is not None]


def _part_of(block: object, provider: str) -> ModelResponsePart | None:
    if not isinstance(block, dict):
        return None
    details = block.get("providerDetails")
    details = dict(details) if isinstance(details, dict) else {}
    item_id = text_or_none(block.get("itemId"))
    match block.get("type"):
        case "text":
            signature = text_or_none(block.get("textSignature"))
            if signature is not None and provider.startswith("google"):
                details[_SIGNATURE] = signature
            else:
                item_id = signature
            return TextPart(
                as_text(block.get("text")),
                id=item_id,
                provider_name=provider if item_id or details else None,
                provider_details=details or None,
            )
        case "thinking":
            return _thinking_part(block, provider, item_id, details)
        case "toolCall":
            if (signature := text_or_none(block.get("thoughtSignature"))) is not None:
                details[_SIGNATURE] = signature
            arguments = block.get("arguments")
            return ToolCallPart(
                as_text(block.get("name")),
                arguments if isinstance(arguments, dict) else {},
                as_text(block.get("id")),
                id=item_id,
                provider_name=provider if item_id or details else None,
                provider_details=details or None,
            )
        case "image":
            image = _image(block)
            return None if image is None else FilePart(image)
        case _:
            return None


def _thinking_part(
    block: Block, provider: str, item_id: str | None, details: dict[str, Any]
) -> ThinkingPart:
    signature = text_or_none(block.get("thinkingSignature"))
    if block.get("redacted") is True:
        item_id = _REDACTED
    elif signature in _REASONING_FIELDS:
        item_id, signature = signature, None
    elif signature is not None and (item := _reasoning_item(signature)) is not None:
        item_id, signature = item
    return ThinkingPart(
        as_text(block.get("thinking")),
        id=item_id,
        signature=signature,
        provider_name=provider if item_id or signature or details else None,
        provider_details=details or None,
    )


def _reasoning_item(signature: str) -> tuple[str, str | None] | None:
    """Id and encrypted content of an OpenAI reasoning item, if the signature is one as JSON."""
    if not signature.startswith("{"):
        return None
    try:
        item = json.loads(signature)
    except (ValueError, RecursionError):
        return None
    if not isinstance(item, dict) or item.get("type") != "reasoning":
        return None
    item_id = text_or_none(item.get("id"))
    return None if item_id is None else (item_id, text_or_none(item.get("encrypted_content")))


def _block_of(part: ModelResponsePart) -> Block | None:
    match part:
        case TextPart():
            block: Block = {"type": "text", "text": part.content}
            details = dict(part.provider_details or {})
            signature = details.get(_SIGNATURE)
            if part.id is None and (part.provider_name or "").startswith("google") and signature:
                block["textSignature"] = details.pop(_SIGNATURE)
            elif part.id is not None:
                block["textSignature"] = part.id
            return _with_details(block, details)
        case ThinkingPart():
            return _thinking_block(part)
        case ToolCallPart():
            block = {
                "type": "toolCall",
                "id": part.tool_call_id,
                "name": part.tool_name,
                "arguments": part.args_as_dict(),
            }
            details = dict(part.provider_details or {})
            if isinstance(details.get(_SIGNATURE), str):
                block["thoughtSignature"] = details.pop(_SIGNATURE)
            if part.id is not None:
                block["itemId"] = part.id
            return _with_details(block, details)
        case FilePart():
            return _image_block(part.content)
        case _:
            return None


def _thinking_block(part: ThinkingPart) -> Block:
    block: Block = {"type": "thinking", "thinking": part.content}
    if part.id == _REDACTED:
        block["redacted"] = True
        if part.signature is not None:
            block["thinkingSignature"] = part.signature
    elif part.id in _REASONING_FIELDS and part.signature is None:
        block["thinkingSignature"] = part.id
    elif part.id is not None and part.signature is not None:
        summary = [{"type": "summary_text", "text": part.content}] if part.content else []
        item = {"type": "reasoning", "id": part.id, "summary": summary}
        block["thinkingSignature"] = json.dumps({**item, "encrypted_content": part.signature})
    else:
        if part.id is not None:
            block["itemId"] = part.id
        if part.signature is not None:
            block["thinkingSignature"] = part.signature
    return _with_details(block, part.provider_details or {})


def _with_details(block: Block, details: Mapping[str, Any]) -> Block:
    if details:
        block["providerDetails"] = dict(details)
    return block


# --- numbers and times ------------------------------------------------------------------------


def wire_usage(usage: RequestUsage) -> dict[str, int]:
    """Token counts as a session file has them: ``input`` is what was not in any cache."""
    read, write = usage.cache_read_tokens, usage.cache_write_tokens
    fresh = max(0, usage.input_tokens - read - write)
    return {
        "input": fresh,
        "output": usage.output_tokens,
        "cacheRead": read,
        "cacheWrite": write,
        "totalTokens": fresh + usage.output_tokens + read + write,
    }


def request_usage(usage: object) -> RequestUsage:
    """Token counts as pydantic-ai has them: ``input_tokens`` is all input, cached or not."""
    if not isinstance(usage, dict):
        return RequestUsage()
    read, write = _count(usage.get("cacheRead")), _count(usage.get("cacheWrite"))
    return RequestUsage(
        input_tokens=_count(usage.get("input")) + read + write,
        output_tokens=_count(usage.get("output")),
        cache_read_tokens=read,
        cache_write_tokens=write,
    )


def to_datetime(milliseconds: object) -> datetime:
    """A message's time; the epoch if it has none that is valid."""
    if isinstance(milliseconds, int) and not isinstance(milliseconds, bool):
        try:
            return _EPOCH + timedelta(milliseconds=milliseconds)
        except OverflowError:
            pass
    return _EPOCH


def to_milliseconds(when: datetime) -> int:
    """A time as messages have it."""
    return (when - _EPOCH) // timedelta(milliseconds=1)


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
