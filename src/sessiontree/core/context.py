"""Build the model's context from a path (docs/format.md#what-the-model-sees).

``build_session_context`` works on any entries. ``ContextBuilder`` can also extend an existing
context by one entry, as an append needs. Both decode only the entries that carry state, and the
messages in the context.

Three steps, in this order. The latest compaction or reset *selects* entries of the path. Each
selected entry is *projected* to the messages it stands for. The latest ``context_edit`` of each
selected entry *edits* these: it takes them out or replaces their content. The log keeps them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sessiontree.core.archive import has_history, history_blocks, summary_text
from sessiontree.model.dialects import read_model_change
from sessiontree.model.entries import Entry, WireEntry, preload_messages
from sessiontree.model.ids import parse_timestamp
from sessiontree.model.messages import WireMessage, text_of

DEFAULT_ROLE = "default"
_STATE_TYPES = frozenset(("thinking_level_change", "model_change", "ttsr_injection", "mode_change"))
_CUT_TYPES = frozenset(("compaction", "reset_boundary"))
EDITABLE_ROLES = ("user", "assistant", "toolResult", "custom")
"""Roles whose content an edit may replace."""
_BLOCKS_ONLY_ROLES = ("assistant", "toolResult")
"""Roles whose content is always an array of blocks."""


@dataclass(slots=True)
class SessionContext:
    """The model's view of a path, and the conversation's state."""

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
    """Build the context of the path that ends at ``leaf_id``.

    None gives an empty context; an id that is not there, or none given, means the last entry.
    Entries may be ``Entry`` values or plain wire objects.
    """
    if leaf_id is None or not entries:
        return SessionContext()
    # if entries share an id, the first keeps it, as in a session's tree
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
    """Return the index of a path's latest compaction or reset; -1 without one."""
    for at in range(len(path) - 1, -1, -1):
        if path[at].type in _CUT_TYPES:
            return at
    return -1


def find_kept(path: Sequence[Entry], cut: int) -> int:
    """Return the start of the part kept before a cut; ``cut`` itself if none is.

    A reset keeps nothing. A compaction keeps what follows ``firstKeptEntryId``, wherever that is;
    its own id there keeps nothing. Where omp leaves it empty, a provider has the history up to the
    entry ``providerReplayThroughEntryId``, and what follows that one is kept.
    """
    if path[cut].type != "compaction":
        return cut
    data = path[cut].data
    first_kept, offset = data.get("firstKeptEntryId"), 0
    if not first_kept:
        first_kept, offset = data.get("providerReplayThroughEntryId"), 1
    # found from the cut backwards: what is kept is near it
    for at in range(cut - 1, -1, -1):
        if path[at].id == first_kept:
            return at + offset
    return cut


def context_edits(entries: Iterable[Entry]) -> dict[str, Any]:
    """Return the replacements of ``context_edit`` entries by target; the latest counts.

    None stands for "leave it out".
    """
    edits: dict[str, Any] = {}
    for entry in entries:
        if entry.type == "context_edit":
            data = entry.data
            target, replacement = data.get("targetId"), data.get("replacement")
            is_content = isinstance(replacement, dict) and "content" in replacement
            if isinstance(target, str) and (replacement is None or is_content):
                edits[target] = replacement
    return edits


def edit_message(message: WireMessage, replacement: Any) -> WireMessage | None:
    """Apply an edit to a message; None if it removes it. Some roles can't be rewritten."""
    if replacement is None:
        return None
    role = message.get("role")
    if role not in EDITABLE_ROLES:
        return message
    content = replacement["content"]
    if role in _BLOCKS_ONLY_ROLES and isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return {**message, "content": content}


class ContextBuilder:
    """Builds the context at the end of one path."""

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
        has_edits = False
        for at, entry in enumerate(path):
            kind = entry.type
            if kind == "message":
                continue  # nearly all
            if kind in _STATE_TYPES:
                self._add_state(entry.data)
            elif kind in _CUT_TYPES:
                cut = at
            elif kind == "context_edit":
                has_edits = True
        kept = find_kept(path, cut) if cut >= 0 else 0
        edits: dict[str, Any] = {}
        if has_edits:
            edits = context_edits(path[kept:cut] if cut >= 0 else ())
            edits |= context_edits(path[cut + 1 :])
        if cut >= 0:
            self._open_messages(path[cut], path[kept:cut], edits)
        self._add_messages(path[cut + 1 :], edits)
        if self._assistant is None and DEFAULT_ROLE not in self._models:
            self._find_assistant_model(path[: cut + 1])

    def build(self) -> SessionContext:
        """Build the context; the caller owns it and its lists."""
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
        """Whether a child of the path's end only adds to the context."""
        return entry.type not in _CUT_TYPES and entry.type != "context_edit"

    def extend(self, entry: Entry) -> None:
        """Extend the context by one child of the path's end."""
        if entry.type in _STATE_TYPES:
            self._add_state(entry.data)
        self._add_messages([entry])

    def _open_messages(self, cut: Entry, kept: Sequence[Entry], edits: Mapping[str, Any]) -> None:
        """Begin the messages as the latest cut demands: its summary, then what it keeps."""
        if cut.type != "compaction":
            return
        self._add_messages(kept, edits)
        # The compaction's own system message, or its lack of one, replaces all that came before.
        messages = [message for message in self._messages if message.get("role") != "system"]
        opening = _compaction_messages(cut, messages)
        self._messages = _edited(opening, edits, cut.id) + messages

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

    def _add_messages(
        self, entries: Sequence[Entry], edits: Mapping[str, Any] | None = None
    ) -> None:
        preload_messages(entries)
        messages = self._messages
        first = len(messages)
        for entry in entries:
            message = entry.message  # if it is there, so is its content
            if message is None:
                message = self._message_of(entry)
                if message is None:
                    continue
            if edits and entry.id in edits:
                messages += _edited([message], edits, entry.id)
            else:
                messages.append(message)
        for index in range(len(messages) - 1, first - 1, -1):
            if self._note_assistant(messages[index]):
                break

    def _message_of(self, entry: Entry) -> WireMessage | None:
        """The message that an entry adds for the model, if any."""
        if entry.type != "message":
            return _other_message_of(entry)
        message = entry.data.get("message")
        if not isinstance(message, dict):
            self.empty_ids.append(entry.id)
            return None
        return message if message.get("content") is not None else _without_null(message)

    def _note_assistant(self, message: WireMessage) -> bool:
        """Record the model of an assistant message."""
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


def _other_message_of(entry: Entry) -> WireMessage | None:
    """Return the message that an entry of another type adds for the model, if any."""
    match entry.type:
        case "custom_message":
            return _custom_message(entry.data, entry.timestamp)
        case "branch_summary":
            summary = entry.data.get("summary")
            if isinstance(summary, str) and summary:
                return _branch_message(entry.data, summary, entry.timestamp)
    return None


def _without_null(message: WireMessage) -> WireMessage:
    """The message with empty content for ``null``, which some files have."""
    role = message.get("role")
    if role in EDITABLE_ROLES:
        return {**message, "content": []}
    return {**message, "content": ""} if role == "system" else message


def _edited(
    messages: list[WireMessage], edits: Mapping[str, Any], entry_id: str
) -> list[WireMessage]:
    """Apply an edit to the messages of one entry."""
    if entry_id not in edits:
        return messages
    edited = (edit_message(message, edits[entry_id]) for message in messages)
    return [message for message in edited if message is not None]


def _custom_message(data: WireEntry, timestamp: str) -> WireMessage:
    content = data.get("content")
    message: WireMessage = {
        "role": "custom",
        "customType": data.get("customType", ""),
        "content": content if isinstance(content, (str, list)) else [],
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


def _compaction_messages(entry: Entry, kept: Iterable[WireMessage]) -> list[WireMessage]:
    """The prompt that a compaction saved, if it did, and its summary.

    ``blocks`` hold the history that the entry carries besides the summary.
    """
    data = entry.data
    message: WireMessage = {
        "role": "compactionSummary",
        "summary": summary_text(data),
        "tokensBefore": data.get("tokensBefore", 0),
    }
    if isinstance(data.get("shortSummary"), str):
        message["shortSummary"] = data["shortSummary"]
    message["timestamp"] = _time(entry.timestamp)
    if has_history(data):
        known = (text_of(other.get("content"), "\n") for other in kept)
        message["blocks"] = history_blocks(data, entry.fetch_blob, known)
    system = data.get("systemMessage")
    return [system, message] if isinstance(system, dict) else [message]


def iter_messages(entries: Iterable[Entry]) -> Iterable[tuple[Entry, WireMessage]]:
    """Yield every ``message`` entry with its message, decoding one at a time without caching."""
    for entry in entries:
        if entry.type == "message":
            message = entry.decode().get("message")
            if isinstance(message, dict):
                yield entry, message
