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
import functools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Concatenate, Literal, ParamSpec, TypeVar

from sessiontree.core.tree import SessionTree
from sessiontree.errors import PersistenceError, without_frames
from sessiontree.logs import get_logger
from sessiontree.model import codec
from sessiontree.model.entries import Entry, is_answer
from sessiontree.model.header import Header, TitleSlot
from sessiontree.model.lines import SessionWarning
from sessiontree.profiles import Dialect
from sessiontree.storage import omp_lock
from sessiontree.storage.base import SessionStorage, SessionStorageWriter
from sessiontree.storage.blobs import BlobStore
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.files.document import TAIL_BYTES, FilePayloads, SessionDocument, note_end
from sessiontree.stores.files.left_behind import LeftBehind, append_lines
from sessiontree.stores.files.moved_file import leave_note
from sessiontree.stores.files.other_writers import Changes, ReplacedMeanwhileError, SharedFile
from sessiontree.stores.files.reader import load_document
from sessiontree.stores.files.replaced_file import keep_known
from sessiontree.stores.files.writer import SessionFiler, WrittenFile, set_aside
from sessiontree.text.escaping import one_line

logger = get_logger()

Durability = Literal["flush", "entry"]
_REPLACED_AT_MOST = 20

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _stopping(
    method: Callable[Concatenate[SessionLog, _P], _T],
) -> Callable[Concatenate[SessionLog, _P], _T]:
    """What fails in this method stops the log: the system's errors become ours and are kept."""

    @functools.wraps(method)
    def guarded(self: SessionLog, /, *args: _P.args, **options: _P.kwargs) -> _T:
        try:
            return method(self, *args, **options)
        except PersistenceError as error:
            self.stop(error)
            raise
        except OSError as error:
            # No variable for it: that would tie the error to this frame, and so to open files.
            self.stop(PersistenceError.from_os_error(self.file, error))
            raise PersistenceError.from_os_error(self.file, error) from error
        except BaseException as error:
            self.distrust_after(error)
            raise

    return guarded


class SessionLog(SharedFile):
    """The file of one session. Not for use by several threads at once."""

    def __init__(
        self,
        storage: SessionStorage,
        blobs: BlobStore,
        dialect: Dialect,
        durability: Durability,
        draft_path: Callable[[str], str],
        other_places: Callable[[str], Iterable[str]] = lambda path: (),  # noqa: ARG005
    ) -> None:
        super().__init__(storage, blobs, draft_path, other_places)
        self.filer = SessionFiler(storage, blobs, dialect)
        self._error: PersistenceError | None = None
        self._has_new_name = False
        self._is_answered = False
        self.dialect = dialect
        self.durability = durability

    def distrust_after(self, error: BaseException) -> None:
        super().distrust_after(error)
        if not isinstance(error, Exception):
            self._has_new_name = True  # only the writer knew whether its folder was synced

    def note_new_name(self) -> None:
        """The file's name is new: a flush has to reach its folder too."""
        self._has_new_name = True

    def adopt(self, document: SessionDocument, *, is_draft: bool = False) -> None:
        """Continue a file that was just read.

        A draft may hold an answer: whoever wrote it was stopped before the draft got its name.
        """
        super().adopt(document, is_draft=is_draft)
        self._is_answered = is_draft and any(is_answer(entry.data) for entry in self.tree.entries)

    # -- errors ----------------------------------------------------------------------------

    @property
    def has_failed(self) -> bool:
        return self._error is not None

    def check(self) -> None:
        """Raise the error that stopped this log, if one did."""
        if self._error is not None:
            raise without_frames(self._error)

    def stop(self, error: PersistenceError) -> None:
        """Nothing more is written until ``recover``; the first error is the one to tell."""
        if self._error is None:
            self._error = without_frames(error)
            # As text: a handler may keep the record, and with an error it would keep open files.
            logger.error("writing stopped: %s", one_line(str(error)))

    def recover(self) -> bool:
        """Try again after an error; whether the file must be written anew to be trusted."""
        self._error = None
        self._close_writer()
        return self._is_sync_suspect

    # -- appending -------------------------------------------------------------------------

    def exclusive(self, work: Callable[[Changes | None], _T]) -> _T:
        """Do something with the file held by this process, and everything in it read; its result.

        Creates nothing: a session that has no file yet simply has no other writers. This is no
        ``with`` block, because Ctrl-C can come when such a block has ended and its exit has not
        begun: the file would stay locked. One ``try`` from before the lock until after it can't
        be left so.
        """
        self.check()
        try:
            result = self._work_unless_replaced(work)
        except BaseException as error:
            self.distrust_after(error)
            raise
        if self._old_files:
            self._wait_for_late_lines()
        return result

    def _work_unless_replaced(self, work: Callable[[Changes | None], _T]) -> _T:
        """Do the work, and do it again if another program replaced the file in the midst of it."""
        for _ in range(_REPLACED_AT_MOST):
            with contextlib.suppress(ReplacedMeanwhileError):
                return self._work_locked(work)
        error = PersistenceError(self.file, "is being replaced by another program again and again")
        self.stop(error)
        raise error

    def _work_locked(self, work: Callable[[Changes | None], _T]) -> _T:
        writer = self._lock()
        try:
            return work(self.pending_changes())
        finally:
            if writer is not None:
                writer.unlock()

    @_stopping
    def _lock(self) -> SessionStorageWriter | None:
        """Lock the file and catch up with it; whose lock to let go of."""
        if self.document is None:
            return None
        return self._hold_soon()

    @_stopping
    def append(self, entry: Entry, header: Header) -> None:
        """Write one entry; only inside ``exclusive``. The tree is the caller's to update."""
        line = self.filer.line_of(entry)
        if self.document is None:
            self._start_file(header)
        document = self._document()
        writer = self._open_writer()
        lead = b"" if document.has_final_newline else b"\n"
        whole = lead + line + b"\n"
        start = writer.write_line(whole)
        try:
            if start != document.end:
                self._take_in(document, start)
            if self.is_draft and (self._is_answered or is_answer(entry.data)):
                self._promote(writer, document)
            if self.durability == "entry":
                self._sync(writer)
        except OSError:
            if not _take_back(writer, start, len(whole)):
                self._is_stale = True  # the entry has a line now
            raise
        entry.attach(document.payloads, start + len(lead), len(line))
        document.end = start + len(whole)
        document.tail = (document.tail + whole[-TAIL_BYTES:])[-TAIL_BYTES:]
        document.has_final_newline = True
        document.line += 2 if lead else 1

    def house(self, entries: Iterable[Entry], header: Header) -> None:
        """Write entries that the tree has and the file lacks; only inside ``exclusive``.

        If that fails others may write them meanwhile: the file is read anew before the next try.
        """
        try:
            for entry in entries:
                self.append(entry, header)
        except BaseException:
            self._is_stale = True
            raise

    def _start_file(self, header: Header) -> None:
        """The draft of a new session, with its header."""
        self._storage.ensure_dir(os.path.dirname(self.path))
        if not self.create(codec.encode(header) + b"\n", self.file):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.file)

    @_stopping
    def create(self, head: bytes, path: str) -> bool:
        """Write a file that so far is only a head, and stand on it; False if there is one."""
        writer = self._storage.open_writer(path)
        try:
            if writer.lock() != 0:
                writer.close()
                return False
            writer.write_line(head)
            document = load_document(self._storage, path, self._blobs)
            if document is None:
                raise PersistenceError(path, "could not be read back")
            document.tree = self.tree
            self.adopt(document, is_draft=self.is_draft)
            writer.unlock()
        except BaseException:
            if self.document is None:  # nobody stands on it
                _take_back(writer, 0, len(head))
            writer.close()
            raise
        self._writer = writer
        return True

    def _promote(self, writer: SessionStorageWriter, document: SessionDocument) -> None:
        """The first answer is here: the draft becomes the session file, in one rename."""
        if self._storage.exists(self.path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)
        self._storage.rename(self.file, self.path, durable=False)
        self.is_draft = False
        self._has_new_name = True
        document.path = document.payloads.path = self.path
        writer.note_rename(self.path)

    # -- what somebody has ruined ----------------------------------------------------------

    @_stopping
    def rebuild(self, head: bytes, now_ms: int) -> SessionWarning | None:
        """Write a ruined file anew from what is still known of its entries; what there is to tell.

        What has taken its place is kept beside it. None if it is not ruined any more.
        """
        self._error = None
        self._storage.ensure_dir(os.path.dirname(self.file))
        self._close_writer()
        self._writer = writer = self._storage.open_writer(self.file)
        try:
            if writer.lock() is None or not self.is_ruined():
                return None
            return self._write_known(head, now_ms)
        finally:
            self._close_writer()

    def _write_known(self, head: bytes, now_ms: int) -> SessionWarning:
        kept, instead = keep_known(self.tree.entries)
        aside = set_aside(self._storage, self.file, now_ms)
        written = self.filer.write_file(self.file, head, kept, private=True)
        document = self._document()
        document.tree = SessionTree(kept)
        document.tree.leaf_id = instead.get(self.tree.leaf_id, self.tree.leaf_id)
        document.gaps = []
        self.adopt(document, is_draft=self.is_draft)
        self._stand_on(self.file, document, written)
        told = f"{self.file} was overwritten by another program; written anew"
        told += f", {len(instead)} entries are lost" if instead else ""
        return SessionWarning(told + (f"; what stood there is kept as {aside}" if aside else ""))

    # -- durability ------------------------------------------------------------------------

    @_stopping
    def flush(self) -> None:
        """Everything acknowledged is on the medium, the folder's entry too."""
        self.check()
        # without a writer nothing was written since the file was read
        if self.document is not None and (self._writer is not None or self._has_new_name):
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
        self._wait_for_late_lines()
        self._old_files.close(self._reader())
        error = self._close_writer()
        if error is not None:
            raise PersistenceError.from_os_error(self.file, error) from error

    @_stopping
    def discard_draft(self) -> None:
        """Remove a draft that holds nothing of worth."""
        if self.is_draft and self.document is not None:
            self._close_writer()
            self._storage.unlink(self.file)

    # -- rewriting -------------------------------------------------------------------------

    @_stopping
    def rewrite(self, head: bytes, entries: Sequence[Entry], *, find_changes: bool = False) -> None:
        """Replace the file by ``head`` and the entries; only inside ``exclusive``.

        ``find_changes`` looks for entries whose data was changed in memory. Lines that could not
        be read are first copied to a file beside the session.
        """
        document = self._document()
        old = LeftBehind(document.payloads.reader, document.end)
        try:
            self.filer.keep_rejected(document, self.file)
            written = self.filer.write_file(
                self.file,
                head,
                entries,
                find_changes=find_changes,
                growth=functools.partial(self._read_growth_of, old, document),
            )
        except (OSError, PersistenceError) as error:
            if self._is_overwritten(document):
                raise ReplacedMeanwhileError from error
            # the new file may have taken its place before the failure: look before going on
            self._is_stale = True
            with contextlib.suppress(OSError):
                if self._is_replaced(document):
                    self._old_files.add(old, self._reader())
            raise
        self._is_sync_suspect = False
        self._close_writer()
        self._old_files.add(old, None)
        self._stand_on(self.file, document, written)

    def move(
        self, path: str, head: bytes, entries: Sequence[Entry], commit: Callable[[], object]
    ) -> None:
        """Write the session to ``path``, run ``commit``, then go on there; inside ``exclusive``.

        ``commit`` takes the old file's name away. If anything fails before, the log stays where it
        is, and the new file is the caller's to remove. Raises OSError.
        """
        document, writer = self._document(), self._open_writer()
        file = self._draft_path(path) if self.is_draft else path
        old = LeftBehind(document.payloads.reader, document.end)
        self.filer.keep_rejected(document, file)
        written = self.filer.write_file(file, head, entries)

        def finish() -> None:
            append_lines(self._storage, file, old)
            commit()

        self._storage_alone(finish)
        with contextlib.suppress(OSError):
            leave_note(writer, path)
        self._close_writer()
        self.path = path
        self._old_files.add(old, None)
        self._stand_on(file, document, written)

    def _storage_alone(self, work: Callable[[], object]) -> None:
        """Do something with omp kept out, where there can be one."""
        if isinstance(self._storage, FileSessionStorage):
            omp_lock.hold(self.file, work)
        else:
            work()

    def _stand_on(self, path: str, before: SessionDocument, written: WrittenFile) -> None:
        """Go on with the file just written; if it cannot be read now, then when it is needed."""
        if written.refusal is not None:
            told = f"{path} could not keep its rights ({written.refusal}); it is private now"
            before.warnings.append(SessionWarning(told))
        try:
            self._take_places(path, before, written)
        except OSError:
            self._is_stale = True

    def _take_places(self, path: str, before: SessionDocument, written: WrittenFile) -> None:
        """The same entries, at their new places.

        Nobody could hold a lock on the file before it had its name, so others may have appended to
        it since, or have replaced it once more.
        """
        reader = self._storage.open_reader(path)
        if not reader.stat().is_same_file(written.stat):
            reader.close()
            self._is_stale = True  # our entries can still be read where they were
            return
        payloads = FilePayloads(path, reader, self._blobs)
        payloads.take_notes(before.payloads)
        for entry, start, following in written.placed():
            entry.attach(payloads, start, following - start - 1)
        if not self._old_files.holds(before.payloads.reader):
            before.payloads.reader.close()
        before.payloads = payloads
        before.path = path
        before.stat = written.stat
        before.skipped = []
        before.has_final_newline = True
        before.is_migrated = False
        note_end(before, written.starts[-1])  # what others appended meanwhile is read like growth

    @_stopping
    def overwrite_slot(self, slot: TitleSlot) -> None:
        """Change the title where it stands; only inside ``exclusive``."""
        document = self._document()
        if document.slot is None or not document.slot.is_in_place:
            raise PersistenceError(self.file, "has no title slot any more")
        self._open_writer().overwrite(0, slot.encode())
        document.slot = slot
        if document.end <= 64:
            note_end(document, document.end)


def _take_back(writer: SessionStorageWriter, start: int, length: int) -> bool:
    """Whether a line that was not acknowledged is gone; if another's follows it, it has to stay."""
    try:
        if writer.stat().size != start + length:
            return False
        writer.truncate(start)
    except OSError:
        return False
    return True
