"""Blobs of sessions in PostgreSQL, by the hash of their content; each tenant has its own.

A blob is there before the line that names it, so a crash leaves at most one that nothing names,
which ``vacuum`` removes a day later. Every read compares the hash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sessiontree.model.ids import sha256_hex
from sessiontree.storage.blobs import REF_PREFIX, parse_ref
from sessiontree.stores.postgres.statements import OURS

if TYPE_CHECKING:
    from sessiontree.stores.postgres.database import Database

_PUT = (
    "INSERT INTO st_blob (tenant, sha, size, data) VALUES (st_tenant(), %b, %s, %b) "
    "ON CONFLICT (tenant, sha) DO UPDATE SET touched = now()"
)
_GET = f"SELECT data, place FROM st_blob WHERE sha = %s AND {OURS}"


_NAMED = re.compile(rb"blob:sha256:([0-9a-f]{64})")


def blobs_in(lines: Iterable[bytes]) -> list[bytes]:
    """The hashes of all values that lines name."""
    found = {name for line in lines if b"blob:sha256:" in line for name in _NAMED.findall(line)}
    return [bytes.fromhex(name.decode()) for name in sorted(found)]


class DatabaseBlobs:
    """The blobs of one tenant."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def put(self, data: bytes) -> str:
        """Keep a value; its reference. Raises PersistenceError."""
        digest = sha256_hex(data)
        self._db.run(_PUT, (bytes.fromhex(digest), len(data), data))
        return REF_PREFIX + digest

    def get(self, ref: str) -> bytes | None:
        """The content that a reference names; None if it is missing, damaged, or no reference."""
        digest = parse_ref(ref)
        if digest is None:
            return None
        for data, _ in self._db.run(_GET, (bytes.fromhex(digest),)):
            if data is not None and sha256_hex(bytes(data)) == digest:
                return bytes(data)
        return None
