"""Find kept files and chunks: one disposable SQLite file, brought up to date from the packs.

The index says how far it has read each pack. If a pack is longer, its tail is read; if one is
missing or shorter, everything is read again. A manifest proves the records before it
(``storage.packs``), so the index ends each pack at its last sound manifest.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator

import msgspec

from sessiontree.discovery.kept import is_keeping, kept_dir
from sessiontree.discovery.kept.manifests import Manifest, decode_manifest
from sessiontree.storage import sqlite
from sessiontree.storage.packs import CHUNK, MANIFEST, PackFolder, Record

_TABLES = (
    "CREATE TABLE place (folder BLOB NOT NULL)",
    "CREATE TABLE packs (no INTEGER PRIMARY KEY, ending INTEGER NOT NULL)",
    (
        "CREATE TABLE chunks (digest BLOB PRIMARY KEY, pack INTEGER NOT NULL, "
        "at INTEGER NOT NULL, size INTEGER NOT NULL, stored INTEGER NOT NULL) WITHOUT ROWID"
    ),
    (
        "CREATE TABLE files (agent TEXT NOT NULL, path BLOB PRIMARY KEY, kind TEXT NOT NULL, "
        "owner BLOB NOT NULL, data BLOB NOT NULL) WITHOUT ROWID"
    ),
    "CREATE INDEX owners ON files (owner)",
    "CREATE TABLE versions (path BLOB NOT NULL, kept_ms INTEGER NOT NULL, data BLOB NOT NULL)",
    "CREATE INDEX paths ON versions (path)",
)
SCHEMA = sqlite.Schema("kept", 1, _TABLES)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Manifest).decode


class KeptIndex:
    """The index of a folder of copies. Methods raise sqlite.FAILURES and OSError.

    If its file can no longer be written while it is used, it goes on in memory.
    """

    def __init__(self, packs: PackFolder, database: sqlite3.Connection | None = None) -> None:
        self.packs = packs
        self._memory: sqlite3.Connection | None = None
        self._database = self._make_in_memory() if database is None else database

    def close(self) -> None:
        """Free the memory; the database that was given stays open."""
        if self._memory is not None:
            self._memory.close()

    def _make_in_memory(self) -> sqlite3.Connection:
        made = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        for statement in _TABLES:
            made.execute(statement)
        self._memory = made
        return made

    # -- up to date ------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Read what the packs hold and the index does not."""
        sizes = self.packs.sizes()
        ends = self.ends()
        if self._folder() != os.fsencode(self.packs.folder) or any(
            sizes.get(no, -1) < end for no, end in ends.items()
        ):
            self._clear()
            ends = {}
        for no, size in sizes.items():
            if size > ends.get(no, 0):
                self._read_pack(no, ends.get(no, 0))

    def ends(self) -> dict[int, int]:
        """The end of the last manifest of each pack."""
        return dict(self._database.execute("SELECT no, ending FROM packs ORDER BY no"))

    def _folder(self) -> bytes | None:
        row = self._database.execute("SELECT folder FROM place").fetchone()
        return row[0] if row is not None else None

    def _clear(self) -> None:
        with self._transaction():
            for table in ("place", "packs", "chunks", "files", "versions"):
                self._database.execute(f"DELETE FROM {table}")
            folder = os.fsencode(self.packs.folder)
            self._database.execute("INSERT INTO place VALUES (?)", (folder,))

    def _read_pack(self, no: int, start: int) -> None:
        chunks: list[Record] = []
        with self._transaction():
            for record in self.packs.scan(no, start):
                if record.kind == CHUNK:
                    chunks.append(record)
                elif record.kind == MANIFEST:
                    try:
                        manifest = decode_manifest(self.packs.read(record))
                    except (OSError, msgspec.MsgspecError):
                        break
                    self._add(chunks, [manifest], {no: record.end})
                    chunks = []

    def add(
        self, chunks: Iterable[Record], manifests: Iterable[Manifest], ends: dict[int, int]
    ) -> None:
        """Add what was written to the packs."""
        try:
            with self._transaction():
                self._add(chunks, manifests, ends)
        except sqlite.FAILURES:
            self._go_on_in_memory()

    def _add(
        self, chunks: Iterable[Record], manifests: Iterable[Manifest], ends: dict[int, int]
    ) -> None:
        self._database.executemany(
            "INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?)",
            [(each.digest, each.pack, each.at, each.size, each.stored) for each in chunks],
        )
        for manifest in manifests:
            self._put(manifest)
        self._database.executemany("INSERT OR REPLACE INTO packs VALUES (?, ?)", ends.items())

    def _put(self, manifest: Manifest) -> None:
        path = manifest.path
        if manifest.kind == "gone":
            self._database.execute("DELETE FROM files WHERE path = ?", (path,))
            self._database.execute("DELETE FROM versions WHERE path = ?", (path,))
            return
        if manifest.is_rewritten:
            self._database.execute(
                "INSERT INTO versions SELECT path, ?, data FROM files WHERE path = ?",
                (manifest.kept_ms, path),
            )
        row = (manifest.agent, path, manifest.kind, manifest.owner, _encode(manifest))
        self._database.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", row)

    def rebuild(self) -> None:
        """Forget everything and read the packs from their beginnings."""
        try:
            self._clear()
            self.catch_up()
        except sqlite.FAILURES:
            self._go_on_in_memory()

    def _go_on_in_memory(self) -> None:
        """Continue in memory, since another program holds the file; the next process to open it
        reads the rest from the packs."""
        if self._memory is not None:
            raise sqlite3.OperationalError("the index of what is kept cannot be made in memory")
        self._database = self._make_in_memory()
        self.catch_up()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    # -- asking ----------------------------------------------------------------------------

    def paths(self) -> dict[str, list[bytes]]:
        """The paths of the kept sessions and parts, by agent."""
        found: dict[str, list[bytes]] = {}
        for agent, path in self._database.execute(
            "SELECT agent, path FROM files WHERE kind IN ('session', 'part')"
        ):
            found.setdefault(agent, []).append(path)
        return found

    def find_some(self, paths: Iterable[str]) -> list[Manifest]:
        """The manifests of the files that had these paths, all from one state of the index."""
        self._database.execute("BEGIN")
        try:
            return [manifest for manifest in map(self.find, paths) if manifest is not None]
        finally:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")

    def find(self, path: str) -> Manifest | None:
        """The manifest of the file that had this path."""
        row = self._database.execute(
            "SELECT data FROM files WHERE path = ?", (os.fsencode(path),)
        ).fetchone()
        return _decode(row[0]) if row is not None else None

    def find_all(self) -> dict[bytes, Manifest]:
        """Everything, by path."""
        rows = self._database.execute("SELECT path, data FROM files")
        return {path: _decode(data) for path, data in rows}

    def belongings(self, path: str) -> list[Manifest]:
        """The parts and files that belong to a session, by path."""
        rows = self._database.execute(
            "SELECT data FROM files WHERE owner = ? ORDER BY path", (os.fsencode(path),)
        )
        return [_decode(data) for (data,) in rows]

    def versions(self, path: str | None = None) -> list[Manifest]:
        """Earlier versions of a file that was rewritten, oldest first; of all files without one."""
        rows = self._database.execute(
            "SELECT data FROM versions WHERE :path IS NULL OR path = :path ORDER BY kept_ms",
            {"path": None if path is None else os.fsencode(path)},
        )
        return [_decode(data) for (data,) in rows]

    def chunk(self, digest: bytes) -> Record | None:
        """The place of a chunk."""
        row = self._database.execute(
            "SELECT pack, at, size, stored FROM chunks WHERE digest = ?", (digest,)
        ).fetchone()
        return Record(CHUNK, digest, *row) if row is not None else None

    def chunks(self) -> dict[bytes, Record]:
        """All chunks."""
        rows = self._database.execute("SELECT digest, pack, at, size, stored FROM chunks")
        return {row[0]: Record(CHUNK, *row) for row in rows}


@contextlib.contextmanager
def open_index() -> Iterator[KeptIndex | None]:
    """Open the index, up to date; None if nothing is kept.

    If its file cannot be used, the index is made in memory.
    """
    if not is_keeping():
        yield None
        return
    packs = PackFolder(kept_dir())
    with sqlite.open_database(SCHEMA) as database:
        found = _try(database, packs) if database is not None else None
        if found is not None:
            with contextlib.closing(found):
                yield found
            return
    with contextlib.closing(KeptIndex(packs)) as found:
        found.catch_up()
        yield found


def _try(database: sqlite3.Connection, packs: PackFolder) -> KeptIndex | None:
    found = KeptIndex(packs, database)
    try:
        found.catch_up()
    except sqlite.FAILURES as error:
        if sqlite.is_corruption(error):
            sqlite.discard(SCHEMA)
        return None
    return found
