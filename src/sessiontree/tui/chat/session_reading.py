"""Read the end of a session's conversation, its tree and its branches for the chat.

Functions over a `SessionManager`, for the one thread that may touch it (``AgentSession.read``).
They decode only what they return and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sessiontree.core.context import find_cut, find_kept
from sessiontree.model.entries import Entry
from sessiontree.session.manager import SessionManager
from sessiontree.tui.pickers.tree_rows import Label
from sessiontree.tui.transcript.blocks import Conversation

WINDOW = 400
"""Entries to show at first; earlier ones follow on demand."""

_TALK = frozenset(("message", "custom_message", "compaction", "branch_summary"))
_LOOK_BACK = 60


@dataclass(frozen=True, slots=True)
class LoadedPart:
    """A part of the path as blocks, with ``start`` entries of the path before it."""

    conversation: Conversation
    start: int
    total: int
    ids: frozenset[str] = frozenset()
    """How many entries the whole path has."""


@dataclass(frozen=True, slots=True)
class Branches:
    """The number of the conversation's branch, and of all; 0 if the leaf is inside others."""

    current: int
    total: int
    label: str | None = None
    """The nearest label on the path."""
    is_empty: bool = False
    """Whether the session has no message yet."""


def read_end(manager: SessionManager, window: int = WINDOW) -> LoadedPart:
    """Read the end of the conversation: what the model sees, at most ``window`` entries."""
    path = manager.get_branch()
    start = max(0, len(path) - window, _first_kept(path))
    return _read_part(path, _to_a_prompt(path, start), len(path))


def read_before(manager: SessionManager, end: int, window: int = WINDOW) -> LoadedPart:
    """Read the part of the path before its entry number ``end``."""
    path = manager.get_branch()
    end = min(end, len(path))
    return _read_part(path, _to_a_prompt(path, max(0, end - window)), end)


def _read_part(path: Sequence[Entry], start: int, end: int) -> LoadedPart:
    conversation = Conversation()
    conversation.add_entries(path[start:end])
    return LoadedPart(conversation, start, len(path), frozenset(entry.id for entry in path))


def _first_kept(path: Sequence[Entry]) -> int:
    """Find where the part after the latest compaction or reset begins; 0 without one."""
    cut = find_cut(path)
    return find_kept(path, cut) if cut >= 0 else 0


def _to_a_prompt(path: Sequence[Entry], start: int) -> int:
    """Step back to where the turn begins, so that each result has its call."""
    for index in range(start, max(-1, start - _LOOK_BACK), -1):
        if index < len(path) and _begins_a_turn(path[index]):
            return index
    return start


# -- the tree ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeSnapshot:
    """Entries, leaf and labels at one moment; `Digester` still has to shorten the entries."""

    entries: list[Entry]
    leaf_id: str | None
    labels: dict[str, Label]


def read_tree(manager: SessionManager) -> TreeSnapshot:
    """Read what the tree picker shows."""
    labels = {}
    nodes = manager.get_tree()
    while nodes:
        node = nodes.pop()
        if node.label is not None:
            labels[node.entry.id] = Label(node.label, node.label_timestamp or "")
        nodes += node.children
    return TreeSnapshot(manager.get_entries(), manager.leaf_id, labels)


def _begins_a_turn(entry: Entry) -> bool:
    if entry.type != "message":
        return entry.type == "reset_boundary"
    message = entry.decode().get("message")
    return isinstance(message, dict) and message.get("role") == "user"


def read_branches(manager: SessionManager) -> Branches:
    """Count the conversation's ends, and find which of them is ours, in the order of the tree.

    In the order of the file the branch with the newest message would always be the last.
    """
    entries = manager.get_entries()
    by_id = {entry.id: entry for entry in entries}
    parents = {entry.parent_id for entry in entries}
    tips: dict[str, None] = {}
    for entry in entries:
        if entry.id not in parents:
            tip = _nearest_talk(entry, by_id)
            if tip is not None:
                tips.setdefault(tip)
    # An entry above another end doesn't count as an end: only settings follow it there.
    inner = _ancestors_of(tips, by_id)
    ends = [tip for tip in tips if tip not in inner]
    if len(ends) > 1:
        known = {*ends}
        ends = [entry.id for entry in _in_tree_order(entries, by_id) if entry.id in known]
    here = by_id.get(manager.leaf_id or "")
    current = _nearest_talk(here, by_id) if here is not None else None
    number = ends.index(current) + 1 if current in ends else 0
    return Branches(number, max(len(ends), 1), _nearest_label(manager), not ends)


def _in_tree_order(entries: Sequence[Entry], by_id: Mapping[str, Entry]) -> Iterator[Entry]:
    children: dict[str | None, list[Entry]] = {}
    for entry in entries:
        parent_id = entry.parent_id if entry.parent_id in by_id else None
        children.setdefault(parent_id, []).append(entry)
    waiting = children.get(None, [])[::-1]
    while waiting:
        entry = waiting.pop()
        yield entry
        waiting += reversed(children.get(entry.id, ()))


def _nearest_talk(entry: Entry | None, by_id: dict[str, Entry]) -> str | None:
    while entry is not None and entry.type not in _TALK:
        entry = by_id.get(entry.parent_id) if entry.parent_id is not None else None
    return entry.id if entry is not None else None


def _ancestors_of(tips: dict[str, None], by_id: dict[str, Entry]) -> set[str]:
    found: set[str] = set()
    for tip in tips:
        parent = by_id[tip].parent_id
        while parent is not None and parent in by_id and parent not in found:
            found.add(parent)
            parent = by_id[parent].parent_id
    return found


def _nearest_label(manager: SessionManager) -> str | None:
    for entry in reversed(manager.get_branch()):
        label = manager.get_label(entry.id)
        if label:
            return label
    return None
