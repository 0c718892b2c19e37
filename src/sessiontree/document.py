"""A session file as it was read or written: header, tree, where it ends, and what was wrong.

A value with the few rules that keep it true. How it is read is known to ``loading``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sessiontree.core import trimming
from sessiontree.core.tree import SessionTree, with_paused_gc
from sessiontree.errors import PersistenceError
from sessiontree.model import codec
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.header import Header, TitleSlot, get_title
from sessiontree.model.scanning import SessionWarning, SkippedText
from sessiontree.storage.base import FileStat, SessionStorage, SessionStorageReader
from sessiontree.storage.blobs import BlobStore

TAIL_BYTES = 64
"""How much of a file's end is remembered, to tell an append from a rewrite."""


class FilePayloads:
    """Gives entries their bytes from an open file, and their blobs from a store.

    ``missing`` holds the references that could not be followed so far.
    """

    def __init__(self, path: str, reader: SessionStorageReader, blobs: BlobStore | None) -> None:
        self.path = path
        self.reader = reader
        self.is_regular = True
        self.missing: dict[str, None] = {}
        self._blobs = blobs

    def read_line(self, offset: int, length: int) -> bytes:
        try:
            line = self.reader.read_at(offset, length)
        except OSError as error:
            raise PersistenceError.from_os_error(self.path, error) from error
        if len(line) != length:
            raise PersistenceError(
                self.path, "was cut short by another program; open the session again"
            )
        return line

    def restore(self, data: WireEntry, line: bytes) -> WireEntry:
        if self._blobs is None or self.is_plain(line):
            return data
        return trimming.restore(data, self._blobs.get, self._note_missing)

    def _note_missing(self, missing: trimming.MissingBlob) -> None:
        self.missing.setdefault(missing.ref)

    def is_plain(self, block: bytes) -> bool:
        return not trimming.may_need_restore(block)


@dataclass(slots=True)
class SessionDocument:
    """A session file as it was read."""

    path: str
    header: Header
    slot: TitleSlot | None
    tree: SessionTree
    payloads: FilePayloads
    stat: FileStat
    end: int
    head_end: int
    line: int
    tail: bytes
    header_line: bytes = b""
    has_final_newline: bool = True
    is_migrated: bool = False
    gaps: list[int] = field(default_factory=list)
    skipped: list[SkippedText] = field(default_factory=list)
    warnings: list[SessionWarning] = field(default_factory=list)

    @property
    def title(self) -> str | None:
        """The title of the slot or the header; None if there is none."""
        return get_title(self.header)

    @property
    def is_verbatim(self) -> bool:
        """Whether the file is a header and then just the lines of the entries, all as they are."""
        return (
            self.has_final_newline
            and not self.is_migrated
            and self.end == self.stat.size
            and not self.skipped
            and not self.warnings
            and self.payloads.is_regular
            and self.head_end + sum(entry.length + 1 for entry in self.tree.entries) == self.end
        )


def tell_skipped(skipped: Iterable[SkippedText]) -> list[SessionWarning]:
    """A report of what is no entry."""
    return [SessionWarning(f"skipped: {text.reason}", text.line) for text in skipped]


def line_of(warning: SessionWarning) -> int:
    """Where a warning belongs in a report that goes by lines."""
    return warning.line or 0


def note_end(document: SessionDocument, end: int) -> None:
    """The file has been read or written up to ``end``."""
    reader = document.payloads.reader
    document.end = end
    document.tail = reader.read_at(max(0, end - TAIL_BYTES), min(TAIL_BYTES, end))


@with_paused_gc
def document_of_copy(
    storage: SessionStorage,
    path: str,
    header: Header,
    head: bytes,
    placed: Iterable[tuple[Entry, int, int]],
    blobs: BlobStore,
) -> SessionDocument:
    """The document of a file just written from known entries, without reading it again.

    ``placed`` tells for each entry where its line begins, and where the next one would.
    """
    payloads = FilePayloads(path, storage.open_reader(path), blobs)
    entries = [
        Entry(
            entry.type,
            entry.id,
            entry.parent_id,
            entry.timestamp,
            payloads,
            start,
            following - start - 1,
            entry.cached,
            entry.message,
        )
        for entry, start, following in placed
    ]
    tree = SessionTree(entries)
    return _document_of_new_file(header, head, tree, payloads)


def document_of_verbatim_copy(
    source: SessionDocument,
    storage: SessionStorage,
    path: str,
    header: Header,
    head: bytes,
    blobs: BlobStore,
) -> SessionDocument:
    """The document of a file that has another head and then the same lines; takes the entries."""
    payloads = FilePayloads(path, storage.open_reader(path), blobs)
    shift = len(head) - source.head_end
    for entry in source.tree.entries:
        entry.source = payloads
        entry.offset += shift
    return _document_of_new_file(header, head, source.tree, payloads)


def _document_of_new_file(
    header: Header, head: bytes, tree: SessionTree, payloads: FilePayloads
) -> SessionDocument:
    stat = payloads.reader.stat()
    document = SessionDocument(
        path=payloads.path,
        header=header,
        slot=None,
        tree=tree,
        payloads=payloads,
        stat=stat,
        end=stat.size,
        head_end=len(head),
        line=len(tree.entries) + 2,
        tail=b"",
        header_line=head.rstrip(b"\n"),
    )
    note_end(document, stat.size)
    return document


def iter_raw_lines(document: SessionDocument) -> Iterator[bytes]:
    """The skipped pieces of a document, as they were read."""
    for text in document.skipped:
        yield document.payloads.reader.read_at(text.offset, text.length)


# Any JSON may stand where a line was overwritten, or none.
_UNREADABLE = (PersistenceError, ValueError, TypeError, AttributeError)


def keep_in_memory(entry: Entry) -> bool:
    """Whether an entry whose file may have been overwritten is still known; then it has no line."""
    message = entry.message
    with contextlib.suppress(*_UNREADABLE):
        if entry.data.get("id") == entry.id:
            entry.source = None
            return True
    if message is None:
        entry.release()
        return False
    # at every moment it holds what is known of it
    entry.cached = {
        "type": entry.type,
        "id": entry.id,
        "parentId": entry.parent_id,
        "timestamp": entry.timestamp,
        "message": message,
    }
    entry.message = None
    entry.source = None
    return True


def keep_known(tree: SessionTree) -> tuple[list[Entry], dict[str | None, str | None]]:
    """The entries that are still known, joined where some are lost; who is above each of those."""
    kept: list[Entry] = []
    instead: dict[str | None, str | None] = {}
    for entry in tree.entries:
        parent_id = instead.get(entry.parent_id, entry.parent_id)
        if not keep_in_memory(entry):
            instead[entry.id] = parent_id
            continue
        if parent_id != entry.parent_id:
            entry.place(entry.id, parent_id)
        kept.append(entry)
    return kept, instead


def move_over(held: Entry, found: Entry, *, is_old_intact: bool) -> bool:
    """Let the object that somebody may hold stand for a line that was read again.

    What was decoded, and perhaps changed, stays if the line says what it did. If not, somebody else
    has changed it and theirs counts; whether ours had been changed too is given.
    """
    is_kept = is_edited = False
    if is_old_intact and held.is_loaded:
        with contextlib.suppress(*_UNREADABLE):
            is_kept = held.raw() == found.raw() or (
                codec.encode(held.decode()) == codec.encode(found.decode())
            )
            is_edited = not is_kept and held.is_edited()
    held.type, held.timestamp, held.parent_id = found.type, found.timestamp, found.parent_id
    if found.source is not None:
        held.attach(found.source, found.offset, found.length)
    held.is_changed = found.is_changed
    if not is_kept:
        held.release()
    return is_edited
