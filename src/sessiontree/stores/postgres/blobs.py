"""Blobs of sessions in PostgreSQL, by the hash of their content; each tenant has its own.

A blob is there before the line that names it, so a crash leaves at most one that nothing names,
which ``vacuum`` removes a day later. Every read compares the hash. Large ones may be objects
elsewhere (``objects``): then the row, written after the object, says where it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sessiontree.errors import PersistenceError
from sessiontree.model.ids import sha256_hex
from sessiontree.storage.blobs import REF_PREFIX, parse_ref
from sessiontree.stores.postgres import objects
from sessiontree.stores.postgres.statements import OURS

if TYPE_CHECKING:
    from sessiontree.stores.postgres.database import Database

_PUT = (
    "INSERT INTO st_blob (tenant, sha, size, data) VALUES (st_tenant(), %b, %s, %b) "
    "ON CONFLICT (tenant, sha) DO UPDATE SET touched = now()"
)
_TOUCH = (
    "WITH t AS (UPDATE st_blob SET touched = now() "
    f"WHERE sha = %s AND {OURS} RETURNING 1) SELECT st_tenant(), EXISTS (SELECT FROM t)"
)
_PUT_PLACE = (
    "INSERT INTO st_blob (tenant, sha, size, place) VALUES (st_tenant(), %b, %s, %s) "
    "ON CONFLICT (tenant, sha) DO UPDATE SET touched = now() RETURNING place"
)
_GET = f"SELECT data, place, tenant FROM st_blob WHERE sha = %s AND {OURS}"
_DROP = (
    f"DELETE FROM st_blob b WHERE b.{OURS} AND b.touched < now() - interval '1 day' "
    "AND (b.place IS NULL OR %s) "
    "AND NOT EXISTS (SELECT FROM st_blob_use u WHERE u.tenant = b.tenant AND u.sha = b.sha) "
    "RETURNING b.place, b.tenant, encode(b.sha, 'hex')"
)
_PLACES = (
    f"SELECT place, tenant, encode(sha, 'hex'), size FROM st_blob WHERE {OURS} "
    "AND place IS NOT NULL"
)


_NAMED = re.compile(rb"blob:sha256:([0-9a-f]{64})")


def blobs_in(lines: Iterable[bytes]) -> list[bytes]:
    """The hashes of all values that lines name."""
    found = {name for line in lines if b"blob:sha256:" in line for name in _NAMED.findall(line)}
    return [bytes.fromhex(name.decode()) for name in sorted(found)]


class DatabaseBlobs:
    """The blobs of one tenant."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._objects = objects.find_objects()

    def put(self, data: bytes) -> str:
        """Keep a value; its reference. Raises PersistenceError."""
        digest = sha256_hex(data)
        if self._objects is not None and len(data) > objects.MOST_BYTES:
            self._put_object(self._objects, data, digest)
        else:
            self._db.require_room(len(data), f"; {objects.VARIABLE} is for such values")
            self._db.run(_PUT, (bytes.fromhex(digest), len(data), data))
        return REF_PREFIX + digest

    def _put_object(self, kept: objects.ObjectStore, data: bytes, digest: str) -> None:
        key = bytes.fromhex(digest)
        ((tenant, is_there),) = self._db.run(_TOUCH, (key,))
        if is_there:
            return
        place = kept.new_place(tenant, digest)
        kept.put(place, data)
        ((kept_at,),) = self._db.run(_PUT_PLACE, (key, len(data), place))
        if kept_at != place:  # somebody has kept the same in between
            kept.delete(place)

    def get(self, ref: str) -> bytes | None:
        """The content that a reference names; None if it is missing, damaged, or no reference.

        Raises PersistenceError, also for an object that this process was not told how to reach.
        """
        digest = parse_ref(ref)
        if digest is None:
            return None
        for data, place, tenant in self._db.run(_GET, (bytes.fromhex(digest),)):
            found = bytes(data) if data is not None else self._fetch(place, tenant, digest)
            if found is not None and sha256_hex(found) == digest:
                return found
        return None

    def _fetch(self, place: str, tenant: str, digest: str) -> bytes | None:
        if not objects.is_own(place, tenant, digest):
            return None
        return self._reached(place).get(place)

    def _reached(self, place: str) -> objects.ObjectStore:
        if self._objects is None:
            raise PersistenceError(
                self._db.address.shown,
                f"keeps a large value at {place.rpartition('/')[0]}: set {objects.VARIABLE}",
            )
        return self._objects

    def drop_unused(self) -> int:
        """Remove blobs that no session has named for a day; return their number.

        Objects only if this process knows how to reach them. Raises PersistenceError.
        """
        dropped = self._db.run(_DROP, (self._objects is not None,))
        for place, tenant, digest in dropped:
            if place is not None and objects.is_own(place, tenant, digest):
                self._reached(place).delete(place)
        return len(dropped)

    def find_lost(self) -> list[str]:
        """The hashes of blobs whose objects are not where they should be. PersistenceError."""
        return [
            digest
            for place, tenant, digest, size in self._db.run(_PLACES)
            if not objects.is_own(place, tenant, digest) or self._reached(place).size(place) != size
        ]
