"""Wait for others to write to a session: by notifications of the server, else by polling.

A follower listens on a connection of its own, and says in the session's row until when it follows:
only then do appends notify, because a notification takes a lock that all commits of a database
share. Behind a pooler a notification may never come, and a reader may not write the row; so now and
then it looks unasked. A look is one row.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import psycopg

from sessiontree.errors import SessionTreeError
from sessiontree.model.ids import sha256_hex
from sessiontree.stores.postgres.address import read_ref
from sessiontree.stores.postgres.pool import Connection, Row, connect
from sessiontree.stores.postgres.rows import scope_key
from sessiontree.stores.postgres.spelling import spell_key
from sessiontree.stores.postgres.statements import OURS
from sessiontree.stores.watching import LookingWatch

if TYPE_CHECKING:
    from sessiontree.stores.postgres.store import PostgresStore

_FOLLOWS_S = 60
_STEP_S = 0.2  # how long a close from another thread may take to be seen

_LOOK = (
    "SELECT sid, revision, epoch, head, deleted FROM st_session "
    f"WHERE scope = %s AND id = %s AND deleted IS NULL AND {OURS}"
)
_FOLLOW = (
    f"UPDATE st_session SET followed = clock_timestamp() + interval '{_FOLLOWS_S} seconds' "
    f"WHERE sid = %s AND {OURS}"
)


def _channel(sid: int, key: str) -> str:
    """The name by which ``st_append`` notifies; it is guessed only by those who see the row."""
    return f"st_{sha256_hex(f'{sid} {key}'.encode())[:40]}"


class RowWatch(LookingWatch["Row | None"]):
    """Waits for a change of one session's row."""

    def __init__(self, store: PostgresStore, ref: str) -> None:
        super().__init__()
        self._db = store.database
        session_id, scope = read_ref(ref)
        self._key = (scope_key(scope), spell_key(session_id))
        self._seen = self._look()
        self._listener: Connection | None = None
        self._followed_at = float("-inf")
        if self._db.address.listen != "off" and self._seen is not None:
            self._listen(self._seen[0])

    def _listen(self, sid: int) -> None:
        """Listen, if the server lets us; else the row is polled."""
        with contextlib.suppress(psycopg.Error, SessionTreeError):
            self._listener = connect(self._db.address.listen or self._db.address.conninfo)
            self._listener.execute(f"LISTEN {_channel(sid, self._key[1])}".encode())
            self._follow()

    def _follow(self) -> None:
        if self._seen is not None and time.monotonic() - self._followed_at > _FOLLOWS_S / 2:
            self._followed_at = time.monotonic()
            with contextlib.suppress(SessionTreeError):  # who may only read looks
                self._db.run(_FOLLOW, (self._seen[0],))

    def _look(self) -> Row | None:
        rows = self._db.run(_LOOK, self._key)
        return rows[0] if rows else None

    def _pause(self, left: float | None) -> None:
        """Wait for a notification, or a moment."""
        listener = self._listener
        if listener is None:
            super()._pause(left)
            return
        self._follow()
        until = time.monotonic() + self._longest_s(left)
        try:
            while not self._stop.is_set() and (rest := until - time.monotonic()) > 0:
                if any(True for _ in listener.notifies(timeout=min(_STEP_S, rest), stop_after=1)):
                    return
        except psycopg.Error:
            self._listener = None
            listener.close()

    def close(self) -> None:
        """Stop waiting, in whatever thread."""
        super().close()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
