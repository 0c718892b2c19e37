"""Summarize session files, caching the summaries so that only changed files are read again.

A lookup passes through three layers: this process's memory, one SQLite file for each user, and the
session files. The first two are caches. They answer for a file only while its stamp is valid (see
``freshness``), so the result always equals that of a full scan, and losing them costs only time. A
file that has only grown is read from its old end. Two processes may write the SQLite file at once:
each row stands alone and carries its stamp, so the last writer wins without harm. Storages other
than the file system are scanned each time, since their clocks and inodes prove nothing across
processes.

Sessions of other agents are catalogued like those of pi's family, through their adapters (see
``discovery.adapters``). A second table holds what only growth and ``usage`` need: the answers that
were paid for, and the adapter's state at the file's end.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from sessiontree.discovery.catalogue import freshness
from sessiontree.discovery.catalogue.answers import Answers, Reading
from sessiontree.discovery.catalogue.summary import Summary, read_summary
from sessiontree.discovery.kept import open_session
from sessiontree.model import codec
from sessiontree.storage import sqlite
from sessiontree.storage.base import UNKNOWN_SIZE, FileStat, SessionStorage, SessionStorageReader
from sessiontree.storage.file import FileSessionStorage

if TYPE_CHECKING:
    from sessiontree.discovery.adapters.base import AgentAdapter

OnProgress = Callable[[int, int], object]

SCHEMA = sqlite.Schema(
    "catalogue",
    5,
    tuple(
        f"CREATE TABLE {table} ("
        "folder BLOB NOT NULL, name BLOB NOT NULL, data BLOB NOT NULL, "
        "PRIMARY KEY (folder, name)) WITHOUT ROWID"
        for table in ("files", "details", "databases")
    ),
    is_self_checking=True,
)
# Few files are looked up one by one; more, by reading their folders' rows in one go.
_FEW = 32
_MAX_REMEMBERED = 50_000


class _Row(msgspec.Struct, array_like=True, frozen=True, gc=False):
    stamp: freshness.Stamp
    summary: Summary


class _Detail(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What only growth and ``usage`` need; it is as old as its own stamp."""

    stamp: freshness.Stamp
    answers: Answers | None
    state: bytes = b""


class _PackedDetail(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The same, with its answers still packed."""

    stamp: freshness.Stamp
    answers: msgspec.Raw
    state: bytes = b""


class _Models(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The beginning of ``Answers``: decoding skips the rest."""

    models: list[str]


class PaidAnswers(Mapping[str, Answers]):
    """The paid calls of many files, by path.

    Those of 5,000 sessions are some hundred thousand objects, so they stay packed: each file's are
    unpacked when they are asked for.
    """

    def __init__(self, read: Callable[[str], Answers]) -> None:
        self._read = read
        self._held: dict[str, msgspec.Raw | Answers] = {}

    def put(self, path: str, answers: msgspec.Raw | Answers) -> None:
        """Add a file's."""
        self._held[path] = answers

    def models(self, path: str) -> Sequence[str]:
        """The models that were paid in a file, without its calls; none of an unknown file."""
        held = self._held.get(path)
        if held is None or isinstance(held, Answers):
            return held.models if held is not None else ()
        try:
            return _decode_models(held).models
        except msgspec.MsgspecError:
            return self[path].models

    def __getitem__(self, path: str) -> Answers:
        held = self._held[path]
        if isinstance(held, Answers):
            return held
        try:
            return _decode_answers(held)
        except msgspec.MsgspecError:  # damaged in the database
            return self._read(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


class Unreadable(msgspec.Struct, frozen=True):
    """A session file that could not be read, and why."""

    path: str
    reason: str


class Survey(msgspec.Struct):
    """Summaries of files, each with the file's stat when it was read."""

    found: list[tuple[FileStat, Summary]] = msgspec.field(default_factory=list)
    unreadable: list[Unreadable] = msgspec.field(default_factory=list)


_ReadFile = tuple[FileStat, _Row, _Detail | None]
_encode_row = msgspec.msgpack.Encoder().encode
_decode_file = msgspec.msgpack.Decoder(_ReadFile).decode
_decode_packed_file = msgspec.msgpack.Decoder(tuple[FileStat, _Row, msgspec.Raw]).decode
_decode_row = msgspec.msgpack.Decoder(_Row).decode
_decode_detail = msgspec.msgpack.Decoder(_Detail).decode
_decode_packed = msgspec.msgpack.Decoder(_PackedDetail).decode
_decode_answers = msgspec.msgpack.Decoder(Answers).decode
_decode_models = msgspec.msgpack.Decoder(_Models).decode
_Loaded = TypeVar("_Loaded")
_memory: dict[str, _Row] = {}
_memory_lock = threading.Lock()


def survey(
    files: Sequence[FileStat],
    storage: SessionStorage,
    on_progress: OnProgress | None = None,
    *,
    is_complete: bool = True,
    adapter: AgentAdapter | None = None,
) -> Survey:
    """Summarize these files, reading only what has changed; ``adapter`` reads another agent's.

    With ``is_complete``, ``files`` are all session files of their folders, and the catalogue
    drops rows of any others. A file that vanished meanwhile is left out; one that can't be
    read is reported.
    """
    made = Survey()
    is_cached = isinstance(storage, FileSessionStorage)
    known = _recall(files) if is_cached else {}
    changed: dict[str, _Row] = {}
    details: dict[str, _Detail] = {}
    unknown = [stat for stat in files if stat.path not in known] if is_cached else []
    try:
        with contextlib.closing(_read_at_once(unknown, adapter)) as answers:
            for done, stat in enumerate(files, 1):
                row = known.get(stat.path)
                answer = next(answers) if is_cached and row is None else None
                if row is not None and row.stamp.holds_for(stat):
                    made.found.append((_sized(stat, row.stamp), row.summary))
                else:
                    read = _decode_file(answer) if answer else None
                    _read_into(made, changed, details, stat, read, storage, row, adapter)
                if on_progress is not None:
                    on_progress(done, len(files))
    except BaseException:  # someone stopped it: what was read need not be read again
        if is_cached and changed:
            _store(changed, [], details)
        raise
    if is_cached:
        _remember(files, known, changed, details, is_complete)
    return made


def survey_answers(
    files: Sequence[FileStat],
    storage: SessionStorage,
    adapter: AgentAdapter,
    on_progress: OnProgress | None = None,
) -> PaidAnswers:
    """Return what the answers in these files used, reading only what has changed.

    A file that vanished or can't be read is left out.
    """

    def read(path: str) -> Answers:
        try:
            return _read_answers(path, storage, adapter, None).answers or Answers()
        except OSError:
            return Answers()

    found = PaidAnswers(read)
    is_cached = isinstance(storage, FileSessionStorage)
    paths = [stat.path for stat in files]
    known = _load_from("details", paths, _to_packed) if is_cached else {}
    changed: dict[str, _Detail] = {}
    for done, stat in enumerate(files, 1):
        packed = known.pop(stat.path, None)
        if packed is None or not _has_answers(packed) or not packed.stamp.holds_for(stat):
            before = _load_details([stat.path]).get(stat.path) if packed is not None else None
            try:
                detail = _read_answers(stat.path, storage, adapter, before)
            except OSError:
                continue
            changed[stat.path] = detail
            assert detail.answers is not None
            found.put(stat.path, detail.answers)
        else:
            assert packed.answers is not None
            found.put(stat.path, packed.answers)
        if on_progress is not None:
            on_progress(done, len(files))
    if is_cached and changed:
        _store({}, [], changed)
    return found


def _has_answers(packed: _PackedDetail | _Detail) -> bool:
    if isinstance(packed, _Detail):
        return packed.answers is not None
    return not _is_nil(packed.answers)


def _is_nil(packed: msgspec.Raw) -> bool:
    return memoryview(packed).nbytes == 1  # whatever else there is takes more


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


def _sized(stat: FileStat, stamp: freshness.Stamp) -> FileStat:
    """The stat with the size that reading has told, if the listing did not know it."""
    if stat.size != UNKNOWN_SIZE:
        return stat
    return msgspec.structs.replace(stat, size=stamp.size)


def _read_into(
    made: Survey,
    changed: dict[str, _Row],
    details: dict[str, _Detail],
    stat: FileStat,
    read: _ReadFile | None,
    storage: SessionStorage,
    row: _Row | None,
    adapter: AgentAdapter | None,
) -> None:
    try:
        fresh_stat, fresh, detail = read or _read_file(stat.path, storage, row, adapter)
    except FileNotFoundError:
        return
    except OSError as error:
        made.unreadable.append(Unreadable(stat.path, error.strerror or str(error)))
        return
    made.found.append((fresh_stat, fresh.summary))
    changed[stat.path] = fresh
    if detail is not None:
        details[stat.path] = detail


def _read_file(
    path: str, storage: SessionStorage, row: _Row | None, adapter: AgentAdapter | None
) -> _ReadFile:
    read_ns = freshness.read_clock_ns()
    reader = open_session(adapter, path, storage)
    try:
        stat = reader.stat()
        known = None
        if row is not None and row.summary.can_go_on and _goes_on(row.stamp, stat, reader):
            known = row
        if adapter is None or adapter.is_own:
            summary = read_summary(reader, stat.size, known.summary if known is not None else None)
            return stat, _Row(freshness.make_stamp(reader, stat, read_ns), summary), None
        before = _recall_reading(path, known) if adapter.can_read_on else None
        reading = adapter.read(reader, path, stat.size, before)
        return _to_read_file(reader, stat, read_ns, reading)
    finally:
        reader.close()


def _read_at_once(
    files: Sequence[FileStat], adapter: AgentAdapter | None
) -> Generator[bytes | None, None, None]:
    """Read new files in several processes, if they are much; None for those that are left."""
    if not files:
        return
    from sessiontree.discovery.workers import Job, work_at_once

    jobs = [Job(adapter, stat) for stat in files]
    yield from work_at_once("sessiontree.discovery.catalogue:read_encoded", jobs)


def read_encoded(agent: str, path: str) -> bytes:
    """Read a file in a worker. Raises OSError, and UnicodeEncodeError for half an emoji."""
    from sessiontree.discovery.adapters import get_adapter

    return _encode_row(_read_file(path, FileSessionStorage(), None, get_adapter(agent)))


def encode_reading(
    reader: SessionStorageReader, stat: FileStat, read_ns: int, reading: Reading
) -> bytes:
    """Encode the reading of a whole file, as ``read_encoded`` returns it. Raises
    UnicodeEncodeError."""
    return _encode_row(_to_read_file(reader, stat, read_ns, reading))


def _to_read_file(
    reader: SessionStorageReader, stat: FileStat, read_ns: int, reading: Reading
) -> _ReadFile:
    stamp = freshness.make_stamp(reader, stat, read_ns)
    detail = _Detail(stamp, reading.answers, reading.state)
    return stat, _Row(stamp, reading.summary), detail


def take_over(answers: Iterable[bytes]) -> None:
    """Remember what ``read_encoded`` read in a worker."""
    read = [_decode_packed_file(answer) for answer in answers]
    if not read:
        return
    changed = {stat.path: row for stat, row, _ in read}
    # A detail is stored as it came: half of a session's bytes need not become objects here.
    details = {stat.path: detail for stat, _, detail in read if not _is_nil(detail)}
    _remember([stat for stat, _, _ in read], {}, changed, details, is_complete=False)


def _goes_on(stamp: freshness.Stamp, stat: FileStat, reader: SessionStorageReader) -> bool:
    """Whether a file has only grown since."""
    return stamp.may_have_grown_to(stat) and stamp.is_beginning_of(reader)


def _recall_reading(path: str, row: _Row | None) -> Reading | None:
    """The whole reading of which a row is a part, if it is still known."""
    detail = _load_details([path]).get(path) if row is not None else None
    if row is None or detail is None or detail.stamp != row.stamp:
        return None
    return Reading(row.summary, detail.answers, detail.state)


def _read_answers(
    path: str, storage: SessionStorage, adapter: AgentAdapter, known: _Detail | None
) -> _Detail:
    """Raises OSError."""
    if not adapter.is_own:
        _, _, detail = _read_file(path, storage, None, adapter)
        assert detail is not None
        return detail if detail.answers is not None else _Detail(detail.stamp, Answers())
    read_ns = freshness.read_clock_ns()
    reader = open_session(adapter, path, storage)
    try:
        stat = reader.stat()
        before, start = None, 0
        # The state says whether the last line was whole.
        if known is not None and known.state and _goes_on(known.stamp, stat, reader):
            before, start = known.answers, known.stamp.size
        answers = adapter.read_answers(reader, path, stat.size, before, start)
        is_whole = stat.size == 0 or reader.read_at(stat.size - 1, 1) == b"\n"
        stamp = freshness.make_stamp(reader, stat, read_ns)
        return _Detail(stamp, answers, b"\n" if is_whole else b"")
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
    return _load_from("files", paths, _to_row)


def _load_details(paths: list[str]) -> dict[str, _Detail]:
    return _load_from("details", paths, _to_detail)


def _to_packed(stored: object) -> _PackedDetail | _Detail:
    """Raises as ``_to_row`` does."""
    data = sqlite.unseal(stored)
    return _to_detail(stored) if data[:1] == b"[" else _decode_packed(data)


def _load_from(
    table: str, paths: list[str], decode: Callable[[object], _Loaded]
) -> dict[str, _Loaded]:
    rows: dict[str, _Loaded] = {}
    with sqlite.open_database(SCHEMA) as database:
        if database is None:
            return rows
        try:
            for folder, found in _select(database, table, paths):
                prefix = os.path.join(folder, "")
                for name, data in found:
                    try:
                        row = decode(data)
                    except (msgspec.MsgspecError, sqlite.DamagedRowError, ValueError):
                        continue
                    if isinstance(name, bytes):  # of any type in a damaged file
                        rows[prefix + os.fsdecode(name)] = row
        except sqlite.FAILURES as error:
            if sqlite.is_corruption(error):
                sqlite.discard(SCHEMA)
    return rows


def _select(
    database: sqlite3.Connection, table: str, paths: list[str]
) -> Iterator[tuple[str, Iterable[tuple[bytes, bytes]]]]:
    """Select rows by folder: at least those of the files asked for."""
    if len(paths) <= _FEW:
        for path in paths:
            yield (
                os.path.dirname(path),
                database.execute(
                    f"SELECT name, data FROM {table} WHERE folder = ? AND name = ?",
                    sqlite.file_key(path),
                ),
            )
        return
    for folder in {path[: path.rfind(os.sep)] for path in paths}:
        yield (
            folder,
            database.execute(
                f"SELECT name, data FROM {table} WHERE folder = ?", (os.fsencode(folder),)
            ),
        )


def _remember(
    files: Sequence[FileStat],
    known: dict[str, _Row],
    changed: dict[str, _Row],
    details: Mapping[str, _Detail | msgspec.Raw],
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
        _store(changed, gone, details)


def _store(
    changed: dict[str, _Row],
    gone: list[str],
    details: Mapping[str, _Detail | msgspec.Raw] | None = None,
) -> None:
    """Write rows in one short transaction; after a failure the next listing reads more files."""
    with sqlite.open_database(SCHEMA) as database:
        if database is None:
            return
        try:
            database.execute("BEGIN IMMEDIATE")
            for table, rows in (("files", changed), ("details", details or {})):
                database.executemany(
                    f"INSERT INTO {table} VALUES (?, ?, ?)"
                    " ON CONFLICT (folder, name) DO UPDATE SET data = excluded.data",
                    [(*sqlite.file_key(path), _to_data(row)) for path, row in rows.items()],
                )
                database.executemany(
                    f"DELETE FROM {table} WHERE folder = ? AND name = ?",
                    [sqlite.file_key(path) for path in gone],
                )
            database.execute("COMMIT")
        except sqlite.FAILURES as error:
            if sqlite.is_corruption(error):
                sqlite.discard(SCHEMA)


def _to_data(row: _Row | _Detail | msgspec.Raw) -> bytes:
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


def _to_detail(stored: object) -> _Detail:
    """Raises as ``_to_row`` does."""
    data = sqlite.unseal(stored)
    if data[:1] == b"[":
        return msgspec.convert(codec.decode(data), _Detail)
    return _decode_detail(data)
