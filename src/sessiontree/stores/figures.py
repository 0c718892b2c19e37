"""A session's figures for listings, in stores that keep entries: counted as entries come.

A store keeps the ``Figures`` of a session beside it, adds each entry when it is appended, and makes
the listing's line of them: no listing has to read entries. They can be stored as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from sessiontree.clock import now
from sessiontree.core.tree import SessionTree
from sessiontree.discovery.catalogue.leaves import Status, judge_message
from sessiontree.discovery.listing import NO_MESSAGES, SessionInfo
from sessiontree.discovery.search.times import to_datetime
from sessiontree.discovery.texts import SPOKEN_ROLES, texts_of_line
from sessiontree.model.dialects import session_name
from sessiontree.model.entries import Entry, is_answer
from sessiontree.model.header import Header, get_cwd, get_parent, get_timestamp, get_title
from sessiontree.model.ids import parse_timestamp
from sessiontree.model.messages import as_text, said_ms, text_of
from sessiontree.profiles import Dialect
from sessiontree.stores.base import Ref

_MESSAGE = "message"


class Figures(msgspec.Struct, rename="camel"):
    """The figures of one session."""

    message_count: int = 0
    size: int = 0
    last_message_ms: int | None = None
    first_message: str | None = None
    info_name: str | None = None
    short_summary: str | None = None
    status: Status = "empty"
    is_answered: bool = False

    @classmethod
    def of(cls, tree: SessionTree) -> Figures:
        """Count all entries of a session."""
        made = cls()
        made.add(tree.entries, tree)
        return made

    def add(self, entries: Iterable[Entry], tree: SessionTree) -> None:
        """Count entries that are now in ``tree``."""
        for entry in entries:
            self._count(entry)
        self.status = _status_of(tree) if self.message_count else "empty"

    def _count(self, entry: Entry) -> None:
        self.size += len(entry.line()) + 1
        if entry.type not in (_MESSAGE, "session_info", "compaction"):
            return
        data = entry.decode()
        if entry.type == "session_info":
            self.info_name = as_text(data.get("name")).strip()
        elif entry.type == "compaction":
            self.short_summary = as_text(data.get("shortSummary")) or self.short_summary
        else:
            self.message_count += 1
            self.is_answered = self.is_answered or is_answer(data)
            message = data.get("message")
            if isinstance(message, dict):
                self._count_message(entry, message)

    def _count_message(self, entry: Entry, message: dict[str, object]) -> None:
        role = message.get("role")
        time_ms = said_ms(role, message.get("timestamp"), entry.timestamp)
        if time_ms is not None:
            self.last_message_ms = max(time_ms, self.last_message_ms or 0)
        if role == "user" and self.first_message is None:
            text = text_of(message.get("content"))
            self.first_message = text if text.strip() else None

    def title(self, header: Header, dialect: Dialect) -> str | None:
        """The session's name, else the latest compaction's short summary."""
        return session_name(dialect, get_title(header), self.info_name, self.short_summary)

    def to_info(
        self, ref: Ref, header: Header, dialect: Dialect, read_text: Callable[[], str]
    ) -> SessionInfo:
        """The listing's line. ``read_text`` gives the messages' text when it is needed."""
        created = to_datetime(parse_timestamp(get_timestamp(header)))
        modified = to_datetime(self.last_message_ms) or created or now()
        return SessionInfo(
            ref,
            as_text(header.get("id")),
            get_cwd(header),
            self.title(header, dialect),
            get_parent(header),
            created or modified,
            min(modified, now()),
            self.message_count,
            self.first_message if self.first_message is not None else NO_MESSAGES,
            read_text,
            self.size,
            self.status,
        )


def said_text(entries: Iterable[Entry]) -> str:
    """All text of users and the model, as ``SessionInfo.all_messages_text`` has it."""
    said = (each for entry in entries for each in texts_of_line(entry.line(), 0))
    return " ".join(each.text for each in said if each.role in SPOKEN_ROLES and each.text)


def _status_of(tree: SessionTree) -> Status:
    """How the conversation ends, on the path to its last entry."""
    at = tree.by_id.get(tree.last_id or "")
    seen: set[str] = set()
    while at is not None and at.id not in seen:
        seen.add(at.id)
        message = at.decode().get("message") if at.type == _MESSAGE else None
        if isinstance(message, dict):
            status = judge_message(
                message.get("role"), message.get("stopReason"), partial(_has_calls, message)
            )
            if status is not None:
                return status
        at = tree.by_id.get(at.parent_id or "")
    return "complete"


def _has_calls(message: dict[str, object]) -> bool:
    content = message.get("content")
    blocks = content if isinstance(content, list) else ()
    return any(isinstance(block, dict) and block.get("type") == "toolCall" for block in blocks)
