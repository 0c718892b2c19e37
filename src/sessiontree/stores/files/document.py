"""A session file as it was read or written: header, tree, end, and report of damage.

A value with the few rules that keep it consistent. ``reader`` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sessiontree.core.gc import with_paused_gc
from sessiontree.core.tree import SessionTree
from sessiontree.errors import PersistenceError
from sessiontree.model.entries import Entry
from sessiontree.model.header import Header, TitleSlot, get_title
from sessiontree.model.lines import SessionWarning, SkippedText
from sessiontree.storage.base import FileStat, SessionStorage, SessionStorageReader
from sessiontree.storage.blobs import BlobStore
from sessiontree.stores.payloads import Payloads

TAIL_BYTES = 64
"""Bytes of a file's end to remember, to tell an append from a rewrite."""


class FilePayloads(Payloads):
    """Gives entries their bytes from an open file, and their blobs from a store."""

    def __init__(self, path: str, reader: SessionStorageReader, blobs: BlobStore | None) -> None:
        super().__init__(blobs.get if blobs is not None else None)
        self.path = path
        self.reader = reader
        self.is_regular = True

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


def warn_of_skipped(skipped: Iterable[SkippedText]) -> list[SessionWarning]:
    """A report of the lines that are not entries."""
    return [SessionWarning(f"skipped: {text.reason}", text.line) for text in skipped]


def line_of(warning: SessionWarning) -> int:
    """The line that a warning belongs to, in a report that goes by lines."""
    return warning.line or 0


def note_end(document: SessionDocument, end: int) -> None:
    """Note that the file has been read or written up to ``end``."""
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
