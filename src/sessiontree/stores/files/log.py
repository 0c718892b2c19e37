"""One session's file as a log: draft, append, rewrite, latched errors, other writers.

**States.** A session begins without a file. Its first entry creates the draft, a hidden file; the
first answer of the assistant promotes it, by a rename, to the session file. From then on the file
only grows, or is replaced as a whole by a rewrite. In each state an error may be latched.

**Crash order**, which every method keeps: blobs before the line that names them; a rejected line's
copy before the rewrite that drops it; the draft until the session file exists. A call returns only
after its entry is written, and a failed write leaves memory and file as they were. So a crash
leaves the lines of all calls that returned, and at most one torn line after them, which reading
skips and the next append ends with a newline.

**Appending.** `append` is the one way in: lock and catch up (`other_writers`), take in what others
did (`_merge`), write all entries with a single write, then put them into the tree. The entries are
not in the tree before they are in the file.

**A failed write** is taken back: the file is cut to its old length while it is still locked. If
that fails, or another program's line already follows ours, the file is marked stale and read again
before the next write. The first error stays latched (`stores/latch.py`).

**Locks and Ctrl-C.** `append` and `settle` are one ``try`` from before the lock until after it: a
``with`` block could be left before its exit begins, and the file would stay locked.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from zlib import crc32

from sessiontree.core.tree import SessionTree
from sessiontree.core.trimming import may_be_edited
from sessiontree.discovery import paths
from sessiontree.errors import EntryExistsError, PersistenceError
from sessiontree.model import codec
from sessiontree.model.entries import Entry, is_answer
from sessiontree.model.header import Header, TitleSlot, respell_header, set_fields
from sessiontree.model.lines import SessionWarning
from sessiontree.profiles import Dialect
from sessiontree.storage import omp_lock
from sessiontree.storage.base import SessionStorageWriter
from sessiontree.storage.blobs import BlobStore
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.base import Durability
from sessiontree.stores.files.document import TAIL_BYTES, FilePayloads, SessionDocument, note_end
from sessiontree.stores.files.folders import work_in
from sessiontree.stores.files.left_behind import LeftBehind, append_lines
from sessiontree.stores.files.move import move_log
from sessiontree.stores.files.moved_file import (
    find_staging,
    has_one_name,
    leave_note,
    put_in_place,
)
from sessiontree.stores.files.other_writers import ReplacedMeanwhileError, SharedFile
from sessiontree.stores.files.reader import load_document
from sessiontree.stores.files.replaced_file import keep_known, merge_replaced
from sessiontree.stores.files.title import set_title
from sessiontree.stores.files.writer import SessionFiler, SpelledLines, WrittenFile, set_aside
from sessiontree.stores.latch import ErrorLatch

if TYPE_CHECKING:
    from sessiontree.stores.files.store import FileStore

_RECENT_BYTES = 8 << 20
_REPLACED_AT_MOST = 20
_TITLE_FIELDS = frozenset(("title", "titleSource"))

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _stopping(
    method: Callable[Concatenate[FileLog, _P], _T],
) -> Callable[Concatenate[FileLog, _P], _T]:
    """Latch an error of this method, as a PersistenceError: it stops the log until `recover`."""

    @functools.wraps(method)
    def guarded(self: FileLog, /, *args: _P.args, **options: _P.kwargs) -> _T:
        try:
            return method(self, *args, **options)
        except OSError as error:
            # No variable for it: that would tie the error to this frame, and so to open files.
            self.note_failure(error)
            raise PersistenceError.from_os_error(self.file, error) from error
        except BaseException as error:
            self.note_failure(error)
            raise

    return guarded


class FileLog(ErrorLatch, SharedFile):
    """The file of one session. Not for use by several threads at once."""

    def __init__(
        self,
        store: FileStore,
        header: Header,
        path: str,
        dialect: Dialect,
        durability: Durability,
        *,
        is_draft: bool = True,
        blobs: BlobStore | None = None,
        is_read_only: bool = False,
    ) -> None:
        """A session that will be written to ``path``, as a draft at first, or only read."""
        blobs = blobs or store.blobs_for(path)
        super().__init__(store.storage, blobs, paths.draft_path, store.other_places)
        self.begin(path, is_draft=is_draft)
        self.filer = SessionFiler(store.storage, blobs, dialect)
        self.store = store
        self.header = header
        self.dialect = dialect
        self.durability: Durability = durability
        self.foreign = 0
        self.is_touched = False
        """Whether anything was written since."""
        self._own_warnings: list[SessionWarning] = []
        self._error: PersistenceError | None = None
        self._has_new_name = False
        self._is_answered = False
        self._recent: deque[Entry] = deque()
        self._recent_bytes = 0
        self._is_held = False
        self._is_head_left = False
        self._is_read_only = is_read_only
        self._is_header_changed = False
        self._wanted: Mapping[str, Any] = {}
        self._unwanted: dict[str, Any] = {}

    def distrust_after(self, error: BaseException) -> None:
        super().distrust_after(error)
        if not isinstance(error, Exception):
            self._has_new_name = True  # only the writer knew whether its folder was synced

    def note_new_name(self) -> None:
        """Note that the file's name is new: a flush has to sync its folder, too."""
        self._has_new_name = True

    def adopt(self, document: SessionDocument, *, is_draft: bool = False) -> None:
        """Continue a file that was just read.

        A draft may hold an answer: its writer was stopped before it could rename the draft.
        """
        super().adopt(document, is_draft=is_draft)
        self._is_answered = is_draft and any(
            entry.type == "message" and is_answer(entry.data) for entry in self.tree.entries
        )

    # -- what there is to know -------------------------------------------------------------

    @property
    def ref(self) -> str:
        """The path of the session file, whether it is there yet or not."""
        return self.path

    @property
    def name(self) -> str:
        """The session's name in errors and warnings: its path."""
        return self.path

    @property
    def is_started(self) -> bool:
        """Whether there is a file, be it a draft."""
        return self.document is not None

    @property
    def revision(self) -> str:
        """The state of the file: another text after each write, ours or another's, that was read
        here.

        The same for every reader of the same file: which file it is, where it ends and in which
        bytes, and the title that is changed in place.
        """
        document = self.document
        if document is None:
            return "0"
        title = document.slot.line if document.slot is not None else b""
        return f"{document.stat.inode:x}.{document.end:x}.{crc32(document.tail, crc32(title)):08x}"

    @property
    def warnings(self) -> list[SessionWarning]:
        """The repairs that reading or writing made, in their order."""
        found = list(self._own_warnings)
        document = self.document
        if document is not None:
            found += document.warnings
            found += document.payloads.warn_of_missing() + document.payloads.warn_of_edited()
        return found + self._warn_of_others()

    def is_removed(self) -> bool:
        """Whether somebody has deleted the session since it was read: to the trash, or for good."""
        document = self.document
        if document is None or not self.is_gone():
            return False
        return self.is_deleted() or self.store.is_in_trash(self.file, document.stat)

    # -- errors ----------------------------------------------------------------------------

    def note_failure(self, error: BaseException) -> None:
        """Stop after an error of the file; after an interrupt read the file again."""
        if isinstance(error, PersistenceError):
            self.stop(error)
        elif isinstance(error, OSError):
            self.stop(PersistenceError.from_os_error(self.file, error))
        else:
            self.distrust_after(error)

    def recover(self) -> None:
        """Forget a latched error, and save again what may not have been saved.

        A file that somebody has overwritten or emptied is written again from what is still known.
        """
        self._is_header_changed = False
        self._error = None
        self._close_writer()
        try:
            if self._is_sync_suspect:
                self.rewrite()
            elif self.is_behind():
                self.settle(_do_nothing)
        except PersistenceError:
            if self.is_deleted() or not self.is_ruined():
                raise
            told = self._rebuild()
            if told is None:  # by now it is a session again
                self.settle(_do_nothing)
            else:
                self.warn(told)

    # -- appending -------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries, all of them in one write or none; then they are in the tree.

        What others wrote meanwhile comes first, in the file and in the tree. Raises
        EntryExistsError if there is an entry of one of these ids.
        """
        if self._error is not None or self._is_read_only:
            self.check()
        # one try from before the lock until after it, as in ``settle``; without `_stopping`, since
        # every call counts here
        try:
            if self._is_held or self.document is None:
                self._append_held(entries)
                return
            writer = self._hold() or self._hold_soon()
            try:
                self._append_held(entries)
            finally:
                writer.unlock()
        except OSError as error:
            self.note_failure(error)
            raise PersistenceError.from_os_error(self.file, error) from error
        except BaseException as error:
            self.note_failure(error)
            raise
        if self._old_files.files:
            self._wait_for_late_lines()

    def _append_held(self, entries: Sequence[Entry]) -> None:
        if self._changes.is_any():
            self._merge()
        tree = self.tree
        by_id = tree.by_id
        for entry in entries:
            if entry.id in by_id:
                raise EntryExistsError(entry.id)
        first = entries[0]
        if first.parent_id is not None and first.parent_id not in by_id:
            first.place(first.id, tree.leaf_id)  # the file is another one than when it was made
        self._write(entries, self.filer.spell_new(entries))
        tree.add_all(entries)
        self.is_touched = True

    def keep_blob(self, data: bytes) -> str:
        """Keep a large value in the profile's blobs; its reference. Raises PersistenceError."""
        return self.filer.blobs.put(data)

    def settle(self, work: Callable[[], _T]) -> _T:
        """Hold the file, read what others wrote, and run ``work``; return its result.

        Creates nothing: a session without a file has no other writers yet.
        """
        self.check()
        if self._is_held:
            return work()
        try:
            result = self._work_unless_replaced(work)
        except BaseException as error:
            self._is_held = False
            self.distrust_after(error)
            raise
        if self._old_files.files:
            self._wait_for_late_lines()
        return result

    def _work_unless_replaced(self, work: Callable[[], _T]) -> _T:
        """Do the work; do it again if another program replaced the file meanwhile."""
        for _ in range(_REPLACED_AT_MOST):
            with contextlib.suppress(ReplacedMeanwhileError):
                return self._work_locked(work)
        error = PersistenceError(self.file, "is being replaced by another program again and again")
        self.stop(error)
        raise error

    def _work_locked(self, work: Callable[[], _T]) -> _T:
        writer = self._lock()
        try:
            self._is_held = True
            self._merge()
            return work()
        finally:
            self._is_held = False
            if writer is not None:
                writer.unlock()

    def refresh(self) -> None:
        """Read what others appended.

        If the file has not changed this costs one look, so it may be called often, also for a file
        that may not be written. A removed file is created again only by the next append.
        """
        self.check()
        if self.is_behind() and not self.is_gone():
            self.settle(_do_nothing)

    @_stopping
    def _lock(self) -> SessionStorageWriter | None:
        """Lock the file and catch up with it; return the writer to unlock."""
        if self.document is None:
            return None
        return self._hold_soon()

    def _merge(self) -> None:
        """Take in what others did, and append entries that their file lacks."""
        changes = self.pending_changes()
        if changes is None:
            return
        missing: list[Entry] = []
        if changes.replaced is not None:
            missing = self._follow(changes.replaced, changes.is_old_intact)
        self.foreign += changes.foreign
        self.warn(*changes.warnings)
        if changes.moved_to is not None:
            told = f"another window has moved the session to {changes.moved_to}"
            self.warn(SessionWarning(told))
        changes.clear()
        if missing:
            self.is_touched = True
            self._append_missing(missing)

    def _follow(self, replaced: SessionTree, is_old_intact: bool) -> list[Entry]:
        """Continue with the file that replaced ours; return the entries that only ours held."""
        if self.document is not None:
            self.header = self.document.header
            self._unwanted = {key: self.header.get(key) for key in self._wanted}
            set_fields(self.header, self._wanted)
        done = merge_replaced(replaced, self.tree, self.dialect, is_old_intact=is_old_intact)
        self.foreign += done.foreign
        self.warn(*done.warnings)
        return done.missing

    @_stopping
    def _append_missing(self, entries: Iterable[Entry]) -> None:
        """Write entries that the tree has and the file lacks.

        If that fails, others may write them meanwhile: the file is read again before the next try.
        """
        try:
            for entry in entries:
                self._write((entry,), self.filer.spell_known(entry))
        except BaseException:
            self._is_stale = True
            raise

    def _write(self, entries: Sequence[Entry], spelled: SpelledLines) -> None:
        """Write entries at the end of the file, which is held, in one write."""
        if self.document is None:
            self.start()
        document = self.document or self._document()
        writer = self._writer or self._open_writer()
        has_newline = document.has_final_newline
        text = spelled.text if has_newline else b"\n" + spelled.text
        length = len(text)
        start = writer.write_line(text)
        try:
            if start != document.end:
                self._take_in(document, start)
            if self.is_draft and (
                self._is_answered or any(is_answer(entry.data) for entry in entries)
            ):
                self._promote(writer, document)
            if self.durability == "entry":
                self._sync(writer)
        except OSError:
            if not _take_back(writer, start, length):
                self._is_stale = True  # the entries have lines now
            raise
        self._place(entries, spelled, document, start if has_newline else start + 1)
        document.end = start + length
        document.tail = (document.tail + text[-TAIL_BYTES:])[-TAIL_BYTES:]
        document.has_final_newline = True
        document.line += len(entries) + (0 if has_newline else 1)

    def _place(
        self,
        entries: Sequence[Entry],
        spelled: SpelledLines,
        document: SessionDocument,
        offset: int,
    ) -> None:
        """Set the places of the entries' lines, from ``offset`` on.

        The latest entries stay in memory; older ones are read again when needed. If another program
        overwrites the file, what is in memory can be written once more.
        """
        payloads = document.payloads
        for entry, length in zip(entries, spelled.lengths, strict=True):
            # what `attach` does, without a call for each entry of a batch
            entry.source, entry.offset, entry.length = payloads, offset, length
            entry.is_changed = False
            offset += length + 1
        whole = spelled.whole
        self._recent += whole
        if whole is entries:
            self._recent_bytes += len(spelled.text)
        else:
            self._recent_bytes += sum(entry.length + 1 for entry in whole)
        if self._recent_bytes > _RECENT_BYTES:
            self._release_oldest()

    def _release_oldest(self) -> None:
        while self._recent_bytes > _RECENT_BYTES:
            oldest = self._recent.popleft()
            self._recent_bytes -= oldest.length + 1
            if not may_be_edited(oldest, self.dialect):
                oldest.release()

    def start(self) -> None:
        """Write the file of a new session, or its draft, with the header. FileExistsError."""
        if not self._start():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.file)

    @_stopping
    def _start(self) -> bool:
        folder = os.path.dirname(self.path)
        return work_in(self._storage, folder, lambda: self._create(self.file))

    def _create(self, path: str) -> bool:
        """Write a file that so far is only a head, and attach to it; False if there is one.

        A head that stands there because it could not be taken back is none of another's.
        """
        head = codec.encode(self.header) + b"\n"
        writer = self._storage.open_writer(path)
        try:
            size = writer.lock()
            if size == 0:
                writer.write_line(head)
            elif not (self._is_head_left and self._storage.read(path) == head):
                writer.close()
                return False
            document = load_document(self._storage, path, self._blobs)
            if document is None:
                raise PersistenceError(path, "could not be read back")
            document.tree = self.tree
            self.adopt(document, is_draft=self.is_draft)
            writer.unlock()
        except BaseException:
            if self.document is None:  # this process has not read it
                self._is_head_left = not _take_back(writer, 0, len(head))
            writer.close()
            raise
        self._writer = writer
        return True

    def _promote(self, writer: SessionStorageWriter, document: SessionDocument) -> None:
        """Make the draft the session file, in one rename, once the first answer is there."""
        if self._storage.exists(self.path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)
        self._storage.rename(self.file, self.path, durable=False)
        self.is_draft = False
        self._has_new_name = True
        document.path = document.payloads.path = self.path
        writer.note_rename(self.path)

    # -- what somebody has ruined ----------------------------------------------------------

    @_stopping
    def _rebuild(self) -> SessionWarning | None:
        """Write a ruined file again from what is known of its entries; return a warning about it.

        What has taken its place is kept beside it. None if it is not ruined any more.
        """
        self._error = None
        self._storage.ensure_dir(os.path.dirname(self.file))
        self._close_writer()
        self._writer = writer = self._storage.open_writer(self.file)
        try:
            if writer.lock() is None or not self.is_ruined():
                return None
            return self._write_known()
        finally:
            self._close_writer()

    def _write_known(self) -> SessionWarning:
        kept, instead = keep_known(self.tree.entries)
        aside = set_aside(self._storage, self.file, self.store.clock())
        written = self.filer.write_file(self.file, self._head(), kept, private=True)
        document = self._document()
        document.tree = SessionTree(kept)
        document.tree.leaf_id = instead.get(self.tree.leaf_id, self.tree.leaf_id)
        document.gaps = []
        self.adopt(document, is_draft=self.is_draft)
        self._continue_in(self.file, document, written)
        told = f"{self.file} was overwritten by another program; Sessiontree wrote it again"
        told += f", {len(instead)} entries are lost" if instead else ""
        return SessionWarning(told + (f"; what stood there is kept as {aside}" if aside else ""))

    # -- durability ------------------------------------------------------------------------

    def flush(self) -> None:
        """Bring everything appended to the medium, in the file that has the session's name."""
        self.check()
        if self.is_touched or (self.is_draft and self._is_answered):
            self.settle(self._flush)
        elif not self.is_gone():
            self._flush()

    @_stopping
    def _flush(self) -> None:
        if self.document is not None and self.is_draft and self._is_answered:
            self._promote(self._open_writer(), self.document)  # its writer was stopped before that
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
        """Close the file; entries stay readable, unless it was only read. PersistenceError.

        Reading one that was not read before opens the file again.
        """
        self._wait_for_late_lines()
        self._old_files.close(self._reader())
        reader = self._reader()
        if reader is not None and self._is_read_only:
            reader.close()
        elif reader is not None and hasattr(reader, "release"):
            reader.release(self.file)
        error = self._close_writer()
        if error is not None:
            raise PersistenceError.from_os_error(self.file, error) from error

    def delete(self, *, permanently: bool = False) -> None:
        """Close the file and delete the session; every later write raises PersistenceError.

        Raises PersistenceError.
        """
        self.check()
        self._old_files.close(self._reader())
        self._close_writer()
        if self.is_started:
            self.store.delete(self.path, permanently=permanently)
        self._error = PersistenceError(self.path, "was deleted here")

    def destroy(self) -> None:
        """Remove a copy that will not be used, with its artifacts. Best effort."""
        self._close_writer()
        with contextlib.suppress(OSError):
            self._storage.unlink(self.file)
            self._storage.remove_dir(paths.artifacts_dir(self.path))

    @_stopping
    def discard(self) -> None:
        """Remove a draft that holds nothing of worth; a session that has its file stays."""
        if self.is_draft and self.document is not None:
            self._close_writer()
            self._storage.unlink(self.file)

    # -- the header ------------------------------------------------------------------------

    def write_header(self, fields: Mapping[str, Any]) -> None:
        """Set header fields and write them; None removes one. A failure leaves them as they were.

        A title goes where the file keeps its title.
        """
        if fields.keys() <= _TITLE_FIELDS:
            self.settle(lambda: set_title(self, fields.get("title") or ""))
        else:
            self.settle(lambda: self.change_header(self.rewrite, fields))

    def change_header(self, write: Callable[[], object], fields: Mapping[str, Any]) -> None:
        """Set header fields, whatever others make of the header meanwhile, and write them.

        If that fails, the old fields are restored.
        """
        was_changed = self._is_header_changed
        self._unwanted = {key: self.header.get(key) for key in fields}
        try:
            self._wanted = fields
            self.set_header(fields)
            write()
            self._wanted = {}
        except BaseException:
            set_fields(self.header, self._unwanted)
            self._is_header_changed = was_changed
            self._wanted = {}
            raise

    def set_header(self, fields: Mapping[str, Any]) -> None:
        """Set header fields in memory; None removes one. Written by the next rewrite."""
        set_fields(self.header, fields)
        self._is_header_changed = True

    def _head(self) -> bytes:
        """Title slot and header as they are to be written."""
        slot = self.document.slot if self.document is not None else None
        lead = slot.encode() if slot is not None else b""
        return lead + self._header_line() + b"\n"

    def _header_line(self) -> bytes:
        document = self.document
        if document is None or not document.header_line:
            return codec.encode(self.header)
        if not self._is_header_changed:
            return document.header_line
        return respell_header(self.header, document.header_line)

    def _note_header_written(self) -> None:
        document = self.document
        if document is not None and self._is_header_changed:
            document.header = self.header
            document.header_line = self._header_line()
            self._is_header_changed = False

    # -- rewriting -------------------------------------------------------------------------

    def rewrite(self, *, find_changes: bool = False) -> None:
        """Replace the file by what there is in memory, merged with what others appended.

        ``find_changes`` looks for entries whose data was changed in memory. Lines that could not
        be read are first copied to a file beside the session.
        """
        if self._is_held:
            self._rewrite(find_changes)
        else:
            self.settle(lambda: self._rewrite(find_changes))

    @_stopping
    def _rewrite(self, find_changes: bool) -> None:
        document = self.document
        if document is None:
            return  # nothing is written yet
        old = LeftBehind(document.payloads.reader, document.end)
        try:
            self.filer.keep_rejected(document, self.file)
            written = self.filer.write_file(
                self.file,
                self._head(),
                self.tree.entries,
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
        self._continue_in(self.file, document, written)
        self._note_header_written()
        if find_changes:
            self.tree.forget_indexes()

    def move(self, cwd: str, scope: str | None = None) -> None:
        """Move the session to another project: file, artifacts and header, or nothing of it.

        Raises PersistenceError.
        """
        move_log(self, cwd, self.store.folder_for(cwd, scope))

    def write_to(self, path: str, commit: Callable[[], object]) -> None:
        """Write the session to ``path``, run ``commit``, then continue there; inside ``settle``.

        ``commit`` takes the old file's name away. If anything fails before, the log stays where it
        is, and the new file is the caller's to remove. Raises OSError.
        """
        document, writer = self._document(), self._open_writer()
        old = LeftBehind(document.payloads.reader, document.end)
        file = self._draft_path(path) if self.is_draft else path
        self.filer.keep_rejected(document, file)
        staged = find_staging(self._storage, file)
        try:
            written = self.filer.write_file(staged, self._head(), self.tree.entries)

            def finish() -> None:
                append_lines(self._storage, staged, old)
                put_in_place(self._storage, staged, file)
                commit()

            is_alone = has_one_name(self._storage, self.file)
            self._keep_omp_out(finish)
        finally:
            if staged != file:
                self._storage.unlink(staged)
        if is_alone:
            with contextlib.suppress(OSError):
                leave_note(writer, path)
        self._close_writer()
        self.path = path
        self._old_files.add(old, None)
        self._continue_in(file, document, written)
        self._note_header_written()

    def _keep_omp_out(self, work: Callable[[], object]) -> None:
        """Call a function while omp can't write, where omp may use the session."""
        if isinstance(self._storage, FileSessionStorage):
            omp_lock.hold(self.file, work)
        else:
            work()

    def _continue_in(self, path: str, before: SessionDocument, written: WrittenFile) -> None:
        """Continue with the file just written; read it later if it can't be read now."""
        if written.refusal is not None:
            told = f"{path} could not keep its rights ({written.refusal}); it is private now"
            before.warnings.append(SessionWarning(told))
        try:
            self._take_places(path, before, written)
        except OSError:
            self._is_stale = True

    def _take_places(self, path: str, before: SessionDocument, written: WrittenFile) -> None:
        """The same entries, at their new places.

        The file could not be locked before it had its name, so others may have appended to
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
        """Change the title where it stands; only inside ``settle``."""
        document = self._document()
        if document.slot is None or not document.slot.is_in_place:
            raise PersistenceError(self.file, "no longer has a title slot")
        self._open_writer().overwrite(0, slot.encode())
        document.slot = slot
        if document.end <= 64:
            note_end(document, document.end)


def _do_nothing() -> None:
    """Do nothing: for ``settle``, which catches up first."""


def _take_back(writer: SessionStorageWriter, start: int, length: int) -> bool:
    """Take back a line that was not acknowledged, unless another's follows; whether it is gone."""
    try:
        if writer.stat().size != start + length:
            return False
        writer.truncate(start)
    except OSError:
        return False
    return True
