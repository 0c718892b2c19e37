"""Spell a conversation as Claude Code writes a session.

Checked with Claude Code 2.1.197, which continues such a file by ``--resume``. Pure but for ids.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import Any

from sessiontree.discovery.adapters import places
from sessiontree.discovery.adapters.records import spell_time
from sessiontree.export.call_ids import CallIds
from sessiontree.export.handover import Conversation, NewSession, blocks_of
from sessiontree.model.messages import WireMessage, as_text

_VERSION = "2.1.197"


def spell_session(conversation: Conversation, home: str | None = None) -> NewSession:
    """Make the session's records, and the path at which Claude Code looks for it."""
    session_id = str(uuid.uuid4())
    project = places.claude_project_name(conversation.cwd)
    path = os.path.join(places.claude_projects_dir(home), project, f"{session_id}.jsonl")
    return NewSession(session_id, path, list(_Spelling(conversation, session_id).records()))


class _Spelling:
    """Makes the records, each the child of the one before it."""

    def __init__(self, conversation: Conversation, session_id: str) -> None:
        self._conversation = conversation
        self._session_id = session_id
        self._above: str | None = None
        self._calls = CallIds()

    def records(self) -> Iterator[dict[str, Any]]:
        source = self._conversation
        for message, time_ms in zip(source.messages, source.times_ms, strict=True):
            made = self._message(message)
            if made is not None:
                yield self._record(made, time_ms)
        if source.name:
            yield {
                "type": "custom-title",
                "customTitle": source.name,
                "sessionId": self._session_id,
            }

    def _record(self, made: dict[str, Any], time_ms: int) -> dict[str, Any]:
        source = self._conversation
        record = {
            "parentUuid": self._above,
            "isSidechain": False,
            "userType": "external",
            "cwd": source.cwd,
            "sessionId": self._session_id,
            "version": _VERSION,
            "gitBranch": "",
            "convertedFrom": {"agent": source.agent, "sessionId": source.id},
            "type": made["role"],
            "message": made,
            "uuid": str(uuid.uuid4()),
            "timestamp": spell_time(time_ms),
        }
        self._above = record["uuid"]
        return record

    def _message(self, message: WireMessage) -> dict[str, Any] | None:
        match message.get("role"):
            case "user":
                content = list(filter(None, map(_block, blocks_of(message))))
                return {"role": "user", "content": content} if content else None
            case "toolResult":
                block = {
                    "tool_use_id": self._calls.answer(message.get("toolCallId")),
                    "type": "tool_result",
                    "content": list(filter(None, map(_block, blocks_of(message)))),
                    "is_error": message.get("isError") is True,
                }
                return {"role": "user", "content": [block]}
        return self._answer(message)

    def _answer(self, message: WireMessage) -> dict[str, Any] | None:
        content: list[dict[str, Any]] = []
        for block in blocks_of(message):
            if block.get("type") == "toolCall":
                content.append(
                    {
                        "type": "tool_use",
                        "id": self._calls.call(block.get("id")),
                        "name": self._calls.name(block.get("name")),
                        "input": arguments
                        if isinstance(arguments := block.get("arguments"), dict)
                        else {},
                    }
                )
            elif (made := _block(block)) is not None:
                content.append(made)
        if not content:
            return None
        has_calls = content[-1]["type"] == "tool_use"
        return {
            "model": as_text(message.get("model")) or "unknown",
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "content": content,
            "stop_reason": "tool_use" if has_calls else "end_turn",
            "stop_sequence": None,
            # paid for where it was given
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }


def _block(block: dict[str, Any]) -> dict[str, Any] | None:
    """A text or an image; an empty text is refused by the provider."""
    text = block.get("text")
    if block.get("type") == "text" and isinstance(text, str) and text.strip():
        return {"type": "text", "text": text}
    if block.get("type") == "image" and isinstance(block.get("data"), str):
        source = {
            "type": "base64",
            "media_type": as_text(block.get("mimeType")) or "image/png",
            "data": block["data"],
        }
        return {"type": "image", "source": source}
    return None
