"""Read a session file: bytes to header, tree and a report of damage. Never writes.

Owns loading (docs/format.md#damage) and migrating in memory. The writing half (moving a damaged
file aside, rewriting a migrated one) belongs to the log and the manager.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sessiontree.core.gc import with_paused_gc
from sessiontree.core.tree import plant
from sessiontree.discovery import paths
from sessiontree.errors import NotASessionError, PersistenceError
from sessiontree.model import codec
from sessiontree.model.entries import Entry, WireEntry, respell
from sessiontree.model.header import (
    CURRENT_VERSION,
    Header,
    HeaderFinder,
    TitleSlot,
    apply_title_slot,
    find_header,
    get_version,
    read_title_slot,
)
from sessiontree.model.lines import (
    BOM,
    SECOND_HEADER,
    Record,
    Scan,
    SessionWarning,
    SkippedText,
    parse_jsonl_lenient,
    read_line,
    scan_entries,
    split_lines,
)
from sessiontree.model.migrations import migrate_entries
from sessiontree.model.recognition import (
    AGENT_NAMES,
    ForeignAgent,
    is_damaged_header,
    is_entry,
    is_header_debris,
    is_of_another_program,
    is_torn_start,
    whose_record,
)
from sessiontree.storage.base import FileStat, SessionStorage, SessionStorageReader
from sessiontree.storage.blobs import BlobStore
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.files.document import (
    TAIL_BYTES,
    FilePayloads,
    SessionDocument,
    line_of,
    warn_of_skipped,
)

_HEAD_BYTES = 1 << 16
_LONGEST_LINE = 1 << 30
_SESSION_SUFFIXES = (".jsonl", ".jsonl.draft")
# Every line that is an entry has one of these: most lines of other files need no closer look.
_ENTRY_MARKS = (b'"parentId"', b'"message"')

OnHead = Callable[[Header, int, FileStat], object]


@dataclass(slots=True)
class _Head:
    """The beginning of a file, before its entries."""

    header: Header | None = None
    header_line: bytes = b""
    slot: TitleSlot | None = None
    end: int = 0
    line: int = 1
    skipped: list[SkippedText] = field(default_factory=list)


def load_document(
    storage: SessionStorage,
    path: str,
    blobs: BlobStore | None = None,
    on_head: OnHead | None = None,
) -> SessionDocument | None:
    """The session in this file; None if the file is missing or empty.

    ``on_head`` hears of the header, and where it ends, before the rest is read. Raises
    NotASessionError for a file without a valid header, OSError if it cannot be read.
    """
    try:
        reader = storage.open_reader(path)
    except FileNotFoundError:
        return None
    try:
        stat = reader.stat()
        if stat.size == 0:
            reader.close()
            return None
        return _read_document(path, reader, stat, blobs, on_head)
    except BaseException:
        reader.close()
        raise


def load_copy(path: str, blobs: BlobStore | None = None) -> SessionDocument | None:
    """The session that was in this file, from the copy that ``keep`` made; None without one.

    Raises NotASessionError, OSError.
    """
    from sessiontree.discovery.kept.reading import open_kept

    reader = open_kept(path)
    if reader is None:
        return None
    try:
        return _read_document(path, reader, reader.stat(), blobs, None)
    except BaseException:
        reader.close()
        raise


@with_paused_gc
def _read_document(
    path: str,
    reader: SessionStorageReader,
    stat: FileStat,
    blobs: BlobStore | None,
    on_head: OnHead | None,
) -> SessionDocument:
    head = _read_head(reader, stat.size)
    # behind other text a header is a damaged session's, or part of a document that quotes one
    if head.header is None or (head.skipped and ".jsonl" not in os.path.basename(path)):
        raise _refusal(path, reader, stat.size)
    if on_head is not None:
        on_head(head.header, head.end, stat)
    payloads = FilePayloads(path, reader, blobs)
    header = head.header
    version = get_version(header)
    scan = scan_entries(reader.read_at, payloads, stat.size, start=head.end, line=head.line)
    payloads.is_regular = scan.is_regular
    if _is_lookalike(header, scan):
        raise NotASessionError(path, "not a session: no line of it is an entry of one")
    warnings = warn_of_skipped([*head.skipped, *scan.skipped])
    entries = scan.entries
    if version < CURRENT_VERSION:
        entries = _migrate(cast("dict[str, Any]", header), entries, scan.gaps, payloads)
    if version > 1:  # before, entries had no parents
        warnings = sorted([*warnings, *scan.warnings], key=line_of)
    tree, repairs = plant(entries, scan.gaps)
    if version > CURRENT_VERSION:
        repairs.append(
            SessionWarning(f"version {version} is newer than {CURRENT_VERSION}; it is not changed")
        )
    return SessionDocument(
        path=path,
        header=header,
        slot=head.slot,
        tree=tree,
        payloads=payloads,
        stat=stat,
        end=scan.end,
        head_end=head.end,
        line=scan.line,
        header_line=head.header_line,
        tail=reader.read_at(max(0, scan.end - TAIL_BYTES), min(TAIL_BYTES, scan.end)),
        has_final_newline=scan.has_final_newline and _ends_line(reader, scan.end),
        is_migrated=version < CURRENT_VERSION,
        gaps=scan.gaps,
        skipped=head.skipped + scan.skipped,
        warnings=warnings + repairs,
    )


def _ends_line(reader: SessionStorageReader, end: int) -> bool:
    return reader.read_at(end - 1, 1) == b"\n"


def _read_head(reader: SessionStorageReader, size: int) -> _Head:
    """Read everything up to the end of the header, however long that is."""
    length = _HEAD_BYTES
    while True:
        data = reader.read_at(0, min(length, size))
        is_whole = len(data) >= size
        cut = len(data) if is_whole else data.rfind(b"\n") + 1
        head = _parse_head(data[:cut])
        if head is not None:
            return head
        if is_whole:
            return _Head()
        length *= 4


def _parse_head(data: bytes) -> _Head | None:
    """The head, if ``data`` holds a first record; its header is None if that is not a header."""
    head = _Head()
    finder = HeaderFinder()
    for start, line in split_lines(data):
        for item in read_line(line, start, head.line):
            if isinstance(item, SkippedText):
                head.skipped.append(item)
                continue
            is_first_line = item.offset == 0 and item.length == len(line)
            if not finder.take(item.value, line + b"\n" if is_first_line else b""):
                continue
            head.slot, head.header = finder.slot, finder.header
            if head.header is not None:
                head.end = item.offset + item.length
                head.header_line = data[item.offset : head.end]
                apply_title_slot(head.header, head.slot)
                rest = start + len(line)
                if not data[head.end : rest].strip(b" \t\r\x00"):
                    head.end = min(rest + 1, len(data))
                    head.line += 1
            return head
        head.line += 1
    return None


def require_session(storage: SessionStorage, path: str) -> None:
    """Make sure that a file is a session, sound or damaged, or empty. Changes nothing.

    For what is done to a file as a whole. Raises NotASessionError, OSError.
    """
    try:
        document = load_document(storage, path)
    except NotASessionError as error:
        if not error.is_damaged:
            raise
        return
    if document is not None:
        document.payloads.reader.close()


def _is_lookalike(header: Header, scan: Scan) -> bool:
    """Whether a file with a header is a dataset whose records are called sessions.

    Its first record passes for a header, and none of the others is an entry.
    """
    is_repeated = any(skipped.reason == SECOND_HEADER for skipped in scan.skipped)
    if not is_repeated and not (_is_bare(header) and scan.entries):
        return False
    return not any(is_entry(entry.decode()) for entry in scan.entries)


def _is_bare(header: Header) -> bool:
    """Whether a header has only fields that any record called "session" could have."""
    return not any(key in header for key in ("version", "timestamp", "cwd"))


def _refusal(path: str, reader: SessionStorageReader, size: int) -> NotASessionError:
    """Explain why a file without a header is refused, and tell whether it is a damaged session."""
    found = _identify(reader, size)
    if isinstance(found, str):
        name = AGENT_NAMES[found]
        command = shlex.join(["sessiontree", "import", path])
        return NotASessionError(path, f"a {name} transcript; to import it: {command}")
    is_damaged = found or _is_torn_first_write(path, reader, size)
    if is_damaged and path.endswith(_SESSION_SUFFIXES):
        return NotASessionError(path, "no session header", is_damaged=True)
    return NotASessionError(path, "not a session: no header, and no entry of one")


def _is_torn_first_write(path: str, reader: SessionStorageReader, size: int) -> bool:
    """Whether a file named as sessions are holds only the first bytes of a header.

    Under any other name so little could be anybody's.
    """
    name = paths.session_of_draft(path) or path
    is_named_as_ours = paths.parse_session_file_name(name) is not None
    return is_named_as_ours and is_torn_start(reader.read_at(0, min(size, _HEAD_BYTES)))


def _identify(reader: SessionStorageReader, size: int) -> ForeignAgent | bool:
    """Tell which agent's transcript a file is; else whether it is a session that lost its header.

    A file of blanks and NULs is what a power cut leaves of a session: nothing else is in it.
    """
    agent: ForeignAgent | None = None
    is_first = is_blank = True
    for block in _iter_line_blocks(reader, size):
        if not is_first and not any(mark in block for mark in _ENTRY_MARKS):
            continue
        for start, line in split_lines(block):
            text = line.removeprefix(BOM).strip(b" \t\r\x00")
            if not text:
                continue
            is_blank = False
            items = read_line(text, start, 1)
            has_record = any(isinstance(item, Record) for item in items)
            if is_first and not has_record and is_header_debris(text):
                return True
            for item in items:
                if not isinstance(item, Record) or read_title_slot(item.value) is not None:
                    continue
                agent = agent or whose_record(item.value)
                if is_first and is_of_another_program(item.value):
                    return agent or False
                if is_entry(item.value) or (is_first and is_damaged_header(item.value)):
                    return True
                is_first = False
    return agent or is_blank


def _iter_line_blocks(reader: SessionStorageReader, size: int) -> Iterator[bytes]:
    """The whole lines of a file in blocks; without what follows a line of endless length."""
    offset, wanted = 0, _HEAD_BYTES
    while offset < size:
        block = reader.read_at(offset, min(wanted, size - offset))
        end = block.rfind(b"\n") + 1
        if end:
            block = block[:end]
        elif len(block) == wanted and offset + wanted < size and wanted < _LONGEST_LINE:
            wanted *= 2
            continue
        if not block:
            return
        yield block
        offset += len(block)
        wanted = _HEAD_BYTES


def _migrate(
    header: dict[str, Any], entries: list[Entry], gaps: Sequence[int], payloads: FilePayloads
) -> list[Entry]:
    """An older file's entries in today's form, in memory; those that need no change as they are."""
    lines = [payloads.read_line(entry.offset, entry.length) for entry in entries]
    records: list[WireEntry] = list(map(codec.decode, lines))
    before = [record.copy() for record in records]
    migrate_entries([header, *records], gaps)
    migrated = []
    for entry, line, old, new in zip(entries, lines, before, records, strict=True):
        changed = {key: value for key, value in new.items() if old.get(key, _NONE) is not value}
        if changed or len(old) != len(new):
            parent_id = entry.parent_id
            entry = respell(line, payloads, changed, gone=old.keys() - new.keys())
            if "parentId" not in new:
                entry.parent_id = parent_id
        migrated.append(entry)
    return migrated


_NONE = object()


def salvage_document(
    storage: SessionStorage, path: str, fallback_header: Header
) -> tuple[Header, list[Entry], list[SessionWarning]]:
    """Salvage a file without a valid header: a header, entries, and a report.

    Fields of the damaged header that can still be read are kept, and the title of a slot before it.
    Entries that are whole keep their bytes; ids and parents that are missing are filled in.
    """
    reader = storage.open_reader(path)
    size = reader.stat().size
    payloads = FilePayloads(path, reader, None)
    scan = scan_entries(reader.read_at, payloads, size)
    # up to the first entry everything is what is left of the header
    lead = next((at for at, entry in enumerate(scan.entries) if entry.type), len(scan.entries))
    entries = scan.entries[lead:]
    head = reader.read_at(0, min(_HEAD_BYTES, entries[0].offset if entries else size))
    header = cast("Header", {**fallback_header, **_header_debris(head)})
    slot = _find_slot(head)
    apply_title_slot(header, slot)
    gaps = [gap - lead for gap in scan.gaps if gap >= lead]
    warnings = warn_of_skipped(scan.skipped[slot is not None :])
    if any(entry.id for entry in entries):
        entries = _migrate({**header, "version": 2}, entries, gaps, payloads)
        warnings = sorted([*warnings, *scan.warnings], key=line_of)
    else:  # version 1 counts the header's line, so none is lost
        lost = gaps[gaps[:1] == [0] :]
        entries = _migrate({**header, "version": 1}, entries, lost, payloads)
    tree, repairs = plant(entries, gaps)
    return header, tree.entries, warnings + repairs


def _find_slot(head: bytes) -> TitleSlot | None:
    """The title slot that a file begins with, if it does."""
    first_line = read_line(head.partition(b"\n")[0], 0, 1)
    return find_header(item for item in first_line if isinstance(item, Record)).slot


_HEADER_FIELD = re.compile(rb'"(id|cwd|timestamp|title|parentSession)"\s*:\s*("(?:[^"\\]|\\.)*")')


def _header_debris(data: bytes) -> dict[str, str]:
    """String fields that can be read off a damaged header line."""
    for _, line in split_lines(data):
        if b'"session"' not in line[:200] and b'"cwd"' not in line[:400]:
            continue
        found: dict[str, str] = {}
        for name, value in _HEADER_FIELD.findall(line):
            try:
                text = codec.decode(value)
            except ValueError:
                continue
            if isinstance(text, str):
                found.setdefault(name.decode(), text)
        return found if "id" in found or "cwd" in found else {}
    return {}


def load_entries_from_file(
    path: str | os.PathLike[str],
    *,
    storage: SessionStorage | None = None,
    on_skip: Callable[[int, str], object] | None = None,
) -> list[dict[str, Any]]:
    """The records of a session file, header first, as plain objects and not migrated.

    [] for a missing file and for one whose first record is not a header. Lines that are not JSON
    object are skipped and reported to ``on_skip`` (line, reason). A title slot is applied to the
    header's ``title``. Raises PersistenceError for what is there and cannot be read.
    """
    store = storage if storage is not None else FileSessionStorage()
    try:
        data = store.read(os.fspath(path))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise PersistenceError.from_os_error(os.path.abspath(path), error) from error
    records = parse_jsonl_lenient(data, on_skip)
    finder = HeaderFinder()
    before = next((at for at, record in enumerate(records) if finder.take(record)), 0)
    header = finder.header
    if header is None:
        return []
    apply_title_slot(header, finder.slot)
    return records[before:]
