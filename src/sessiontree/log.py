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
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from sessiontree.document import TAIL_BYTES, FilePayloads, SessionDocument, note_end
from sessiontree.errors import PersistenceError, SessionBusyError
from sessiontree.filing import SessionFiler, WrittenFile
from sessiontree.loading import load_document
from sessiontree.model import codec
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.header import Header, TitleSlot
from sessiontree.profiles import Dialect
from sessiontree.shared_file import Changes, SharedFile
from sessiontree.storage.base import SessionStorage, SessionStorageWriter
from sessiontree.storage.blobs import BlobStore
from sessiontree.storage.locks import DEFAULT_TIMEOUT_S

logger = logging.getLogger("sessiontree")

Durability = Literal["flush", "entry"]


class _Mark(NamedTuple):
    """How far a file was written, to go back to when a write fails."""

    end: int
    tail: bytes
    has_final_newline: bool
    line: int

    def restore(self, document: SessionDocument) -> None:
        document.end, document.tail, document.has_final_newline, document.line = self


class _Guard:
    """Every write passes through one of these and a hold; generators would cost more than locks."""

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


class _Hold:
    """The file is this process's alone inside the block."""

    __slots__ = ("_log", "_writer")

    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._writer: SessionStorageWriter | None = None

    def __enter__(self) -> Changes:
        changes, self._writer = self._log.hold()
        return changes

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.unlock()


class SessionLog(SharedFile):
    """The file of one session. Not for use by several threads at once."""

    def __init__(
        self,
        storage: SessionStorage,
        blobs: BlobStore,
        dialect: Dialect,
        durability: Durability,
        draft_path: Callable[[str], str],
    ) -> None:
        super().__init__(storage, blobs, draft_path)
        self.filer = SessionFiler(storage, blobs, dialect)
        self._error: PersistenceError | None = None
        self._has_new_name = False
        self.dialect = dialect
        self.durability = durability

    def note_new_name(self) -> None:
        """The file's name is new: a flush has to reach its folder too."""
        self._has_new_name = True

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

    def exclusive(self) -> _Hold:
        """Hold the file for this process, with everything in it read.

        Creates nothing: a session that has no file yet simply has no other writers.
        """
        self.check()
        return _Hold(self)

    def hold(self) -> tuple[Changes, SessionStorageWriter | None]:
        """Lock the file and catch up with it; what others did, and whose lock to let go of."""
        if self.document is None:
            return Changes(), None
        changes = self._late
        self._late = Changes()
        with self._guard():
            writer = self._hold(changes)
            deadline = time.monotonic() + DEFAULT_TIMEOUT_S if writer is None else 0.0
            while writer is None:
                if time.monotonic() > deadline:
                    raise SessionBusyError(self.file, DEFAULT_TIMEOUT_S)
                writer = self._hold(changes)
        return changes, writer

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
        mark = _Mark(document.end, document.tail, document.has_final_newline, document.line)
        entry.attach(document.payloads, offset + len(prefix), len(line))
        document.end = offset + len(whole)
        document.tail = (document.tail + whole[-TAIL_BYTES:])[-TAIL_BYTES:]
        document.has_final_newline = True
        document.line += 2 if prefix else 1
        return mark

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
                written = self.filer.write_file(self.file, head, entries, find_changes=find_changes)
                self._close_writer()
                self._stand_on(self.file, document, written)
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
            written = self.filer.write_file(file, head, entries)
            commit()
        except BaseException:
            with contextlib.suppress(OSError):
                self._storage.unlink(file)
            raise
        self._close_writer()
        self.path = path
        try:
            self._stand_on(file, document, written)
        except OSError:
            self._is_stale = True  # it has moved; the new file is read when it is next needed

    def _stand_on(self, path: str, before: SessionDocument, written: WrittenFile) -> None:
        """Go on with the file just written: the same entries, at their new places.

        Nobody could hold a lock on it before it had its name, so others may have appended to it
        since, or have replaced it once more.
        """
        reader = self._storage.open_reader(path)
        if not reader.stat().is_same_file(written.stat):
            reader.close()
            self._is_stale = True  # our entries can still be read where they were
            return
        payloads = FilePayloads(path, reader, self._blobs)
        payloads.missing = before.payloads.missing
        for entry, offset, length in written.placed():
            entry.attach(payloads, offset, length)
        before.payloads.reader.close()
        before.payloads = payloads
        before.path = path
        before.stat = written.stat
        before.skipped = []
        before.has_final_newline = True
        before.is_migrated = False
        note_end(before, written.stat.size)

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
