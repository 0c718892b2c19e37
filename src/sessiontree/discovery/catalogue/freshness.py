"""Decide whether data read from a file is still valid, and whether the file has only grown.

The catalogue and the search index share this rule. Reading a file gives a stamp; later the stamp is
compared with the file's stat:

- **Unchanged**: inode, device, size, mtime and ctime are the same. The ctime counts because an edit
  in place can restore the mtime, but not the ctime.
- **Not sure**: the file was read within one clock tick of its last change. A second write in the
  same tick leaves the same times, so such a stamp is never trusted, and the file is read again. A
  tick is 20 ms, or 2 s if the ctime has no fraction: some file systems keep whole seconds.
- **May have grown**: the same inode and device, and more bytes. Then a checksum of the beginning
  and of the bytes before the old end decides. If it matches, reading continues at the old end, else
  it starts over. Agents append, or replace a file through a new inode; an edit elsewhere in a
  large file that also grows it is the one change that this rule can miss.
- **Changed**: everything else.

A session of unknown size (rows of a database) has a number in place of the inode that changes with
it, and never counts as grown.

The clock is read before the file is opened, so a write during the reading makes the stamp invalid.
"""

from __future__ import annotations

import zlib

import msgspec

from sessiontree.clock import now_ns
from sessiontree.storage.base import UNKNOWN_SIZE, FileStat, SessionStorageReader

# Smaller files that changed are read whole: that is cheap and needs no checksum.
SMALLEST_GROWN_BYTES = 1 << 18
_HEAD_BYTES = 1 << 12
_TAIL_BYTES = 1 << 14

_TICK_NS = 20_000_000
_COARSE_TICK_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000


class Stamp(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A file's identity, size and times when it was read."""

    inode: int
    device: int
    size: int
    mtime_ns: int
    ctime_ns: int
    read_ns: int
    guard: int | None = None
    """A checksum of the file's beginning and of the bytes before its end; None for small files."""

    def holds_for(self, stat: FileStat) -> bool:
        """Whether the file certainly has the same bytes."""
        settled_ns = self.read_ns - self.ctime_ns
        return (
            stat.size in (self.size, UNKNOWN_SIZE)
            and self.mtime_ns == stat.mtime_ns
            and self.ctime_ns == stat.ctime_ns
            and self.inode == stat.inode
            and self.device == stat.device
            and settled_ns > _TICK_NS
            and (settled_ns > _COARSE_TICK_NS or self.ctime_ns % _SECOND_NS != 0)
        )

    def may_have_grown_to(self, stat: FileStat) -> bool:
        """Whether the file may have the old bytes with more appended."""
        return (
            self.guard is not None
            and self.size < stat.size
            and self.inode == stat.inode
            and self.device == stat.device
        )

    def is_beginning_of(self, reader: SessionStorageReader) -> bool:
        """Whether the bytes at the beginning and before the old end are unchanged."""
        return self.guard is not None and self.guard == _checksum(reader, self.size)


def read_clock_ns() -> int:
    """Return the time for a stamp; call it before opening the file."""
    return now_ns()


def make_stamp(reader: SessionStorageReader, stat: FileStat, read_ns: int) -> Stamp:
    """Make the stamp of a file that was read up to ``stat.size``."""
    guard = _checksum(reader, stat.size) if stat.size >= SMALLEST_GROWN_BYTES else None
    return Stamp(stat.inode, stat.device, stat.size, stat.mtime_ns, stat.ctime_ns, read_ns, guard)


def _checksum(reader: SessionStorageReader, end: int) -> int:
    head = zlib.crc32(reader.read_at(0, _HEAD_BYTES))
    tail = zlib.crc32(reader.read_at(max(0, end - _TAIL_BYTES), min(_TAIL_BYTES, end)))
    return head << 32 | tail
