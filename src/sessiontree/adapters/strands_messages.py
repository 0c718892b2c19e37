"""Messages of Strands agents, which are those of Bedrock's Converse API, as messages of a session.

A message of Strands holds what several messages of a session do: each result of a tool is one of
its own. Knows nothing of sessions, stores or the SDK: it takes messages as they are kept, with
bytes in base64.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sessiontree.adapters import readable
from sessiontree.adapters.readable import Block
from sessiontree.model.messages import WireMessage, as_text

PROVIDER = "strands"


def messages_of(
    message: Mapping[str, Any], at_ms: int, tool_names: Mapping[str, str], agent: str | None = None
) -> list[WireMessage]:
    """The messages for one of Strands; ``tool_names`` has the tool of each call by its id."""
    blocks = [block for block in _list(message.get("content")) if isinstance(block, dict)]
    if message.get("role") == "assistant":
        said = [made for block in blocks for made in _blocks(block)]
        usage = _usage(message.get("metadata"))
        return [readable.assistant(said, at_ms, provider=PROVIDER, agent=agent, usage=usage)]
    made: list[WireMessage] = []
    rest: list[Block] = []
    for block in blocks:
        result = block.get("toolResult")
        if isinstance(result, dict):
            call_id = as_text(result.get("toolUseId"))
            made.append(
                readable.tool_result(
                    [made for each in _dicts(result.get("content")) for made in _blocks(each)],
                    at_ms,
                    call_id=call_id,
                    tool=tool_names.get(call_id, ""),
                    is_error=result.get("status") == "error",
                )
            )
        else:
            rest += _blocks(block)
    if rest or not made:
        made.append(readable.user(rest, at_ms))
    return made


def _blocks(block: Mapping[str, Any]) -> Iterable[Block]:
    match block:
        case {"text": str(text)}:
            yield readable.text(text)
        case {"toolUse": dict(use)}:
            yield readable.tool_call(use.get("toolUseId"), use.get("name"), use.get("input"))
        case {"reasoningContent": {"reasoningText": dict(said)}}:
            yield readable.thinking(as_text(said.get("text")), said.get("signature"))
        case {"reasoningContent": _}:
            yield readable.thinking("[redacted]")
        case {"json": value}:
            yield readable.text(readable.as_json(value))
        case {"image": dict(image)}:
            yield _image(image)
        case {"citationsContent": dict(cited)}:
            texts = (as_text(each.get("text")) for each in _dicts(cited.get("content")))
            yield readable.text("".join(texts))
        case {"guardContent": {"text": {"text": str(text)}}}:
            yield readable.text(text)
        case {"document": dict(document)}:
            yield readable.text(f"[document {as_text(document.get('name'))}]")
        case {"audio": _} | {"video": _}:
            (kind,) = {"audio", "video"} & block.keys()
            yield readable.text(f"[{kind}]")


def _image(image: Mapping[str, Any]) -> Block:
    source = image.get("source")
    data = source.get("bytes") if isinstance(source, dict) else None
    encoded = data.get("data") if isinstance(data, dict) else None
    if not isinstance(encoded, str):
        return readable.text("[image]")
    return readable.image(encoded, f"image/{as_text(image.get('format')) or 'png'}")


def _usage(metadata: object) -> dict[str, int]:
    usage = metadata.get("usage") if isinstance(metadata, dict) else None
    if not isinstance(usage, dict):
        return {}
    names = {
        "input": "inputTokens",
        "output": "outputTokens",
        "cache_read": "cacheReadInputTokens",
        "cache_write": "cacheWriteInputTokens",
    }
    counts = {ours: usage.get(theirs) for ours, theirs in names.items()}
    return {name: count for name, count in counts.items() if type(count) is int}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: object) -> list[dict[str, Any]]:
    return [each for each in _list(value) if isinstance(each, dict)]
