"""Build what the model sees from a path (docs/format.md#what-the-model-sees).

``build_session_context`` works on any entries; ``ContextBuilder`` is its engine and can also carry
an existing context on by one entry, which is what an append needs. Decodes only what it must: the
entries that carry state, and the messages that are in the context.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sessiontree.model.dialects import read_model_change
from sessiontree.model.entries import Entry, WireEntry, preload_messages
from sessiontree.model.ids import parse_timestamp
from sessiontree.model.messages import WireMessage

DEFAULT_ROLE = "default"
_STATE_TYPES = frozenset(("thinking_level_change", "model_change", "ttsr_injection", "mode_change"))
_CUT_TYPES = frozenset(("compaction", "reset_boundary"))


@dataclass(slots=True)
class SessionContext:
    """What the model sees, and the state the conversation is in."""

    messages: list[WireMessage] = field(default_factory=list)
    thinking_level: str = "off"
    models: dict[str, str] = field(default_factory=dict)
    injected_ttsr_rules: list[str] = field(default_factory=list)
    mode: str = "none"
    mode_data: Any = None


class _LastEntry:
    """The default leaf: the last entry."""


LAST = _LastEntry()


def build_session_context(
    entries: Sequence[Entry | Mapping[str, Any]],
    leaf_id: str | _LastEntry | None = LAST,
    by_id: Mapping[str, Entry | Mapping[str, Any]] | None = None,
) -> SessionContext:
    """The context of the path that ends at ``leaf_id``.

    None gives an empty context; an id that is not there, or none given, means the last entry.
    Entries may be ``Entry`` values or plain wire objects.
    """
    if leaf_id is None or not entries:
        return SessionContext()
    # of several entries with one id the first has it, as in a session's tree
    index: Mapping[str, Entry | Mapping[str, Any]] = (
        by_id if by_id is not None else {_id_of(entry): entry for entry in reversed(entries)}
    )
    leaf = index.get(leaf_id) if isinstance(leaf_id, str) else None
    path: list[Entry] = []
    seen: set[int] = set()
    current: Entry | Mapping[str, Any] | None = leaf if leaf is not None else entries[-1]
    while current is not None:
        if id(current) in seen:
            break
        seen.add(id(current))
        entry = current if isinstance(current, Entry) else Entry.from_wire(current)
        path.append(entry)
        current = index.get(entry.parent_id) if entry.parent_id is not None else None
    path.reverse()
    return ContextBuilder(path).build()


def _id_of(entry: Entry | Mapping[str, Any]) -> str:
    return entry.id if isinstance(entry, Entry) else Entry.from_wire(entry).id


def find_cut(path: Sequence[Entry]) -> int:
    """Where the latest compaction or reset of a path is; -1 if it has neither."""
    for at in range(len(path) - 1, -1, -1):
        if path[at].type in _CUT_TYPES:
            return at
    return -1


def find_kept(path: Sequence[Entry], cut: int) -> int:
    """Where that part begins which stays in sight before a cut; ``cut`` itself if there is none.

    A reset keeps nothing. A compaction keeps what follows ``firstKeptEntryId``, wherever that is.
    """
    if path[cut].type != "compaction":
        return cut
    first_kept = path[cut].data.get("firstKeptEntryId")
    # found from the cut backwards: what is kept is near it
    for at in range(cut - 1, -1, -1):
        if path[at].id == first_kept:
            return at
    return cut


class ContextBuilder:
    """The context at the end of one path."""

    def __init__(self, path: Sequence[Entry]) -> None:
        self._messages: list[WireMessage] = []
        self._thinking_level = "off"
        self._models: dict[str, str] = {}
        self._assistant: tuple[str, str] | None = None
        self._rules: dict[str, None] = {}
        self._mode = "none"
        self._mode_data: Any = None
        self.empty_ids: list[str] = []
        """Entries that should hold a message and do not."""
        cut = -1
        for at, entry in enumerate(path):
            kind = entry.type
            if kind == "message":
                continue  # nearly all
            if kind in _STATE_TYPES:
                self._add_state(entry.data)
            elif kind in _CUT_TYPES:
                cut = at
        start = self._open_messages(path, cut)
        self._add_messages(path[start:])
        if self._assistant is None and DEFAULT_ROLE not in self._models:
            self._find_assistant_model(path[:start])

    def build(self) -> SessionContext:
        """The context; it and its lists are the caller's own."""
        models = dict(self._models)
        if DEFAULT_ROLE not in models and self._assistant is not None:
            models[DEFAULT_ROLE] = "/".join(self._assistant)
        return SessionContext(
            self._messages.copy(),
            self._thinking_level,
            models,
            list(self._rules),
            self._mode,
            self._mode_data,
        )

    def can_extend(self, entry: Entry) -> bool:
        """Whether a child of the path's end adds to the context without cutting it."""
        return entry.type not in _CUT_TYPES

    def extend(self, entry: Entry) -> None:
        """Carry the context on by one child of the path's end."""
        if entry.type in _STATE_TYPES:
            self._add_state(entry.data)
        self._add_messages([entry])

    def _open_messages(self, path: Sequence[Entry], at: int) -> int:
        """Begin the messages as the latest cut demands; where the rest of the path goes on."""
        if at < 0:
            return 0
        if path[at].type == "compaction":
            self._messages.append(_compaction_message(path[at].data, path[at].timestamp))
            self._add_messages(path[find_kept(path, at) : at])
        return at + 1

    def _add_state(self, data: WireEntry) -> None:
        match data.get("type"):
            case "thinking_level_change":
                level = data.get("thinkingLevel")
                self._thinking_level = level if isinstance(level, str) and level else "off"
            case "model_change":
                change = read_model_change(data)
                if change is not None:
                    self._models[change[0]] = change[1]
            case "ttsr_injection":
                rules = data.get("injectedRules")
                for rule in rules if isinstance(rules, list) else ():
                    if isinstance(rule, str):
                        self._rules.setdefault(rule)
            case "mode_change":
                mode = data.get("mode")
                self._mode = mode if isinstance(mode, str) and mode else "none"
                self._mode_data = data.get("data")

    def _add_messages(self, entries: Sequence[Entry]) -> None:
        preload_messages(entries)
        messages = self._messages
        first = len(messages)
        for entry in entries:
            message = entry.message
            if message is not None:
                messages.append(message)
                continue
            kind = entry.type
            if kind == "message":
                message = entry.data.get("message")
                if isinstance(message, dict):
                    messages.append(message)
                else:
                    self.empty_ids.append(entry.id)
            elif kind == "custom_message":
                messages.append(_custom_message(entry.data, entry.timestamp))
            elif kind == "branch_summary":
                summary = entry.data.get("summary")
                if isinstance(summary, str) and summary:
                    messages.append(_branch_message(entry.data, summary, entry.timestamp))
        for index in range(len(messages) - 1, first - 1, -1):
            if self._note_assistant(messages[index]):
                break

    def _note_assistant(self, message: WireMessage) -> bool:
        """Remember which model gave this answer, if it is one."""
        provider, model = message.get("provider"), message.get("model")
        if message.get("role") != "assistant":
            return False
        if not (isinstance(provider, str) and isinstance(model, str)):
            return False
        self._assistant = (provider, model)
        return True

    def _find_assistant_model(self, hidden: Sequence[Entry]) -> None:
        for entry in reversed(hidden):
            if entry.type == "message":
                message = entry.decode().get("message")
                if isinstance(message, dict) and self._note_assistant(message):
                    return


def _time(timestamp: str) -> int:
    return parse_timestamp(timestamp) or 0


def _custom_message(data: WireEntry, timestamp: str) -> WireMessage:
    content = data.get("content")
    message: WireMessage = {
        "role": "custom",
        "customType": data.get("customType", ""),
        "content": content if isinstance(content, (str, list)) else "",
        "display": data.get("display", False),
    }
    for key in ("details", "attribution"):
        if key in data:
            message[key] = data[key]
    message["timestamp"] = _time(timestamp)
    return message


def _branch_message(data: WireEntry, summary: str, timestamp: str) -> WireMessage:
    return {
        "role": "branchSummary",
        "summary": summary,
        "fromId": data.get("fromId", "root"),
        "timestamp": _time(timestamp),
    }


def _compaction_message(data: WireEntry, timestamp: str) -> WireMessage:
    summary = data.get("summary")
    message: WireMessage = {
        "role": "compactionSummary",
        "summary": summary if isinstance(summary, str) else "",
        "tokensBefore": data.get("tokensBefore", 0),
    }
    if isinstance(data.get("shortSummary"), str):
        message["shortSummary"] = data["shortSummary"]
    message["timestamp"] = _time(timestamp)
    return message


def iter_messages(entries: Iterable[Entry]) -> Iterable[tuple[Entry, WireMessage]]:
    """Every ``message`` entry with its message, decoded one at a time and not kept."""
    for entry in entries:
        if entry.type == "message":
            message = entry.decode().get("message")
            if isinstance(message, dict):
                yield entry, message
