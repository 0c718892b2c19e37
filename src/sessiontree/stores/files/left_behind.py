"""A file that has lost its name to another, and to which other programs may still be writing.

A rewrite writes a new file and gives it the name of the old one. Other programs are not asked:

- One that opens the file by its name for each line (pi) may have opened the old one just before.
- One that keeps it open (omp, another window of ours) looks at the name before it writes, with a
  lock that the rewrite held. Others may not look, and go on writing to the old file.

So the old file is kept open and read once more: right after the rewrite, before each operation that
follows, and when the session is closed. Whole lines that have come are written to the file that has
the name now. Their ids and parents stay; where they stand among the others says nothing.

On Linux the kernel tells when no process can write to the old file any more; then it is closed.
Elsewhere that is so after a moment, by experience. What is written later than that, or to a file
whose reader was killed before it looked, is lost with the file.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from sessiontree.storage.base import SessionStorage, SessionStorageReader, read_chunks
from sessiontree.stores.files.moved_file import without_notes

PATIENCE_S = 0.015
"""Seconds that a rewrite waits for a line that is just being written."""
_KEPT_S = 2.0
_FILES_AT_MOST = 8


class OldFiles:
    """The files that were replaced while a session was open here, oldest first."""

    def __init__(self) -> None:
        self.files: list[LeftBehind] = []

    def add(self, old: LeftBehind, used: SessionStorageReader | None) -> None:
        """Read this one, too, from now on; if there are too many, drop the oldest."""
        old.note_replaced()
        self.files.append(old)
        if len(self.files) > _FILES_AT_MOST:
            self._let_go_of(self.files[0], used)

    def holds(self, reader: SessionStorageReader) -> bool:
        """Whether this open file is still needed."""
        return any(old.reader is reader for old in self.files)

    def read_lines(self) -> list[bytes]:
        """The lines that came since the last ``take``, without their ends."""
        return [line for old in self.files for line in old.read().split(b"\n") if line.strip()]

    def take(self) -> None:
        """Note that the lines read last are in their new place."""
        for old in self.files:
            old.take()

    def have_more(self, used: SessionStorageReader | None) -> bool:
        """Whether there are lines to read; closes each file that no process can write to."""
        for old in list(self.files):
            is_over = old.is_over()  # before it is read: nothing comes after that
            if old.read():
                return True
            if is_over:
                self._let_go_of(old, used)
        return False

    def wait_s(self) -> float:
        """The time that is still worth waiting for a line that is just being written."""
        return max((old.wait_s() for old in self.files), default=0.0)

    def close(self, used: SessionStorageReader | None) -> None:
        """Close all of them except the file in use."""
        for old in list(self.files):
            self._let_go_of(old, used)

    def _let_go_of(self, old: LeftBehind, used: SessionStorageReader | None) -> None:
        self.files.remove(old)
        if old.reader is not used:
            old.reader.close()


class LeftBehind:
    """The old file, and how far it has been taken over: at first, what was read of it."""

    def __init__(self, reader: SessionStorageReader, end: int) -> None:
        self.reader = reader
        self.end = end
        """The end of what was read before other programs wrote to it."""
        self._since = 0.0
        # a program that continues the last line makes another line of it
        start = _start_of_line(reader, end)
        self._end = self._taken = start
        self._skip = reader.read_at(start, end - start)

    def note_replaced(self) -> None:
        """Note that from now on its name stands for another file."""
        self._since = time.monotonic()

    def read(self) -> bytes:
        """The whole lines that came since the last ``take``."""
        size = self.reader.stat().size
        if size <= self._end:
            return b""
        data = b"".join(read_chunks(self.reader, self._end, size))
        whole = data[: data.rfind(b"\n") + 1]
        self._taken = self._end + len(whole)
        if self._skip and whole.startswith(self._skip + b"\n"):
            whole = whole[len(self._skip) + 1 :]  # the line was ended, as the rewrite has done
        return without_notes(whole)

    def take(self) -> None:
        """Note that the lines read last are in their new place."""
        if self._taken > self._end:
            self._end = self._taken
            self._skip = b""

    def wait_s(self) -> float:
        """The time that is still worth waiting for a line that is just being written."""
        return max(0.0, self._since + PATIENCE_S - time.monotonic())

    def is_over(self) -> bool:
        """Whether no process writes to it any more. Ask before the last ``read``."""
        ask = getattr(self.reader, "has_writers", None)
        answer = ask() if ask is not None else None
        if answer is None:
            return time.monotonic() - self._since > _KEPT_S
        return not answer


def append_lines(
    storage: SessionStorage, path: str, old: LeftBehind, known: Collection[bytes] = ()
) -> bool:
    """Write what came to the old file to the one at ``path``; return whether anything had. OSError.

    Lines that are ``known`` are there already.
    """
    lines = old.read()
    if known:
        new = (line for line in lines.split(b"\n") if line and line not in known)
        lines = b"".join(line + b"\n" for line in new)
    if lines:
        writer = storage.open_writer(path, create=False)
        try:
            writer.lock()
            writer.write_line(lines)
        finally:
            writer.close()
    old.take()
    return bool(lines)


def gather(
    storage: SessionStorage, path: str, old: LeftBehind, known: Collection[bytes] = ()
) -> None:
    """Bring late lines over, for as long as it is worth waiting for one. OSError."""
    old.note_replaced()
    while True:
        is_over = old.is_over()  # before it is read: nothing comes after that
        append_lines(storage, path, old, known)
        if is_over or not old.wait_s():
            return
        time.sleep(0.001)


def _start_of_line(reader: SessionStorageReader, end: int) -> int:
    """Where the line begins that ``end`` is in; ``end`` itself if it is behind a newline."""
    size = 4096
    while size < end:
        found = reader.read_at(end - size, size).rfind(b"\n")
        if found >= 0:
            return end - size + found + 1
        size *= 4
    return reader.read_at(0, end).rfind(b"\n") + 1
