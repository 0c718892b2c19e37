"""Spell a conversation as Codex writes a session, a rollout.

Checked with Codex 0.169.0, which continues such a file by ``codex resume``. The provider is left
open: Codex continues a session only with the one that it names. Pure but for ids.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from sessiontree.discovery.adapters import places
from sessiontree.discovery.adapters.records import spell_time
from sessiontree.export.call_ids import CallIds
from sessiontree.export.handover import Conversation, NewSession, blocks_of
from sessiontree.model import codec
from sessiontree.model.ids import new_uuid7
from sessiontree.model.messages import WireMessage, as_text, text_of

_VERSION = "0.169.0"

_Line = tuple[str, dict[str, Any]]


def spell_session(conversation: Conversation, home: str | None = None) -> NewSession:
    """Make the rollout's lines, and the path at which Codex looks for it."""
    began_ms = conversation.times_ms[0]
    began = spell_time(began_ms)
    session_id = new_uuid7(began_ms, os.urandom)
    day, _, clock = began.partition("T")
    name = f"rollout-{day}T{clock[:8].replace(':', '-')}-{session_id}.jsonl"
    path = os.path.join(places.codex_home(home), "sessions", *day.split("-"), name)
    meta = {
        "id": session_id,
        "timestamp": began,
        "cwd": conversation.cwd,
        "originator": "sessiontree",
        "cli_version": _VERSION,
        "source": "cli",
        "converted_from": {"agent": conversation.agent, "session_id": conversation.id},
    }
    records: list[dict[str, Any]] = []
    records.append({"timestamp": began, "type": "session_meta", "payload": meta})
    calls = CallIds()
    for message, time_ms in zip(conversation.messages, conversation.times_ms, strict=True):
        records += [
            {"timestamp": spell_time(time_ms), "type": kind, "payload": payload}
            for kind, payload in _spell(message, calls)
        ]
    return NewSession(session_id, path, records)


def _spell(message: WireMessage, calls: CallIds) -> Iterator[_Line]:
    match message.get("role"):
        case "user":
            yield from _prompt(message)
        case "toolResult":
            yield _output(message, calls)
        case _:
            yield from _answer(message, calls)


def _answer(message: WireMessage, calls: CallIds) -> Iterator[_Line]:
    for block in blocks_of(message):
        text = block.get("text")
        if block.get("type") == "toolCall":
            call = {
                "type": "function_call",
                "name": calls.name(block.get("name")),
                "arguments": codec.encode(block.get("arguments") or {}).decode(),
                "call_id": calls.call(block.get("id")),
            }
            yield "response_item", call
        elif block.get("type") == "text" and isinstance(text, str) and text:
            content = [{"type": "output_text", "text": text}]
            yield "response_item", {"type": "message", "role": "assistant", "content": content}
            yield "event_msg", {"type": "agent_message", "message": text}


def _output(message: WireMessage, calls: CallIds) -> _Line:
    content = [made for block in blocks_of(message) if (made := _block(block)) is not None]
    has_image = any(each["type"] == "input_image" for each in content)
    output = content if has_image else text_of(message.get("content"), "\n")
    call_id = calls.answer(message.get("toolCallId"))
    return "response_item", {"type": "function_call_output", "call_id": call_id, "output": output}


def _prompt(message: WireMessage) -> Iterator[_Line]:
    content = [made for block in blocks_of(message) if (made := _block(block)) is not None]
    if not content:
        return
    yield "response_item", {"type": "message", "role": "user", "content": content}
    images = [each["image_url"] for each in content if each["type"] == "input_image"]
    shown = "\n".join(each["text"] for each in content if each["type"] == "input_text")
    yield (
        "event_msg",
        {
            "type": "user_message",
            "message": shown,
            "images": images,
            "local_images": [],
            "text_elements": [],
        },
    )


def _block(block: dict[str, Any]) -> dict[str, Any] | None:
    text = block.get("text")
    if block.get("type") == "text" and isinstance(text, str):
        return {"type": "input_text", "text": text}
    if block.get("type") == "image" and isinstance(block.get("data"), str):
        kind = as_text(block.get("mimeType")) or "image/png"
        return {"type": "input_image", "image_url": f"data:{kind};base64,{block['data']}"}
    return None
