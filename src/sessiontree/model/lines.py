"""Read entries from bytes leniently, one line at a time (docs/format.md#damage).

**What a file may hold.** Writers append one line with one write, so usually every line is one JSON
object. Otherwise something happened to the file, and each has a shape of its own:

- a torn line: its writer was killed or the disk was full. The next writer began a new line, or,
  if it knew nothing of the torn one, glued its own object to it;
- several objects on one line: a newline was lost;
- zero bytes: the file's length survived a power cut and its data did not;
- anything else: an editor, a merge, another program.

**What is made of it.** A line that is one object is a `Record`. In any other line every whole
object is salvaged. Behind debris only a whole entry or header counts (`_is_record`): the inner
objects of a torn entry, such as its message, look like objects, too. What remains is a
`SkippedText` with its place and reason. So each byte is in an entry, is blank, or is reported, and
a rewrite can keep the bytes that were not understood (``stores/files/writer.py``).

**The fast path.** A block of whole lines is decoded in one call if every line is one well-formed
entry (`_scan_block`); one line that differs sends its block to the slow path, which gives the same
entries for regular lines. Payloads are not decoded on either path.

**Hostile files.** Time grows with the bytes: a line may hold any number of beginnings that lead
nowhere, so the search for objects in it ends after ``_MAX_FAILURES`` of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from sessiontree.model import codec
from sessiontree.model.entries import Entry, PayloadSource, attach_lines, envelope_decoder

BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n\x00"
# Stands for the parent of an entry that names none; no id contains a NUL.
PREVIOUS = "\x00previous"
SECOND_HEADER = "a second header"
_RECORD_START = re.compile(r'\{\s*"type"\s*:\s*"')
_GLUE = re.compile(r"[ \t\r\x00]*")
# A hostile line may hold any number of beginnings that lead nowhere; each costs a parse.
_MAX_FAILURES = 1_000


class SessionWarning(msgspec.Struct, frozen=True):
    """Something that loading or writing had to repair or leave out."""

    reason: str
    line: int | None = None

    def __str__(self) -> str:
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"


class SkippedText(msgspec.Struct, frozen=True):
    """Bytes that hold no entry: their place, and the reason."""

    offset: int
    length: int
    line: int
    reason: str


class Record(msgspec.Struct):
    """A JSON object found in a file, and its place."""

    value: dict[str, Any]
    offset: int
    length: int
    line: int


class Scan(msgspec.Struct):
    """The entries and skipped texts of a scan, in file order.

    ``gaps`` holds, for each piece of skipped text, how many entries came before it.
    ``is_regular`` says that no line held more than one entry.
    """

    entries: list[Entry] = msgspec.field(default_factory=list)
    skipped: list[SkippedText] = msgspec.field(default_factory=list)
    gaps: list[int] = msgspec.field(default_factory=list)
    warnings: list[SessionWarning] = msgspec.field(default_factory=list)
    end: int = 0
    line: int = 1
    has_final_newline: bool = True
    is_regular: bool = True


def parse_jsonl_lenient(
    data: bytes | str, on_skip: Callable[[int, str], object] | None = None
) -> list[dict[str, Any]]:
    """Every JSON object of a JSONL text, in order; ``on_skip`` is called with any other text."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)
    found = []
    for line_number, (offset, line) in enumerate(split_lines(raw), 1):
        for item in read_line(line, offset, line_number):
            if isinstance(item, Record):
                found.append(item.value)
            elif on_skip is not None:
                on_skip(item.line, item.reason)
    return found


def split_lines(block: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a block with their offsets, without newlines."""
    start = 0
    while start < len(block):
        end = block.find(b"\n", start)
        if end < 0:
            end = len(block)
        yield start, block[start:end]
        start = end + 1


def read_line(line: bytes, offset: int, number: int) -> list[Record | SkippedText]:
    """Read one line: usually one record, sometimes none, several, or debris around them."""
    text = line
    if offset == 0 and text.startswith(BOM):
        text = text[len(BOM) :]
        offset += len(BOM)
    lead = len(text) - len(text.lstrip(_BLANK))
    text = text.strip(_BLANK)
    offset += lead
    if not text:
        return []
    try:
        value = codec.decode(text)
    except ValueError:
        return _salvage(text, offset, number)
    if isinstance(value, dict):
        return [Record(value, offset, len(text), number)]
    return [SkippedText(offset, len(text), number, "not a JSON object")]


def _salvage(text: bytes, offset: int, number: int) -> list[Record | SkippedText]:
    """Objects glued together, or glued to the torn rest of another line."""
    # surrogateescape keeps every byte, so that character ranges convert back to byte ranges
    chars = text.decode("utf-8", "surrogateescape")
    pieces = list(_find_objects(chars))
    found: list[Record | SkippedText] = []
    at_char = at_byte = 0
    for begin, end, is_object in [*pieces, (len(chars), len(chars), False)]:
        gap = chars[at_char:begin].encode("utf-8", "surrogateescape")
        if gap.strip(_BLANK):
            found.append(SkippedText(offset + at_byte, len(gap), number, _why(gap)))
        at_byte += len(gap)
        at_char = end
        if is_object:
            raw = chars[begin:end].encode("utf-8", "surrogateescape")
            found.append(Record(codec.decode(raw), offset + at_byte, len(raw), number))
            at_byte += len(raw)
    return found


def _find_objects(chars: str) -> Iterator[tuple[int, int, bool]]:
    """Find whole objects in a line that is not JSON as a whole."""
    at = failures = 0
    behind_debris = False
    while at < len(chars) and failures < _MAX_FAILURES:
        try:
            value, end = codec.decode_prefix(chars, at)
        except ValueError:
            value, end = None, at
        if isinstance(value, dict) and (not behind_debris or _is_record(value)):
            yield at, end, True
            behind_debris = False
            at = _GLUE.match(chars, end).end()  # type: ignore[union-attr]
            continue
        behind_debris = True
        failures += 1
        start = _RECORD_START.search(chars, at + 1)
        if start is None:
            return
        at = start.start()


def _is_record(value: dict[str, Any]) -> bool:
    """Whether an object found behind debris is a whole record, not a part of a broken one."""
    if value.get("type") == "session":
        return isinstance(value.get("id"), str)
    return "parentId" in value and isinstance(value.get("id"), str) and "timestamp" in value


def _why(piece: bytes) -> str:
    return "torn or damaged JSON" if piece.lstrip(_BLANK).startswith(b"{") else "not JSON"


def scan_entries(
    read: Callable[[int, int], bytes],
    payloads: PayloadSource,
    end: int,
    *,
    start: int = 0,
    line: int = 1,
    chunk_bytes: int = 1 << 16,
) -> Scan:
    """Read the entries that stand between two offsets of a file, the first in line ``line``.

    ``read`` gives bytes of the file by offset and length, fewer only at its end. Each piece read
    begins with a line, and is as large as ``chunk_bytes`` or that line demands: nothing is copied.
    """
    scan = Scan(end=start, line=line)
    wanted = chunk_bytes
    while scan.end < end:
        asked = min(wanted, end - scan.end)
        chunk = read(scan.end, asked)
        size = chunk.rfind(b"\n") + 1
        if size:
            _scan_block(chunk, size, scan, payloads)
            wanted = chunk_bytes
        elif len(chunk) == asked and scan.end + asked < end:
            wanted *= 2
        else:
            if chunk:
                _scan_lines(chunk, scan, payloads)
                scan.has_final_newline = False
                scan.line -= 1  # whatever comes next is still on this line
            break
    return scan


def _scan_block(chunk: bytes, size: int, scan: Scan, payloads: PayloadSource) -> None:
    """The whole lines that a chunk begins with: all at once if each is one entry, else by line."""
    if chunk[0] == 0x7B and chunk[size - 2] == 0x7D:
        try:
            entries = envelope_decoder.decode_lines(memoryview(chunk)[:size])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            entries = []
        # the decoder itself would accept two objects on one line
        if entries and attach_lines(entries, payloads, chunk, size, scan.end):
            scan.entries += entries
            scan.end += size
            scan.line += len(entries)
            return
    _scan_lines(chunk[:size], scan, payloads)


def _head_reason(value: dict[str, Any]) -> str | None:
    """Why a record has no place among the entries, if it is a header or a title slot."""
    kind = value.get("type")
    if kind not in ("session", "title") or "parentId" in value:
        return None
    return SECOND_HEADER if kind == "session" else "a title line out of its place"


def _scan_lines(block: bytes, scan: Scan, payloads: PayloadSource) -> None:
    base = scan.end
    for start, line in split_lines(block):
        items = read_line(line, base + start, scan.line)
        scan.is_regular &= len(items) < 2
        for item in items:
            if isinstance(item, Record) and (reason := _head_reason(item.value)):
                item = SkippedText(item.offset, item.length, item.line, reason)
            if isinstance(item, Record):
                scan.entries.append(_to_entry(item, scan, payloads))
            else:
                scan.gaps.append(len(scan.entries))
                scan.skipped.append(item)
        scan.line += 1
    scan.end += len(block)


def _to_entry(record: Record, scan: Scan, payloads: PayloadSource) -> Entry:
    """The entry of a record that need not have all that every entry should have."""
    value = record.value
    entry = Entry.from_wire(value)
    entry.attach(payloads, record.offset, record.length)
    entry.release()
    if "parentId" not in value:
        scan.warnings.append(
            SessionWarning("has no parentId; hung on the entry before it", record.line)
        )
        entry.place(entry.id, PREVIOUS)
    return entry
