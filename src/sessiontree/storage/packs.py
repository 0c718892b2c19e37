"""Keep pieces of content in append-only files, each piece once.

A folder has numbered packs. A pack is a sequence of records, each a header and a compressed
payload:

==========  =====  ==============================================
bytes       what   meaning
==========  =====  ==============================================
0 to 3      magic  ``STK1``
4           kind   ``c`` a chunk of content, ``m`` a manifest
5 to 36     hash   SHA-256 of the payload before compression
37 to 40    size   of the payload before compression, big endian
41 to 44    size   of the compressed payload
45 to 48    check  CRC-32 of the 45 bytes before
49 on       data   the payload, compressed by zlib
==========  =====  ==============================================

**Crashes.** A manifest names chunks. It is written after them, once they are synced, and into the
same pack, so a manifest proves what stands before it. What follows the last sound manifest of a
pack is what a crash left (or a writer is writing): it is never read, and the next writer cuts it
off. So the packs alone are the truth, and an index of them can be built again at any time.

**Several processes.** One process writes at a time, under the folder's lock. Readers take no lock:
what they can read is never changed. A pack that was rewritten without dead records gets a new
number, and the old one is removed; a reader that misses it asks the index again.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import zlib
from collections.abc import Iterator

import msgspec

from sessiontree.errors import PersistenceError
from sessiontree.model.ids import sha256
from sessiontree.storage import locks
from sessiontree.storage.atomic import write_all
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.handles import Handle
from sessiontree.storage.regular import NOFOLLOW, NONBLOCK, open_to_read

CHUNK, MANIFEST = b"c", b"m"
_MAGIC = b"STK1"
_HEAD = struct.Struct(">4sc32sII")
_CHECK = struct.Struct(">I")
HEAD_BYTES = _HEAD.size + _CHECK.size
_NAME = re.compile(r"(\d{8})\.pack")
_LARGEST_PACK = 256 << 20
_LARGEST_PAYLOAD = 64 << 20
_LEVEL = 6
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | NONBLOCK | NOFOLLOW


class DamagedPackError(OSError):
    """A record differs from what was written."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """The place of one record: its pack's number, its place there, and the sizes of its payload."""

    kind: bytes
    digest: bytes
    pack: int
    at: int
    size: int
    stored: int

    @property
    def end(self) -> int:
        return self.at + HEAD_BYTES + self.stored


class PackFolder:
    """The packs of one folder. Raises OSError."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, no: int) -> str:
        return os.path.join(self.folder, f"{no:08d}.pack")

    def sizes(self) -> dict[int, int]:
        """The size of each pack; none if the folder doesn't exist."""
        found = {}
        try:
            with os.scandir(self.folder) as listing:
                for item in listing:
                    name = _NAME.fullmatch(item.name)
                    if name is not None and item.is_file(follow_symlinks=False):
                        found[int(name[1])] = item.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            return {}
        return dict(sorted(found.items()))

    def scan(self, no: int, start: int = 0) -> Iterator[Record]:
        """Yield the records of a pack, from one's beginning on, up to the first that is not whole.

        Payloads are not read: a header's checksum and the file's size tell that one is there.
        """
        with open_to_read(self.path(no)).to_file() as file:
            size = os.fstat(file.fileno()).st_size
            at = start
            while at + HEAD_BYTES <= size:
                file.seek(at)
                record = _parse(file.read(HEAD_BYTES), no, at)
                if record is None or record.end > size:
                    return
                yield record
                at = record.end

    def read(self, record: Record) -> bytes:
        """The payload of a record. Raises DamagedPackError if it is not what was written."""
        with open_to_read(self.path(record.pack)).to_file() as file:
            file.seek(record.at)
            data = file.read(HEAD_BYTES + record.stored)
        found = _parse(data[:HEAD_BYTES], record.pack, record.at)
        if found is None or found.digest != record.digest:
            raise DamagedPackError(f"{self.path(record.pack)}: no such record at {record.at}")
        return self._unpack(data[HEAD_BYTES:], record)

    def _unpack(self, stored: bytes, record: Record) -> bytes:
        inflate = zlib.decompressobj()
        try:
            data = inflate.decompress(stored, record.size + 1)
        except zlib.error:
            data = b""
        if len(data) != record.size or sha256(data) != record.digest:
            raise DamagedPackError(f"{self.path(record.pack)}: damaged at {record.at}")
        return data

    @contextlib.contextmanager
    def locked(self, timeout_s: float) -> Iterator[None]:
        """Be the only writer. Raises SessionBusyError."""
        FileSessionStorage().ensure_dir(self.folder)
        path = os.path.join(self.folder, "lock")
        handle = Handle(path, _APPEND)
        try:
            locks.lock(handle.number, path, timeout_s)
            yield
        finally:
            handle.close()

    def remove(self, no: int) -> None:
        """Remove a pack, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(no))


class PackWriter:
    """Appends records; use it while the folder is ``locked``, and ``close`` it.

    ``ends`` says where the last manifest of each pack ends. ``is_fresh`` begins a new pack.

    Methods raise PersistenceError if the disk refuses. Then nothing may be added any more: of what
    was written last only a part may be there. ``close`` cuts off what was not committed.
    """

    def __init__(self, packs: PackFolder, ends: dict[int, int], *, is_fresh: bool = False) -> None:
        self._packs = packs
        self._ends = dict(ends)
        self._committed = dict(ends)
        self._is_fresh = is_fresh
        self._no = max(ends, default=0)
        self._handle: Handle | None = None
        self._is_new = False
        self.written = 0
        """Bytes that were added."""

    def add(
        self,
        kind: bytes,
        payload: bytes,
        *,
        packed: bytes | None = None,
        digest: bytes | None = None,
    ) -> Record:
        """Append a record; ``packed`` is its payload as ``pack`` made it, ``digest`` its hash."""
        stored = packed if packed is not None else pack(payload)
        if self._handle is None:
            self._begin()
        assert self._handle is not None
        digest = digest if digest is not None else sha256(payload)
        head = _HEAD.pack(_MAGIC, kind, digest, len(payload), len(stored))
        at = self._ends[self._no]
        with self._writing():
            write_all(self._handle.number, head + _CHECK.pack(zlib.crc32(head)) + stored)
        record = Record(kind, digest, self._no, at, len(payload), len(stored))
        self._ends[self._no] = record.end
        self.written += record.end - at
        return record

    @property
    def ends(self) -> dict[int, int]:
        """The end of each pack now."""
        return dict(self._ends)

    def sync(self) -> None:
        """Return when everything is on the medium."""
        if self._handle is not None:
            with self._writing():
                os.fsync(self._handle.number)
                if self._is_new:
                    FileSessionStorage().sync_dir(self._packs.folder)
                    self._is_new = False

    def commit(self) -> None:
        """Sync what ends with manifests; a pack that is full by then gets no more records."""
        self.sync()
        self._committed = dict(self._ends)
        if self._ends.get(self._no, 0) > _LARGEST_PACK:
            self.close()

    def close(self) -> None:
        """Close the file; what was not committed takes no room on the disk."""
        if self._handle is not None:
            with contextlib.suppress(OSError):  # else the next writer does it
                os.ftruncate(self._handle.number, self._committed.get(self._no, 0))
            self._handle.close()
            self._handle = None

    def _begin(self) -> None:
        """Go on at the end of the last pack, or in a new one if that is full."""
        if self._no == 0 or self._is_fresh or self._ends[self._no] > _LARGEST_PACK:
            self._no += 1
            self._is_fresh, self._is_new = False, True
            self._ends[self._no] = 0
        with self._writing():
            self._handle = Handle(self._packs.path(self._no), _APPEND, 0o600)
            # What a crash left behind the last whole record; only one process writes.
            os.ftruncate(self._handle.number, self._ends[self._no])

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise PersistenceError.from_os_error(self._packs.path(self._no), error) from error


def pack(payload: bytes) -> bytes:
    """Compress a payload. Other threads may work meanwhile."""
    return zlib.compress(payload, _LEVEL)


def _parse(head: bytes, no: int, at: int) -> Record | None:
    """The record that this header describes; None if it is damaged."""
    if len(head) != HEAD_BYTES:
        return None
    magic, kind, digest, size, stored = _HEAD.unpack_from(head)
    (check,) = _CHECK.unpack_from(head, _HEAD.size)
    if magic != _MAGIC or zlib.crc32(head[: _HEAD.size]) != check or size > _LARGEST_PAYLOAD:
        return None
    return Record(kind, digest, no, at, size, stored)
