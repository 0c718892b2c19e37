"""What bounds us from below: the same bytes with nothing done to them, or nearly nothing.

``python -m benchmarks.floors OP FILE`` prints ``{ms, hwm_kb, info}`` like the other drivers.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

CHUNK = 1 << 16


class Envelope(msgspec.Struct):
    """The fields that place an entry in the tree; the rest is only checked to be JSON."""

    type: str
    id: str
    parentId: str | None = None  # noqa: N815


def read(file: Path) -> int:
    """Read the file in 64 KB pieces, as the loader does."""
    total = 0
    with file.open("rb", buffering=0) as source:
        while chunk := source.read(CHUNK):
            total += len(chunk)
    return total


def find_lines(file: Path) -> int:
    """Read it and find every newline."""
    total = 0
    with file.open("rb", buffering=0) as source:
        while chunk := source.read(CHUNK):
            total += chunk.count(b"\n")
    return total


def check_json(file: Path) -> int:
    """Let msgspec walk every line and keep three fields: a parse that builds almost nothing."""
    decode = msgspec.json.Decoder(Envelope).decode
    return len([None for line in _lines(file) if decode(line).id])


def build_objects(file: Path) -> int:
    """Let msgspec build every object of every line."""
    decode = msgspec.json.Decoder().decode
    kept = [decode(line) for line in _lines(file)]
    return len(kept)


def copy(file: Path) -> int:
    """Copy the file inside the kernel, as a fork could at best."""
    with tempfile.NamedTemporaryFile(dir=file.parent) as target, file.open("rb") as source:
        size = os.fstat(source.fileno()).st_size
        done = 0
        while done < size:
            done += os.sendfile(target.fileno(), source.fileno(), done, size - done)
        return done


def append_lines(file: Path) -> int:
    """One write() for each line of the file into a new file."""
    lines = list(_lines(file))
    with tempfile.TemporaryFile(dir=file.parent, buffering=0) as out:
        for line in lines:
            out.write(line)
    return len(lines)


def append_synced(file: Path) -> int:
    """One write() and one fdatasync() for each line."""
    lines = list(_lines(file))
    with tempfile.TemporaryFile(dir=file.parent, buffering=0) as out:
        for line in lines:
            out.write(line)
            os.fdatasync(out.fileno())
    return len(lines)


def insert_synced(file: Path) -> int:
    """One committed SQLite INSERT (WAL, synchronous=FULL) for each line."""
    lines = list(_lines(file))
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        database = sqlite3.connect(Path(folder, "floor.db"), isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE entry (id INTEGER PRIMARY KEY, line BLOB)")
        for line in lines:
            database.execute("INSERT INTO entry (line) VALUES (?)", (line,))
        database.close()
    return len(lines)


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as source:
        yield from source


OPS: dict[str, Callable[[Path], int]] = {
    "read": read,
    "find_lines": find_lines,
    "check_json": check_json,
    "build_objects": build_objects,
    "copy": copy,
    "append_lines": append_lines,
    "append_synced": append_synced,
    "insert_synced": insert_synced,
}


def main() -> None:
    op, given = sys.argv[1:3]
    file = Path(json.loads(given)["file"])
    started = time.perf_counter()
    seen = OPS[op](file)
    elapsed_ms = (time.perf_counter() - started) * 1_000
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    print(json.dumps({"ms": elapsed_ms, "hwm_kb": int(peak), "info": {"seen": seen}}))


if __name__ == "__main__":
    main()
