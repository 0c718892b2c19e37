"""A store of your own: sessions and entries in one SQLite file.

Small but whole: it keeps everything that ``sessiontree.stores.base`` asks of a store, and passes
``StoreContract``. Any number of processes and threads may use one file. Use it so::

    store = ToyStore("/srv/sessions.db")
    SessionManager.create("/work/app", storage=store)

or install it by an entry point, and any command of the program takes ``--store toy:/srv/x.db``::

    [project.entry-points."sessiontree.stores"]
    toy = "toy_store:open_toy"

How it works: every change is one transaction that has the write lock from its beginning
(``BEGIN IMMEDIATE``). So ``settle`` is a transaction, and ``append`` is a small ``settle``. Entries
have a number, ``seq``, in the order of commits: what is behind the last one that was read is new.
After a rewrite the numbers begin anew, which the ``epoch`` tells, and everything is read again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import msgspec

from sessiontree.clock import Clock, now_ms
from sessiontree.core.tree import SessionTree, graft
from sessiontree.discovery.listing import SessionInfo, SessionList
from sessiontree.discovery.search.hits import SearchResults
from sessiontree.errors import (
    AmbiguousSessionError,
    EntryExistsError,
    PersistenceError,
    SessionExistsError,
    SessionNotFoundError,
)
from sessiontree.model import codec
from sessiontree.model.entries import Entry
from sessiontree.model.header import Header, get_cwd, get_title, set_fields
from sessiontree.model.ids import format_timestamp
from sessiontree.model.lines import SessionWarning
from sessiontree.profiles import Dialect, Profile, get_profile
from sessiontree.stores.base import (
    Announce,
    Durability,
    EntryPlace,
    ListMark,
    Ref,
    SessionLog,
    SessionStore,
    StrPath,
    TrashedSession,
    Watch,
)
from sessiontree.stores.figures import Figures, said_text
from sessiontree.stores.identity import derive_header, require_durability
from sessiontree.stores.matching import search_sessions
from sessiontree.stores.watching import LookingWatch

_T = TypeVar("_T")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS session (
    no INTEGER PRIMARY KEY, ref TEXT UNIQUE, id TEXT, scope TEXT, cwd TEXT,
    header BLOB, figures BLOB, modified REAL, is_answered INT,
    epoch INT DEFAULT 0, revision INT DEFAULT 0, trash BLOB);
CREATE TABLE IF NOT EXISTS entry (
    session INT, seq INT, id TEXT, line BLOB, PRIMARY KEY (session, seq), UNIQUE (session, id));
CREATE INDEX IF NOT EXISTS entry_id ON entry (id);
"""


def open_toy(url: str, *, profile: Profile) -> SessionStore:
    """What the entry point names: the store of ``toy:/path/of/the.db``."""
    return ToyStore(unquote(url.partition(":")[2]), profile)


class ToyStore:
    """Sessions in one SQLite file."""

    is_kept = True

    def __init__(self, path: StrPath, profile: str | Profile | None = None) -> None:
        self.path = os.path.abspath(path)
        self.profile = get_profile(profile)
        self.clock: Clock = now_ms
        with self.transaction() as database:
            for statement in _SCHEMA.split(";"):
                database.execute(statement)

    @property
    def url(self) -> str:
        return f"toy:{quote(self.path)}"

    @property
    def dialect(self) -> Dialect:
        return self.profile.dialect

    def connect(self) -> sqlite3.Connection:
        """A connection that begins no transaction by itself."""
        return sqlite3.connect(self.path, timeout=30, isolation_level=None)

    @contextlib.contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction: committed at the end, rolled back by an error. PersistenceError."""
        database = None
        try:
            database = self.connect()
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield database
            database.execute("COMMIT")
        except sqlite3.Error as error:
            raise PersistenceError(self.path, str(error)) from error
        finally:
            if database is not None:
                database.close()  # without a commit this rolls back

    # -- sessions --------------------------------------------------------------------------

    def create(
        self,
        header: Header,
        *,
        durability: Durability = "flush",
        is_new_id: bool = True,
        beside: SessionLog | None = None,  # noqa: ARG002
    ) -> ToyLog:
        require_durability(durability)
        log = ToyLog(self, _ref_of(header), header, self.dialect, durability)
        if not is_new_id:
            log.settle(log.begin)
        return log

    def open(self, ref: Ref, *, cwd: str | None = None, durability: Durability = "flush") -> ToyLog:
        require_durability(durability)
        log = self._load(ref, durability)
        if cwd is not None and not get_cwd(log.header):
            set_fields(log.header, {"cwd": cwd})
        return log

    def read(self, ref: Ref) -> ToyLog:
        log = self._load(ref, "flush")
        log.stop(PersistenceError(ref, "is open for reading only"))
        return log

    def _load(self, ref: Ref, durability: Durability) -> ToyLog:
        log = ToyLog(self, ref, {}, self.dialect, durability)
        with self.transaction(write=False) as database:
            log.load(database)
        log.tree.leaf_id = log.tree.last_id
        log.foreign = 0
        return log

    def copy(
        self,
        log: SessionLog,
        header: Header,
        entries: Sequence[Entry] | None = None,
        *,
        announce: Announce | None = None,
    ) -> ToyLog:
        made = ToyLog(self, _ref_of(header), header, log.dialect, log.durability)
        if announce is not None:
            announce(made)
        copied = log.tree.entries if entries is None else entries
        made.append([Entry.from_wire(entry.decode()) for entry in copied])
        made.tree.leaf_id = made.tree.last_id
        return made

    def fork(
        self, ref: Ref, cwd: str, *, scope: str | None = None, durability: Durability = "flush"
    ) -> ToyLog:
        source = self._load(ref, durability)
        title, parent = get_title(source.header), str(source.header.get("id"))
        header = derive_header(source.header, title, cwd, source.dialect, parent, self, scope=scope)
        return self.copy(source, header)

    # -- finding ---------------------------------------------------------------------------

    def list(
        self,
        cwd: str | None = None,
        *,
        scope: str | None = None,
        limit: int | None = None,
        before: ListMark | None = None,
        on_progress: Callable[[int, int], object] | None = None,  # noqa: ARG002
    ) -> SessionList:
        where, values = _of_project(cwd, scope)
        listed = f"FROM session WHERE ref IS NOT NULL AND is_answered AND {where}"
        with self.transaction(write=False) as database:
            (total,) = database.execute(f"SELECT count(*) {listed}", values).fetchone()
            if before is not None:
                listed += " AND (modified, ref) < (:modified, :ref)"
                values |= {"modified": before[0].timestamp(), "ref": before[1]}
            listed += f" ORDER BY modified DESC, ref DESC LIMIT {-1 if limit is None else limit}"
            rows = database.execute(f"SELECT ref, header, figures {listed}", values).fetchall()
        found = SessionList(self._to_info(*row) for row in rows)
        found.total = total
        return found

    def _to_info(self, ref: Ref, header: bytes, figures: bytes) -> SessionInfo:
        def read_text() -> str:
            return said_text(self.read(ref).tree.entries)

        found = msgspec.convert(codec.decode(figures), Figures)
        return found.to_info(ref, codec.decode(header), self.dialect, read_text)

    def exists(self, ref: Ref) -> bool:
        return bool(self.select("SELECT 1 FROM session WHERE ref = ?", ref))

    def get_info(self, ref: Ref) -> SessionInfo | None:
        rows = self.select("SELECT ref, header, figures FROM session WHERE ref = ?", ref)
        return self._to_info(*rows[0]) if rows else None

    def locate(self, session_id: str, *, scope: str | None = None) -> Ref | None:
        found = self.select(
            "SELECT ref FROM session WHERE ref IS NOT NULL AND id = ? AND scope IS ?",
            session_id,
            scope,
        )
        return found[0][0] if found else None

    def find(
        self, prefix: str, *, cwd: str | None = None, scope: str | None = None
    ) -> Sequence[SessionInfo]:
        where, values = _of_project(cwd, scope, is_all=False)
        rows = self.select(
            "SELECT ref, header, figures FROM session WHERE ref IS NOT NULL"
            f" AND substr(id, 1, length(:prefix)) = :prefix AND {where} ORDER BY modified DESC",
            **values,
            prefix=prefix,
        )
        return [self._to_info(*row) for row in rows]

    def find_entry(self, entry_id: str) -> Sequence[EntryPlace]:
        rows = self.select(
            "SELECT ref, entry.id FROM entry JOIN session ON no = session"
            " WHERE entry.id = ? AND ref IS NOT NULL",
            entry_id,
        )
        return [EntryPlace(*row) for row in rows]

    def latest(self, cwd: str | None, *, scope: str | None = None) -> Ref | None:
        where, values = _of_project(cwd, scope, is_all=False)
        rows = self.select(
            f"SELECT ref FROM session WHERE ref IS NOT NULL AND {where}"
            " ORDER BY modified DESC LIMIT 1",
            **values,
        )
        return rows[0][0] if rows else None

    def search(
        self,
        query: str,
        *,
        cwd: str | None = None,
        scope: str | None = None,
        **options: Any,
    ) -> SearchResults:
        sessions = self.list(cwd, scope=scope)
        return search_sessions(
            query,
            sessions,
            lambda info: self.read(info.path).tree.entries,
            agent=self.profile.name,
            **options,
        )

    def select(self, sql: str, *values: object, **named: object) -> Sequence[tuple[Any, ...]]:
        """The rows of a query, in a transaction of its own."""
        with self.transaction(write=False) as database:
            return database.execute(sql, named or values).fetchall()

    # -- removing --------------------------------------------------------------------------

    def delete(
        self, ref: Ref, *, permanently: bool = False, batch: str | None = None
    ) -> TrashedSession | None:
        with self.transaction() as database:
            row = database.execute(
                "SELECT no, id, header, figures, cwd FROM session WHERE ref = ?", (ref,)
            ).fetchone()
            if row is None:
                raise SessionNotFoundError(ref)
            if permanently:
                _remove(database, row[0])
                return None
            info = self._to_info(ref, row[2], row[3])
            title = info.title or " ".join(info.first_message.split())[:80] or None
            now = format_timestamp(self.clock())
            item = TrashedSession(f"t{row[0]}", ref, row[1], title, row[4], now, batch or now)
            database.execute(
                "UPDATE session SET ref = NULL, trash = ? WHERE no = ?",
                (codec.encode(msgspec.to_builtins(item)), row[0]),
            )
            return item

    def list_trash(self) -> Sequence[TrashedSession]:
        rows = self.select("SELECT trash FROM session WHERE ref IS NULL")
        items = [msgspec.convert(codec.decode(trash), TrashedSession) for (trash,) in rows]
        return sorted(items, key=lambda item: (item.removed_at, item.id), reverse=True)

    def restore(self, session_id: str) -> Ref:
        items = self.list_trash()
        found = [item for item in items if item.id == session_id]
        found = found or [item for item in items if item.session_id == session_id]
        if not found:
            raise SessionNotFoundError(session_id)
        if len({item.path for item in found}) > 1:
            raise AmbiguousSessionError(session_id, found)
        with self.transaction() as database:
            database.execute(
                "UPDATE OR FAIL session SET ref = ?, trash = NULL WHERE no = ?",
                (found[0].path, int(found[0].id[1:])),
            )
        return found[0].path

    def purge(self, before: datetime) -> int:
        old = [
            item
            for item in self.list_trash()
            if datetime.fromisoformat(item.removed_at).astimezone(UTC) < before
        ]
        with self.transaction() as database:
            for item in old:
                _remove(database, int(item.id[1:]))
        return len(old)

    def watch(self, ref: Ref) -> Watch:
        return _Watch(self, ref)

    def artifacts_dir(self, ref: Ref) -> str | None:  # noqa: ARG002
        return None

    def close(self) -> None:
        """Connections are open during a transaction only."""


class ToyLog:
    """One open session."""

    def __init__(
        self, store: ToyStore, ref: Ref, header: Header, dialect: Dialect, durability: Durability
    ) -> None:
        self.store = store
        self.ref = ref
        self.header = header
        self.dialect = dialect
        self.durability: Durability = durability
        self.tree = SessionTree()
        self.figures = Figures()
        self.foreign = 0
        self.is_touched = False
        self._warnings: list[SessionWarning] = []
        self._no: int | None = None
        self._seq = self._epoch = self._revision = 0
        self._lines: dict[str, bytes] = {}  # as the table has them: what differs was edited here
        self._database: sqlite3.Connection | None = None
        self._error: PersistenceError | None = None

    @property
    def is_draft(self) -> bool:
        return not self.figures.is_answered

    @property
    def is_started(self) -> bool:
        return self._no is not None

    @property
    def has_failed(self) -> bool:
        return self._error is not None

    @property
    def revision(self) -> str:
        return f"{self._epoch}.{self._revision}" if self.is_started else "0"

    @property
    def warnings(self) -> list[SessionWarning]:
        return list(self._warnings)

    def is_removed(self) -> bool:
        with contextlib.suppress(PersistenceError):
            return self.is_started and not self.store.exists(self.ref)
        return False

    def warn(self, *warnings: SessionWarning) -> None:
        self._warnings += warnings

    def check(self) -> None:
        if self._error is not None:
            raise PersistenceError(self._error.path, self._error.reason)

    def stop(self, error: PersistenceError) -> None:
        """Let nothing more be written."""
        self._error = self._error or error

    # -- reading ---------------------------------------------------------------------------

    def load(self, database: sqlite3.Connection) -> None:
        """Read what is new since the last time; what others added counts as foreign."""
        columns = "no, header, epoch, revision"
        row = database.execute(
            f"SELECT {columns} FROM session WHERE ref = ?", (self.ref,)
        ).fetchone()
        if row is None:
            raise SessionNotFoundError(self.ref)
        no, header, epoch, revision = row
        edited: dict[bytes, Entry] = {}
        if self._no is not None and (no, epoch) != (self._no, self._epoch):
            edited = {
                self._lines[entry.id]: entry
                for entry in self.tree.entries
                if entry.line() != self._lines.get(entry.id, entry.line())
            }
            self.tree, self._seq, self.figures = _fresh(self.tree), 0, Figures()
        self._no, self._epoch, self._revision = no, epoch, revision
        self.header = codec.decode(header)
        lines = database.execute(
            "SELECT seq, line FROM entry WHERE session = ? AND seq > ? ORDER BY seq",
            (no, self._seq),
        ).fetchall()
        if lines:
            self._seq = lines[-1][0]
            # a line that nobody else has changed keeps what was edited here
            new = [edited.get(line) or Entry.from_wire(codec.decode(line)) for _, line in lines]
            self._lines |= {entry.id: line for entry, (_, line) in zip(new, lines, strict=True)}
            graft(self.tree, new, (), self._warnings)
            self.figures.add(new, self.tree)
            self.foreign += len(new)

    def refresh(self) -> None:
        self.check()
        if self._no is not None and self._database is None:
            with contextlib.suppress(SessionNotFoundError):  # deleted: there is nothing to read
                self._guard(lambda: self._read(self.load))

    def _read(self, work: Callable[[sqlite3.Connection], None]) -> None:
        with self.store.transaction(write=False) as database:
            work(database)

    # -- writing ---------------------------------------------------------------------------

    def settle(self, work: Callable[[], _T]) -> _T:
        self.check()
        if self._database is not None:
            return work()
        return self._guard(lambda: self._work_locked(work))

    def _guard(self, work: Callable[[], _T]) -> _T:
        """A failure stops the log. What the transaction began is taken back: so is a new number."""
        number = self._no
        try:
            return work()
        except PersistenceError as error:
            self._no = number
            self.stop(error)
            raise

    def _work_locked(self, work: Callable[[], _T]) -> _T:
        failure: Exception | None = None
        with self.store.transaction() as self._database:
            try:
                if self._no is not None:
                    self._load_again(self._database)
                return work()
            except (PersistenceError, sqlite3.Error):
                raise
            except Exception as error:
                failure = error  # what was appended before it is kept
            finally:
                self._database = None
        raise failure

    def _load_again(self, database: sqlite3.Connection) -> None:
        """Read on before a change, which takes a session that somebody deleted out of the trash."""
        back = "UPDATE session SET ref = ?, trash = NULL WHERE no = ? AND ref IS NULL"
        database.execute(back, (self.ref, self._no))
        try:
            self.load(database)
        except SessionNotFoundError as error:
            raise PersistenceError(self.ref, "was deleted for good") from error

    def append(self, entries: Sequence[Entry]) -> None:
        self.settle(lambda: self._append(entries))

    def _append(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.id in self.tree.by_id:
                raise EntryExistsError(entry.id)
        lines = [entry.line() for entry in entries]  # TypeError before anything is written
        self.begin()
        self._insert(entries, lines)
        for entry in entries:
            self.tree.add(entry)
        self.figures.add(entries, self.tree)
        self._write_row()
        self.is_touched = True

    def begin(self) -> None:
        """Take the session's id, if it is not taken yet. SessionExistsError."""
        if self._no is not None:
            return
        try:
            cursor = self._held().execute(
                "INSERT INTO session (ref, id, scope) VALUES (?, ?, ?)",
                (self.ref, self.header.get("id"), self.header.get("scope")),
            )
        except sqlite3.IntegrityError:
            raise SessionExistsError(str(self.header.get("id")), self.ref) from None
        self._no = cursor.lastrowid
        self.is_touched = True
        self._write_row()

    def _insert(self, entries: Sequence[Entry], lines: Sequence[bytes]) -> None:
        numbers = itertools.count(self._seq + 1)
        rows = zip(itertools.repeat(self._no), numbers, (e.id for e in entries), lines)
        self._held().executemany("INSERT INTO entry VALUES (?, ?, ?, ?)", rows)
        self._lines |= {entry.id: line for entry, line in zip(entries, lines, strict=True)}
        self._seq += len(entries)

    def _write_row(self) -> None:
        """Write header, figures and what listings sort and choose by."""
        info = self.figures.to_info(self.ref, self.header, self.dialect, str)
        self._revision += 1
        self._held().execute(
            "UPDATE session SET cwd = ?, header = ?, figures = ?, modified = ?, is_answered = ?,"
            " epoch = ?, revision = ? WHERE no = ?",
            (
                get_cwd(self.header),
                codec.encode(self.header),
                codec.encode(msgspec.to_builtins(self.figures)),  # keeps lone surrogates
                info.modified.timestamp(),
                self.figures.is_answered,
                self._epoch,
                self._revision,
                self._no,
            ),
        )

    def _held(self) -> sqlite3.Connection:
        assert self._database is not None
        return self._database

    def rewrite(self, *, find_changes: bool = False) -> None:  # noqa: ARG002
        self.settle(self._rewrite)

    def _rewrite(self) -> None:
        if self._no is None:
            return
        self._held().execute("DELETE FROM entry WHERE session = ?", (self._no,))
        self._seq = 0
        self._epoch += 1
        entries = self.tree.entries
        self._insert(entries, [entry.line() for entry in entries])
        self.figures = Figures.of(self.tree)
        self._write_row()
        self.tree.forget_indexes()

    def write_header(self, fields: Mapping[str, Any]) -> None:
        def write() -> None:
            before = {key: self.header.get(key) for key in fields}
            try:
                set_fields(self.header, fields)
                if self._no is not None:
                    self._write_row()
            except BaseException:
                set_fields(self.header, before)
                raise

        self.settle(write)

    def set_header(self, fields: Mapping[str, Any]) -> None:
        set_fields(self.header, fields)

    def move(self, cwd: str, scope: str | None = None) -> None:  # noqa: ARG002
        self.write_header({"cwd": cwd})

    # -- the end ---------------------------------------------------------------------------

    def discard(self) -> None:
        if self.is_draft:
            self.destroy()

    def destroy(self) -> None:
        if self._no is not None:
            with contextlib.suppress(PersistenceError), self._own_transaction() as database:
                _remove(database, self._no)

    def _own_transaction(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        held = self._database
        return self.store.transaction() if held is None else contextlib.nullcontext(held)

    def delete(self, *, permanently: bool = False) -> None:
        self.check()
        if self.is_started:
            self.store.delete(self.ref, permanently=permanently)
        self.stop(PersistenceError(self.ref, "was deleted here"))

    def flush(self) -> None:
        self.check()  # a commit has reached the medium

    def recover(self) -> None:
        self._error = None
        known = list(self.tree.entries)

        def write_missing() -> None:
            missing = [entry for entry in known if entry.id not in self.tree.by_id]
            if missing:
                self._append(missing)

        # read everything again: nobody knows what the failure left
        self.tree, self._seq, self.figures = _fresh(self.tree), 0, Figures()
        self.settle(write_missing)

    def close(self) -> None:
        """Nothing is held between transactions."""


class _Watch(LookingWatch[object]):
    """Looks at a session's revision, now and then."""

    def __init__(self, store: ToyStore, ref: Ref) -> None:
        super().__init__()
        self._store = store
        self._ref = ref
        self._seen = self._look()

    def _look(self) -> object:
        sql = "SELECT epoch, revision FROM session WHERE ref = ?"
        return self._store.select(sql, self._ref)


def _ref_of(header: Header) -> Ref:
    """The id, with the scope before it: two scopes may have sessions of the same id."""
    scope, session_id = header.get("scope"), str(header.get("id"))
    return f"{quote(str(scope), safe='')}/{session_id}" if scope is not None else session_id


def _of_project(
    cwd: str | None, scope: str | None, *, is_all: bool = True
) -> tuple[str, dict[str, object]]:
    """The condition for a project, a scope, or all; sessions of scopes are in no project."""
    if scope is not None:
        return "scope = :scope", {"scope": scope}
    if cwd is not None:
        return "scope IS NULL AND cwd = :cwd", {"cwd": os.path.abspath(cwd)}
    return ("1", {}) if is_all else ("scope IS NULL", {})


def _fresh(tree: SessionTree) -> SessionTree:
    made = SessionTree()
    made.leaf_id = tree.leaf_id
    return made


def _remove(database: sqlite3.Connection, no: int) -> None:
    database.execute("DELETE FROM entry WHERE session = ?", (no,))
    database.execute("DELETE FROM session WHERE no = ?", (no,))
