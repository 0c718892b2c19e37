"""Prepare a conversation for sending it to one model.

Owns the rules of providers that don't concern a session file: no failed answers, no empty
blocks, ids of a shape that all accept, images only for models that see, whole characters. Works on
copies of wire messages; the session keeps what it has. Loads pydantic-ai for the last step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart, repair_messages

from sessiontree.agents.messages import to_model_messages
from sessiontree.model.messages import as_text
from sessiontree.runtime.events import Message
from sessiontree.runtime.models import Model

NO_IMAGE = "[image left out: this model cannot see images]"
TOO_DEEP = "[left out: nested too deeply]"
_MAX_DEPTH = 100

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BAD_IN_ID = re.compile(r"[^A-Za-z0-9_-]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_FAILED = ("error", "aborted")


def outgoing_messages(messages: Sequence[Message], model: Model) -> list[ModelMessage]:
    """The messages as pydantic-ai sends them to ``model``."""
    ids = _PortableIds()
    made: list[Message] = []
    for at, message in enumerate(messages):
        match message.get("role"):
            case "assistant":
                if message.get("stopReason") in _FAILED and _is_answer(messages[at + 1 : at + 2]):
                    # It was asked for again: the whole answer follows.
                    continue
                prepared = _answer(message, ids)
            case "system":
                # Of a session of pi: the prompt and tools of another program, not of this agent.
                continue
            case "toolResult":
                call_id = ids.of(message.get("toolCallId"))
                prepared = {**message, "toolCallId": call_id}
                prepared["content"] = _visible(message.get("content"), model) or [_text("")]
            case _:
                prepared = {**message, "content": _plain(_visible(message.get("content"), model))}
        if prepared is not None and prepared["content"]:
            made.append(_whole(prepared))
    return repair_messages(_joined(to_model_messages(made, lossless=False)))


def _joined(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Prompts that follow each other in one request.

    pydantic-ai joins them too, but in a time that grows with the square of their number.
    """
    made: list[ModelMessage] = []
    for message in messages:
        last = made[-1] if made else None
        if _is_prompt(message) and _is_prompt(last):
            parts = last.parts
            assert isinstance(parts, list)
            parts.extend(message.parts)
            last.timestamp = message.timestamp
        else:
            made.append(message)
    return made


def _is_prompt(message: ModelMessage | None) -> TypeGuard[ModelRequest]:
    return isinstance(message, ModelRequest) and isinstance(message.parts[-1], UserPromptPart)


def _is_answer(next_message: Sequence[Message]) -> bool:
    return any(message.get("role") == "assistant" for message in next_message)


def _answer(message: Message, ids: _PortableIds) -> Message | None:
    """An earlier answer; of a failed one what the user saw, without half a thought."""
    failed = message.get("stopReason") in _FAILED
    blocks = []
    for block in _blocks(message.get("content")):
        match block.get("type"):
            case "text":
                if not block.get("text"):
                    continue
            case "thinking":
                if failed or not (block.get("thinking") or block.get("thinkingSignature")):
                    continue
            case "toolCall":
                block = {**block, "id": ids.of(block.get("id"))}
            case _:
                continue
        blocks.append(block)
    return {**message, "content": blocks} if blocks else None


def _visible(content: object, model: Model) -> list[dict[str, Any]]:
    made = []
    for block in _blocks(content):
        if block.get("type") == "image" and not model.images:
            # omp draws archived text on images; then that text is known.
            block = _text(as_text(block.get("alt")) or NO_IMAGE)
        if block.get("type") != "text" or block.get("text"):
            made.append(block)
    return made


def _plain(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Text alone as a string: not every server that speaks OpenAI's language takes blocks."""
    if all(block.get("type") == "text" for block in blocks):
        return "\n".join(as_text(block.get("text")) for block in blocks)
    return blocks


def _blocks(content: object) -> Iterable[dict[str, Any]]:
    if isinstance(content, str):
        return [_text(content)]
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict)]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


class _PortableIds:
    """Ids of tool calls that every provider accepts, the same for a call and its result.

    Other agents write ids that only the provider at the time took: OpenAI's item id behind a bar,
    or more than 64 characters.
    """

    def __init__(self) -> None:
        self._made: dict[str, str] = {}
        self._used: set[str] = set()

    def of(self, value: object) -> str:
        original = as_text(value)
        if original not in self._made:
            self._made[original] = self._new(original)
        return self._made[original]

    def _new(self, original: str) -> str:
        short = original if _ID.fullmatch(original) else original.partition("|")[0]
        short = _BAD_IN_ID.sub("_", short)[:64] or "call"
        candidate, number = short, 1
        while candidate in self._used:
            number += 1
            candidate = f"{short[:56]}_{number}"
        self._used.add(candidate)
        return candidate


def _whole(value: Any, depth: int = 0) -> Any:
    """The value with every lone surrogate in it replaced: requests are UTF-8.

    What is nested deeper than anybody reads is left out: no provider takes it.
    """
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATES.sub("\ufffd", value)
    if depth > _MAX_DEPTH and isinstance(value, dict | list):
        return TOO_DEEP
    if isinstance(value, dict):
        return {_whole(key): _whole(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item, depth + 1) for item in value]
    return value
