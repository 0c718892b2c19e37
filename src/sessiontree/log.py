"""One session's file as a log: draft, append, rewrite, latched errors, other writers.

Crash order, which every method keeps: blobs before the line that names them; a rejected line's copy
before the rewrite that drops it; the draft until the session file exists. Nothing is acknowledged
before it is written, and a failed write leaves memory and file as they were.

Several processes may share a file. Each append holds an advisory lock, first reads what others
appended, and notices when the file was deleted, replaced or rewritten in place.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sessiontree.core.tree import SessionTree
from sessiontree.document import (
    TAIL_BYTES,
    FilePayloads,
    SessionDocument,
    is_slot_kept,
    is_tail_kept,
    load_document,
    merge_growth,
    note_end,
    read_growth,
    refresh_slot,
)
from sessiontree.errors import NotASessionError, PersistenceError
from sessiontree.filing import PlacedEntry, SessionFiler
from sessiontree.model import codec
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.header import Header, TitleSlot
from sessiontree.model.scanning import SessionWarning
from sessiontree.profiles import Dialect
from sessiontree.storage.base import FileStat, SessionStorage, SessionStorageWriter, read_chunks
from sessiontree.storage.blobs import BlobStore

logger = logging.getLogger("sessiontree")

Durability = Literal["flush", "entry"]
_MAX_REPLACEMENTS = 20


@dataclass(slots=True)
class Changes:
    """What was found in the file that this process had not written.

    ``replaced`` is the tree that was in use before the file turned out to be another one.
    """

    foreign: int = 0
    replaced: SessionTree | None = None
    warnings: list[SessionWarning] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Mark:
    """How far a file was written, to go back to when a write fails."""

    end: int
    tail: bytes
    has_final_newline: bool
    line: int

    @classmethod
    def of(cls, document: SessionDocument) -> _Mark:
        return cls(document.end, document.tail, document.has_final_newline, document.line)

    def restore(self, document: SessionDocument) -> None:
        document.end = self.end
        document.tail = self.tail
        document.has_final_newline = self.has_final_newline
        document.line = self.line


class _Guard:
    """Every write passes through one of these; a generator would cost more than the lock."""

    __slots__ = ("_log",)

    def __init__(self, log: SessionLog) -> None:
        self._log = log

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if error is not None:
            failure = self._log.note_failure(error)
            if failure is not None:
                raise failure from error


class SessionLog:
    """The file of one session. Not for use by several threads at once."""

    def __init__(
        self,
        storage: SessionStorage,
        blobs: BlobStore,
        dialect: Dialect,
        durability: Durability,
        draft_path: Callable[[str], str],
    ) -> None:
        self._storage = storage
        self._blobs = blobs
        self.filer = SessionFiler(storage, blobs, dialect)
        self._draft_path = draft_path
        self._writer: SessionStorageWriter | None = None
        self._error: PersistenceError | None = None
        self._is_sync_suspect = False
        self._has_new_name = False
        self._is_stale = False
        self._is_unlocked = False
        self._late = Changes()
        self.dialect = dialect
        self.durability = durability
        self.path = ""
        self.tree = SessionTree()
        self.document: SessionDocument | None = None
        self.is_draft = False

    # -- what the log stands on ------------------------------------------------------------

    def adopt(self, document: SessionDocument, *, is_draft: bool = False) -> None:
        """Continue a file that was just read."""
        self._is_stale = False
        self.document = document
        self.tree = document.tree
        self.is_draft = is_draft
        if not is_draft:
            self.path = document.path

    def begin(self, path: str, *, is_draft: bool = True) -> None:
        """A new session that will be written to ``path``, as a draft at first."""
        self.path = path
        self.is_draft = is_draft

    def note_new_name(self) -> None:
        """The file's name is new: a flush has to reach its folder too."""
        self._has_new_name = True

    @property
    def file(self) -> str:
        """The file written to now: the draft until the session file exists."""
        return self._draft_path(self.path) if self.is_draft else self.path

    # -- errors ----------------------------------------------------------------------------

    @property
    def has_failed(self) -> bool:
        return self._error is not None

    def check(self) -> None:
        """Raise the error that stopped this log, if one did."""
        if self._error is not None:
            raise self._error

    def _guard(self) -> _Guard:
        """Turn the system's errors into ours, log the first, and keep it."""
        return _Guard(self)

    def note_failure(self, error: BaseException) -> PersistenceError | None:
        """Keep an error that stops this log; the one to raise in place of the system's."""
        if isinstance(error, PersistenceError):
            self._latch(error)
        elif isinstance(error, OSError):
            failure = PersistenceError.from_os_error(self.file, error)
            self._latch(failure)
            return failure
        return None

    def _latch(self, error: PersistenceError) -> None:
        if self._error is None:
            self._error = error
            logger.error("session %s: writing stopped: %s", self.path, error)

    def recover(self) -> bool:
        """Try again after an error; whether the file must be written anew to be trusted."""
        self._error = None
        self._close_writer()
        must_rewrite, self._is_sync_suspect = self._is_sync_suspect, False
        return must_rewrite

    # -- appending -------------------------------------------------------------------------

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[Changes]:
        """Hold the file for this process, with everything in it read.

        Creates nothing: a session that has no file yet simply has no other writers.
        """
        self.check()
        if self.document is None:
            yield Changes()
            return
        changes = self._late
        self._late = Changes()
        with self._guard():
            for _ in range(_MAX_REPLACEMENTS):
                writer = self._hold(changes)
                if writer is not None:
                    break
            else:
                raise PersistenceError(self.file, "is replaced again and again; try later")
        try:
            yield changes
        finally:
            writer.unlock()

    def is_behind(self) -> bool:
        """Whether the file is no longer what was read and written here."""
        document = self.document
        if document is None:
            return False
        if self._late.foreign or self._is_stale:
            return True
        try:
            found = self._storage.stat(self.file)
            if not found.is_same_file(document.stat) or found.size != document.end:
                return True
            return not (is_slot_kept(document) and is_tail_kept(document))
        except OSError:
            return True  # whoever looks closer will be told

    def _hold(self, changes: Changes) -> SessionStorageWriter | None:
        """Lock what the name stands for and catch up with it; None if that has to be redone."""
        writer = self._writer
        if writer is None:
            try:
                writer = self._writer = self._storage.open_writer(self.file, create=False)
            except FileNotFoundError:
                self._restore_deleted(changes)
                return None
        found = writer.lock()
        if not writer.has_locks and not self._is_unlocked:
            self._is_unlocked = True
            changes.warnings.append(
                SessionWarning(
                    f"{self.file} is on a file system without locks; "
                    "do not work on this session from two programs at once"
                )
            )
        is_held = False
        try:
            if found is None or not found.is_same_file(writer.stat()):
                self._close_writer()
            elif self._catch_up(self._document(), found, changes):
                is_held = True
            else:
                self._reload(changes)
        finally:
            if not is_held:
                writer.unlock()
        return writer if is_held else None

    def _catch_up(self, document: SessionDocument, found: FileStat, changes: Changes) -> bool:
        """Read what others appended; False if the file is not what was read plus an append."""
        if self._is_stale or not found.is_same_file(document.stat):
            return False
        refresh_slot(document)
        if found.size == document.end:
            return is_tail_kept(document)
        scan = read_growth(document, found.size)
        if scan is None:
            return False
        changes.foreign += merge_growth(document, scan)
        return True

    def _restore_deleted(self, changes: Changes) -> None:
        """The file is gone, but its bytes are still to be had from the open reader.

        A draft that is gone may have become the session file by another process's doing.
        """
        document = self._document()
        if self.is_draft and self._storage.exists(self.path):
            self.is_draft = False
            self._reload(changes)
            return
        self._storage.ensure_dir(os.path.dirname(self.file))
        reader = document.payloads.reader
        self._storage.write_atomic(self.file, read_chunks(reader, 0, document.end))
        changes.warnings.append(
            SessionWarning(f"{self.file} was deleted by another program; written anew")
        )
        self._reload(changes)

    def _reload(self, changes: Changes) -> None:
        """The name stands for other bytes than were read: read them."""
        before = self._document()
        try:
            document = load_document(self._storage, self.file, self._blobs)
        except NotASessionError as error:
            raise PersistenceError(self.file, "was overwritten and is no session any more") from (
                error
            )
        if document is None:
            raise PersistenceError(self.file, "was emptied by another program")
        if document.header.get("id") != before.header.get("id"):
            raise PersistenceError(
                self.file, f"now holds another session ({document.header.get('id')})"
            )
        if changes.replaced is None:
            changes.replaced = before.tree
        document.tree.leaf_id = before.tree.leaf_id
        document.warnings[:0] = [
            warning for warning in before.warnings if warning not in document.warnings
        ]
        self.adopt(document, is_draft=self.is_draft)

    def append(self, data: WireEntry, header: Header) -> Entry:
        """Write one entry; only inside ``exclusive``. The tree is the caller's to update."""
        with self._guard():
            line = self.filer.to_line(data)
            if self.document is None:
                self._start_file(header)
            document = self._document()
            writer = self._open_writer()
            entry = Entry.from_wire(data)
            mark = self._write(writer, document, entry, line)
            try:
                if self.is_draft and is_answer(data):
                    self._promote(writer, document)
                if self.durability == "entry":
                    self._sync(writer)
            except OSError:
                self._take_back(writer, document, mark)
                raise
            return entry

    def _write(
        self, writer: SessionStorageWriter, document: SessionDocument, entry: Entry, line: bytes
    ) -> _Mark:
        """Append the entry's line; where the file ended before it."""
        prefix = b"" if document.has_final_newline else b"\n"
        whole = prefix + line + b"\n"
        offset = writer.write_line(whole)
        if offset != document.end:
            self._take_in(document, offset)
        mark = _Mark.of(document)
        entry.attach(document.payloads, offset + len(prefix), len(line))
        document.end = offset + len(whole)
        document.tail = (document.tail + whole[-TAIL_BYTES:])[-TAIL_BYTES:]
        document.has_final_newline = True
        document.line += 2 if prefix else 1
        return mark

    def _take_in(self, document: SessionDocument, end: int) -> None:
        """Somebody who takes no lock wrote just before us; their lines come first in the file."""
        scan = read_growth(document, end)
        if scan is not None:
            self._late.foreign += merge_growth(document, scan)
        else:
            # they ended a line that we had seen half written: read the file anew, next time
            self._is_stale = True
            note_end(document, end)

    def _take_back(
        self, writer: SessionStorageWriter, document: SessionDocument, mark: _Mark
    ) -> None:
        """A line that was not acknowledged must not be found, unless another's follows it.

        If it stays, it is read again with what others write.
        """
        with contextlib.suppress(OSError):
            if writer.stat().size == document.end:
                writer.truncate(mark.end)
        mark.restore(document)

    def _start_file(self, header: Header) -> None:
        """The draft of a new session, with its header."""
        self._storage.ensure_dir(os.path.dirname(self.path))
        self.create(codec.encode(header) + b"\n", self.file)

    def create(self, head: bytes, path: str) -> None:
        """Write a file that so far is only a head, and stand on it."""
        with self._guard():
            writer = self._storage.open_writer(path)
            writer.write_line(head)
            self._writer = writer
            document = load_document(self._storage, path, self._blobs)
            if document is None:
                raise PersistenceError(path, "could not be read back")
            document.tree = self.tree
            self.adopt(document, is_draft=self.is_draft)

    def _promote(self, writer: SessionStorageWriter, document: SessionDocument) -> None:
        """The first answer is here: the draft becomes the session file, in one rename."""
        if self._storage.exists(self.path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)
        self._storage.rename(self.file, self.path, durable=False)
        self.is_draft = False
        self._has_new_name = True
        document.path = document.payloads.path = self.path
        writer.note_rename(self.path)

    # -- durability ------------------------------------------------------------------------

    def flush(self) -> None:
        """Everything acknowledged is on the medium, the folder's entry too."""
        self.check()
        if self.document is None:
            return
        with self._guard():
            self._sync(self._open_writer())

    def _sync(self, writer: SessionStorageWriter) -> None:
        try:
            writer.flush()
            writer.fsync()
            if self._has_new_name:
                self._storage.sync_dir(os.path.dirname(self.path))
                self._has_new_name = False
        except OSError:
            # After a failed fsync the system may have dropped the data and forgotten about it.
            self._is_sync_suspect = True
            raise

    def close(self) -> None:
        """Let go of the file; entries stay readable. Raises PersistenceError."""
        error = self._close_writer()
        if error is not None:
            raise PersistenceError.from_os_error(self.file, error) from error

    def discard_draft(self) -> None:
        """Remove a draft that holds nothing of worth."""
        if self.is_draft and self.document is not None:
            self._close_writer()
            self._storage.unlink(self.file)

    def _open_writer(self) -> SessionStorageWriter:
        if self._writer is None:
            self._writer = self._storage.open_writer(self.file, create=False)
        return self._writer

    def _close_writer(self) -> OSError | None:
        """Let go of the writer; what a network file system says only now, if anything."""
        writer, self._writer = self._writer, None
        if writer is None:
            return None
        try:
            writer.close()
        except OSError as error:
            self._is_sync_suspect = True
            return error
        return None

    def _document(self) -> SessionDocument:
        if self.document is None:
            raise PersistenceError(self.path, "has not been written yet")
        return self.document

    # -- rewriting -------------------------------------------------------------------------

    def rewrite(self, head: bytes, entries: Sequence[Entry], *, find_changes: bool = False) -> None:
        """Replace the file by ``head`` and the entries; only inside ``exclusive``.

        ``find_changes`` looks for entries whose data was changed in memory. Lines that could not
        be read are first copied to a file beside the session.
        """
        with self._guard():
            document = self._document()
            try:
                self.filer.keep_rejected(document, self.file)
                placed = self.filer.write_file(self.file, head, entries, find_changes=find_changes)
                self._close_writer()
                self._stand_on(self.file, document, placed)
            except (OSError, PersistenceError):
                # the new file may have taken its place before the failure: look before going on
                self._is_stale = True
                raise

    def move(
        self, path: str, head: bytes, entries: Sequence[Entry], commit: Callable[[], object]
    ) -> None:
        """Write the session to ``path``, run ``commit``, then go on there; inside ``exclusive``.

        If anything fails the new file is removed again and the log stays where it is. Raises
        OSError.
        """
        document = self._document()
        file = self._draft_path(path) if self.is_draft else path
        try:
            self.filer.keep_rejected(document, file)
            placed = self.filer.write_file(file, head, entries)
            commit()
        except BaseException:
            with contextlib.suppress(OSError):
                self._storage.unlink(file)
            raise
        self._close_writer()
        self.path = path
        try:
            self._stand_on(file, document, placed)
        except OSError:
            self._is_stale = True  # it has moved; the new file is read when it is next needed

    def _stand_on(self, path: str, before: SessionDocument, placed: Iterable[PlacedEntry]) -> None:
        """Go on with the file just written: the same entries, at their new places."""
        reader = self._storage.open_reader(path)
        payloads = FilePayloads(path, reader, self._blobs)
        payloads.missing = before.payloads.missing
        for entry, offset, length in placed:
            entry.attach(payloads, offset, length)
        stat = reader.stat()
        before.payloads.reader.close()
        before.payloads = payloads
        before.path = path
        before.stat = stat
        before.skipped = []
        before.has_final_newline = True
        before.is_migrated = False
        note_end(before, stat.size)

    def overwrite_slot(self, slot: TitleSlot) -> None:
        """Change the title where it stands; only inside ``exclusive``."""
        with self._guard():
            document = self._document()
            self._open_writer().overwrite(0, slot.encode())
            document.slot = slot
            if document.end <= 64:
                note_end(document, document.end)


def is_answer(data: WireEntry) -> bool:
    """Whether an entry is an assistant's message: what makes a session worth a file."""
    message = data.get("message")
    return (
        data.get("type") == "message"
        and isinstance(message, dict)
        and message.get("role") == "assistant"
    )


class UnsavedLog:
    """The log of a session that is kept nowhere."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.tree = SessionTree()
        self.document: SessionDocument | None = None

    has_failed = False

    def is_behind(self) -> bool:
        return False

    def check(self) -> None:
        """Nothing can have failed."""

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[Changes]:
        yield Changes()

    def append(self, data: WireEntry, header: Header) -> Entry:  # noqa: ARG002
        codec.encode(data)  # what could not be saved is refused here too
        return Entry.from_wire(data)

    def flush(self) -> None:
        """Nothing is kept."""

    def recover(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is held."""
