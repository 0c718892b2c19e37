"""Share a session's file with other processes: lock it, read what they wrote, notice what they did.

`SharedFile` keeps three things: the path, the document (header and tree) that was read from it, and
a writer. The document knows how far it was read (``end``), the last bytes before that (``tail``),
and which file it is (device and inode). `FileLog` decides what to write; this module makes sure
that the file under the lock is the file in memory.

**Who writes.** Another window of ours takes the same advisory lock for each append. omp has its own
lock beside the file (`storage/omp_lock`); pi takes none and opens the file by its name for each
line. All of them append whole lines with O_APPEND; a rewrite writes a new file and renames it.

**Holding the file** (`_hold`, called again by `_hold_soon` until it succeeds). A lock belongs to an
open file and not to its name, so what the name means may have changed while this process waited.
After locking, exactly one of these is true:

====================================================  ============================================
the name stands for …                                 so
====================================================  ============================================
the file that was read, at its end                    continue
the file that was read, with lines appended           read them (`growth`), then continue
that file with other bytes before the end             it was overwritten: `_reload`
another file                                          it was replaced: `_reload`
another, empty file; our bytes can still be read      it was deleted and created: write ours again
no file, and the same inode is in a known folder      another program moved it: follow it
no file, and a note names a new path                  another window moved it: `_reload` there
no file, and a note says that it was deleted          a person deleted it: PersistenceError
no file, we have the draft, the session file exists   another process promoted it: `_reload`
no file, and none of these                            removed: create an empty one, write ours
====================================================  ============================================

`_reload` refuses a file without a valid header and one of another session: nothing is ever written
into them. It keeps the tree that was in use (`Changes.replaced`), and the log merges it into the
new one (`replaced_file`), so entries that only this process knows are appended to the new file.

**Lines that come too late.** A process without a lock may still write to a file whose name was
taken by a rewrite of ours. `left_behind` keeps that file open, and `_bring_over` copies its late
lines.

**A crash or Ctrl-C** anywhere here leaves at most an empty file in the place of one that somebody
removed. In memory `distrust_after` marks the document as stale, so
that the next operation reads the file from its beginning instead of trusting a step that may be
half done.

**Why nothing is lost.** What others wrote is read before this process appends, so a new entry never
hides theirs. What this process has is in the file under the name, in the old file that ``document``
keeps open, or in memory, and it is written again from there. The one exception: a program that
overwrites a file in place, bytes that are in memory nowhere. A warning counts those entries.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sessiontree.clock import now_ms
from sessiontree.core.tree import SessionTree
from sessiontree.errors import (
    NotASessionError,
    PersistenceError,
    SessionBusyError,
    without_frames,
)
from sessiontree.model import codec
from sessiontree.model.entries import LEAF_MARKER, WireEntry
from sessiontree.model.ids import format_timestamp, new_entry_id
from sessiontree.model.lines import SessionWarning
from sessiontree.storage.base import (
    SessionStorage,
    SessionStorageReader,
    SessionStorageWriter,
    read_chunks,
)
from sessiontree.storage.blobs import BlobStore
from sessiontree.storage.locks import DEFAULT_TIMEOUT_S
from sessiontree.stores.files.document import SessionDocument, note_end
from sessiontree.stores.files.growth import (
    is_slot_kept,
    is_tail_kept,
    merge_growth,
    read_growth,
    refresh_slot,
)
from sessiontree.stores.files.left_behind import LeftBehind, OldFiles
from sessiontree.stores.files.moved_file import find_note, was_deleted
from sessiontree.stores.files.reader import load_document


@dataclass(slots=True)
class Changes:
    """The changes by others in the file, until the log has taken them in.

    ``replaced`` is the tree that was in use before the file turned out to be another one; its
    lines can still be read if ``is_old_intact``. ``moved_from`` is the path it had until then.
    ``moved_to`` is where another window says that it has moved it.
    """

    foreign: int = 0
    replaced: SessionTree | None = None
    is_old_intact: bool = True
    moved_from: str | None = None
    moved_to: str | None = None
    warnings: list[SessionWarning] = field(default_factory=list)

    def is_any(self) -> bool:
        """Whether others did anything."""
        return bool(self.foreign or self.warnings or self.replaced or self.moved_to)

    def clear(self) -> None:
        """Forget the changes: the log has taken them in."""
        self.foreign = 0
        self.replaced = None
        self.is_old_intact = True
        self.moved_from = None
        self.moved_to = None
        self.warnings = []


class ReplacedMeanwhileError(Exception):
    """Another program replaced the file first: read it, then try again."""


class SharedFile:
    """The file of a session, and what others do to it."""

    def __init__(
        self,
        storage: SessionStorage,
        blobs: BlobStore,
        draft_path: Callable[[str], str],
        other_places: Callable[[str], Iterable[str]] = lambda path: (),  # noqa: ARG005
    ) -> None:
        self._storage = storage
        self._blobs = blobs
        self._draft_path = draft_path
        self._other_places = other_places
        self._writer: SessionStorageWriter | None = None
        self._is_stale = False
        self._is_unlocked = False
        self._is_sync_suspect = False
        self._changes = Changes()
        self._old_files = OldFiles()
        self.path = ""
        self.tree = SessionTree()
        self.document: SessionDocument | None = None
        self.is_draft = False

    def adopt(self, document: SessionDocument, *, is_draft: bool = False) -> None:
        """Continue a file that was just read."""
        self._is_stale = False
        self.document = document
        self.tree = document.tree
        self.is_draft = is_draft
        if not is_draft:
            self.path = document.path

    def begin(self, path: str, *, is_draft: bool = True) -> None:
        """Begin a new session that will be written to ``path``, as a draft at first."""
        self.path = path
        self.is_draft = is_draft

    @property
    def file(self) -> str:
        """The file written to now: the draft until the session file exists."""
        return self._draft_path(self.path) if self.is_draft else self.path

    def is_ruined(self) -> bool:
        """Whether the session's file is missing or does not hold a session any more."""
        try:
            found = load_document(self._storage, self.file)
        except NotASessionError:
            return True
        except OSError:
            return False
        if found is not None:
            found.payloads.reader.close()
        return found is None

    def is_deleted(self) -> bool:
        """Whether another window has deleted the session for good."""
        document = self.document
        if document is None:
            return False
        with contextlib.suppress(OSError):
            if not (self._storage.exists(self.file) or self._storage.exists(self.path)):
                return was_deleted(document.payloads.reader, document.end)
        return False

    def pending_changes(self) -> Changes | None:
        """Return the changes by others, until the log clears them; None if there are none."""
        return self._changes if self._changes.is_any() else None

    def distrust_after(self, error: BaseException) -> None:
        """After an interrupt close the file, and read it again when it is next needed.

        An ordinary error was handled where it was raised.
        """
        if not isinstance(error, Exception):
            self._is_stale = True
            self._close_writer()

    def look_at(self, path: str) -> None:
        """Use another path from now on; the file is read there when it is next needed."""
        self.path = path
        self._is_stale = True
        self._close_writer()

    def is_behind(self) -> bool:
        """Whether the file is no longer what was read and written here."""
        document = self.document
        if document is None:
            return False
        if self._is_stale or self.pending_changes() is not None:
            return True
        try:
            found = self._storage.stat(self.file)
            if not found.is_same_file(document.stat) or found.size != document.end:
                return True
            if not (is_slot_kept(document) and is_tail_kept(document)):
                return True
            return bool(self._old_files.files) and self._old_files.have_more(
                document.payloads.reader
            )
        except OSError:
            return True  # the next operation reports the error

    def is_gone(self) -> bool:
        """Whether there is no file any more, neither under the name it has nor under its next."""
        try:
            if self._storage.exists(self.file) or self._storage.exists(self.path):
                return False
            if self._find_moved() is not None:
                return False
            return self.document is None or self._find_new_path(self.document) is None
        except OSError:
            return False  # the next operation reports the error

    def _hold(self) -> SessionStorageWriter | None:
        """Lock the file under the name and catch up with it; None to try again."""
        writer = self._writer
        if writer is None:
            try:
                writer = self._writer = self._storage.open_writer(self.file, create=False)
            except FileNotFoundError:
                if not self._follow_move():
                    self._restore_deleted()
                return None
        size = writer.lock()
        if not (writer.has_locks or self._is_unlocked):
            self._is_unlocked = True
            self._changes.warnings.append(
                SessionWarning(
                    f"{self.file} is on a file system without locks; "
                    "do not work on this session from two programs at once"
                )
            )
        is_held = False
        try:
            document = self.document or self._document()
            if size is None:
                self._close_writer()
            elif size == 0 and not writer.owns(document.stat) and is_tail_kept(document):
                self._write_again(document)
            elif writer.owns(document.stat) and self._catch_up(document, size):
                is_held = not self._old_files.files or self._bring_over(writer, document)
            else:
                self._reload()
                # the lock is on this very file, so what was just read is all there is
                is_held = writer.owns(self._document().stat)
        finally:
            if not is_held:
                writer.unlock()
        return writer if is_held else None

    def _catch_up(self, document: SessionDocument, size: int) -> bool:
        """Read what others appended; False if the file is not what was read plus an append."""
        if self._is_stale:
            return False
        if document.slot is not None and not refresh_slot(document):
            return False
        if size == document.end:
            return is_tail_kept(document)
        scan = read_growth(document, size)
        if scan is None:
            return False
        self._changes.foreign += merge_growth(document, scan)
        return True

    def _hold_soon(self) -> SessionStorageWriter:
        """Lock the file and catch up with it; SessionBusyError if that never succeeds."""
        writer = self._hold()
        deadline = time.monotonic() + DEFAULT_TIMEOUT_S if writer is None else 0.0
        while writer is None:
            if time.monotonic() > deadline:
                raise SessionBusyError(self.file, DEFAULT_TIMEOUT_S)
            writer = self._hold()
        return writer

    # -- what others write to files that were replaced ---------------------------------------

    def _read_growth_of(self, old: LeftBehind, document: SessionDocument) -> bytes:
        """Read what came to a file that is about to be replaced. Raises ReplacedMeanwhileError."""
        if self._is_replaced(document) or not is_tail_kept(document):
            raise ReplacedMeanwhileError
        lines = old.read()
        old.take()
        return lines

    def _is_overwritten(self, document: SessionDocument) -> bool:
        """Whether another program has written other bytes into the very file that was read."""
        with contextlib.suppress(OSError):
            return not self._is_replaced(document) and not is_tail_kept(document)
        return False

    def _is_replaced(self, document: SessionDocument) -> bool:
        """Whether the name stands for another file now; a missing file doesn't count."""
        try:
            return not self._storage.stat(self.file).is_same_file(document.stat)
        except FileNotFoundError:
            return False

    def _wait_for_late_lines(self) -> None:
        """Wait a moment for a line that another program may be writing to an old file."""
        pause_s = 0.001
        with contextlib.suppress(OSError, PersistenceError):  # it stays, for the next operation
            while self._old_files.files:
                if self._old_files.have_more(self._reader()):
                    self._hold_soon().unlock()
                wait_s = self._old_files.wait_s()
                if not wait_s:
                    return
                time.sleep(min(pause_s, wait_s))
                pause_s *= 2

    def _bring_over(self, writer: SessionStorageWriter, document: SessionDocument) -> bool:
        """Copy lines that came to the old files to this one, which is held; False to try again."""
        tree = document.tree
        last_id = tree.last_id
        lines = [line for line in self._old_files.read_lines() if not _has_line(tree, line)]
        for line in lines:
            self._write_foreign(writer, document, line)
        self._old_files.take()
        if lines and last_id is not None and not _is_above(tree, last_id):
            # They came late, and others have gone on without them. To those others the last line
            # of the file is the leaf.
            marker = codec.encode(_make_leaf_marker(tree, last_id))
            self._write_foreign(writer, document, marker)
        return not self._is_stale

    def _write_foreign(
        self, writer: SessionStorageWriter, document: SessionDocument, line: bytes
    ) -> None:
        lead = b"" if document.has_final_newline else b"\n"
        writer.write_line(lead + line + b"\n")
        if not self._catch_up(document, writer.stat().size):
            self._is_stale = True

    def take_over(self, reader: SessionStorageReader) -> None:
        """Write all lines of another file to this one, too; close that one in the end."""
        self._old_files.add(LeftBehind(reader, 0), self._reader())
        self._hold_soon().unlock()

    def _reader(self) -> SessionStorageReader | None:
        return self.document.payloads.reader if self.document is not None else None

    def _follow_move(self) -> bool:
        """Follow the file to where another program moved it; False if it did not.

        Living omp renames project folders when it starts, also those with open sessions in them. A
        file with the same name in another folder is ours only if it is the very file that was read.
        """
        moved_to = self._find_moved()
        if moved_to is None:
            return False
        moved_from, self.path = self.path, moved_to
        self._changes.moved_from = moved_from
        document = self._document()
        document.path = document.payloads.path = self.file
        self._changes.warnings.append(
            SessionWarning(f"{moved_from} was moved by another program; it continues as {moved_to}")
        )
        return True

    def _find_moved(self) -> str | None:
        """Find the file in another folder, by its inode."""
        document = self.document
        if document is None:
            return None
        for path in self._other_places(self.path):
            for file in {path, self._draft_path(path)} if self.is_draft else {path}:
                try:
                    if self._storage.stat(file).is_same_file(document.stat):
                        return path
                except OSError:
                    continue
        return None

    def _restore_deleted(self) -> None:
        """Create an empty file in place of a removed one; the open reader still has its bytes.

        A draft that is gone may have become the session file: another process promoted it.
        """
        document = self._document()
        if self.is_deleted():
            raise PersistenceError(self.path, "was deleted for good by another window")
        if self._find_new_path(document) is not None:
            self._reload()
            return
        if self.is_draft and self._storage.exists(self.path):
            self.is_draft = False
            self._reload()
            return
        if not is_tail_kept(document):
            raise PersistenceError(self.file, "was overwritten and deleted by another program")
        self._storage.ensure_dir(os.path.dirname(self.file))
        # of all processes that miss the file, the first to get the lock writes it
        self._storage.open_writer(self.file).close()

    def _find_new_path(self, document: SessionDocument) -> str | None:
        """Find where another window moved the session file; None if it did not."""
        path = find_note(document.payloads.reader, document.end)
        name = os.path.basename(self.path)
        if path is None or os.path.basename(path) != name:
            return None
        if self.is_draft or self._storage.exists(path):
            return path
        # moved once more: it keeps its name
        folders = self._storage.list_dirs(os.path.dirname(os.path.dirname(path)))
        places = (os.path.join(folder, name) for folder in folders)
        return next((place for place in places if self._storage.exists(place)), None)

    def _write_again(self, document: SessionDocument) -> None:
        """Write what was read into the empty file."""
        content = read_chunks(document.payloads.reader, 0, document.end)
        self._storage.write_atomic(self.file, content)
        self._changes.warnings.append(
            SessionWarning(
                f"{self.file} was deleted by another program; Sessiontree wrote it again"
            )
        )

    def _reload(self) -> None:
        """Read the file again, because the name stands for other bytes than were read."""
        before = self._document()
        new_path = self._find_new_path(before)
        if new_path is not None:
            self.path = self._changes.moved_to = new_path
        try:
            document = load_document(self._storage, self.file, self._blobs)
        except NotASessionError as error:
            raise PersistenceError(
                self.file, "was overwritten and is not a session any more"
            ) from (error)
        if document is None:
            raise PersistenceError(self.file, "was emptied by another program")
        if document.header.get("id") != before.header.get("id"):
            raise PersistenceError(
                self.file, f"now holds another session ({document.header.get('id')})"
            )
        if self._changes.replaced is None:
            self._changes.replaced = before.tree
        # the same file with other bytes was overwritten; unless it is only looked at once more
        is_overwritten = document.stat.is_same_file(before.stat) and not self._is_stale
        self._changes.is_old_intact &= not is_overwritten
        document.tree.leaf_id = before.tree.leaf_id
        # a warning that comes again is about the lines that are there now
        told = {warning.reason for warning in document.warnings}
        document.warnings[:0] = [each for each in before.warnings if each.reason not in told]
        self.adopt(document, is_draft=self.is_draft)

    def _take_in(self, document: SessionDocument, end: int) -> None:
        """Take in lines that a program without a lock wrote just before ours."""
        scan = read_growth(document, end)
        if scan is not None:
            self._changes.foreign += merge_growth(document, scan)
        else:
            # they ended a line that we had seen half written: read the whole file next time
            self._is_stale = True
            note_end(document, end)

    def _open_writer(self) -> SessionStorageWriter:
        if self._writer is None:
            self._writer = self._storage.open_writer(self.file, create=False)
        return self._writer

    def _close_writer(self) -> OSError | None:
        """Close the writer; return the error that a network file system reports only now, if
        any."""
        failure = None
        try:
            if self._writer is not None:
                self._writer.close()
            self._writer = None
        except OSError as error:
            self._is_sync_suspect = True
            self._writer = None
            failure = without_frames(error)
        except BaseException:
            # interrupted before it was closed, or before that was noted
            if self._writer is not None:
                with contextlib.suppress(OSError):
                    self._writer.close()
            self._writer = None
            raise
        return failure

    def _document(self) -> SessionDocument:
        if self.document is None:
            raise PersistenceError(self.path, "has not been written yet")
        return self.document


def _has_line(tree: SessionTree, line: bytes) -> bool:
    """Whether this very line is in the file already."""
    try:
        entry_id = codec.decode(line).get("id")
        held = tree.by_id.get(entry_id) if isinstance(entry_id, str) else None
        return held is not None and held.raw() == line
    except (ValueError, TypeError, AttributeError):
        return False


def _is_above(tree: SessionTree, entry_id: str) -> bool:
    """Whether the last entry continues this one."""
    return any(entry.id == entry_id for entry in tree.path(tree.last_id))


def _make_leaf_marker(tree: SessionTree, leaf_id: str) -> WireEntry:
    return {
        "type": "custom",
        "id": new_entry_id(tree.by_id, os.urandom),
        "parentId": leaf_id,
        "timestamp": format_timestamp(now_ms()),
        "customType": LEAF_MARKER,
    }
