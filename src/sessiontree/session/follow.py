"""Entries that others append to an open session, as they come."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator

from sessiontree.model.entries import Entry
from sessiontree.session.live import LiveSession


class News:
    """The entries that others have added to a session since the last look."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._tree = session.tree
        self._count = len(session.tree.entries)
        self._own = session.note_own()

    def take(self) -> list[Entry]:
        """Read on; return the entries that are new and not our own, in the order of the session."""
        self._session.refresh()
        tree = self._session.tree
        if tree is self._tree:
            new = tree.entries[self._count :]
        else:  # the session was rewritten: its entries may be in another order
            new = [entry for entry in tree.entries if entry.id not in self._tree.by_id]
        self._tree, self._count = tree, len(tree.entries)
        found = [entry for entry in new if entry.id not in self._own.ids]
        self._own.ids.clear()  # all of them are in the tree that was searched
        return found


def follow(session: LiveSession, timeout_s: float | None = None) -> Generator[Entry, None, None]:
    """Yield entries of others as they come; end when none has come for ``timeout_s`` seconds.

    The file may change without an entry of others in it: that does not prolong the wait.
    """
    news = News(session)
    began = time.monotonic()
    with contextlib.closing(session.log.store.watch(session.log.ref)) as watch:
        while True:
            new = news.take()
            if new:
                yield from new
                began = time.monotonic()
                continue
            left = None if timeout_s is None else began + timeout_s - time.monotonic()
            if (left is not None and left <= 0) or not watch.wait(left):
                return
