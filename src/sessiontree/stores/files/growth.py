"""Read what others appended to a file, and titles that they changed in place. Never writes.

A session file grows at its end and nowhere else, except that omp overwrites the title slot, whose
size never changes. So reading a file again starts where the last reading ended, and two looks tell
whether that is allowed:

- the last bytes before that point are still what was read (`is_tail_kept`): else somebody rewrote
  the file in place;
- if what was read did not end with a newline, one follows now: else somebody continued the last
  line, and what was read as a whole line was only its beginning.

If one of them fails, `read_growth` returns None, and the caller reads the file from its beginning.
The tail is short (``TAIL_BYTES``), so a change in place of earlier bytes only, of the same length,
goes unnoticed here.
"""

from __future__ import annotations

from sessiontree.core.tree import graft
from sessiontree.model import codec
from sessiontree.model.header import apply_title_slot, read_title_slot
from sessiontree.model.lines import Scan, SessionWarning, scan_entries
from sessiontree.stores.files.document import SessionDocument, line_of, note_end, warn_of_skipped


def read_growth(document: SessionDocument, end: int) -> Scan | None:
    """Read what was appended since the document was read; None if it is not an append."""
    reader = document.payloads.reader
    start = document.end
    if end < start or not is_tail_kept(document):
        return None
    scan = scan_entries(reader.read_at, document.payloads, end, start=start, line=document.line)
    if not document.has_final_newline and reader.read_at(start, 1) != b"\n":
        return None  # somebody continued the last line
    return scan


def is_tail_kept(document: SessionDocument) -> bool:
    """Whether the file still ends, up to where it was read, in the bytes it did."""
    tail = document.tail
    return document.payloads.reader.read_at(document.end - len(tail), len(tail)) == tail


def is_slot_kept(document: SessionDocument) -> bool:
    """Whether the title slot, if there is one that changes in place, is what was read."""
    slot = document.slot
    if slot is None or not slot.is_in_place:
        return True
    return document.payloads.reader.read_at(0, len(slot.line)) == slot.line


def refresh_slot(document: SessionDocument) -> bool:
    """Read a title that was changed in place; False if its slot holds something else."""
    if document.slot is None or is_slot_kept(document):
        return True
    line = document.payloads.reader.read_at(0, len(document.slot.line))
    try:
        found = read_title_slot(codec.decode(line), line) if line.endswith(b"\n") else None
    except ValueError:
        return False
    if found is None:
        return False
    document.slot = found
    apply_title_slot(document.header, found)
    return True


def merge_growth(document: SessionDocument, scan: Scan) -> int:
    """Add what another process appended to the tree; return how many entries."""
    repairs: list[SessionWarning] = []
    first = len(document.tree.entries)
    document.gaps += [first + gap for gap in scan.gaps]
    graft(document.tree, scan.entries, document.gaps, repairs)
    document.payloads.is_regular &= scan.is_regular
    document.skipped += scan.skipped
    document.warnings += sorted([*warn_of_skipped(scan.skipped), *scan.warnings], key=line_of)
    document.warnings += repairs
    note_end(document, scan.end)
    document.line = scan.line
    document.has_final_newline = scan.has_final_newline
    return len(scan.entries)
