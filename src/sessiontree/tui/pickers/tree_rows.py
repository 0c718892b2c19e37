"""Lay out the tree as lines: filter, search, fold, and draw the guides.

A line moves to the right only where branches split, so that a conversation of a thousand turns
stays at the left edge. Pure, iterative and linear in the number of entries: a session may be one
branch of 200,000 entries, or 200,000 branches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from sessiontree.core.gc import with_paused_gc
from sessiontree.core.tree_entries import TreeEntry
from sessiontree.tui.fuzzy import Field, Match, Query

Filter = Literal["default", "no-tools", "user-only", "labeled-only", "all"]
FILTERS: tuple[Filter, ...] = get_args(Filter)

GUIDE_WIDTH = 3
MAX_GUIDES = 12
"""Levels to draw; of a deeper row only the nearest levels."""

_CHECK_EVERY = 256
_TALK = frozenset(("user", "assistant", "command", "note", "compaction", "summary"))


@dataclass(frozen=True, slots=True)
class Label:
    """An entry's label, and when it was set."""

    text: str
    timestamp: str


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One line of the tree."""

    entry: TreeEntry
    guides: str
    """The guides before it; of deep rows only the nearest levels."""
    depth: int
    """How often branches split above it."""
    is_active: bool
    """Whether it is on the active path."""
    is_here: bool = False
    """Whether it is the leaf; settings after it don't count."""
    is_above_here: bool = False
    """Whether the leaf is a hidden entry somewhere below it."""
    label: Label | None = None
    folded: int = 0
    """How many lines are folded below it."""
    has_children: bool = False
    match: Match | None = None


class TreeModel:
    """All entries of a session, to lay out for any view."""

    def __init__(
        self, entries: Sequence[TreeEntry], leaf_id: str | None, labels: Mapping[str, Label]
    ) -> None:
        self.entries = entries
        self.leaf_id = leaf_id
        self.labels = labels
        self.by_id = {entry.id: entry for entry in entries}
        self.path = self.path_to(leaf_id)
        self._active = frozenset(self.path)
        self._order = list(self._walk())
        self._fields: dict[str, list[Field]] = {}

    def path_to(self, entry_id: str | None) -> list[str]:
        """List the ids from the root to an entry; [] if the entry doesn't exist."""
        path: list[str] = []
        seen: set[str] = set()
        while entry_id is not None and entry_id in self.by_id and entry_id not in seen:
            seen.add(entry_id)
            path.append(entry_id)
            entry_id = self.by_id[entry_id].parent_id
        path.reverse()
        return path

    def _walk(self) -> Iterator[TreeEntry]:
        """Yield all entries, parents before children, siblings oldest first."""
        children: dict[str | None, list[TreeEntry]] = {}
        for entry in self.entries:
            parent = entry.parent_id if entry.parent_id in self.by_id else None
            children.setdefault(parent, []).append(entry)
        for siblings in children.values():
            siblings.sort(key=lambda entry: entry.timestamp)
        stack = children.get(None, [])[::-1]
        while stack:
            entry = stack.pop()
            yield entry
            stack += children.get(entry.id, [])[::-1]

    # -- laying out ------------------------------------------------------------------------------

    def rows(
        self,
        shown: Filter = "default",
        query: Query | None = None,
        folded: Collection[str] = (),
        *,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> list[TreeRow]:
        """Lay out the lines of this view, top to bottom; none if stopped on the way."""
        try:
            return self._lay_out(shown, query, folded, should_stop)
        except _Stopped:
            return []

    @with_paused_gc
    def _lay_out(
        self,
        shown: Filter,
        query: Query | None,
        folded: Collection[str],
        should_stop: Callable[[], bool],
    ) -> list[TreeRow]:
        matches = self._find_visible(shown, query, should_stop)
        children = self._visible_children(matches, should_stop)
        sizes = self._sizes(matches, children) if folded else {}
        rows: list[TreeRow] = []
        stack = list(_siblings(children.get(None, []), "", 0))
        while stack:
            if len(rows) % _CHECK_EVERY == 0 and should_stop():
                raise _Stopped
            entry, mark, below, depth = stack.pop()
            below_it = children.get(entry.id, [])
            is_folded = entry.id in folded and bool(below_it)
            rows.append(
                TreeRow(
                    entry,
                    mark,
                    depth,
                    entry.id in self._active,
                    label=self.labels.get(entry.id),
                    folded=sizes[entry.id] - 1 if is_folded else 0,
                    has_children=bool(below_it),
                    match=matches[entry.id],
                )
            )
            if not is_folded:
                stack += _siblings(below_it, below, depth)
        self._mark_here(rows)
        return rows

    def _mark_here(self, rows: list[TreeRow]) -> None:
        """Mark the last shown entry of the path as the leaf, or as above it."""
        places = {row.entry.id: place for place, row in enumerate(rows) if row.is_active}
        is_here = True
        for one in reversed(self.path):
            place = places.get(one)
            if place is not None:
                rows[place] = replace(rows[place], is_here=is_here, is_above_here=not is_here)
                return
            is_here = is_here and self.by_id[one].kind == "state"

    def _find_visible(
        self, shown: Filter, query: Query | None, should_stop: Callable[[], bool]
    ) -> dict[str, Match | None]:
        found: dict[str, Match | None] = {}
        for entry in _until(should_stop, self._order):
            if not self._passes(entry, shown):
                continue
            if query is None or query.is_empty:
                found[entry.id] = None
                continue
            match = query.match(self._fields_of(entry))
            if match is not None:
                found[entry.id] = match
        return found

    def _passes(self, entry: TreeEntry, shown: Filter) -> bool:
        match shown:
            case "all":
                return True
            case "labeled-only":
                return entry.id in self.labels
            case "user-only":
                return entry.kind == "user"
            case "no-tools":
                return entry.kind in _TALK or entry.id in self.labels
            case "default":
                return entry.kind in _TALK or entry.kind == "tool" or entry.id in self.labels

    def _fields_of(self, entry: TreeEntry) -> list[Field]:
        fields = self._fields.get(entry.id)
        if fields is None:
            label = self.labels.get(entry.id)
            fields = self._fields[entry.id] = [
                *([Field.of("label", label.text, 3, fuzzy=True)] if label else ()),
                Field.of("text", entry.text, 2),
                Field.of("name", f"{entry.name} {entry.agent}".rstrip(), 1),
                Field.of("id", entry.id, 1),
            ]
        return fields

    def _visible_children(
        self, visible: Mapping[str, object], should_stop: Callable[[], bool]
    ) -> dict[str | None, list[TreeEntry]]:
        """Find for each shown entry the shown entries below it, skipping hidden ones between."""
        above: dict[str, str | None] = {}
        children: dict[str | None, list[TreeEntry]] = {}
        for entry in _until(should_stop, self._order):
            parent = entry.parent_id
            nearest: str | None = None
            if parent is not None and parent in above:
                nearest = parent if parent in visible else above[parent]
            above[entry.id] = nearest
            if entry.id in visible:
                children.setdefault(nearest, []).append(entry)
        return children

    def _sizes(
        self, visible: Mapping[str, object], children: Mapping[str | None, list[TreeEntry]]
    ) -> dict[str, int]:
        """Count for each shown entry its line and all lines below it."""
        sizes: dict[str, int] = {}
        for entry in reversed(self._order):
            if entry.id in visible:
                sizes[entry.id] = 1 + sum(sizes[child.id] for child in children.get(entry.id, ()))
        return sizes


class _Stopped(Exception):  # noqa: N818 - control flow, not an error
    """Ends the work on rows."""


def _until(should_stop: Callable[[], bool], entries: Sequence[TreeEntry]) -> Iterator[TreeEntry]:
    """Yield the entries; raise `_Stopped` when it is time to stop."""
    for number, entry in enumerate(entries):
        if number % _CHECK_EVERY == 0 and should_stop():
            raise _Stopped
        yield entry


def _siblings(
    entries: Sequence[TreeEntry], guides: str, depth: int
) -> Iterator[tuple[TreeEntry, str, str, int]]:
    """Yield siblings, last first, each with its guides and the guides of what is below it."""
    if len(entries) == 1:
        yield entries[0], guides, guides, depth
        return
    kept = guides[-GUIDE_WIDTH * (MAX_GUIDES - 1) :]
    for number, entry in enumerate(reversed(entries)):
        mark, below = ("└─ ", "   ") if number == 0 else ("├─ ", "│  ")
        yield entry, kept + mark, kept + below, depth + 1


# -- what a choice does --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choice:
    """The effect of choosing an entry."""

    entry: TreeEntry
    leaf_id: str | None
    """The leaf after the choice."""
    leaves: int
    """How many messages stay on the branch that the user leaves."""
    is_move: bool
    """Whether the leaf changes."""

    @property
    def sentence(self) -> str:
        """Say what Enter will do."""
        return self._sentence(" this prompt", "on the old branch")

    def sentence_for(self, width: int) -> str:
        """Say it in at most ``width`` columns, in shorter words rather than cut."""
        shorter = self._sentence(" this prompt", "behind")
        for sentence in (self.sentence, shorter):
            if len(sentence) <= width:
                return sentence
        return self._sentence("", "behind")

    def _sentence(self, what: str, where: str) -> str:
        left = "1 message stays" if self.leaves == 1 else f"{self.leaves:,} messages stay"
        behind = f" · {left} {where}" if self.leaves else ""
        if self.entry.is_prompt:
            if not self.is_move:
                return "Edit and resend this prompt · nothing is left behind"
            return f"Edit and resend{what}{behind}"
        return f"Continue from here{behind}" if self.is_move else "You are already here"


def plan_choice(model: TreeModel, entry_id: str) -> Choice:
    """Find out what choosing this entry will do. Raises KeyError if it doesn't exist.

    Settings after the last message don't count as another place: choosing that message changes
    nothing.
    """
    entry = model.by_id[entry_id]
    leaf_id = entry.parent_id if entry.is_prompt else entry.id
    if leaf_id is not None and leaf_id not in model.by_id:
        leaf_id = None
    target = model.path_to(leaf_id)
    on_target = frozenset(target)
    left = [one for one in model.path if one not in on_target]
    leaves = sum(1 for one in left if model.by_id[one].kind != "state")
    goes_elsewhere = len(target) + len(left) != len(model.path)
    return Choice(entry, leaf_id, leaves, goes_elsewhere or leaves > 0)
