"""Items of the OpenAI Agents SDK: as messages of a session, and kept exactly in little space.

Items are the dictionaries of the Responses API. What a user, a model or a tool says becomes a
message; everything else (hosted tools, compactions, references) has none and is only kept.

Nearly every item has one of a few forms, and then follows from its message but for some ids. Such
an item is kept as a list: the name of the form, and the values that the message lacks. Whether it
comes back to the byte is tried when it is written, so a form is never a guess. Forms are part of
the format: add one under a new name, never change one.

Knows nothing of sessions, stores or the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sessiontree.adapters.verbatim import UnpackError, pack, plain, unpack
from sessiontree.model import codec
from sessiontree.model.messages import UNKNOWN_MODEL, WireMessage, as_text

Item = dict[str, Any]

PROVIDER = "openai-agents"
_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
NO_USAGE = {
    "input": 0,
    "output": 0,
    "cacheRead": 0,
    "cacheWrite": 0,
    "totalTokens": 0,
    "cost": _NO_COST,
}


# -- messages ----------------------------------------------------------------------------------


def message_of(item: Item, now_ms: int, tool_names: Mapping[str, str]) -> WireMessage | None:
    """The message for an item; ``tool_names`` has the tool of each call by its id."""
    match item:
        case {"role": "user", "content": str() | list() as content}:
            return {"role": "user", "content": _user_content(content), "timestamp": now_ms}
        case {"role": "assistant", "content": str() | list() as content}:
            return _assistant(_said(content, item.get("id")), item, now_ms)
        case {"type": "reasoning"}:
            return _assistant([_thought(item)], item, now_ms)
        case {"type": "function_call", "call_id": str(), "name": str()}:
            return _assistant([_call(item)], item, now_ms, stop="toolUse")
        case {"type": "function_call_output", "call_id": str(call_id)}:
            return {
                "role": "toolResult",
                "toolCallId": call_id,
                "toolName": tool_names.get(call_id, ""),
                "content": _result(item.get("output")),
                "isError": False,
                "timestamp": now_ms,
            }
        case _:
            return None


def _assistant(
    blocks: list[dict[str, Any]], item: Item, now_ms: int, *, stop: str = "stop"
) -> WireMessage:
    data = item.get("provider_data")
    model = data.get("model") if isinstance(data, dict) else None
    return {
        "role": "assistant",
        "content": blocks,
        "provider": PROVIDER,
        "model": as_text(model) or UNKNOWN_MODEL,
        "stopReason": stop,
        "timestamp": now_ms,
    }


def _user_content(content: str | list[Any]) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    return [block for part in content if (block := _block(part)) is not None]


def _block(part: object) -> dict[str, Any] | None:
    match part:
        case {"text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "input_image", "image_url": str(url)} if url.startswith("data:image/"):
            kind, has_data, data = url.removeprefix("data:").partition(";base64,")
            if has_data:
                return {"type": "image", "data": data, "mimeType": kind}
            return {"type": "text", "text": "[image]"}
        case {"type": "input_image"}:
            return {"type": "text", "text": "[image]"}
        case {"type": "input_file", **fields}:
            return {"type": "text", "text": f"[file {as_text(fields.get('filename'))}]"}
        case _:
            return None


def _said(content: str | list[Any], item_id: object) -> list[dict[str, Any]]:
    parts = [{"text": content}] if isinstance(content, str) else content
    texts = [
        as_text(part.get("text")) or as_text(part.get("refusal"))
        for part in parts
        if isinstance(part, dict)
    ]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
    if blocks and isinstance(item_id, str):
        blocks[0]["textSignature"] = item_id
    return blocks


def _thought(item: Item) -> dict[str, Any]:
    parts = [
        part.get("text")
        for key in ("summary", "content")
        for part in (item.get(key) if isinstance(item.get(key), list) else ()) or ()
        if isinstance(part, dict)
    ]
    return {"type": "thinking", "thinking": "\n\n".join(map(as_text, parts))}


def _call(item: Item) -> dict[str, Any]:
    arguments = _parse(item.get("arguments"))
    return {
        "type": "toolCall",
        "id": item["call_id"],
        "name": item["name"],
        "arguments": plain(arguments) if isinstance(arguments, dict) else {},
    }


def _parse(arguments: object) -> Any:
    try:
        return json.loads(as_text(arguments))
    except (ValueError, RecursionError):
        return None


def _result(output: object) -> list[dict[str, Any]]:
    if isinstance(output, list):
        return [block for part in output if (block := _block(part)) is not None]
    text = output if isinstance(output, str) else json.dumps(output, default=str)
    return [{"type": "text", "text": text}]


# -- forms -------------------------------------------------------------------------------------

_Make = Callable[[Any, Any], Item]

_encode_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _prompt(message: Any, _: Any) -> Item:
    return {"content": message["content"], "role": "user"}


def _message(message: Any, _: Any) -> Item:
    return {"role": "user", "content": message["content"]}


def _answer(message: Any, _: Any) -> Item:
    block = message["content"][0]
    text = {"annotations": [], "text": block["text"], "type": "output_text", "logprobs": []}
    return {
        "id": block["textSignature"],
        "content": [text],
        "role": "assistant",
        "status": "completed",
        "type": "message",
    }


def _compact_call(message: Any, kept: Any) -> Item:
    block = message["content"][0]
    return _function_call(block, _encode_compact(block["arguments"]), kept)


def _spaced_call(message: Any, kept: Any) -> Item:
    block = message["content"][0]
    return _function_call(block, json.dumps(block["arguments"]), kept)


def _function_call(block: Any, arguments: str, kept: Any) -> Item:
    return {
        "arguments": arguments,
        "call_id": block["id"],
        "name": block["name"],
        "type": "function_call",
        "id": kept[1],
        "status": "completed",
    }


def _output(message: Any, _: Any) -> Item:
    return {
        "call_id": message["toolCallId"],
        "output": message["content"][0]["text"],
        "type": "function_call_output",
    }


FORMS: dict[str, _Make] = {
    "prompt": _prompt,
    "message": _message,
    "answer": _answer,
    "call": _compact_call,
    "call2": _spaced_call,
    "output": _output,
}
_CANDIDATES = {
    ("content", "role"): ("prompt",),
    ("role", "content"): ("message",),
    ("id", "content", "role", "status", "type"): ("answer",),
    ("arguments", "call_id", "name", "type", "id", "status"): ("call", "call2"),
    ("call_id", "output", "type"): ("output",),
}
"""The forms of an item by its keys, which come back in their order."""


def pack_item(item: Item, message: WireMessage | None) -> Any:
    """The item in the shortest form that gives it back exactly."""
    if message is not None:
        for name in _CANDIDATES.get(tuple(item), ()):
            kept = [name, item["id"]] if name.startswith("call") else [name]
            if _gives(FORMS[name], message, kept, item):
                return kept
    return pack(item, message)


def _gives(make: _Make, message: WireMessage, kept: list[Any], item: Item) -> bool:
    try:
        made = make(message, kept)
        return made == item and codec.encode(made) == codec.encode(item)
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        return False


def unpack_item(packed: Any, message: Any) -> Item:
    """The item that was packed. Raises UnpackError."""
    if type(packed) is list:
        try:
            return FORMS[packed[0]](message, packed)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise UnpackError(f"{str(packed)[:40]} does not fit its message") from error
    item = unpack(packed, message)
    if not isinstance(item, dict):
        raise UnpackError("an item is an object")
    return item
