"""When something read off a file is still good, and when reading may go on at its old end.

Owns the one rule that the catalogue and the search index share. A file is what it was if inode,
device, size, mtime and ctime are; ctime, because an edit in place can put the mtime back. A clock
that ticks too slowly to tell two writes apart is allowed for: what was read within a tick of the
file's last change is never trusted later.
"""

from __future__ import annotations

import time
import zlib

import msgspec

from sessiontree.storage.base import FileStat, SessionStorageReader

# Below this, reading a changed file whole costs less than a doubt about it.
SMALLEST_GROWN_BYTES = 1 << 18
_HEAD_BYTES = 1 << 12
_TAIL_BYTES = 1 << 14

_TICK_NS = 20_000_000
_COARSE_TICK_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000


class Stamp(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a file was when it was read."""

    inode: int
    device: int
    size: int
    mtime_ns: int
    ctime_ns: int
    read_ns: int
    guard: int | None = None
    """A checksum of the file's beginning and of the bytes before its end; None for small files."""

    def holds_for(self, stat: FileStat) -> bool:
        """Whether the file surely has the bytes it had."""
        settled_ns = self.read_ns - self.ctime_ns
        return (
            self.size == stat.size
            and self.mtime_ns == stat.mtime_ns
            and self.ctime_ns == stat.ctime_ns
            and self.inode == stat.inode
            and self.device == stat.device
            and settled_ns > _TICK_NS
            and (settled_ns > _COARSE_TICK_NS or self.ctime_ns % _SECOND_NS != 0)
        )

    def may_have_grown_to(self, stat: FileStat) -> bool:
        """Whether the file may be what it was with more at its end."""
        return (
            self.guard is not None
            and self.size < stat.size
            and self.inode == stat.inode
            and self.device == stat.device
        )

    def is_beginning_of(self, reader: SessionStorageReader) -> bool:
        """Whether the bytes around the old beginning and before the old end are unchanged."""
        return self.guard is not None and self.guard == _checksum(reader, self.size)


def read_clock_ns() -> int:
    """The time to stamp a reading with; take it before opening the file."""
    return time.time_ns()


def make_stamp(reader: SessionStorageReader, stat: FileStat, read_ns: int) -> Stamp:
    """The stamp of a file that was read up to ``stat.size``."""
    guard = _checksum(reader, stat.size) if stat.size >= SMALLEST_GROWN_BYTES else None
    return Stamp(stat.inode, stat.device, stat.size, stat.mtime_ns, stat.ctime_ns, read_ns, guard)


def _checksum(reader: SessionStorageReader, end: int) -> int:
    head = zlib.crc32(reader.read_at(0, _HEAD_BYTES))
    tail = zlib.crc32(reader.read_at(max(0, end - _TAIL_BYTES), min(_TAIL_BYTES, end)))
    return head << 32 | tail
