"""Events of Google's ADK as messages of a session.

An event holds what several messages of a session do: each response of a tool is one of its own.
Events without words (state changes, rewinds, compactions) have none and are only kept.

Knows nothing of sessions, stores or the SDK: it takes events as JSON, with bytes in base64.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sessiontree.adapters import readable
from sessiontree.adapters.readable import Block
from sessiontree.model.messages import WireMessage, as_text

PROVIDER = "google-adk"

Event = Mapping[str, Any]

_URL_SAFE = str.maketrans("-_", "+/")


def messages_of(event: Event, at_ms: int) -> list[WireMessage]:
    """The messages that say what an event says."""
    parts = [part for part in _list(_dict(event.get("content")).get("parts")) if _is_dict(part)]
    made = [_result(part["function_response"], at_ms) for part in parts if _is_response(part)]
    blocks = [block for part in parts if not _is_response(part) for block in _blocks(part)]
    if event.get("author") == "user":
        blocks = blocks or _spoken(event.get("input_transcription"))
        return [*made, readable.user(blocks, at_ms)] if blocks else made
    blocks = blocks or _spoken(event.get("output_transcription"))
    error = as_text(event.get("error_message")) or as_text(event.get("error_code"))
    if blocks or error:
        made.append(_answer(event, blocks, error, at_ms))
    return made


def as_standard_base64(event: Any) -> Any:
    """The event with its pictures spelled as messages spell them, so that each is kept once."""
    content = _dict(event.get("content"))
    for part in _list(content.get("parts")):
        data = _dict(_dict(part).get("inline_data"))
        if isinstance(data.get("data"), str):
            data["data"] = data["data"].translate(_URL_SAFE)
    return event


def _answer(event: Event, blocks: list[Block], error: str, at_ms: int) -> WireMessage:
    message = readable.assistant(
        blocks,
        at_ms,
        provider=PROVIDER,
        model=as_text(event.get("model_version")),
        agent=as_text(event.get("author")),
        usage=_usage(event.get("usage_metadata")),
    )
    if error:
        message.update(stopReason="error", errorMessage=error)
    return message


def _result(response: Mapping[str, Any], at_ms: int) -> WireMessage:
    said = response.get("response")
    fields = _dict(said)
    value = fields["result"] if fields.keys() == {"result"} else said
    blocks = [] if value is None else [readable.text(readable.as_json(value))]
    for part in _list(response.get("parts")):
        blocks += _blocks(_dict(part))
    return readable.tool_result(
        blocks,
        at_ms,
        call_id=as_text(response.get("id")),
        tool=as_text(response.get("name")),
        is_error="error" in fields,
    )


def _blocks(part: Mapping[str, Any]) -> Iterable[Block]:
    match part:
        case {"thought": True, "text": str(text)}:
            yield readable.thinking(text)
        case {"text": str(text)}:
            yield readable.text(text)
        case {"function_call": dict(call)}:
            yield readable.tool_call(call.get("id"), call.get("name"), call.get("args"))
        case {"inline_data": dict(blob)}:
            yield _inline(blob)
        case {"file_data": dict(file)}:
            name = as_text(file.get("display_name")) or as_text(file.get("file_uri"))
            yield readable.text(f"[file {name}]")
        case {"executable_code": dict(code)}:
            yield readable.text(as_text(code.get("code")))
        case {"code_execution_result": dict(result)}:
            yield readable.text(as_text(result.get("output")))


def _inline(blob: Mapping[str, Any]) -> Block:
    kind, data = as_text(blob.get("mime_type")), blob.get("data")
    if kind.startswith("image/") and isinstance(data, str):
        return readable.image(data.translate(_URL_SAFE), kind)
    return readable.text(f"[{kind or 'data'}]")


def _spoken(transcription: object) -> list[Block]:
    text = as_text(_dict(transcription).get("text"))
    return [readable.text(text)] if text else []


def _usage(metadata: object) -> dict[str, int]:
    counts = _dict(metadata)

    def count(name: str) -> int:
        value = counts.get(f"{name}_token_count")
        return value if type(value) is int else 0

    cached = count("cached_content")
    prompt = count("prompt") + count("tool_use_prompt")
    output = count("candidates") + count("thoughts")
    if not prompt and not output:
        return {}
    return {"input": max(0, prompt - cached), "output": output, "cache_read": cached}


def _is_response(part: Mapping[str, Any]) -> bool:
    return _is_dict(part.get("function_response"))


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
