"""A session's figures for listings, updated by the entries that are added to it.

The same figures as ``discovery.catalogue.summary`` finds in a file. An append says how they change,
so that the session's row has them without anybody reading the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sessiontree.core.tree import SessionTree
from sessiontree.discovery.catalogue.leaves import Status, judge_message
from sessiontree.model import codec
from sessiontree.model.entries import Entry, WireEntry, is_answer
from sessiontree.model.messages import as_text, said_ms, text_of, text_or_none

_FEW = 64


@dataclass(slots=True)
class Figures:
    """The changes of a session's figures by some entries; None leaves one as it is."""

    messages: int = 0
    is_answered: bool = False
    first_message: str | None = None
    info_name: str | None = None
    short_summary: str | None = None
    last_said_ms: int | None = None
    status: Status = "complete"


def figures_of(entries: Sequence[Entry], tree: SessionTree) -> Figures:
    """The figures of entries in their order; those above them are found in the tree."""
    made = Figures(messages=sum(entry.type == "message" for entry in entries))
    made.status = _status(entries, tree)
    made.first_message = _first_message(entries)
    for entry in reversed(entries):
        if entry.type == "message":
            _note_message(made, entry)
            if made.is_answered and len(entries) > _FEW:
                break  # of a whole session the end tells
    for entry in entries:
        if entry.type == "session_info":
            made.info_name = as_text(entry.decode().get("name")).strip()
        elif entry.type == "compaction":
            found = text_or_none(entry.decode().get("shortSummary"))
            made.short_summary = made.short_summary if found is None else found
    return made


def _note_message(made: Figures, entry: Entry) -> None:
    data = entry.decode() if entry.cached is None else entry.cached
    made.is_answered = made.is_answered or is_answer(data)
    message = data.get("message")
    if not isinstance(message, dict):
        return
    time_ms = said_ms(message.get("role"), message.get("timestamp"), data.get("timestamp"))
    if time_ms is not None:
        made.last_said_ms = max(time_ms, made.last_said_ms or time_ms)


def _first_message(entries: Sequence[Entry]) -> str | None:
    for entry in entries:
        if entry.type != "message":
            continue
        message = (entry.decode() if entry.cached is None else entry.cached).get("message")
        if isinstance(message, dict) and message.get("role") == "user":
            text = text_of(message.get("content"))
            if text and not text.isspace():
                return text
    return None


def _status(entries: Sequence[Entry], tree: SessionTree) -> Status:
    """What the last message of a user, the model or a tool above the last entry says."""
    own = {entry.id: entry for entry in entries}
    entry = entries[-1] if entries else None
    seen: set[str] = set()
    while entry is not None and entry.id not in seen:
        seen.add(entry.id)
        if entry.type == "message":
            data: WireEntry = entry.decode() if entry.cached is None else entry.cached
            found = _judge(data.get("message"))
            if found is not None:
                return found
        parent_id = entry.parent_id or ""
        entry = own.get(parent_id) or tree.by_id.get(parent_id)
    return "complete"


def _judge(message: object) -> Status | None:
    if not isinstance(message, dict):
        return None

    def has_calls() -> bool:
        return b'"toolCall"' in codec.encode(message)

    return judge_message(message.get("role"), message.get("stopReason"), has_calls)
