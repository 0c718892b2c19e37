"""Messages, which are plain JSON objects: their texts, names and times.

Unknown roles, blocks and fields are data: pass them on unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessiontree.model.ids import parse_timestamp

WireMessage = dict[str, Any]
"""Any message of any role, as the file has it."""

_YEAR_2000_MS = 946_684_800_000
_YEAR_10000_MS = 253_402_300_800_000


def said_ms(role: object, timestamp: object, entry_timestamp: object) -> int | None:
    """The time of a user's or the model's message, in Unix milliseconds; None for other roles.

    That is the message's own time, else its entry's. A value before this century is not a time but
    seconds or a counter: no agent is that old.
    """
    if role not in ("user", "assistant"):
        return None
    if (
        isinstance(timestamp, (int, float))
        and not isinstance(timestamp, bool)
        and _YEAR_2000_MS <= timestamp < _YEAR_10000_MS
    ):
        return int(timestamp)
    return parse_timestamp(entry_timestamp)


def as_text(value: object) -> str:
    """A value of a file as text: itself if it is one, else empty. Anything may stand anywhere."""
    return value if isinstance(value, str) else ""


AGENT_NAME = "agentName"
"""The field of an answer that names the agent who gives it, where there may be several."""
UNKNOWN_MODEL = "unknown"
"""The model of an answer whose source does not say it; agents rely on there being one."""


def answered_by(message: Mapping[str, Any]) -> list[str]:
    """The name of the agent that gives an answer and that of its model, as far as it says them."""
    named = [as_text(message.get(key)) for key in (AGENT_NAME, "model")]
    return [name for name in named if name and name != UNKNOWN_MODEL]


def text_or_none(value: object) -> str | None:
    """A value of a file as text: itself if it is one, else None."""
    return value if isinstance(value, str) else None


def text_of(content: object, separator: str = " ") -> str:
    """Return the text of a message's content: the string itself, or its text blocks joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return separator.join(
        block["text"]
        for block in content
        if isinstance(block, dict)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    )
