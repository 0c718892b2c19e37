"""Remember which sessions a database of another agent holds, as long as it has not changed.

Asking a large database which of its sessions have changed takes longer than a whole listing.
"""

from __future__ import annotations

import contextlib

import msgspec

from sessiontree.discovery.catalogue import SCHEMA
from sessiontree.storage import sqlite
from sessiontree.storage.base import FileStat
from sessiontree.storage.foreign_sqlite import Fingerprint

_TICK_NS = 25_000_000


class Listing(msgspec.Struct, array_like=True):
    """The sessions of a database, and the state of its files before they were read."""

    found: Fingerprint
    read_ns: int
    stats: list[FileStat]
    parts: dict[str, str]

    def holds_for(self, found: Fingerprint) -> bool:
        """Whether the database has certainly not changed."""
        latest_ns = max(max(facts[1], facts[2]) for facts in self.found)
        return self.found == found and self.read_ns - latest_ns > _TICK_NS


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Listing).decode
_memory: dict[str, Listing] = {}


def recall(path: str, found: Fingerprint) -> Listing | None:
    """Return the known sessions of a database, if its files have not changed."""
    known = _memory.get(path) or _load(path)
    if known is None or not known.holds_for(found):
        return None
    _memory[path] = known
    return known


def remember(path: str, listing: Listing) -> None:
    """Keep a listing; without success, the database is asked again."""
    _memory[path] = listing
    try:
        data = sqlite.seal(_encode(listing))
    except UnicodeEncodeError:  # half a surrogate pair in an id
        return
    with sqlite.open_database(SCHEMA) as database:
        if database is not None:
            with contextlib.suppress(*sqlite.FAILURES):
                database.execute(
                    "INSERT INTO databases VALUES (?, ?, ?)"
                    " ON CONFLICT (folder, name) DO UPDATE SET data = excluded.data",
                    (*sqlite.file_key(path), data),
                )


def _load(path: str) -> Listing | None:
    with sqlite.open_database(SCHEMA) as database:
        if database is None:
            return None
        try:
            row = database.execute(
                "SELECT data FROM databases WHERE folder = ? AND name = ?", sqlite.file_key(path)
            ).fetchone()
            return _decode(sqlite.unseal(row[0])) if row is not None else None
        except (*sqlite.FAILURES, msgspec.MsgspecError, ValueError):
            return None
