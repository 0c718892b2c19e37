"""One open session: its header, its log and tree, and what can be done to it.

``SessionManager`` holds exactly one of these and swaps it for another on a switch, so a switch that
fails has nothing to undo. Knows nothing of how sessions are found.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

from sessiontree.core.context import ContextBuilder, SessionContext
from sessiontree.core.gc import with_paused_gc
from sessiontree.core.tree import SessionTree
from sessiontree.errors import PersistenceError
from sessiontree.model import codec
from sessiontree.model.dialects import session_name
from sessiontree.model.entries import LEAF_MARKER, Entry, WireEntry
from sessiontree.model.header import Header, get_cwd, get_title, respell_header, set_fields
from sessiontree.model.ids import format_timestamp, new_entry_id
from sessiontree.model.lines import SessionWarning
from sessiontree.stores.files.document import SessionDocument
from sessiontree.stores.files.log import SessionLog
from sessiontree.stores.files.other_writers import Changes
from sessiontree.stores.files.replaced_file import succeed
from sessiontree.stores.files.unsaved import UnsavedLog
from sessiontree.stores.files.writer import may_be_edited
from sessiontree.stores.place import Place

_T = TypeVar("_T")
_SETTINGS = frozenset(("model_change", "thinking_level_change", "mode_change", "session_info"))
"""What a session says before anything was said in it."""


class LiveSession:
    """A session that can be read and appended to."""

    def __init__(
        self,
        place: Place,
        header: Header,
        log: SessionLog | UnsavedLog,
        warnings: list[SessionWarning] | None = None,
    ) -> None:
        self.place = place
        self.header = header
        self.log = log
        self._warnings = warnings or []
        self._builder: ContextBuilder | None = None
        self._builder_leaf: str | None = None
        self._builder_revision = 0
        self._is_touched = False
        self._is_header_changed = False
        self._wanted: dict[str, Any] = {}
        self._unwanted: dict[str, Any] = {}
        self._foreign = 0

    # -- state -----------------------------------------------------------------------------

    @property
    def tree(self) -> SessionTree:
        return self.log.tree

    @property
    def file(self) -> str | None:
        """The session file, whether it exists yet or not; None if the session is kept nowhere."""
        return self.log.path if isinstance(self.log, SessionLog) else None

    @property
    def warnings(self) -> list[SessionWarning]:
        """What loading or writing had to repair, in the order it was met."""
        found = list(self._warnings)
        document = self.log.document
        if document is not None:
            found += document.warnings
            found += document.payloads.tell_missing() + document.payloads.tell_edited()
        if self._builder is not None:
            found += [
                SessionWarning(f"entry {entry_id} holds no message; not in the context")
                for entry_id in self._builder.empty_ids
            ]
        if self._foreign:
            plural = "entry was" if self._foreign == 1 else "entries were"
            found.append(SessionWarning(f"{self._foreign} {plural} appended by another process"))
        return found

    @property
    def name(self) -> str | None:
        """The session's name."""
        title, dialect = get_title(self.header), self.log.dialect
        # looking for pi's name goes through all entries
        info = self.tree.info_name() if dialect == "pi" or not title else None
        return session_name(dialect, title, info)

    def warn(self, *warnings: SessionWarning) -> None:
        """Tell something among the warnings; once, however often it happens."""
        self._warnings += [warning for warning in warnings if warning not in self._warnings]

    # -- appending -------------------------------------------------------------------------

    def append(self, entry_type: str, fields: WireEntry) -> str:
        """Add one entry as child of the leaf, which it becomes; its id."""

        def append(changes: Changes | None) -> str:
            if changes is not None:
                self._merge(changes)
            return self._append(entry_type, fields).id

        return self.log.exclusive(append)

    def _append(self, entry_type: str, fields: WireEntry) -> Entry:
        tree = self.log.tree
        entry_id = new_entry_id(tree.by_id, os.urandom)
        time = format_timestamp(self.place.clock())
        frame = {"type": entry_type, "id": entry_id, "parentId": tree.leaf_id, "timestamp": time}
        if fields.get("firstKeptEntryId", "") is None:
            fields = {**fields, "firstKeptEntryId": entry_id}  # it keeps nothing from before it
        entry = Entry(entry_type, entry_id, tree.leaf_id, time, cached=frame | fields)
        self.log.append(entry, self.header)
        tree.add(entry)
        tree.leaf_id = entry.id
        self._is_touched = True
        if self._builder is not None or entry_type == "compaction":
            self._carry_context(entry)
        return entry

    def move_leaf(self, entry_id: str | None) -> None:
        """The conversation goes on from this entry; EntryNotFoundError, and the latched error."""
        self.log.check()
        if entry_id is not None:
            self.tree.get(entry_id)
        self.put_leaf_back(entry_id)

    def put_leaf_back(self, entry_id: str | None) -> None:
        """Stand again where a step that failed began, also if its error is latched."""
        self.tree.leaf_id = entry_id
        self._is_touched = True

    def refresh(self) -> int:
        """Read what other processes appended; how many entries that were.

        A file that is as it was is only looked at, so this may be called often, and works for one
        that may not be written. One that was removed stays so until there is something to append.
        """
        before = self._foreign
        self.log.check()
        if self.log.is_behind() and not self.log.is_gone():
            self.log.exclusive(self._merge)
        return self._foreign - before

    def catch_up(self, work: Callable[[], _T]) -> _T:
        """Do something with the file held, and everything that others did to it taken in."""

        def merge_and_work(changes: Changes | None) -> _T:
            self._merge(changes)
            return work()

        return self.log.exclusive(merge_and_work)

    def _merge(self, changes: Changes | None) -> None:
        """Take in what others did, and write what that leaves without a place."""
        if changes is None:
            return
        homeless: list[Entry] = []
        if changes.replaced is not None:
            homeless = self._follow(changes.replaced, changes.is_old_intact)
        if changes.moved_from is not None:
            self._note_move(changes.moved_from)
        self._foreign += changes.foreign
        if changes.moved_to is not None:
            self._follow_move(changes.moved_to)
        self.warn(*changes.warnings)
        changes.clear()
        if homeless and isinstance(self.log, SessionLog):
            self._is_touched = True
            self.log.house(homeless, self.header)

    def _note_move(self, moved_from: str) -> None:
        """New sessions and forks follow the folder, if it was this session's."""
        if self.file is not None and self.place.session_dir == os.path.dirname(moved_from):
            self.place = replace(self.place, session_dir=os.path.dirname(self.file))

    def _follow_move(self, path: str) -> None:
        """Another window has moved the session to another project: it is worked on there."""
        folder, cwd = os.path.dirname(path), get_cwd(self.header) or self.place.cwd
        self.place = replace(self.place, session_dir=folder, cwd=cwd)
        self.warn(SessionWarning(f"another window has moved the session to {path}"))

    def _follow(self, replaced: SessionTree, is_old_intact: bool) -> list[Entry]:
        """The file is another one now: go on with it; the entries that only the old one held."""
        self._builder = None
        if self.log.document is not None:
            self.header = self.log.document.header
            self._unwanted = {key: self.header.get(key) for key in self._wanted}
            set_fields(self.header, self._wanted)
        done = succeed(replaced, self.tree, self.log.dialect, is_old_intact=is_old_intact)
        self._foreign += done.foreign
        self.warn(*done.warnings)
        return done.homeless

    # -- context ---------------------------------------------------------------------------

    def context(self) -> SessionContext:
        """What the model sees at the leaf. Nearly free when nothing changed since the last call."""
        leaf_id, revision = self.tree.leaf_id, self.tree.revision
        if leaf_id is None:
            return SessionContext()
        is_known = self._builder_leaf == leaf_id and self._builder_revision == revision
        if self._builder is None or not is_known:
            self._builder = _make_builder(self.tree.path(leaf_id))
            self._builder_leaf, self._builder_revision = leaf_id, revision
        return self._builder.build()

    def _carry_context(self, entry: Entry) -> None:
        builder = self._builder
        if entry.type == "compaction":
            self._release_before(entry)
        if builder is None or self._builder_leaf != entry.parent_id:
            return
        if builder.can_extend(entry):
            builder.extend(entry)
            self._builder_leaf = entry.id
        else:
            self._builder = None

    def _release_before(self, compaction: Entry) -> None:
        """A compaction hides what it summarises: let its decoded payloads go, if unchanged."""
        if self.file is None:
            return
        by_id = self.tree.by_id
        first_kept = compaction.data.get("firstKeptEntryId")
        above: list[Entry] = []
        top: object = None
        entry = by_id.get(compaction.parent_id or "")
        while entry is not None:
            above.append(entry)
            if entry.id == top:
                break  # what is above was let go by the compaction before
            if top is None and entry.type == "compaction":
                top = entry.data.get("firstKeptEntryId")
            entry = by_id.get(entry.parent_id or "")
        for entry in reversed(above):
            if entry.id == first_kept:
                break
            if not may_be_edited(entry, self.log.dialect):
                entry.release()

    # -- the whole file --------------------------------------------------------------------

    def head(self) -> bytes:
        """Title slot and header as they are to be written."""
        document = self.log.document
        slot = document.slot if document is not None else None
        lead = slot.encode() if slot is not None else b""
        return lead + self._header_line(document) + b"\n"

    def _header_line(self, document: SessionDocument | None) -> bytes:
        if document is None or not document.header_line:
            return codec.encode(self.header)
        if not self._is_header_changed:
            return document.header_line
        return respell_header(self.header, document.header_line)

    def change_header(self, **fields: Any) -> None:
        """Set header fields; None removes one. Written by the next rewrite."""
        set_fields(self.header, fields)
        self._is_header_changed = True

    def write_header(self, write: Callable[[], object], **fields: Any) -> None:
        """Set header fields, whatever others make of the header meanwhile, and write them.

        If that fails they are again what they were.
        """
        was_changed = self._is_header_changed
        self._unwanted = {key: self.header.get(key) for key in fields}
        try:
            self._wanted = fields
            self.change_header(**fields)
            write()
            self._wanted = {}
        except BaseException:
            set_fields(self.header, self._unwanted)
            self._is_header_changed = was_changed
            self._wanted = {}
            raise

    def rewrite(self, *, find_changes: bool = False) -> None:
        """Write the whole session anew, atomically, merged with what others appended."""
        self.catch_up(lambda: self.write_anew(find_changes=find_changes))

    def write_anew(self, *, find_changes: bool = False) -> None:
        """Write the whole session anew, atomically; only inside ``catch_up``."""
        log = self.log
        if not isinstance(log, SessionLog) or log.document is None:
            return
        log.rewrite(self.head(), self.tree.entries, find_changes=find_changes)
        self._note_header_written()
        if find_changes:
            self._builder = None

    def move(self, place: Place, path: str, commit: Callable[[], object]) -> None:
        """Write the session to another file and go on there; only inside ``catch_up``.

        ``commit`` is the point of no return. Raises OSError.
        """
        cast("SessionLog", self.log).move(path, self.head(), self.tree.entries, commit)
        self._note_header_written()
        self.place = place

    def follow_file(self, place: Place, path: str) -> None:
        """The file was moved: from now on it is read and written there."""
        cast("SessionLog", self.log).look_at(path)
        set_fields(self.header, {"cwd": place.cwd})
        self.place = place

    def _note_header_written(self) -> None:
        document = self.log.document
        if document is not None and self._is_header_changed:
            document.header = self.header
            document.header_line = self._header_line(document)
            self._is_header_changed = False

    # -- durability ------------------------------------------------------------------------

    def flush(self) -> None:
        """What was appended is on the medium, in the file that has the session's name."""
        self.log.check()
        if self._is_touched:
            self.catch_up(self.log.flush)
        elif not self.log.is_gone():
            self.log.flush()

    def recover(self) -> None:
        """Forget a latched error and go on; what could not be trusted to be saved is saved.

        A file that somebody has overwritten or emptied is written anew from what is still known.
        """
        self._is_header_changed = False
        try:
            if self.log.recover():
                self.rewrite()
            elif self.log.is_behind():
                self.log.exclusive(self._merge)
        except PersistenceError:
            if not isinstance(self.log, SessionLog) or not self.log.is_ruined():
                raise
            told = self.log.rebuild(self.head(), self.place.clock())
            if told is None:  # by now it is a session again
                self.log.exclusive(self._merge)
                return
            self.warn(told)
            self._builder = None

    def close(self) -> None:
        """Leave the session so that whoever opens it next stands where it stood.

        Best effort: the file is let go of in any case, and the first error is raised.
        """
        try:
            self.log.check()
            if self._is_touched:
                self._leave()
                self._is_touched = False
        finally:
            self.log.close()

    def _leave(self) -> None:
        log = self.log
        if not isinstance(log, SessionLog) or log.document is None:
            return
        if self.catch_up(lambda: self._end(log)):
            log.flush()

    def _end(self, log: SessionLog) -> bool:
        """Whether there is anything to keep."""
        if log.is_draft and not self._has_content():
            log.discard_draft()
            return False
        self.mark_leaf()
        return True

    def mark_leaf(self) -> None:
        """Make the leaf the last entry, since for other agents the last entry is the leaf."""

        def mark() -> None:
            if self.tree.leaf_id != self.tree.last_id:
                self._append("custom", {"customType": LEAF_MARKER})

        self.catch_up(mark)

    def abandon(self) -> None:
        """Let go of a session whose writing has failed, without another word about it."""
        self.log.close()

    @property
    def has_failed(self) -> bool:
        """Whether an error is latched."""
        return self.log.has_failed

    def _has_content(self) -> bool:
        return any(entry.type not in _SETTINGS for entry in self.tree.entries)


@with_paused_gc
def _make_builder(path: list[Entry]) -> ContextBuilder:
    return ContextBuilder(path)
