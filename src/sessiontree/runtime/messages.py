"""Messages that the session makes: what a user says or ran, what a program adds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeAlias

from sessiontree.runtime.events import Message

Content: TypeAlias = str | Sequence[dict[str, Any]]
"""Text, or text and image blocks."""


def user_message(content: Content) -> Message:
    """A user's message."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
    return {"role": "user", "content": blocks, "timestamp": now_ms()}


def custom_message(custom_type: str, content: Content, display: bool, details: Any) -> Message:
    """A program's own message, saved as a ``custom_message`` entry."""
    message: Message = {
        "role": "custom",
        "customType": custom_type,
        "content": content if isinstance(content, str) else [*content],
        "display": display,
    }
    if details is not None:
        message["details"] = details
    return {**message, "timestamp": now_ms()}


def bash_message(
    command: str,
    output: str,
    exit_code: int | None,
    *,
    cancelled: bool = False,
    truncated: bool = False,
    full_output_path: str | None = None,
    exclude_from_context: bool = False,
) -> Message:
    """A command that the user ran."""
    message: Message = {
        "role": "bashExecution",
        "command": command,
        "output": output,
        "exitCode": exit_code,
        "cancelled": cancelled,
        "truncated": truncated,
    }
    if full_output_path is not None:
        message["fullOutputPath"] = full_output_path
    if exclude_from_context:
        message["excludeFromContext"] = True
    return {**message, "timestamp": now_ms()}


def now_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000
