"""Read the content that Gemini CLI and Qwen Code record: lists of Google's ``Part``s."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from sessiontree.discovery.adapters.records import (
    WireRecord,
    get_count,
    get_object,
    get_text,
)
from sessiontree.discovery.adapters.turns import (
    Turn,
    call_block,
    image_block,
    text_block,
    thinking_block,
    usage_of,
)
from sessiontree.discovery.texts import join_strings

_PROVIDERS = (("gemini", "google"), ("claude", "anthropic"), ("gpt", "openai"), ("qwen", "qwen"))


class Parts(msgspec.Struct):
    """The content of a list of parts."""

    blocks: list[WireRecord] = msgspec.field(default_factory=list)
    results: list[WireRecord] = msgspec.field(default_factory=list)
    """The ``functionResponse`` objects."""
    unknown: list[Any] = msgspec.field(default_factory=list)

    @property
    def call_ids(self) -> set[str]:
        """The ids of the calls among the blocks."""
        return {block["id"] for block in self.blocks if block["type"] == "toolCall"}


def read_parts(content: object) -> Parts:
    """Read a string, a part or a list of both."""
    made = Parts()
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            if part:
                made.blocks.append(text_block(part))
        elif isinstance(part, dict):
            _read_part(part, made)
        elif part is not None:
            made.unknown.append(part)
    return made


def _read_part(part: WireRecord, made: Parts) -> None:
    text, call = part.get("text"), get_object(part, "functionCall")
    image = get_object(part, "inlineData")
    if isinstance(part.get("functionResponse"), dict):
        made.results.append(part["functionResponse"])
    elif call:
        block = call_block(call.get("id"), call.get("name"), call.get("args"))
        if isinstance(part.get("thoughtSignature"), str):
            block["thoughtSignature"] = part["thoughtSignature"]
        made.blocks.append(block)
    elif isinstance(text, str):
        if part.get("thought") is True:
            made.blocks.append(thinking_block(text, part.get("thoughtSignature")))
        elif text:
            made.blocks.append(text_block(text))
    elif _is_image(image):
        made.blocks.append(image_block(image["data"], image["mimeType"]))
    else:
        made.unknown.append(part)


def _is_image(held: WireRecord) -> bool:
    mime = get_text(held, "mimeType") or ""
    return isinstance(held.get("data"), str) and mime.startswith("image/")


def result_turns(
    results: list[WireRecord], *, name: str, time: object, is_error: bool | None, details: object
) -> Iterator[Turn]:
    """Yield the results of calls. An error says so, where the record does not."""
    for each in results:
        response = each.get("response")
        held = response if isinstance(response, dict) else {"output": response}
        printed = held.get("output", held.get("error"))
        nested = read_parts(each.get("parts")) if isinstance(each.get("parts"), list) else Parts()
        yield Turn(
            role="toolResult",
            id=name,
            time=time,
            blocks=[
                text_block(printed if isinstance(printed, str) else join_strings(response)),
                *(block for block in nested.blocks if block["type"] in ("text", "image")),
            ],
            call_id=get_text(each, "id") or "",
            name=get_text(each, "name") or "",
            is_error="error" in held if is_error is None else is_error,
            data=details,
        )


def read_usage(counts: WireRecord) -> WireRecord | None:
    """Read ``usageMetadata``. Some backends count thoughts in the candidates, others beside."""
    if not counts:
        return None
    thought = get_count(counts, "thoughtsTokenCount")
    parts = get_count(counts, "promptTokenCount") + get_count(counts, "candidatesTokenCount")
    is_beside = parts + thought == get_count(counts, "totalTokenCount")
    return usage_of(
        counts,
        input_key="promptTokenCount",
        output_key="candidatesTokenCount",
        read_key="cachedContentTokenCount",
        reasoning_key="thoughtsTokenCount",
        input_holds_cache=True,
        output_holds_reasoning=not is_beside,
    )


def model_of(name: object, default: str) -> str | None:
    """``provider/model``, the provider by the model's name."""
    if not (isinstance(name, str) and name):
        return None
    providers = (provider for start, provider in _PROVIDERS if name.startswith(start))
    return f"{next(providers, default)}/{name}"
