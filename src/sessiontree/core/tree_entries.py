"""Digests of entries for trees: kind, name and the beginning of the text.

Made on the thread that may read entries; plain values afterwards, so that no picker and no page
decodes an entry again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sessiontree.core.described import (
    describe_call,
    describe_image,
    describe_state,
    describe_system,
)
from sessiontree.core.usage import blocks_of
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.messages import AGENT_NAME, as_text, text_of

Kind = Literal[
    "user", "assistant", "calls", "tool", "command", "note", "compaction", "summary", "state"
]
"""``calls``: an answer that only calls tools. ``state``: an entry beside the conversation."""

TEXT_LIMIT = 2_000
"""Characters of an entry to keep for showing and searching."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One entry of the tree, in short. ``text`` is unescaped session text."""

    id: str
    parent_id: str | None
    timestamp: str
    kind: Kind
    name: str
    """``you``, ``assistant``, a tool's name, or an entry's type."""
    text: str
    is_failed: bool = False
    is_prompt: bool = False
    """Whether choosing it moves to its parent and puts its text into the editor."""
    agent: str = ""
    """The name of the agent that gives this answer, where there may be several."""


class Digester:
    """Make digests in the order of the file, so that a result finds its call."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}

    def digest_all(self, entries: Iterable[Entry]) -> Iterator[TreeEntry]:
        """Digest these entries, decoding one at a time and keeping none decoded."""
        for entry in entries:
            yield self.digest(entry)

    def digest(self, entry: Entry) -> TreeEntry:
        """Digest one entry; if it can't be read any more, the digest says that."""
        try:
            data = entry.decode()
        except (OSError, ValueError):
            return self._make(entry, "state", entry.type, "(can't be read)", is_failed=True)
        return self.digest_data(entry, data)

    def digest_data(self, entry: Entry, data: WireEntry) -> TreeEntry:
        """The same of an entry that is decoded already, or of what may be shown of it."""
        match entry.type:
            case "message":
                message = data.get("message")
                return self._message(entry, message if isinstance(message, dict) else {})
            case "custom_message":
                name = as_text(data.get("customType")) or "note"
                return self._make(entry, "note", name, text_of(data.get("content")))
            case "compaction":
                summary = as_text(data.get("shortSummary")) or as_text(data.get("summary"))
                return self._make(entry, "compaction", "compacted", summary)
            case "branch_summary":
                return self._make(entry, "summary", "branch summary", as_text(data.get("summary")))
            case _:
                return self._make(entry, "state", *_state(entry.type, data))

    def _message(self, entry: Entry, message: Mapping[str, Any]) -> TreeEntry:
        content = message.get("content")
        text = text_of(content)
        match message.get("role"):
            case "user":
                return self._make(entry, "user", "you", text or _first_image(message))
            case "assistant":
                return self._answer(entry, message, text)
            case "toolResult":
                name = as_text(message.get("toolName")) or "tool"
                about = self._calls.get(as_text(message.get("toolCallId")), "")
                failed = message.get("isError") is True
                return self._make(entry, "tool", name, about or text, is_failed=failed)
            case "bashExecution":
                code = message.get("exitCode")
                failed = isinstance(code, int) and code != 0
                command = f"$ {as_text(message.get('command'))}"
                return self._make(entry, "command", "command", command, is_failed=failed)
            case "system":
                return self._make(entry, "state", "system", describe_system(message))
            case other:
                name = as_text(message.get("customType")) or as_text(other) or "message"
                return self._make(entry, "note", name, text)

    def _answer(self, entry: Entry, message: Mapping[str, Any], text: str) -> TreeEntry:
        agent = as_text(message.get(AGENT_NAME))
        calls = list(blocks_of(message, "toolCall"))
        for call in calls:
            name = as_text(call.get("name"))
            self._calls[as_text(call.get("id"))] = describe_call(name, call.get("arguments"))
        error = as_text(message.get("errorMessage"))
        if message.get("stopReason") == "error":
            said = f"{text} (error: {error or 'unknown'})".strip()
            return self._make(entry, "assistant", "assistant", said, is_failed=True, agent=agent)
        if not text.strip() and calls:
            names = ", ".join(as_text(call.get("name")) or "tool" for call in calls)
            return self._make(entry, "calls", "assistant", f"→ {names}", agent=agent)
        if message.get("stopReason") == "aborted":
            text = f"{text} (stopped)".strip()
        return self._make(entry, "assistant", "assistant", text, agent=agent)

    def _make(
        self,
        entry: Entry,
        kind: Kind,
        name: str,
        text: str,
        *,
        is_failed: bool = False,
        agent: str = "",
    ) -> TreeEntry:
        return TreeEntry(
            entry.id,
            entry.parent_id,
            entry.timestamp,
            kind,
            name,
            text[:TEXT_LIMIT],
            is_failed,
            kind == "user" or entry.type == "custom_message",
            agent,
        )


def _state(kind: str, data: WireEntry) -> tuple[str, str]:
    """Return name and text of an entry beside the conversation."""
    state = describe_state(kind, data)
    if state is not None:
        return state
    match kind:
        case "title_change":
            return "title", as_text(data.get("title"))
        case "custom":
            return "custom", as_text(data.get("customType"))
        case "reset_boundary":
            return "context cleared", ""
        case other:
            return other or "entry", ""


def _first_image(message: Mapping[str, Any]) -> str:
    for block in blocks_of(message, "image"):
        return f"({describe_image(block)})"
    return ""
