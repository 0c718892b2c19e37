"""One open session: its log, its tree, its leaf, and the context for a model.

``SessionManager`` holds exactly one of these and swaps it for another on a switch, so a switch that
fails has nothing to undo. Knows nothing of how sessions are found, nor of where they are kept.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any

from sessiontree.clock import Clock
from sessiontree.core.context import ContextBuilder, SessionContext
from sessiontree.core.gc import with_paused_gc
from sessiontree.core.tree import SessionTree
from sessiontree.core.trimming import may_be_edited
from sessiontree.errors import ConflictError, EntryExistsError
from sessiontree.model.dialects import session_name
from sessiontree.model.entries import LEAF_MARKER, SETTINGS, Entry, WireEntry
from sessiontree.model.header import Header, get_cwd, get_title
from sessiontree.model.lines import SessionWarning
from sessiontree.session.batch import make_entries
from sessiontree.stores.base import SessionLog
from sessiontree.stores.identity import new_entry


class OwnIds:
    """The ids of entries that a session itself has made."""

    def __init__(self) -> None:
        self.ids: set[str] = set()


class LiveSession:
    """A session that can be read and appended to."""

    def __init__(self, log: SessionLog, cwd: str = "") -> None:
        """``cwd`` is its project if its header does not say."""
        self.log = log
        self._cwd = cwd
        self._builder: ContextBuilder | None = None
        self._builder_leaf: str | None = None
        self._builder_tree: SessionTree | None = None
        self._builder_revision = 0
        self._has_moved = False
        self._is_deleted = False
        self._known = len(log.tree.entries)
        self._own: list[weakref.ref[OwnIds]] = []

    # -- state -----------------------------------------------------------------------------

    @property
    def header(self) -> Header:
        return self.log.header

    @property
    def tree(self) -> SessionTree:
        return self.log.tree

    @property
    def cwd(self) -> str:
        """The project that the session belongs to."""
        return get_cwd(self.log.header) or self._cwd

    @property
    def clock(self) -> Clock:
        return self.log.store.clock

    @property
    def file(self) -> str | None:
        """The session's name for others, written yet or not; None if it never will be."""
        return self.log.ref if self.log.store.is_kept else None

    @property
    def warnings(self) -> list[SessionWarning]:
        """The repairs that loading or writing made, in their order."""
        found = self.log.warnings
        if self._builder is not None:
            found += [
                SessionWarning(f"entry {entry_id} holds no message; not in the context")
                for entry_id in self._builder.empty_ids
            ]
        return found

    @property
    def name(self) -> str | None:
        """The session's name."""
        title, dialect = get_title(self.header), self.log.dialect
        # looking for pi's name goes through all entries
        info = self.tree.info_name() if dialect == "pi" or not title else None
        return session_name(dialect, title, info)

    @property
    def latest_leaf(self) -> str | None:
        """The conversation's end by all that has been read: the last entry of others counts.

        Our own leaf, unless others have appended since it was chosen.
        """
        tree = self.log.tree
        return tree.marked_leaf(tree.last_id) if len(tree.entries) > self._known else tree.leaf_id

    # -- appending -------------------------------------------------------------------------

    def append(self, entry_type: str, fields: WireEntry) -> str:
        """Add one entry as child of the leaf; it becomes the leaf. Return its id."""
        log = self.log
        entry = new_entry(log, entry_type, fields)
        try:
            log.append((entry,))
        except EntryExistsError:  # somebody else drew the same number just now
            return self.append(entry_type, fields)
        tree = log.tree
        tree.leaf_id = entry.id
        self._known = len(tree.entries)
        if self._own:
            self._tell_own((entry,))
        if self._builder is not None or entry_type == "compaction":
            self._carry_context(entry)
        return entry.id

    def append_many(
        self,
        wanted: Sequence[Mapping[str, Any]] | Callable[[], Sequence[Mapping[str, Any]]],
        expected_leaf: str | EllipsisType | None = ...,
        expected_revision: str | None = None,
        *,
        to_last: bool = False,
    ) -> list[str]:
        """Add entries in one write, all or none; return their ids. ConflictError,
        EntryNotFoundError.

        What was compared is what the entries continue: after others have written, that is their
        last entry, not the one where this session stood. ``to_last`` moves the leaf to the last
        entry, whatever its parent. A function makes the entries while no other process can write.
        """
        if expected_leaf is ... and expected_revision is None and not callable(wanted):
            return self._append_many(wanted, self.tree.leaf_id, to_last)

        def compare_and_append() -> list[str]:
            if expected_leaf is not ... or expected_revision is not None:
                self._compare(expected_leaf, expected_revision)
            if not callable(wanted):
                return self._append_many(wanted, self.latest_leaf, to_last)
            self._set_leaf(self.latest_leaf)
            return self._append_many(wanted(), self.tree.leaf_id, to_last)

        return self.log.settle(compare_and_append)

    def _append_many(
        self, wanted: Sequence[Mapping[str, Any]], start_id: str | None, to_last: bool
    ) -> list[str]:
        if not wanted:
            self.log.check()
            return []
        entries, leaf_id = make_entries(self.log, wanted, start_id, keeps_leaf=not to_last)
        made = [entry.id for entry in entries[: len(wanted)]]
        if to_last:
            leaf_id = made[-1]
        self.log.append(entries)
        # with parents of their own the entries leave the leaf where it was
        self._set_leaf(self.tree.leaf_id if leaf_id == start_id else leaf_id)
        self._tell_own(entries)
        return made

    def note_own(self) -> OwnIds:
        """The ids of all entries that are made here from now on, for as long as it is held."""
        own = OwnIds()
        self._own = [each for each in self._own if each() is not None]
        self._own.append(weakref.ref(own))
        return own

    def _tell_own(self, entries: Sequence[Entry]) -> None:
        for each in self._own:
            own = each()
            if own is not None:
                own.ids.update(entry.id for entry in entries)

    def _compare(self, leaf_id: str | EllipsisType | None, revision: str | None) -> None:
        found_leaf, found_revision = self.latest_leaf, self.log.revision
        marked = self.tree.marked_leaf
        is_leaf = isinstance(leaf_id, EllipsisType) or marked(leaf_id) == marked(found_leaf)
        if not is_leaf or revision not in (None, found_revision):
            raise ConflictError(self.log.ref, found_leaf, found_revision)

    def _set_leaf(self, entry_id: str | None) -> None:
        """Move the leaf to this entry, once what was appended is in the tree."""
        tree = self.log.tree
        tree.leaf_id = entry_id
        self._known = len(tree.entries)

    def move_leaf(self, entry_id: str | None) -> None:
        """Continue the conversation from this entry; EntryNotFoundError, and the latched error."""
        self.log.check()
        if entry_id is not None:
            self.tree.get(entry_id)
        self.put_leaf_back(entry_id)

    def put_leaf_back(self, entry_id: str | None) -> None:
        """Move the leaf back after a step that failed, also if its error is latched."""
        self._set_leaf(entry_id)
        self._has_moved = True

    def refresh(self) -> int:
        """Read what other processes appended; return the number of entries."""
        before = self.log.foreign
        self.log.refresh()
        return self.log.foreign - before

    def catch_up(self) -> int:
        """Read what other processes appended and continue from their last entry; return the number
        of entries."""
        found = self.refresh()
        self._set_leaf(self.latest_leaf)
        return found

    # -- context ---------------------------------------------------------------------------

    def context(self) -> SessionContext:
        """The model's view at the leaf. Nearly free when nothing changed since the last call."""
        tree = self.log.tree
        leaf_id, revision = tree.leaf_id, tree.revision
        if leaf_id is None:
            return SessionContext()
        is_known = (
            self._builder_tree is tree
            and self._builder_leaf == leaf_id
            and self._builder_revision == revision
        )
        if self._builder is None or not is_known:
            self._builder = _make_builder(tree.path(leaf_id))
            self._builder_tree, self._builder_leaf = tree, leaf_id
            self._builder_revision = revision
        return self._builder.build()

    def _carry_context(self, entry: Entry) -> None:
        builder = self._builder
        if entry.type == "compaction":
            self._release_before(entry)
        if (
            builder is None
            or self._builder_tree is not self.tree
            or self._builder_leaf != entry.parent_id
        ):
            return
        if builder.can_extend(entry):
            builder.extend(entry)
            self._builder_leaf = entry.id
        else:
            self._builder = None

    def _release_before(self, compaction: Entry) -> None:
        """Drop the decoded payloads that a compaction hides, if they are unchanged."""
        by_id = self.tree.by_id
        first_kept = compaction.data.get("firstKeptEntryId")
        above: list[Entry] = []
        top: object = None
        entry = by_id.get(compaction.parent_id or "")
        while entry is not None:
            above.append(entry)
            if entry.id == top:
                break  # the compaction before dropped what is above
            if top is None and entry.type == "compaction":
                top = entry.data.get("firstKeptEntryId")
            entry = by_id.get(entry.parent_id or "")
        for entry in reversed(above):
            if entry.id == first_kept:
                break
            if not may_be_edited(entry, self.log.dialect):
                entry.release()

    # -- the whole session -----------------------------------------------------------------

    def rewrite(self, *, find_changes: bool = False) -> None:
        """Rewrite the whole session, atomically, merged with what others appended."""
        self.log.rewrite(find_changes=find_changes)

    def flush(self) -> None:
        """Bring everything appended to the medium."""
        self.log.flush()

    def recover(self) -> None:
        """Forget a latched error, and save again what may not have been saved.

        A session that was deleted here stays deleted: the error is raised again.
        """
        if self._is_deleted:
            self.log.check()
        self.log.recover()

    def close(self) -> None:
        """Leave the session so that opening it again continues at the same entry.

        Best effort: it is closed in any case, and the first error is raised.
        """
        try:
            if self._is_deleted or not self.log.store.is_kept:
                return
            self.log.check()
            if (self._has_moved or self.log.is_touched) and not self.log.is_removed():
                if self.log.settle(self._end):
                    self.log.flush()
                self._has_moved = self.log.is_touched = False
        finally:
            self.log.close()

    def _end(self) -> bool:
        """Decide whether there is anything to keep."""
        if self.log.is_draft and not any(entry.type not in SETTINGS for entry in self.tree.entries):
            self.log.discard()
            return False
        self.mark_leaf()
        return True

    def mark_leaf(self) -> None:
        """Make the leaf the last entry, since for other agents the last entry is the leaf."""

        def mark() -> None:
            tree = self.tree
            if tree.leaf_id not in (tree.last_id, tree.marked_leaf(tree.last_id)):
                self.append("custom", {"customType": LEAF_MARKER})

        self.log.settle(mark)

    def delete(self, *, permanently: bool) -> None:
        """Leave the session and delete it; what is in memory can still be read."""
        self.log.delete(permanently=permanently)
        self._is_deleted = True

    def abandon(self) -> None:
        """Close without flushing; for after an error that was raised already."""
        self.log.close()


@with_paused_gc
def _make_builder(path: list[Entry]) -> ContextBuilder:
    return ContextBuilder(path)
