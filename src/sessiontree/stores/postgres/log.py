"""One open session in PostgreSQL: one statement adds entries and returns what others wrote.

**An append does not look first.** It says up to where the session was read, and the answer brings
what others wrote since: a child of the leaf is always valid. **What needs quiet** goes through
``settle``: it reads on, works, and writes on the condition that the session's revision is still the
one it read; if not it does so again, and after a few times with the session's row locked.

**Lost answers.** A statement that may have been carried out is sent again with the same entries;
their ids make it once. After the commit nothing raises: what cannot be read then is read later.

**Lost rows.** A standby that took over may lack what was acknowledged last. Each append names the
last entry that was read; if the server has another or none there, the session is read again, and
the entries that only we still have are written again, with a warning."""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast

import psycopg
from psycopg.types.json import Jsonb

from sessiontree.core.gc import with_paused_gc
from sessiontree.core.tree import SessionTree, graft, plant
from sessiontree.core.trimming import Trimmed, may_be_edited, trim
from sessiontree.errors import (
    EntryExistsError,
    PersistenceError,
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
)
from sessiontree.model import codec
from sessiontree.model.entries import Entry, PayloadSource
from sessiontree.model.header import Header, get_scope, get_title, respell_header, set_fields
from sessiontree.model.lines import SessionWarning
from sessiontree.profiles import Dialect
from sessiontree.stores.base import Durability
from sessiontree.stores.files.replaced_file import merge_replaced
from sessiontree.stores.latch import ErrorLatch
from sessiontree.stores.postgres import statements
from sessiontree.stores.postgres.address import spell_ref
from sessiontree.stores.postgres.blobs import blobs_in
from sessiontree.stores.postgres.combining import MOST_BYTES, PlainAppend, combine
from sessiontree.stores.postgres.database import Statement
from sessiontree.stores.postgres.figures import Figures, figures_of
from sessiontree.stores.postgres.lines import RowLines
from sessiontree.stores.postgres.pool import Connection, Row
from sessiontree.stores.postgres.rows import (
    EntryRows,
    Place,
    entries_of,
    name_words,
    rows_of,
    session_columns,
    shown,
    to_time,
)
from sessiontree.stores.postgres.spelling import spell_array, spell_key

if TYPE_CHECKING:
    from sessiontree.stores.postgres.store import PostgresStore

_T = TypeVar("_T")

_RECENT_ENTRIES = 1_000
_TRIES_UNLOCKED = 4
_MOST_TRIES = 20
_LONGEST_PAUSE_S = 0.02
_ALONE_FOR = 16
"""So many appends are not combined after one that could not be: others write here, or follow."""


class _MeanwhileError(Exception):
    """Somebody wrote between our reading and our writing."""


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """The line of an entry before it was rewritten, and its place."""

    entry: Entry
    number: int
    line: bytes | None
    source: PayloadSource | None
    offset: int
    length: int
    is_changed: bool

    def undo(self, lines: RowLines) -> None:
        """Put the entry back; what was edited in it stays edited."""
        if self.source is None or self.line is None:
            return
        lines.keep(self.number, self.line)
        self.entry.attach(self.source, self.offset, self.length)
        self.entry.is_changed = self.is_changed


class PostgresLog(ErrorLatch):
    """One session. Not for use by several threads at once."""

    def __init__(
        self,
        store: PostgresStore,
        header: Header,
        dialect: Dialect,
        durability: Durability = "flush",
        *,
        is_read_only: bool = False,
    ) -> None:
        """A session of which nothing is written yet; ``load`` continues one that is."""
        self.store = store
        self.header = header
        self.dialect: Dialect = dialect
        self.durability: Durability = durability
        self.tree = SessionTree()
        self.foreign = 0
        self.is_draft = True
        self.is_touched = False
        """Whether anything was written since."""
        self.place: Place | None = None
        self._db = store.database
        self._is_read_only = is_read_only
        self._is_stale = False
        self._is_settling = False
        self._held: Connection | None = None
        # appended and rewritten in a transaction that is not committed yet
        self._unsure: list[Entry] = []
        self._unsure_lines: list[_Rewritten] = []
        self._error: PersistenceError | None = None
        self._own_warnings: list[SessionWarning] = []
        self._header_line = b""
        self._has_written = False
        self._alone_for = 0
        self._lines = self._new_lines()

    # -- what there is to know -------------------------------------------------------------

    @property
    def scope(self) -> str | None:
        """The scope that the header names, if it names one."""
        return get_scope(self.header)

    @property
    def ref(self) -> str:
        """Its id, behind its scope if it has one."""
        return spell_ref(str(self.header.get("id", "")), self.scope)

    @property
    def is_started(self) -> bool:
        """Whether there is a row of it."""
        return self.place is not None

    @property
    def revision(self) -> str:
        """Another text after each write of anybody, as far as it has been read here."""
        return "0" if self.place is None else str(self.place)

    @property
    def warnings(self) -> list[SessionWarning]:
        """The repairs that reading or writing made, in their order."""
        found = [*self._own_warnings, *self._lines.warn_of_missing(), *self._lines.warn_of_edited()]
        return found + self._warn_of_others()

    @property
    def name(self) -> str:
        """The session's name in errors and warnings."""
        return f"{self.store.url}#{self.ref}"

    def is_removed(self) -> bool:
        """Whether somebody has deleted the session since it was read: to the trash, or for good."""
        if self.place is None:
            return False
        sid = self.place.sid
        try:
            return bool(self._send(Statement(statements.IS_REMOVED, (sid, sid))))
        except SessionTreeError:
            return False

    # -- errors ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _stopping(self) -> Iterator[None]:
        """Stop the log if the block fails."""
        try:
            yield
        except PersistenceError as error:
            self.stop(error)
            raise

    def recover(self) -> None:
        """Forget a latched error, and save again what may not have been saved."""
        self._error = None
        with self._stopping():
            if self.place is not None:
                self._reload()

    # -- reading ---------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        store: PostgresStore,
        ref: str,
        durability: Durability = "flush",
        *,
        is_read_only: bool = False,
    ) -> PostgresLog:
        """An existing session. Raises SessionNotFoundError, PersistenceError."""
        found = _read_whole(store, *statements.open_session(ref))
        if found is None:
            raise SessionNotFoundError(ref)
        header = cast("Header", codec.decode(found[0][statements.HEADER]))
        dialect: Dialect = "pi" if found[0][statements.DIALECT] == "pi" else "omp"
        log = cls(store, header, dialect, durability, is_read_only=is_read_only)
        log.tree = log._take_whole(found)
        return log

    @with_paused_gc
    def _take_whole(self, found: tuple[Row, list[Row]]) -> SessionTree:
        """Continue with a session as it was just read; return its tree."""
        row, rows = found
        sid, epoch, revision, header_revision, header_line, _, is_answered, _ = row
        lines = self._new_lines()
        lines.take_notes(self._lines)
        self._lines = lines
        self._header_line = bytes(header_line)
        self.is_draft = not is_answered
        self.place = place = Place(sid, 0, None, epoch, revision, header_revision)
        if rows:
            place.head, place.last_key = rows[-1][0], rows[-1][1]
        tree, repairs = plant(entries_of(rows, lines))
        self.warn(*repairs)
        self._is_stale = False
        return tree

    def _new_lines(self) -> RowLines:
        def read_rows(first: int, last: int) -> list[tuple[int, bytes]]:
            sid = self.place.sid if self.place is not None else 0
            rows = self._send(Statement(statements.READ_LINES, (sid, first, last)))
            return [(number, bytes(line)) for number, line in rows]

        return RowLines(self.store.url, read_rows, self.store.get_blob)

    def _reload(self) -> None:
        """Read the session again, and write entries that only this log still has."""
        place = self.place
        if place is None:
            return
        found = _read_whole(self.store, statements.READ_SESSION, (place.sid,), self._send_all)
        if found is None:
            self._write_again()
            return
        self.header = cast("Header", codec.decode(found[0][statements.HEADER]))
        # lines are changed in place: what they were is only known as far as it is in memory
        self._lines.forget_server()
        new = self._take_whole(found)
        done = merge_replaced(new=new, old=self.tree, dialect=self.dialect, is_old_intact=True)
        self._adopt(new)
        self.foreign += done.foreign
        self.warn(*done.warnings)
        if done.missing:
            count = len(done.missing)
            self.warn(
                SessionWarning(
                    f"the server had lost {count} {'entry' if count == 1 else 'entries'} that it "
                    "had confirmed; written again"
                )
            )
            try:
                lines = [(entry, self.spell(entry)) for entry in done.missing]
                self._insert(lines, is_again=True)
            except EntryExistsError:  # another window has written them meanwhile
                self._is_stale = True

    def _adopt(self, new: SessionTree) -> None:
        """Replace the tree by the one that was just read."""
        _keep_leaf(new, self.tree)
        self.tree = new

    def refresh(self) -> None:
        """Read what others appended: one statement. A deleted session stays as it was read."""
        if self._error is not None:
            self.check()
        with self._stopping():
            try:
                self._catch_up()
            except PersistenceError as error:
                if not error.is_gone:
                    raise

    def _catch_up(self) -> None:
        place = self.place
        if place is None:
            return
        if self._is_stale:
            self._reload()
            return
        rows = self._send(
            Statement(
                statements.READ_ON,
                (place.header_revision, place.last_key, place.head, place.head, place.sid),
            )
        )
        if not rows:
            if not self._is_read_only:
                self._write_again()
            return
        epoch, revision, header_revision, header, is_deleted, is_answered, is_last = rows[0][:7]
        if is_deleted:
            if self._is_settling:
                self._bring_back()
            return
        if epoch != place.epoch or not is_last:
            self._reload()
            return
        self._take_header(header, header_revision)
        self.is_draft = not is_answered
        place.revision = revision
        self._take_others([row[7:] for row in rows if row[7] is not None])

    def _take_header(self, line: bytes | None, revision: int) -> None:
        place = self._place()
        if line is not None and revision != place.header_revision:
            self._header_line = bytes(line)
            self.header = cast("Header", codec.decode(self._header_line))
        place.header_revision = revision

    def _take_others(self, rows: Sequence[Row]) -> None:
        """Put what others appended into the tree; the leaf stays."""
        if not rows:
            return
        place = self._place()
        warnings: list[SessionWarning] = []
        entries = entries_of([(*row[:5], len(row[5]), bytes(row[5])) for row in rows], self._lines)
        entries = [entry for entry in entries if entry.id not in self.tree.by_id]
        graft(self.tree, entries, (), warnings)
        self.warn(*warnings)
        self.foreign += len(entries)
        place.head, place.last_key = rows[-1][0], rows[-1][1]

    # -- appending -------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries, all of them or none; then they are in the tree, the leaf where it was.

        What others wrote meanwhile comes first. Raises EntryExistsError, PersistenceError.
        """
        self.check()
        with self._stopping():
            if self._is_stale:
                self._reload()
            for entry in entries:
                if entry.id in self.tree.by_id:
                    raise EntryExistsError(entry.id)
            first = entries[0]
            if first.parent_id is not None and first.parent_id not in self.tree.by_id:
                # the session was read again since the entry was made
                first.place(first.id, self.tree.leaf_id)
            self._insert([(entry, self.spell(entry)) for entry in entries])
        self.is_touched = self._has_written = True

    def keep_blob(self, data: bytes) -> str:
        """Keep a large value in the database; its reference. Raises PersistenceError."""
        return self.store.put_blob(data)

    def holds(self, entry: Entry) -> bool:
        """Whether an entry is in the store as it is in memory."""
        return entry.source is self._lines and not entry.is_changed

    def spell(self, entry: Entry) -> bytes:
        """The line of an entry; the blobs of one that has none yet are kept first."""
        if entry.source is not None:
            return entry.line()
        spelled = self._trim(entry)
        for blob in spelled.blobs:
            self.store.put_blob(blob)
        return spelled.line

    def _trim(self, entry: Entry) -> Trimmed:
        return trim(entry.data, self.dialect)

    def _insert(self, lines: list[tuple[Entry, bytes]], *, is_again: bool = False) -> None:
        """Write entries, after repairing what a lost connection left."""
        for _ in range(_MOST_TRIES):
            rows = rows_of(lines)
            figures = figures_of([entry for entry, _ in lines], self.tree)
            found = self._send_append(rows, figures, is_again)
            match found[0][0]:
                case "ok":
                    self._take_answer(found, lines, rows, figures)
                    return
                case "conflict":
                    raise _MeanwhileError
                case "taken":
                    raise SessionExistsError(str(self.header.get("id", "")), self.ref)
                case "gone":
                    raise PersistenceError(self.name, "was deleted for good")
                case "deleted":
                    self._bring_back()
                case _:  # the server has lost rows: what we still have is written again first
                    self._reload()
                    lines = [each for each in lines if each[0].id not in self.tree.by_id]
                    if not lines:
                        return
        raise PersistenceError(self.name, "is being lost by its server again and again")

    def _send_append(
        self, rows: EntryRows, figures: Figures, is_again: bool, sid: int | None = None
    ) -> list[Row]:
        """Send the entries, together with those of other threads if they are plain."""
        self._db.require_room(rows.size)
        try:
            plain = None if is_again else self._plain_append(rows, figures)
            if plain is None:
                return self._send_own(rows, figures, is_again, sid)
            return self._combine(plain, lambda again: self._send_own(rows, figures, again))
        except PersistenceError as error:
            cause = error.__cause__
            if not isinstance(cause, psycopg.Error) or cause.sqlstate != statements.IS_THERE:
                raise
            self._catch_up()
            taken = [entry_id for entry_id in rows.ids if entry_id in self.tree.by_id]
            raise EntryExistsError(taken[0] if taken else rows.ids[0]) from None

    def _send_own(
        self, rows: EntryRows, figures: Figures, is_again: bool, sid: int | None = None
    ) -> list[Row]:
        """Send the entries in a statement of their own."""
        place = self.place
        new = header_line = None
        if place is None:
            sid = secrets.randbits(62) if sid is None else sid
            header_line = codec.encode(self.header)
            new = Jsonb(session_columns(self.header, self.scope, self.dialect))
            where: tuple[Any, ...] = (sid, 0, None, 0, 0, None)
        else:
            expected = place.revision if self._is_settling else None
            where = (
                place.sid,
                place.head,
                place.last_key,
                place.epoch,
                place.header_revision,
                expected,
            )
        is_one = len(rows.lines) == 1
        parameters = (
            spell_array(rows.ids),
            spell_array(rows.parents),
            spell_array(rows.kinds),
            spell_array(rows.times),
            rows.lines[0] if is_one else rows.lines,
            figures.messages,
            rows.size,
            figures.is_answered,
            figures.status,
            shown(figures.first_message),
            shown(figures.info_name),
            shown(figures.short_summary),
            to_time(figures.last_said_ms),
            self._new_names(figures),
            blobs_in(rows.lines) or None,
            new,
            header_line,
        )
        tenant = self._db.address.tenant
        found = self._send(
            statements.append(tenant, where, parameters, is_again=is_again, is_one=is_one)
        )
        if place is None and found[0][0] in ("ok", "deleted"):
            self.place = Place(where[0])
            self._header_line = header_line or b""
        return found

    def _plain_append(self, rows: EntryRows, figures: Figures) -> PlainAppend | None:
        """The same for a statement with those of others; None if it needs one of its own."""
        place = self.place
        if place is None or place.last_key is None or self._is_settling or self._held is not None:
            return None
        if self._alone_for > 0:
            self._alone_for -= 1
            return None
        if len(rows.lines) != 1 or len(rows.lines[0]) > MOST_BYTES or blobs_in(rows.lines):
            return None
        if figures.info_name is not None or figures.short_summary is not None:
            return None
        return PlainAppend(
            place.sid,
            place.head,
            place.last_key,
            place.epoch,
            place.header_revision,
            rows.ids[0],
            rows.parents[0],
            rows.kinds[0],
            rows.times[0],
            rows.lines[0],
            figures.messages,
            figures.is_answered,
            figures.status,
            shown(figures.first_message),
            to_time(figures.last_said_ms),
        )

    def _combine(self, plain: PlainAppend, alone: Callable[[bool], list[Row]]) -> list[Row]:
        """Append together with other threads, or alone; the answer as ``st_append`` gives it."""

        def send(is_again: bool) -> list[Row]:
            if is_again:
                self._alone_for = _ALONE_FOR
            return alone(is_again)

        found = combine(self._db, plain, send)
        if isinstance(found, list):
            return found
        head, revision = found
        return [("ok", head, plain.epoch, revision, plain.header_revision, None, *(None,) * 5)]

    def _new_names(self, figures: Figures) -> str | None:
        """The words of the session's name, if these entries may change it."""
        if self.place is not None and figures.info_name is None and figures.short_summary is None:
            return None
        info_name = figures.info_name if figures.info_name is not None else self.tree.info_name()
        return name_words(self.dialect, get_title(self.header), info_name, figures.short_summary)

    def _take_answer(
        self,
        found: list[Row],
        lines: Sequence[tuple[Entry, bytes]],
        rows: EntryRows,
        figures: Figures,
    ) -> None:
        """Take in the answer to a commit; nothing raises from here on."""
        place = self._place()
        _, head, epoch, revision, header_revision, header = found[0][:6]
        if epoch != place.epoch:
            self._is_stale = True  # somebody rewrote lines; ours are written in any case
        with contextlib.suppress(ValueError):
            self._take_header(header, header_revision)
        others = [row for row in found[1:] if row[6] not in rows.ids]
        self._take_others([(row[1], *row[6:]) for row in others])
        first = head - len(rows.ids) + 1
        if self._held is not None:
            self._unsure += [entry for entry, _ in lines]
        for at, (entry, line) in enumerate(lines):
            entry.attach(self._lines, self._lines.place(first + at, len(line), line), len(line))
            if entry.id not in self.tree.by_id:
                self.tree.add(entry)
        place.head, place.revision = head, revision
        if rows.ids:
            place.last_key = rows.ids[-1]
        self.is_draft = self.is_draft and not figures.is_answered
        self._release_old()
        if self._is_stale and not self._is_settling:
            with contextlib.suppress(SessionTreeError):
                self._reload()

    def _release_old(self) -> None:
        """Keep only the line's place of entries that were appended long ago."""
        at = len(self.tree.entries) - _RECENT_ENTRIES
        if at >= 0:
            entry = self.tree.entries[at]
            if entry.cached is not None and not may_be_edited(entry, self.dialect):
                entry.release()

    def _write_again(self) -> None:
        """Write all that is known of a session whose row is gone from the server."""
        sid = self._place().sid
        if self._is_read_only:
            raise PersistenceError(self.name, "no longer exists")
        if self._send(Statement(statements.IS_GONE, (sid,))):
            gone = PersistenceError(self.name, "was deleted for good")
            gone.is_gone = True
            raise gone
        self.place = None
        found = self._send_append(rows_of(()), Figures(), is_again=True, sid=sid)
        if found[0][0] != "ok":
            raise PersistenceError(self.name, "was lost by its server, and its id taken since")
        self._reload()

    def _bring_back(self) -> None:
        """Take the session out of the trash, which somebody deleted while it was in use."""
        self._send(Statement(statements.BRING_BACK, (self._place().sid,)))
        self.warn(SessionWarning("the session was deleted meanwhile; it is back from the trash"))

    def claim(self) -> None:
        """Write the header of a session whose id a caller chose, for one of those who want it."""
        with self._stopping():
            self._insert_header()
        self.is_touched = True  # if nothing follows it goes when it is left

    def _insert_header(self) -> None:
        found = self._send_append(rows_of(()), Figures(), is_again=False)
        if found[0][0] != "ok":
            raise SessionExistsError(str(self.header.get("id", "")), self.ref)
        place = self._place()
        place.revision = found[0][3]

    def take_copied(
        self, sid: int, entries: Sequence[Entry], lengths: Sequence[int], header_line: bytes
    ) -> None:
        """Continue with a copy that was just written with these entries, in this order."""
        self.place = place = Place(sid, len(entries))
        self._header_line = header_line
        rows = [
            (number, entry.id, entry.parent_id, entry.type, entry.timestamp, length)
            for number, (entry, length) in enumerate(zip(entries, lengths, strict=True), 1)
        ]
        self.tree = SessionTree(
            Entry(kind, key, parent, said, self._lines, self._lines.place(number, length), length)
            for number, key, parent, kind, said, length in rows
        )
        if entries:
            place.last_key = spell_key(entries[-1].id)

    # -- settling --------------------------------------------------------------------------

    def settle(self, work: Callable[[], _T]) -> _T:
        """Run ``work`` with everything read and no other process writing; may be nested.

        Done again when somebody wrote in between; after a few times with the row locked.
        """
        self.check()
        if self._is_settling or self.place is None:
            return work()
        for tries in range(_TRIES_UNLOCKED):
            self._is_settling = True
            try:
                with self._stopping():
                    self._catch_up()
                return work()
            except _MeanwhileError:
                time.sleep(random.uniform(0, _LONGEST_PAUSE_S) * tries)
            finally:
                self._is_settling = False
        return self._settle_locked(work)

    def _settle_locked(self, work: Callable[[], _T]) -> _T:
        """Do it with the session's row locked; again if the transaction came to nothing."""
        deadline = time.monotonic() + self._db.patience_s
        while True:
            done: list[_T] = []
            tree, error = self.tree, self._error
            try:
                return self._work_locked(work, done)
            except (psycopg.Error, PersistenceError) as failure:
                cause = failure if isinstance(failure, psycopg.Error) else failure.__cause__
                if not self._db.may_help(cause) or time.monotonic() > deadline:
                    self._forget_unsure(tree)
                    raise self._latch(failure) from failure
            self._error = error
            if self._take_back(tree) and done:
                return done[0]  # only the answer to the commit was lost
            time.sleep(random.uniform(0, _LONGEST_PAUSE_S))

    def _work_locked(self, work: Callable[[], _T], done: list[_T]) -> _T:
        self._is_settling = True
        self._unsure, self._unsure_lines = [], []
        try:
            with self._db.transaction(statements.LOCK, (self._place().sid,)) as connection:
                self._held = connection
                with self._stopping():
                    self._catch_up()
                done.append(work())
            return done[0]
        finally:
            self._held = None
            self._is_settling = False

    def _take_back(self, tree: SessionTree) -> bool:
        """Read the result of a transaction that broke off; return whether all of it is there."""
        leaf_id = self.tree.leaf_id
        unsure = self._forget_unsure(tree)
        rewritten = [each.entry for each in self._unsure_lines]
        with self._stopping():
            self._reload()
        is_there = all(entry_id in self.tree.by_id for entry_id in unsure) and not any(
            entry.is_changed or entry.is_edited() for entry in rewritten
        )
        if not (unsure or rewritten) or not is_there:
            return False
        if leaf_id is None or leaf_id in self.tree.by_id:
            self.tree.leaf_id = leaf_id
        return True

    def _forget_unsure(self, tree: SessionTree) -> set[str]:
        """Undo a transaction in memory; return the ids of its entries, which leave the tree."""
        for each in self._unsure_lines:
            each.undo(self._lines)
        unsure = {entry.id for entry in self._unsure}
        if unsure:
            kept = SessionTree(entry for entry in self.tree.entries if entry.id not in unsure)
            _keep_leaf(kept, tree)
            self.tree = kept
        return unsure

    def _latch(self, failure: psycopg.Error | PersistenceError) -> SessionTreeError:
        """Return the error to raise; the next look shows what was committed of it."""
        self._is_stale = True
        told = self._db.explain(failure) if isinstance(failure, psycopg.Error) else failure
        if isinstance(told, PersistenceError):
            self.stop(told)
        return told

    def _send(self, statement: Statement) -> list[Row]:
        return self._send_all([statement])[0]

    def _send_all(self, wanted: Sequence[Statement]) -> list[list[Row]]:
        if self._held is not None:
            try:
                return self._db.send(self._held, wanted)
            except psycopg.Error as error:
                raise self._db.explain(error) from error
        return self._db.run_all(wanted)

    def _place(self) -> Place:
        assert self.place is not None
        return self.place

    # -- rewriting -------------------------------------------------------------------------

    def rewrite(self, *, find_changes: bool = False) -> None:
        """Write the lines that differ from the store: with ``find_changes``, also edited data."""
        self.settle(lambda: self._rewrite(find_changes))

    def _rewrite(self, find_changes: bool) -> None:
        place = self.place
        if place is None:
            return
        changed = [
            (entry, self._trim(entry) if entry.is_edited() else Trimmed(entry.line()))
            for entry in self.tree.entries
            if entry.is_changed or (find_changes and entry.is_edited())
        ]
        if not changed:
            return
        for _, spelled in changed:
            for blob in spelled.blobs:
                self.store.put_blob(blob)
        rows = rows_of([(entry, spelled.line) for entry, spelled in changed])
        figures = figures_of(self.tree.entries, self.tree)
        with self._stopping():
            named = blobs_in(rows.lines)
            if named:
                self._send(Statement(statements.USE_BLOBS, (place.sid, named)))
            found = self._send(
                Statement(
                    statements.REWRITE,
                    (
                        rows.ids,
                        rows.parents,
                        rows.lines,
                        place.sid,
                        shown(figures.first_message),
                        shown(figures.info_name),
                        shown(figures.short_summary),
                        place.sid,
                        place.revision,
                    ),
                )
            )
        if not found:
            raise _MeanwhileError
        numbers = {key: number for _, _, number, key in found}
        place.epoch, place.revision = found[0][:2]
        for key, (entry, spelled) in zip(rows.ids, changed, strict=True):
            if key in numbers:
                if self._held is not None:
                    self._unsure_lines.append(_rewritten(entry, numbers[key]))
                offset = self._lines.place(numbers[key], len(spelled.line), spelled.line)
                entry.attach(self._lines, offset, len(spelled.line))
        if find_changes:
            self.tree.forget_indexes()

    # -- the header ------------------------------------------------------------------------

    def write_header(self, fields: Mapping[str, Any]) -> None:
        """Set header fields and write them; None removes one. A failure changes nothing."""
        self.check()
        if self.place is None:
            self.set_header(fields)
            return
        with self._stopping():
            for _ in range(_MOST_TRIES):
                if self._write_header(fields):
                    return
                self._catch_up()
            raise PersistenceError(self.name, "is being renamed by others again and again")

    def _write_header(self, fields: Mapping[str, Any]) -> bool:
        """Write the header unless somebody else has changed it; return whether it is written."""
        place = self._place()
        header = cast("Header", dict(self.header))
        set_fields(header, fields)
        line = respell_header(header, self._header_line)
        columns = session_columns(header, self.scope, self.dialect)
        words = name_words(self.dialect, get_title(header), self.tree.info_name(), None)
        found = self._send(
            Statement(
                statements.WRITE_HEADER,
                (
                    line,
                    line,
                    columns["title"],
                    columns["cwd"],
                    columns["parent"],
                    words,
                    place.sid,
                    place.header_revision,
                ),
            )
        )
        if not found:
            return False
        place.header_revision, revision, head = found[0]
        if head == place.head:
            place.revision = revision
        self.header, self._header_line = header, line
        return True

    def set_header(self, fields: Mapping[str, Any]) -> None:
        """Set header fields of a session of which nothing is written yet."""
        set_fields(self.header, fields)

    def move(self, cwd: str, scope: str | None = None) -> None:  # noqa: ARG002 - it keeps its scope
        """Move the session to another project: its header says to which it belongs."""
        self.write_header({"cwd": cwd})

    # -- leaving ---------------------------------------------------------------------------

    def flush(self) -> None:
        """Do nothing: what was appended is committed."""
        self.check()

    def discard(self) -> None:
        """Remove a draft without content, unless somebody wrote to it since it was read."""
        if self.place is not None and self.is_draft:
            with self._stopping():
                self._send(Statement(statements.DISCARD, (self.place.sid, self.place.head)))
            self.place = None
            self._has_written = False

    def destroy(self) -> None:
        """Remove a copy that will not be used, whatever is in it. Best effort."""
        if self.place is not None:
            with contextlib.suppress(SessionTreeError):
                self._send(Statement(statements.PURGE, ([self.place.sid],)))

    def delete(self, *, permanently: bool = False) -> None:
        """Close and delete the session; every later write raises PersistenceError."""
        self.check()
        if self.place is not None:
            self.store.delete(self.ref, permanently=permanently)
        self._has_written = False
        self._error = PersistenceError(self.name, "was deleted here")

    def close(self) -> None:
        """Close the session; its entries stay readable."""
        if self._has_written and self.place is not None and self._error is None:
            self._has_written = False
            self.store.index_soon(self.place.sid)


def _rewritten(entry: Entry, number: int) -> _Rewritten:
    """Note an entry's present line, before anything of the entry is changed."""
    own = entry.source, entry.offset, entry.length, entry.is_changed
    return _Rewritten(entry, number, entry.raw(), *own)


def _keep_leaf(new: SessionTree, old: SessionTree) -> None:
    """Keep the leaf, even before the first entry; move it to the end if its entry is gone."""
    is_there = old.leaf_id in new.by_id if old.leaf_id is not None else bool(old.entries)
    new.leaf_id = old.leaf_id if is_there else new.last_id


def _read_whole(
    store: PostgresStore,
    sql: str,
    parameters: tuple[Any, ...],
    send: Callable[[Sequence[Statement]], list[list[Row]]] | None = None,
) -> tuple[Row, list[Row]] | None:
    """The row of a session and those of its entries; None if there is none."""
    send = send or store.database.run_all
    rows = send([Statement(sql, parameters)])[0]
    width = statements.SESSION_WIDTH
    session = next((row[:width] for row in rows if row[0] is not None), None)
    if session is None:
        return None
    entries = [row[width:] for row in rows if row[0] is None]
    entries.sort(key=_number)  # they are, unless the server worked in parallel
    return session, entries


_number = itemgetter(0)
