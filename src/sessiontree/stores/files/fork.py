"""A session file copied into another project: ``fork_from``.

The source is read to its end, to know that it is sound. Meanwhile its lines are copied already, and
the copy gets its name only if nothing had to be repaired: then it is what writing entry by entry
would give, byte for byte. In every other case it is dropped and the entries are written.
"""

from __future__ import annotations

import _thread
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from sessiontree.core.translation import EntryTranslator, translate_entry
from sessiontree.discovery import paths
from sessiontree.errors import PersistenceError, SessionNotFoundError
from sessiontree.logs import get_logger
from sessiontree.model import codec
from sessiontree.model.header import Header, get_title
from sessiontree.storage.base import FileRange, FileStat, Piece
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.base import Durability
from sessiontree.stores.files.copying import finish_copy, settle_copy, write_copy
from sessiontree.stores.files.document import SessionDocument, document_of_verbatim_copy
from sessiontree.stores.files.log import FileLog
from sessiontree.stores.files.opening import dialect_of, profile_for
from sessiontree.stores.files.reader import load_document
from sessiontree.stores.identity import clean_name, derive_header, new_entry, require_durability

if TYPE_CHECKING:
    from sessiontree.stores.files.store import FileStore

logger = get_logger()

_STEP_BYTES = 1 << 24


def fork_file(
    store: FileStore,
    source_path: str,
    cwd: str,
    scope: str | None = None,
    durability: Durability = "flush",
) -> FileLog:
    """A copy of a session file in another project, open. The source is only read."""
    require_durability(durability)
    source_path = os.path.abspath(source_path)
    blobs = store.blobs_for(source_path)
    origin = profile_for(source_path, None)
    fork = _Fork(store, source_path, cwd, scope, durability)
    ahead: _CopyAhead | None = None

    def begin(found: Header, head_end: int, stat: FileStat) -> None:
        nonlocal ahead
        # other storages may not like a second thread, and the lines may have to be looked at
        is_plain = isinstance(store.storage, FileSessionStorage) and not blobs.has_fallbacks
        if not is_plain:
            return
        with contextlib.suppress(RuntimeError):  # no more threads
            ahead = _CopyAhead(fork.log_for(found), head_end, stat)
            ahead.start()

    try:
        try:
            source = load_document(store.storage, source_path, blobs, begin)
        except OSError as error:
            raise PersistenceError.from_os_error(source_path, error) from error
        if source is None:
            raise SessionNotFoundError(source_path)
        entries, name = source.tree.entries, None
        is_other_dialect = dialect_of(source, origin) != store.dialect
        if is_other_dialect:
            translator = EntryTranslator(store.profile)
            entries, name = (
                [translate_entry(entry, translator) for entry in entries],
                source.tree.info_name(),
            )
        try:
            taken = None if is_other_dialect else _take(ahead, source, source_path)
            copy = taken or write_copy(
                fork.log_for(source.header, name),
                entries,
                artifacts=paths.artifacts_dir(source_path),
                source_blobs=blobs if blobs.has_fallbacks else None,
            )
        finally:
            source.payloads.reader.close()
    finally:
        if ahead is not None:
            ahead.drop()
    title = source.title
    if store.dialect == "pi" and title is not None:
        finish_copy(copy, lambda: _name_in_entry(copy, title))
    return copy


def _name_in_entry(copy: FileLog, title: str) -> None:
    entry = new_entry(copy, "session_info", {"name": clean_name(title)})
    copy.append((entry,))
    copy.tree.leaf_id = entry.id


@dataclass(frozen=True, slots=True)
class _Fork:
    """Where a fork goes."""

    store: FileStore
    source_path: str
    cwd: str
    scope: str | None
    durability: Durability

    def log_for(self, source: Header, name: str | None = None) -> FileLog:
        """The log of a fork of this session, on which nothing is written yet."""
        store = self.store
        is_pi = store.dialect == "pi"
        parent = self.source_path if is_pi else source.get("id", self.source_path)
        title = name or get_title(source) if not is_pi else None
        header = derive_header(
            source, title, self.cwd, store.dialect, parent, store, scope=self.scope
        )
        return store.new_log(header, durability=self.durability, is_draft=False)


def _take(ahead: _CopyAhead | None, source: SessionDocument, source_path: str) -> FileLog | None:
    """Take the fork that was copied ahead, if there is one and the session needed no repair."""
    if ahead is None:
        return None
    if not (source.is_verbatim and _is_untouched(source)):
        ahead.drop()  # now: two copies may not fit on the disk
        return None
    if not ahead.finish():
        return None

    log = ahead.log

    def use_copy() -> SessionDocument:
        ahead.is_taken = True
        return document_of_verbatim_copy(
            source, log.store.storage, log.file, log.header, ahead.head, log.filer.blobs
        )

    return settle_copy(log, use_copy, artifacts=paths.artifacts_dir(source_path))


def _is_untouched(source: SessionDocument) -> bool:
    """Whether what was copied is what was read: some programs rewrite their files in place."""
    try:
        return source.payloads.reader.stat() == source.stat
    except OSError:
        return False


class _CopyAhead:
    """Writes a file of a new header and another file's lines, by a thread of its own.

    It has its own descriptor of the source, so that closing the source can't interrupt it. Whatever
    goes wrong here is not reported: writing the entries will meet it again, and say so. Threads and
    events of the standard library can be left locked by an interrupt; a queue's calls cannot."""

    def __init__(self, log: FileLog, start: int, stat: FileStat) -> None:
        self.log = log
        self.head = codec.encode(log.header) + b"\n"
        self.is_taken = False
        self._storage = log.store.storage
        self._path = log.path
        self._first = start
        self._source = stat
        self._is_running = False
        self._is_written = False
        self._is_dropped = False
        self._verdict: SimpleQueue[bool] = SimpleQueue()
        self._over: SimpleQueue[None] = SimpleQueue()

    def start(self) -> None:
        """Begin. Raises RuntimeError if there can be no more threads."""
        self._is_running = True
        try:
            _thread.start_new_thread(self._run, ())
        except Exception:
            self._is_running = False
            raise

    def finish(self) -> bool:
        """Give the copy its name; return whether it has it now."""
        self._verdict.put(True)
        self._wait()
        return self._is_written

    def drop(self) -> None:
        """Remove the copy, unless it was taken."""
        if self.is_taken:
            return
        self._is_dropped = True
        self._verdict.put(False)
        self._wait()
        if self._is_written:
            with contextlib.suppress(OSError):
                self._storage.unlink(self._path)

    def _wait(self) -> None:
        # an interrupt may lose what the queue returned; then this runs again, and the flag decides
        while self._is_running:
            with contextlib.suppress(Empty):
                self._over.get(timeout=0.1)

    def _run(self) -> None:
        try:
            self._is_written = self._write()
        except Exception:
            logger.debug("a fork was not copied ahead", exc_info=True)
        finally:
            self._is_running = False
            self._over.put(None)

    def _write(self) -> bool:
        storage, source = self._storage, self._source
        with contextlib.closing(storage.open_reader(source.path)) as reader:
            if not reader.stat().is_same_file(source):
                return False
            lines = FileRange(reader, self._first, source.size - self._first)
            storage.ensure_dir(os.path.dirname(self._path))
            storage.write_atomic(self._path, self._pieces(lines), durable=False)
            return True

    def _pieces(self, lines: FileRange) -> Iterator[Piece]:
        yield self.head
        end = lines.offset + lines.length
        for offset in range(lines.offset, end, _STEP_BYTES):
            if self._is_dropped:
                raise _DroppedError
            yield FileRange(lines.reader, offset, min(_STEP_BYTES, end - offset))
        if not self._verdict.get() or self._is_dropped:
            raise _DroppedError


class _DroppedError(Exception):
    """The caller does not want the copy any more."""
