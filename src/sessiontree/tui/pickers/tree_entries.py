"""What a line of the tree says of an entry: its kind and its text, in short.

Owns the digest that the tree picker works on, so that nothing there has to decode entries again.
Digests are made where entries may be read (the disk thread) and are plain values afterwards.
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
from sessiontree.model.messages import as_text, text_of

Kind = Literal[
    "user", "assistant", "calls", "tool", "command", "note", "compaction", "summary", "state"
]
"""``calls``: an answer that only calls tools. ``state``: what is no part of the conversation."""

TEXT_LIMIT = 2_000
"""Characters of an entry that are kept, for showing and searching."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One entry of the tree, in short. ``text`` is as the session has it: escape it to show it."""

    id: str
    parent_id: str | None
    timestamp: str
    kind: Kind
    name: str
    """Who or what it is, in a word: ``you``, ``assistant``, a tool's name, an entry's type."""
    text: str
    is_failed: bool = False
    is_prompt: bool = False
    """Whether choosing it goes back to before it, with its text in the editor."""


class Digester:
    """Makes digests in the order of the file; a result finds what its call was about."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}

    def digest_all(self, entries: Iterable[Entry]) -> Iterator[TreeEntry]:
        """The digests of these entries, decoded one at a time and not kept."""
        for entry in entries:
            yield self.digest(entry)

    def digest(self, entry: Entry) -> TreeEntry:
        """The digest of one entry; an entry that can't be read any more says so."""
        try:
            data = entry.decode()
        except (OSError, ValueError):
            return self._make(entry, "state", entry.type, "(can't be read)", is_failed=True)
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
        calls = list(blocks_of(message, "toolCall"))
        for call in calls:
            name = as_text(call.get("name"))
            self._calls[as_text(call.get("id"))] = describe_call(name, call.get("arguments"))
        error = as_text(message.get("errorMessage"))
        if message.get("stopReason") == "error":
            said = f"{text} (error: {error or 'unknown'})".strip()
            return self._make(entry, "assistant", "assistant", said, is_failed=True)
        if not text.strip() and calls:
            names = ", ".join(as_text(call.get("name")) or "tool" for call in calls)
            return self._make(entry, "calls", "assistant", f"→ {names}")
        if message.get("stopReason") == "aborted":
            text = f"{text} (stopped)".strip()
        return self._make(entry, "assistant", "assistant", text)

    def _make(
        self, entry: Entry, kind: Kind, name: str, text: str, *, is_failed: bool = False
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
        )


def _state(kind: str, data: WireEntry) -> tuple[str, str]:
    """Name and text of an entry that is no part of the conversation."""
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
