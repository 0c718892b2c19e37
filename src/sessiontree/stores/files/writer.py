"""Spell entries as lines, and write whole session files.

`log` appends lines one by one; rewrites, forks, moves and drafts write a whole file.

**What a line is.** An entry that was read and not changed is written with the very bytes it was
read with, whatever another program put there. A new or changed entry is trimmed (`core/trimming`):
long texts are cut, and large data goes to blobs.

**Order on disk.** Blobs come first: `BlobStore.put` returns only when the blob has its name, and
only then does a line name it. A whole file is written under another name and renamed when it is
complete (`storage/atomic`). So a crash leaves the old file or the new one, and blobs that no line
names, which ``gc`` removes; never a line whose blob is missing.

**Cost.** A rewrite of 100 MB must not decode 100 MB. Neighbouring lines that are copied unchanged
become one range of their file, which the storage copies inside the kernel where it can (`_Run`).
An entry breaks a run if it was changed, if it may have been (``find_changes``: it is decoded, so
somebody may have edited it), or if its blobs must be copied to another store (``source_blobs``).

**Other writers.** A rewrite passes ``growth`` to the storage: what others appended to the old file
while the new one was written, read just before the rename (`other_writers`, `left_behind`).
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sessiontree.core.trimming import Trimmed, trim, trim_all
from sessiontree.model.entries import Entry, PayloadSource
from sessiontree.model.ids import format_timestamp
from sessiontree.model.lines import SessionWarning
from sessiontree.profiles import Dialect
from sessiontree.storage.base import (
    FileRange,
    FileStat,
    Growth,
    Piece,
    SessionStorage,
    SessionStorageReader,
)
from sessiontree.storage.blobs import BlobStore
from sessiontree.storage.rights import take_refusal
from sessiontree.stores.files.document import FilePayloads, SessionDocument, iter_raw_lines

REJECTED_SUFFIX = ".rejected"
_REF = re.compile(rb"blob:sha256:[0-9a-f]{64}")
_JOIN_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A whole file that was just written; its name may already stand for another.

    ``starts`` tells where each entry's line begins, and last where the next one would. ``refusal``
    says why the file could not be given the rights of the one it replaced, if it could not.
    """

    entries: Sequence[Entry]
    starts: array[int]
    stat: FileStat
    refusal: str | None = None

    def placed(self) -> Iterator[tuple[Entry, int, int]]:
        """Each entry with where its line begins, and where the next one would."""
        return zip(self.entries, self.starts, itertools.islice(self.starts, 1, None), strict=False)


class SpelledLines(msgspec.Struct, frozen=True, gc=False):
    """The lines of entries, each with its newline, and how long they are without.

    ``whole`` are the entries whose lines restore everything that was in memory.
    """

    text: bytes
    lengths: Sequence[int]
    whole: Sequence[Entry]


class SessionFiler:
    """Writes session files in one dialect, with blobs in one store."""

    def __init__(self, storage: SessionStorage, blobs: BlobStore, dialect: Dialect) -> None:
        self._storage = storage
        self.blobs = blobs
        self.dialect = dialect

    def spell(self, entry: Entry) -> Trimmed:
        """Make the line of an entry and store its blobs. Raises PersistenceError.

        The line of an entry that has one already counts as less than what is in memory.
        """
        if entry.source is not None:
            return Trimmed(entry.line(), is_whole=False)
        trimmed = trim(entry.cached or entry.data, self.dialect)
        for blob in trimmed.blobs:
            self.blobs.put(blob)
        return trimmed

    def spell_new(self, entries: Sequence[Entry]) -> SpelledLines:
        """Make the lines of entries that have none yet; store their blobs. PersistenceError."""
        made = trim_all([entry.cached or entry.data for entry in entries], self.dialect)
        if isinstance(made, tuple):
            return SpelledLines(*made, entries)
        for blob in itertools.chain.from_iterable(each.blobs for each in made):
            self.blobs.put(blob)
        whole = [entry for entry, each in zip(entries, made, strict=True) if each.is_whole]
        lines = [each.line for each in made]
        return SpelledLines(b"\n".join([*lines, b""]), list(map(len, lines)), whole)

    def spell_known(self, entry: Entry) -> SpelledLines:
        """Make the line of an entry that may have had one before. Raises PersistenceError."""
        made = self.spell(entry)
        whole = (entry,) if made.is_whole else ()
        return SpelledLines(made.line + b"\n", (len(made.line),), whole)

    def write_file(
        self,
        path: str,
        head: bytes,
        entries: Sequence[Entry],
        *,
        find_changes: bool = False,
        source_blobs: BlobStore | None = None,
        durable: bool = True,
        private: bool = False,
        growth: Growth | None = None,
    ) -> WrittenFile:
        """Write a whole session file.

        Blobs that the lines name are first copied from ``source_blobs``, if given. The new file
        gets the rights of the one that it replaces, unless it is to be ``private``. ``growth``
        returns what others append to the old file meanwhile.
        """
        starts = array("q")
        pieces = self._pieces(head, entries, starts, find_changes, source_blobs)
        stat = self._storage.write_atomic(
            path, _join(pieces), durable=durable, **_given(private=private, growth=growth)
        )
        return WrittenFile(entries, starts, stat, take_refusal(path))

    def _pieces(
        self,
        head: bytes,
        entries: Sequence[Entry],
        starts: array[int],
        find_changes: bool,
        source_blobs: BlobStore | None,
    ) -> Iterator[Piece]:
        """Yield each line with its newline; unchanged neighbours as one range of their file."""
        yield head
        offset = len(head)
        run: _Run | None = None
        copied: set[bytes] = set()
        for entry in entries:
            if (
                run is not None
                and entry.offset == run.end
                and entry.source is run.source
                and not entry.is_changed
                and not (find_changes and entry.is_loaded)
            ):
                run.end += entry.length + 1
                starts.append(offset)
                offset += entry.length + 1
                continue
            reader = None if source_blobs is not None else _reader_of(entry, find_changes)
            if run is not None:
                yield from run.pieces()
                run = None
            if reader is not None and entry.source is not None:
                length = entry.length
                run = _Run(entry.source, reader, entry.offset, entry.offset + length + 1)
            else:
                line = self.line_of(entry, find_changes=find_changes)
                if source_blobs is not None and b"blob:sha256:" in line:
                    self._copy_blobs(line, source_blobs, copied)
                length = len(line)
                yield line
                yield b"\n"
            starts.append(offset)
            offset += length + 1
        starts.append(offset)
        if run is not None:
            yield from run.pieces()

    def line_of(self, entry: Entry, *, find_changes: bool = False) -> bytes:
        """Return the entry's own bytes, unless it has none or its data was changed since."""
        if entry.source is None:
            return self.spell(entry).line
        if find_changes and entry.is_edited():
            return self.spell(Entry.from_wire(entry.data)).line
        return entry.line()

    def _copy_blobs(self, line: bytes, source: BlobStore, copied: set[bytes]) -> None:
        for ref in _REF.findall(line):
            if ref not in copied:
                copied.add(ref)
                data = source.get(ref.decode())
                if data is not None:
                    self.blobs.put(data)

    def keep_rejected(self, document: SessionDocument, file: str) -> None:
        """Copy the unreadable pieces of a document to a file beside ``file``."""
        if not document.skipped:
            return
        path = file + REJECTED_SUFFIX
        writer = self._storage.open_writer(path)
        try:
            for raw in iter_raw_lines(document):
                writer.write_line(raw + b"\n")
            writer.fsync()
        finally:
            writer.close()
        document.warnings.append(
            SessionWarning(f"{len(document.skipped)} unreadable pieces were copied to {path}")
        )


def _given(**options: Any) -> dict[str, Any]:
    """Return only the options that are set: third-party storages may not know the newest ones."""
    return {name: value for name, value in options.items() if value}


@dataclass(slots=True)
class _Run:
    """Neighbouring lines of one file; ``end`` is where the next one would begin."""

    source: PayloadSource
    reader: SessionStorageReader
    start: int
    end: int

    def pieces(self) -> Iterator[Piece]:
        # the newline behind the last line may be missing
        yield FileRange(self.reader, self.start, self.end - self.start - 1)
        yield b"\n"


def _reader_of(entry: Entry, find_changes: bool) -> SessionStorageReader | None:
    """Return the file from which an entry's line can be copied unread; None if it can't."""
    source = entry.source
    if (
        isinstance(source, FilePayloads)
        and source.is_regular
        and not entry.is_changed
        and not (find_changes and entry.is_loaded)
    ):
        return source.reader
    return None


def set_aside(storage: SessionStorage, path: str, now_ms: int) -> str | None:
    """Copy a file to another name and return that; None if there is nothing to keep."""
    try:
        content = storage.read(path)
    except FileNotFoundError:
        return None
    if not content:
        return None
    while storage.exists(aside := f"{path}.corrupt-{_stamp(now_ms)}"):
        now_ms += 1
    storage.write_atomic(aside, content)
    return aside


def _stamp(time_ms: int) -> str:
    return format_timestamp(time_ms).replace(":", "-").replace(".", "-")


def _join(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Join small pieces."""
    pending: list[bytes] = []
    size = 0
    for piece in pieces:
        if isinstance(piece, bytes):
            pending.append(piece)
            size += len(piece)
            if size < _JOIN_BYTES:
                continue
        if pending:
            yield b"".join(pending)
            pending.clear()
            size = 0
        if not isinstance(piece, bytes):
            yield piece
    if pending:
        yield b"".join(pending)
