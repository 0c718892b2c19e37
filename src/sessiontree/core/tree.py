"""The tree of a session: entries, their parents and children, labels, and the leaf.

``plant`` builds a tree of any file's entries. It repairs duplicate ids, missing parents and cycles
in memory and reports them. Every walk is iterative and takes time linear in its result.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import msgspec

from sessiontree.core.gc import with_paused_gc
from sessiontree.errors import EntryNotFoundError
from sessiontree.model.entries import Entry, is_leaf_marker
from sessiontree.model.ids import derived_entry_id, parse_timestamp
from sessiontree.model.lines import PREVIOUS, SessionWarning


class SessionTreeNode(msgspec.Struct, eq=False, gc=False):
    """An entry with its children, oldest first, and the label it bears."""

    entry: Entry
    children: list[SessionTreeNode] = msgspec.field(default_factory=list)
    label: str | None = None
    label_timestamp: str | None = None

    def __repr__(self) -> str:
        return f"SessionTreeNode({self.entry.id!r}, {len(self.children)} children)"


class SessionTree:
    """All entries in insertion order, and the conversation's leaf."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        """A tree of entries that are known to be sound, with the leaf at the last one."""
        self.entries: list[Entry] = list(entries)
        self.by_id: dict[str, Entry] = {entry.id: entry for entry in self.entries}
        self.leaf_id: str | None = self.last_id
        # by the parent that is missing, the entries that name it: it may come later
        self.orphans: dict[str, list[str]] = {}
        # another number: entries may hang on others than before
        self.revision = 0
        self._children: dict[str | None, list[Entry]] | None = None
        self._labels: dict[str, tuple[str, str]] | None = None

    @property
    def last_id(self) -> str | None:
        """The id of the last entry added."""
        return self.entries[-1].id if self.entries else None

    def add(self, entry: Entry) -> None:
        """Add an entry with a new id; the leaf stays."""
        self.entries.append(entry)
        self.by_id[entry.id] = entry
        self.index(len(self.entries) - 1)

    def add_all(self, entries: Sequence[Entry]) -> None:
        """Add entries with new ids; the leaf stays."""
        first = len(self.entries)
        self.entries += entries
        by_id = self.by_id
        for entry in entries:
            by_id[entry.id] = entry
        if self._children is not None or self._labels is not None:
            self.index(first)

    def index(self, first: int) -> None:
        """Add the entries from ``first`` on to the known children and labels."""
        if self._children is None and self._labels is None:
            return
        for at in range(first, len(self.entries)):
            entry = self.entries[at]
            if self._children is not None:
                self._children.setdefault(self._parent_key(entry), []).append(entry)
            if self._labels is not None and entry.type == "label":
                self._apply_label(self._labels, entry)

    def forget_indexes(self) -> None:
        """Forget children and labels after entries came or changed; they are found again on
        demand."""
        self.revision += 1
        self._children = None
        self._labels = None

    def get(self, entry_id: str) -> Entry:
        """Return the entry with this id. Raises EntryNotFoundError."""
        entry = self.by_id.get(entry_id)
        if entry is None:
            raise EntryNotFoundError(entry_id)
        return entry

    def marked_leaf(self, entry_id: str | None) -> str | None:
        """The entry that a leaf marker marks; any other entry itself."""
        entry = self.by_id.get(entry_id) if entry_id is not None else None
        while entry is not None and is_leaf_marker(entry):
            entry_id = entry.parent_id
            entry = self.by_id.get(entry_id) if entry_id is not None else None
        return entry_id

    def path(self, from_id: str | None) -> list[Entry]:
        """Return the entries from the root down to ``from_id``; [] for None."""
        if from_id is None:
            return []
        found = [self.get(from_id)]
        parent_id = found[0].parent_id
        if found[0] is self.entries[-1]:
            # as long as each entry is the parent of the next, none has to be looked up
            for entry in islice(reversed(self.entries), 1, None):
                if entry.id != parent_id:
                    break
                found.append(entry)
                parent_id = entry.parent_id
        by_id = self.by_id
        while parent_id is not None:
            parent = by_id.get(parent_id)
            if parent is None:
                break
            found.append(parent)
            parent_id = parent.parent_id
        found.reverse()
        return found

    def children(self, parent_id: str | None) -> list[Entry]:
        """Return the children of an entry in file order; for None the roots."""
        return list(self._child_index().get(parent_id, ()))

    @with_paused_gc
    def nodes(self) -> list[SessionTreeNode]:
        """Return the whole tree as nested nodes; roots in file order, children oldest first."""
        labels = self.labels()
        roots = _nest_backwards(self.entries, labels)
        return roots if roots is not None else _nest_any(self.entries, labels)

    def labels(self) -> dict[str, tuple[str, str]]:
        """Label and time by entry id; the last ``label`` entry of the file wins."""
        if self._labels is None:
            self._labels = {}
            for entry in self.entries:
                if entry.type == "label":
                    self._apply_label(self._labels, entry)
        return self._labels

    def info_name(self) -> str | None:
        """Return the name in the last ``session_info`` entry; None if that clears it."""
        return (self.raw_info_name() or "").strip() or None

    def raw_info_name(self) -> str | None:
        """The same with the white space around it, for writing it again."""
        for entry in reversed(self.entries):
            if entry.type == "session_info":
                name = entry.data.get("name")
                return name if isinstance(name, str) else None
        return None

    @staticmethod
    def _apply_label(labels: dict[str, tuple[str, str]], entry: Entry) -> None:
        data = entry.data
        target, label = data.get("targetId"), data.get("label")
        if not isinstance(target, str):
            return
        # the latest of several labels counts as set last, also in the order of the mapping
        labels.pop(target, None)
        if isinstance(label, str) and label:
            labels[target] = (label, entry.timestamp)

    def _child_index(self) -> dict[str | None, list[Entry]]:
        if self._children is None:
            self._children = self._index_children()
        return self._children

    @with_paused_gc
    def _index_children(self) -> dict[str | None, list[Entry]]:
        children: dict[str | None, list[Entry]] = {}
        for entry in self.entries:
            children.setdefault(self._parent_key(entry), []).append(entry)
        return children

    def _parent_key(self, entry: Entry) -> str | None:
        return entry.parent_id if entry.parent_id in self.by_id else None


Labels = Mapping[str, tuple[str, str]]


def _nest_backwards(entries: Sequence[Entry], labels: Labels) -> list[SessionTreeNode] | None:
    """The roots of nested nodes; None if an entry comes before its parent, or its parent is
    missing.

    Parents are written before their children, so that from the end on a node's children are all
    known when it is made: one pass, and no index of nodes.
    """
    waiting: dict[str | None, list[SessionTreeNode]] = {}
    take, find = waiting.pop, waiting.get
    forks: list[list[SessionTreeNode]] = []
    for entry in reversed(entries):
        node = SessionTreeNode(entry, take(entry.id, []))
        if entry.id in labels:
            node.label, node.label_timestamp = labels[entry.id]
        siblings = find(entry.parent_id)
        if siblings is None:
            waiting[entry.parent_id] = [node]
        else:
            siblings.append(node)
            if len(siblings) == 2:
                forks.append(siblings)
    roots = waiting.pop(None, [])
    if waiting:
        return None
    for siblings in forks:
        siblings.reverse()
        if siblings is not roots:
            _sort_by_time(siblings)
    return roots


def _nest_any(entries: Sequence[Entry], labels: Labels) -> list[SessionTreeNode]:
    """Nest entries in any order."""
    nodes = {entry.id: SessionTreeNode(entry) for entry in entries}
    roots: list[SessionTreeNode] = []
    forks: list[list[SessionTreeNode]] = []
    for node in nodes.values():
        entry = node.entry
        if entry.id in labels:
            node.label, node.label_timestamp = labels[entry.id]
        parent = nodes.get(entry.parent_id) if entry.parent_id is not None else None
        siblings = roots if parent is None else parent.children
        siblings.append(node)
        if len(siblings) == 2 and parent is not None:
            forks.append(siblings)
    for siblings in forks:
        _sort_by_time(siblings)
    return roots


def _sort_by_time(siblings: list[SessionTreeNode]) -> None:
    """Oldest first; times all spelled as every agent spells them compare as text."""
    if all(len(time := node.entry.timestamp) == 24 and time[-1] == "Z" for node in siblings):
        siblings.sort(key=lambda node: node.entry.timestamp)
    else:
        siblings.sort(key=lambda node: parse_timestamp(node.entry.timestamp) or 0)


def plant(
    entries: Iterable[Entry], gaps: Sequence[int] = ()
) -> tuple[SessionTree, list[SessionWarning]]:
    """Build a valid tree of a file's entries, with the last as leaf; return it and the repairs.

    ``gaps`` gives, in ascending order, how many entries came before each piece of lost text.
    """
    tree = SessionTree()
    warnings: list[SessionWarning] = []
    graft(tree, entries, gaps, warnings)
    tree.leaf_id = tree.last_id
    return tree, warnings


def graft(
    tree: SessionTree,
    entries: Iterable[Entry],
    gaps: Sequence[int],
    warnings: list[SessionWarning],
) -> None:
    """Add entries read from a file to a tree, repairing them.

    ``gaps`` counts entries from the beginning of the tree.
    """
    by_id = tree.by_id
    added = tree.entries
    first = len(added)
    unknown: list[int] = []
    previous: str | None = None
    for entry in entries:
        if entry.id in by_id or not entry.id:
            _give_fresh_id(tree, entry, warnings)
        parent_id = entry.parent_id
        # nearly always the entry before it, which needs no look into the index
        if parent_id != previous and parent_id is not None and parent_id not in by_id:
            unknown.append(len(added))
        added.append(entry)
        previous = entry.id
        by_id[previous] = entry
    if tree.orphans:
        adopt_orphans(tree, (entry.id for entry in added[first:]), warnings)
    if not unknown:
        tree.index(first)
        return
    tree.forget_indexes()
    for index in unknown:
        entry = tree.entries[index]
        if entry.parent_id == PREVIOUS:
            entry.place(entry.id, tree.entries[index - 1].id if index else None)
        elif entry.parent_id == entry.id:
            entry.place(entry.id, None)
            warnings.append(SessionWarning(f"entry {entry.id} was its own parent; now a root"))
        elif entry.parent_id not in by_id:
            _hang_orphan(tree, index, gaps, warnings)
    _cut_cycles(tree, [tree.entries[index] for index in unknown], warnings)


def adopt_orphans(
    tree: SessionTree, parent_ids: Iterable[str], warnings: list[SessionWarning]
) -> None:
    """Attach entries to the parents they name, which exist now; cut the cycles this closes."""
    adopted: list[Entry] = []
    for parent_id in parent_ids:
        children = [tree.by_id[child_id] for child_id in tree.orphans.pop(parent_id, ())]
        adopted += [child for child in children if child.hang_back(parent_id)]
    if adopted:
        tree.forget_indexes()
        _cut_cycles(tree, adopted, warnings)


def _give_fresh_id(tree: SessionTree, entry: Entry, warnings: list[SessionWarning]) -> None:
    """Derive an id from the entry's content, so that it is the same wherever its line is.

    For entries with equal content, the place in the file is used as well.
    """
    own = (entry.id, entry.type, entry.parent_id, entry.timestamp)
    fresh = derived_entry_id((), *own)
    if fresh in tree.by_id:
        fresh = derived_entry_id(tree.by_id, *own, len(tree.entries))
    reason = f"duplicate id {entry.id}" if entry.id else f"{entry.type} entry without an id"
    warnings.append(SessionWarning(f"{reason}; the later entry is now {fresh}"))
    entry.place(fresh, entry.parent_id)


def _hang_orphan(
    tree: SessionTree, index: int, gaps: Sequence[int], warnings: list[SessionWarning]
) -> None:
    """Guess the lost parent: most likely it was in the nearest lost text before the entry."""
    entry = tree.entries[index]
    lost = str(entry.parent_id)
    tree.orphans.setdefault(lost, []).append(entry.id)
    at = bisect_right(gaps, index)
    if at == 0:
        entry.parent_id = None  # its line still names the lost parent, and stays as it is
        warnings.append(SessionWarning(f"entry {entry.id} has no parent {lost}; now a root"))
        return
    before = gaps[at - 1] - 1
    parent = tree.entries[before].id if before >= 0 else None
    entry.place(entry.id, parent)
    where = f"hung on {parent}, the last entry before the damage" if parent else "now a root"
    warnings.append(SessionWarning(f"the parent {lost} of entry {entry.id} was lost; {where}"))


def _cut_cycles(tree: SessionTree, suspects: list[Entry], warnings: list[SessionWarning]) -> None:
    """Cut cycles. Each has an entry that comes before its parent: walk up from those."""
    safe: set[str] = set()
    ranks: dict[str, tuple[bool, int]] = {}
    for suspect in suspects:
        walked: set[str] = set()
        entry: Entry | None = suspect
        while entry is not None and entry.id not in safe and entry.id not in walked:
            walked.add(entry.id)
            entry = tree.by_id.get(entry.parent_id) if entry.parent_id is not None else None
        if entry is not None and entry.id not in safe:
            ranks = ranks or _rank(tree)
            _cut_cycle(tree, entry, ranks, warnings)
        safe |= walked


def _rank(tree: SessionTree) -> dict[str, tuple[bool, int]]:
    """Rank entries: of a cycle, the one with the least rank loses its parent.

    A parent that was only guessed ranks least. Else, since parents are written before their
    children, the earliest entry does: cutting there keeps the rest of the cycle as one path.
    """
    guessed = {child_id for children in tree.orphans.values() for child_id in children}
    return {entry.id: (entry.id not in guessed, at) for at, entry in enumerate(tree.entries)}


def _cut_cycle(
    tree: SessionTree,
    member: Entry,
    ranks: Mapping[str, tuple[bool, int]],
    warnings: list[SessionWarning],
) -> None:
    cycle = [member]
    while (entry := tree.by_id[str(cycle[-1].parent_id)]) is not member:
        cycle.append(entry)
    wrong = min(cycle, key=lambda entry: ranks[entry.id])
    wrong.place(wrong.id, None)
    warnings.append(SessionWarning(f"entry {wrong.id} closed a cycle of parents; now a root"))
