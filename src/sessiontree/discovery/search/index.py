"""Keep the search index: one disposable SQLite file with the words of all sessions.

**Content.** A session's text is cut into segments of about equal size, each a row of an FTS5 table
with the users' words in one column and the model's in the other. The table is contentless: it holds
words and positions, not the text. Each segment has a byte range in its session file, and hits are
read from there. ``names`` keeps the sessions' names in a second table, and ``tools`` what tools
were asked and printed (see ``tool_words``): so a search of messages stays exact and quick.

**Agents.** Every agent's sessions are indexed where they lie, through their adapters (see
``discovery.adapters``). A session's parts are rows of their own; the search joins them.

**Updates.** Each session has a row with a number and a stamp (see ``catalogue.freshness``). If its
file has grown, new segments are added under the same number. If it was rewritten, the session gets
a new number: FTS5 can't delete from a contentless table, so the old segments stay and lead nowhere.
When too many have collected, the file is removed and built again.

**Other processes.** Each batch is one transaction. A process that can't get the write lock skips
its batch; another one has indexed those files, or a later search will. A search reads from one
snapshot, so a session that another process renumbers meanwhile is not lost between two queries.

**Crashes.** A crash loses at most one batch. If the index is damaged, the search removes it and
reads the session files instead.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import lru_cache

import msgspec

from sessiontree.discovery import catalogue
from sessiontree.discovery.catalogue import freshness
from sessiontree.discovery.kept import open_session
from sessiontree.discovery.search import names, tool_words
from sessiontree.discovery.search.query import Term
from sessiontree.discovery.search.segments import (
    MOST_SEGMENTS,
    READ_NEW,
    READ_TEXT,
    SEGMENT_BITS,
    Segment,
    SessionText,
    decode_session,
    read_text,
)
from sessiontree.discovery.search.words import TOKENIZER
from sessiontree.discovery.selection import Selection
from sessiontree.discovery.sources import Source
from sessiontree.discovery.workers import Job, are_shared, work_at_once
from sessiontree.model.ids import digest_quickly
from sessiontree.storage import sqlite
from sessiontree.storage.base import FileStat, SessionStorageReader
from sessiontree.storage.file import FileSessionStorage

_HASH_BYTES = 1 << 22
"""How much FTS5 gathers before it writes: of less, it merges more later."""
SCHEMA = sqlite.Schema(
    "search",
    4,
    (
        (
            "CREATE TABLE sessions (no INTEGER PRIMARY KEY AUTOINCREMENT, folder BLOB NOT NULL, "
            "name BLOB NOT NULL, data BLOB NOT NULL, UNIQUE (folder, name))"
        ),
        "CREATE TABLE folders (folder BLOB PRIMARY KEY, digest BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE dead (segments INTEGER NOT NULL)",
        "INSERT INTO dead VALUES (0)",
        (
            "CREATE VIRTUAL TABLE said USING fts5(user, assistant, content='', "
            f"tokenize={TOKENIZER})"
        ),
        names.TABLE,
        tool_words.TABLE,
        *(
            f"INSERT INTO {table} ({table}, rank) VALUES ('hashsize', {_HASH_BYTES})"
            for table in ("said", "tools")
        ),
    ),
)
_BATCH_CHARS = 1 << 22
_BATCH_SESSIONS = 256
# Obsolete rows cost space and skew the ranking a little: rebuild at a fifth of all rows.
_MOST_DEAD = 1_000
_DEAD_SHARE = 0.2

OnProgress = Callable[[int, int], object]


class IndexRow(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """The index's row of one session file."""

    stamp: freshness.Stamp
    has_final_newline: bool
    segments: list[Segment]


class _Known(msgspec.Struct):
    no: int
    row: IndexRow


class _Reading(msgspec.Struct):
    """A session's new text, ready to write; with a ``base``, the text appended to that."""

    stat: FileStat
    base: _Known | None
    text: SessionText
    row: bytes = b""
    """The catalogue's row of it, if a worker read that, too."""


_encode_row = msgspec.msgpack.Encoder().encode
_decode_row = msgspec.msgpack.Decoder(IndexRow).decode


@contextlib.contextmanager
def open_index(*, is_patient: bool = False) -> Iterator[SearchIndex | None]:
    """Open the index and close it afterwards; None if it can't be opened."""
    with sqlite.open_database(SCHEMA, is_patient=is_patient) as database:
        yield SearchIndex(database) if database is not None else None


class SearchIndex:
    """The open index. Methods raise sqlite.FAILURES; callers answer without it then."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._known: dict[str, _Known] = {}
        self._digests: dict[str, tuple[bytes, int]] = {}
        """The folders that were checked: their digests, and the number of their files."""

    @property
    def connection(self) -> sqlite3.Connection:
        """The open database, for questions about its words."""
        return self._database

    # -- keeping it up to date -------------------------------------------------------------

    def find_stale(self, folders: dict[str, list[FileStat]]) -> list[FileStat]:
        """The files of these folders that the index does not hold as they are, newest first.

        What it holds of files that are gone is dropped on the way.
        """
        stale: list[FileStat] = []
        stored = dict(self._database.execute("SELECT folder, digest FROM folders"))
        for folder, files in folders.items():
            digest = _digest(files)
            if digest is not None and stored.get(os.fsencode(folder)) == digest:
                continue
            known = self._load_folder(folder)
            self._known.update(known)
            stale += [
                stat
                for stat in files
                if (item := known.get(stat.path)) is None or not item.row.stamp.holds_for(stat)
            ]
            gone = set(known).difference(stat.path for stat in files)
            if gone:
                self._forget([known[path] for path in gone])
            if digest is not None:
                self._digests[folder] = (digest, len(files))
        stale.sort(key=lambda stat: stat.mtime_ns, reverse=True)
        return stale

    def update(
        self,
        stale: Sequence[FileStat],
        selection: Selection,
        *,
        deadline: float | None = None,
        should_stop: Callable[[], bool] | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[FileStat]:
        """Index files until done, stopped, or ``deadline`` (monotonic); return the files left.

        Finished batches are kept: each is one transaction.
        """
        left: list[FileStat] = []
        batch: list[_Reading] = []
        chars = 0
        read_names = names.names_reader(selection.source_of)
        with contextlib.closing(self._read_all(stale, selection)) as readings:
            for done, stat in enumerate(stale):
                is_late = deadline is not None and time.monotonic() >= deadline
                if is_late or (should_stop is not None and should_stop()):
                    left += stale[done:]
                    break
                reading = next(readings)
                if reading is None:
                    left.append(stat)
                else:
                    batch.append(reading)
                    chars += sum(text.size for text in reading.text.texts)
                if len(batch) >= _BATCH_SESSIONS or chars >= _BATCH_CHARS:
                    left += self._write(batch, read_names)
                    batch, chars = [], 0
                if on_progress is not None:
                    on_progress(done + 1, len(stale))
        left += self._write(batch, read_names)
        self._seal({os.path.dirname(stat.path) for stat in left})
        return left

    def _read_all(
        self, stale: Sequence[FileStat], selection: Selection
    ) -> Generator[_Reading | None, None, None]:
        """Read these files, many new ones in several processes at once."""
        fresh = [
            Job(selection.adapter_of(stat.path), stat)
            for stat in stale
            if stat.path not in self._known
        ]
        work = READ_NEW if are_shared(fresh) and _are_new(fresh) else READ_TEXT
        with contextlib.closing(work_at_once(work, fresh)) as answers:
            for stat in stale:
                answer = next(answers) if stat.path not in self._known else None
                if answer is None:
                    yield self._read(stat, selection.source_of(stat.path))
                else:
                    read = decode_session(answer) if answer else None
                    yield _Reading(stat, None, read.text, read.row) if read else None

    def _read(self, stat: FileStat, source: Source) -> _Reading | None:
        read_ns = freshness.read_clock_ns()
        try:
            reader = open_session(source.adapter, stat.path, source.storage)
        except OSError:
            return None
        try:
            base = self._known.get(stat.path)
            if base is not None and not _can_go_on(base.row, reader.stat(), reader):
                base = None
            start = base.row.stamp.size if base is not None else 0
            text = read_text(reader, source.adapter, start, read_ns)
            return _Reading(stat, base, text) if text is not None else None
        except OSError:
            return None
        finally:
            reader.close()

    def _write(self, batch: list[_Reading], read_names: names.ReadNames) -> list[FileStat]:
        """Write the readings; return those that another process's lock kept from being written."""
        if not batch:
            return []
        # only now: a name must not be older than the stamp under which it is kept
        catalogue.take_over(reading.row for reading in batch if reading.row)
        called = read_names([reading.text.found for reading in batch])
        with self._transaction() as is_open:
            return [
                reading.stat
                for reading in batch
                if not (is_open and self._write_one(reading, called.get(reading.stat.path)))
            ]

    def _write_one(self, reading: _Reading, title: str | None) -> bool:
        folder, name = sqlite.file_key(reading.stat.path)
        now = self._load_one(folder, name)
        text = reading.text
        if now is not None and now.row.stamp.read_ns >= text.stamp.read_ns:
            return True  # another process has it newer
        base = reading.base
        if base is not None and (now is None or now.no != base.no):
            return False  # what it was to be added to is gone; the next time adds it
        segments = list(base.row.segments) if base is not None else []
        data = _to_data(
            IndexRow(
                text.stamp,
                text.has_final_newline,
                segments + [each.segment for each in text.texts],
            )
        )
        if base is not None:
            no = base.no
            self._database.execute("UPDATE sessions SET data = ? WHERE no = ?", (data, no))
        else:
            if now is not None:
                self._bury([now])
            added = self._database.execute(
                "INSERT INTO sessions (folder, name, data) VALUES (?, ?, ?)", (folder, name, data)
            )
            no = int(added.lastrowid or 0)
        first = (no << SEGMENT_BITS) + len(segments)
        self._database.executemany(
            "INSERT INTO said (rowid, user, assistant) VALUES (?, ?, ?)",
            [
                (first + at, each.user, each.assistant)
                for at, each in enumerate(text.texts)
                if each.user or each.assistant
            ],
        )
        tool_words.put_words(
            self._database, ((first + at, each.tools) for at, each in enumerate(text.texts))
        )
        names.put_name(self._database, no, title)
        return True

    def _seal(self, unfinished: set[str]) -> None:
        """Record which folders are completely indexed, so that the next check is quick.

        Another process may have forgotten a file that was not there yet when it looked: then there
        are fewer rows than files, and the folder is looked through again.
        """
        finished = [
            (key := os.fsencode(folder), digest, key, count)
            for folder, (digest, count) in self._digests.items()
            if folder not in unfinished
        ]
        if finished:
            with self._transaction() as is_open:
                if is_open:
                    self._database.executemany(
                        "INSERT OR REPLACE INTO folders SELECT ?, ? "
                        "WHERE (SELECT count(*) FROM sessions WHERE folder = ?) = ?",
                        finished,
                    )

    def _forget(self, gone: list[_Known]) -> None:
        with self._transaction() as is_open:
            if is_open:
                self._bury(gone)

    def _bury(self, gone: Sequence[_Known]) -> None:
        names.drop_names(self._database, [item.no for item in gone])
        for item in gone:
            self._database.execute("DELETE FROM sessions WHERE no = ?", (item.no,))
            self._database.execute(
                "UPDATE dead SET segments = segments + ?", (len(item.row.segments),)
            )

    def is_worn_out(self) -> bool:
        """Whether so many rows are obsolete that the index should be built again."""
        (dead,) = self._database.execute(
            "SELECT CAST(total(segments) AS INTEGER) FROM dead"
        ).fetchone()
        if dead < _MOST_DEAD:
            return False
        (live,) = self._database.execute("SELECT count(*) FROM sessions").fetchone()
        return bool(dead > _DEAD_SHARE * (live + dead))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[bool]:
        """Open a transaction; yield False, without one, if another process holds the lock."""
        try:
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if sqlite.is_corruption(error):
                raise
            yield False
            return
        try:
            yield True
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    # -- asking it -------------------------------------------------------------------------

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Answer all queries inside from one state of the index.

        Otherwise a session that another process reindexes meanwhile has one number when its words
        are found and another one when it is looked up.
        """
        self._database.execute("BEGIN")
        try:
            yield
        finally:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")

    def read_state(self) -> bytes:
        """What changes when a segment is added; until then ``match`` finds the same.

        FTS5 keeps the number of rows and of words in this record. b"" if there is none.
        """
        row = self._database.execute("SELECT block FROM said_data WHERE id = 1").fetchone()
        return row[0] if row is not None and isinstance(row[0], bytes) else b""

    def match(self, term: Term, role: str | None) -> dict[int, float]:
        """Find the segments with a term, each with its score (bm25, higher is better)."""
        expression = term.expression if role is None else f"{{{role}}} : {term.expression}"
        found = self._database.execute(
            "SELECT rowid, -bm25(said) FROM said WHERE said MATCH ?", (expression,)
        )
        return dict(found)

    def match_tools(self, term: Term) -> list[int]:
        """Find the segments with all words of a term in what tools were asked and printed."""
        return tool_words.match_words(self._database, term)

    def match_names(self, term: Term) -> set[int]:
        """Find the numbers of the sessions with a term in their name."""
        return names.match_names(self._database, term)

    def get_paths(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the paths of files by number, without obsolete ones."""
        found: dict[int, str] = {}
        for start in range(0, len(numbers), 500):
            some = numbers[start : start + 500]
            marks = ",".join("?" * len(some))
            for no, folder, name in self._database.execute(
                f"SELECT no, folder, name FROM sessions WHERE no IN ({marks})", some
            ):
                found[no] = _path(folder, name)
        return found

    def get_all_paths(self) -> dict[int, str]:
        """Return the paths of all files by number, without obsolete ones."""
        rows = self._database.execute("SELECT no, folder, name FROM sessions")
        return {no: _path(folder, name) for no, folder, name in rows}

    def get_sessions(self, numbers: Sequence[int]) -> dict[int, tuple[str, IndexRow]]:
        """Return paths and rows of sessions by number, without obsolete ones."""
        found: dict[int, tuple[str, IndexRow]] = {}
        for start in range(0, len(numbers), 500):
            some = numbers[start : start + 500]
            marks = ",".join("?" * len(some))
            for no, folder, name, data in self._database.execute(
                f"SELECT no, folder, name, data FROM sessions WHERE no IN ({marks})", some
            ):
                found[no] = (_path(folder, name), _to_row(data))
        return found

    # -- rows ------------------------------------------------------------------------------

    def _load_folder(self, folder: str) -> dict[str, _Known]:
        rows = self._database.execute(
            "SELECT no, folder, name, data FROM sessions WHERE folder = ?", (os.fsencode(folder),)
        )
        return {_path(of, name): _Known(no, _to_row(data)) for no, of, name, data in rows}

    def _load_one(self, folder: bytes, name: bytes) -> _Known | None:
        found = self._database.execute(
            "SELECT no, data FROM sessions WHERE folder = ? AND name = ?", (folder, name)
        ).fetchone()
        return _Known(found[0], _to_row(found[1])) if found is not None else None


def _to_data(row: IndexRow) -> bytes:
    return sqlite.seal(_encode_row(row))


def _to_row(stored: object) -> IndexRow:
    """Raises DamagedRowError."""
    try:
        return _decode_row(sqlite.unseal(stored))
    except msgspec.MsgspecError as error:
        raise sqlite.DamagedRowError(str(error)) from None


def session_of(rowid: int) -> tuple[int, int]:
    """Return the session number and the segment's position for a row id."""
    return rowid >> SEGMENT_BITS, rowid & ((1 << SEGMENT_BITS) - 1)


def _are_new(jobs: Sequence[Job]) -> bool:
    """Whether the catalogue has to read most of these files as well: then each is read once."""
    files = [job.stat for job in jobs]
    return 2 * len(catalogue.recall(files, FileSessionStorage())) < len(files)


def _can_go_on(row: IndexRow, stat: FileStat, reader: SessionStorageReader) -> bool:
    return (
        row.has_final_newline
        and len(row.segments) < MOST_SEGMENTS
        and row.stamp.may_have_grown_to(stat)
        and row.stamp.is_beginning_of(reader)
    )


def _digest(files: list[FileStat]) -> bytes | None:
    """Make a digest that changes with any file of a folder; None if a name can't be encoded.

    An unchanged folder is usually listed in the same order; in another, it is only checked again.
    """
    try:
        encoded = _encode_row(files)
    except UnicodeEncodeError:
        return None
    return digest_quickly(encoded)


def _path(folder: object, name: object) -> str:
    """Raises DamagedRowError."""
    if not (isinstance(folder, bytes) and isinstance(name, bytes)):
        raise sqlite.DamagedRowError("a path is not bytes")
    return os.path.join(_folder(folder), os.fsdecode(name))


@lru_cache(maxsize=256)
def _folder(encoded: bytes) -> str:
    return os.fsdecode(encoded)
