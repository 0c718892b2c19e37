"""Summarize session files, caching the summaries so that only changed files are read again.

A lookup passes through three layers: this process's memory, one SQLite file for each user, and the
session files. The first two are caches. They answer for a file only while its stamp is valid (see
``freshness``), so the result always equals that of a full scan, and losing them costs only time. A
file that has only grown is read from its old end. Two processes may write the SQLite file at once:
each row stands alone and carries its stamp, so the last writer wins without harm. Storages other
than the file system are scanned each time, since their clocks and inodes prove nothing across
processes.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from sessiontree.discovery.catalogue import freshness
from sessiontree.discovery.catalogue.summary import Summary, read_summary
from sessiontree.model import codec
from sessiontree.storage import sqlite
from sessiontree.storage.base import FileStat, SessionStorage
from sessiontree.storage.file import FileSessionStorage

OnProgress = Callable[[int, int], object]

SCHEMA = sqlite.Schema(
    "catalogue",
    2,
    (
        (
            "CREATE TABLE files ("
            "folder BLOB NOT NULL, name BLOB NOT NULL, data BLOB NOT NULL, "
            "PRIMARY KEY (folder, name)) WITHOUT ROWID"
        ),
    ),
    is_self_checking=True,
)
# Few files are looked up one by one; more, by reading their folders' rows in one go.
_FEW = 32
_MAX_REMEMBERED = 50_000


class _Row(msgspec.Struct, array_like=True, frozen=True, gc=False):
    stamp: freshness.Stamp
    summary: Summary


class Unreadable(msgspec.Struct, frozen=True):
    """A session file that could not be read, and why."""

    path: str
    reason: str


class Survey(msgspec.Struct):
    """Summaries of files, each with the file's stat when it was read."""

    found: list[tuple[FileStat, Summary]] = msgspec.field(default_factory=list)
    unreadable: list[Unreadable] = msgspec.field(default_factory=list)


_encode_row = msgspec.msgpack.Encoder().encode
_decode_row = msgspec.msgpack.Decoder(_Row).decode
_memory: dict[str, _Row] = {}
_memory_lock = threading.Lock()


def survey(
    files: Sequence[FileStat],
    storage: SessionStorage,
    on_progress: OnProgress | None = None,
    *,
    is_complete: bool = True,
) -> Survey:
    """Summarize these files, reading only what has changed.

    With ``is_complete``, ``files`` are all session files of their folders, and the catalogue
    drops rows of any others. A file that vanished meanwhile is left out; one that can't be
    read is reported.
    """
    made = Survey()
    is_cached = isinstance(storage, FileSessionStorage)
    known = _recall(files) if is_cached else {}
    changed: dict[str, _Row] = {}
    for done, stat in enumerate(files, 1):
        row = known.get(stat.path)
        if row is not None and row.stamp.holds_for(stat):
            made.found.append((stat, row.summary))
        else:
            _read_into(made, changed, stat, storage, row)
        if on_progress is not None:
            on_progress(done, len(files))
    if is_cached:
        _remember(files, known, changed, is_complete)
    return made


def recall(files: Sequence[FileStat], storage: SessionStorage) -> dict[str, Summary]:
    """Return the valid cached summaries of these files by path, without reading a file."""
    if not isinstance(storage, FileSessionStorage):
        return {}
    known = _recall(files)
    return {
        stat.path: row.summary
        for stat in files
        if (row := known.get(stat.path)) is not None and row.stamp.holds_for(stat)
    }


def forget(path: str) -> None:
    """Drop the cached summary of a removed file."""
    with _memory_lock:
        _memory.pop(path, None)
    _store({}, [path])


def forget_process_memory() -> None:
    """Clear this process's memory cache (the SQLite file stays)."""
    with _memory_lock:
        _memory.clear()


def _read_into(
    made: Survey,
    changed: dict[str, _Row],
    stat: FileStat,
    storage: SessionStorage,
    row: _Row | None,
) -> None:
    try:
        fresh_stat, fresh = _read_file(stat.path, storage, row)
    except FileNotFoundError:
        return
    except OSError as error:
        made.unreadable.append(Unreadable(stat.path, error.strerror or str(error)))
        return
    made.found.append((fresh_stat, fresh.summary))
    changed[stat.path] = fresh


def _read_file(path: str, storage: SessionStorage, row: _Row | None) -> tuple[FileStat, _Row]:
    read_ns = freshness.read_clock_ns()
    reader = storage.open_reader(path)
    try:
        stat = reader.stat()
        known = None
        if row is not None and row.summary.can_go_on and row.stamp.may_have_grown_to(stat):
            known = row.summary if row.stamp.is_beginning_of(reader) else None
        summary = read_summary(reader, stat.size, known)
        return stat, _Row(freshness.make_stamp(reader, stat, read_ns), summary)
    finally:
        reader.close()


def _recall(files: Sequence[FileStat]) -> dict[str, _Row]:
    """Look these files up in memory, then in the database."""
    with _memory_lock:
        known = {stat.path: row for stat in files if (row := _memory.get(stat.path)) is not None}
    missing = [
        stat.path
        for stat in files
        if (row := known.get(stat.path)) is None or not row.stamp.holds_for(stat)
    ]
    if missing:
        for path, row in _load(missing).items():
            remembered = known.get(path)
            if remembered is None or remembered.stamp.read_ns < row.stamp.read_ns:
                known[path] = row
    return known


def _load(paths: list[str]) -> dict[str, _Row]:
    rows: dict[str, _Row] = {}
    with sqlite.open_database(SCHEMA) as database:
        if database is None:
            return rows
        try:
            for folder, found in _select(database, paths):
                prefix = os.path.join(folder, "")
                for name, data in found:
                    try:
                        row = _to_row(data)
                    except (msgspec.MsgspecError, sqlite.DamagedRowError, ValueError):
                        continue
                    if isinstance(name, bytes):  # of any type in a damaged file
                        rows[prefix + os.fsdecode(name)] = row
        except sqlite.FAILURES as error:
            if sqlite.is_corruption(error):
                sqlite.discard(SCHEMA)
    return rows


def _select(
    database: sqlite3.Connection, paths: list[str]
) -> Iterator[tuple[str, Iterable[tuple[bytes, bytes]]]]:
    """Select rows by folder: at least those of the files asked for."""
    if len(paths) <= _FEW:
        for path in paths:
            yield (
                os.path.dirname(path),
                database.execute(
                    "SELECT name, data FROM files WHERE folder = ? AND name = ?",
                    sqlite.file_key(path),
                ),
            )
        return
    for folder in {path[: path.rfind(os.sep)] for path in paths}:
        yield (
            folder,
            database.execute(
                "SELECT name, data FROM files WHERE folder = ?", (os.fsencode(folder),)
            ),
        )


def _remember(
    files: Sequence[FileStat],
    known: dict[str, _Row],
    changed: dict[str, _Row],
    is_complete: bool,
) -> None:
    present = {stat.path for stat in files}
    gone = [path for path in known if path not in present] if is_complete else []
    with _memory_lock:
        if len(_memory) > _MAX_REMEMBERED:
            _memory.clear()
        for path in present:
            row = changed.get(path) or known.get(path)
            if row is not None:
                _memory[path] = row
        for path in gone:
            _memory.pop(path, None)
    if changed or gone:
        _store(changed, gone)


def _store(changed: dict[str, _Row], gone: list[str]) -> None:
    """Write rows in one short transaction; after a failure the next listing reads more files."""
    with sqlite.open_database(SCHEMA) as database:
        if database is None:
            return
        try:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(
                "INSERT INTO files VALUES (?, ?, ?)"
                " ON CONFLICT (folder, name) DO UPDATE SET data = excluded.data",
                [(*sqlite.file_key(path), _to_data(row)) for path, row in changed.items()],
            )
            database.executemany(
                "DELETE FROM files WHERE folder = ? AND name = ?",
                [sqlite.file_key(path) for path in gone],
            )
            database.execute("COMMIT")
        except sqlite.FAILURES as error:
            if sqlite.is_corruption(error):
                sqlite.discard(SCHEMA)


def _to_data(row: _Row) -> bytes:
    try:
        data = _encode_row(row)
    except UnicodeEncodeError:  # half an emoji in a title; JSON can spell it, msgpack can not
        data = codec.encode(msgspec.to_builtins(row))
    return sqlite.seal(data)


def _to_row(stored: object) -> _Row:
    """Decode a row. Raises DamagedRowError, ValueError or MsgspecError for an invalid one."""
    data = sqlite.unseal(stored)
    if data[:1] == b"[":
        return msgspec.convert(codec.decode(data), _Row)
    return _decode_row(data)
