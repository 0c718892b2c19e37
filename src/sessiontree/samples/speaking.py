"""The messages of sample conversations, in the form that session files have."""

from __future__ import annotations

from typing import Any

from sessiontree.clock import now_ms
from sessiontree.session.manager import SessionManager
from sessiontree.stores.base import SessionLog

PROVIDER = "sample"
MODEL = "no-model"
_HOUR_MS = 3_600_000


class SampleSession(SessionManager):
    """A session whose messages were said ``hours_ago``: work of today comes before it."""

    hours_ago = 0

    def __init__(self, log: SessionLog, cwd: str = "") -> None:
        # no breadcrumb leads to a sample: --continue is for what the person did
        super().__init__(log, cwd, leaves_breadcrumb=False)

    @property
    def said_ms(self) -> int:
        """The time of the next message, in Unix milliseconds."""
        return now_ms() - self.hours_ago * _HOUR_MS


def ask(manager: SampleSession, text: str, *more: dict[str, Any]) -> str:
    """Add a prompt of the user; return the entry's id."""
    content = [{"type": "text", "text": text}, *more]
    said = {"role": "user", "content": content, "timestamp": manager.said_ms}
    return manager.append_message(said)


def answer(
    manager: SampleSession,
    text: str,
    *,
    thinking: str | None = None,
    call: tuple[str, str, dict[str, Any]] | None = None,
    tokens: int = 400,
) -> str:
    """Add an answer, which may call a tool (id, name, arguments); return the entry's id."""
    content: list[dict[str, Any]] = []
    if thinking is not None:
        content.append({"type": "thinking", "thinking": thinking})
    content.append({"type": "text", "text": text})
    if call is not None:
        call_id, name, arguments = call
        content.append({"type": "toolCall", "id": call_id, "name": name, "arguments": arguments})
    free = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    usage = {"input": tokens, "output": len(text) // 4, "cacheRead": 0, "cacheWrite": 0}
    return manager.append_message(
        {
            "role": "assistant",
            "provider": PROVIDER,
            "model": MODEL,
            "content": content,
            "usage": {**usage, "totalTokens": tokens + len(text) // 4, "cost": free},
            "stopReason": "toolUse" if call is not None else "stop",
            "timestamp": manager.said_ms,
        }
    )


def result(
    manager: SampleSession, call_id: str, name: str, text: str, *, failed: bool = False
) -> str:
    """Add a tool's result; return the entry's id."""
    return manager.append_message(
        {
            "role": "toolResult",
            "toolCallId": call_id,
            "toolName": name,
            "content": [{"type": "text", "text": text}],
            "isError": failed,
            "timestamp": manager.said_ms,
        }
    )
