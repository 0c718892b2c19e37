"""Remember what adapters have read of sessions, so that no entry is read twice.

``LearnedSession`` is the knowledge of one open session: it learns each entry once, those of other
processes too. ``LearnedSessions`` holds one for each open session, as long as that is open.
``ListedSessions`` is what lists say of sessions that need not be open.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from sessiontree.errors import SessionTreeError
from sessiontree.logs import get_logger
from sessiontree.model.entries import Entry
from sessiontree.session.manager import SessionManager
from sessiontree.stores.base import Ref, SessionLog, SessionStore

logger = get_logger(__name__)

L = TypeVar("L", bound="LearnedSession")
T = TypeVar("T")


class LearnedSession(ABC):
    """An open session, and the facts that its entries have told so far."""

    def __init__(self, manager: SessionManager) -> None:
        self._manager = manager
        self._restart()

    def catch_up(self) -> Sequence[Entry]:
        """Learn the entries that have come since, from this process and others; all entries."""
        entries = self._manager.get_entries()
        if self._seen and not self._continues(entries):
            self._restart()  # the file was replaced
        for entry in entries[self._seen :]:
            self._learn(entry)
        self._note_seen(entries)
        return entries

    def _continues(self, entries: Sequence[Entry]) -> bool:
        return len(entries) >= self._seen and entries[self._seen - 1].id == self._last

    def _restart(self) -> None:
        """Forget everything; the next ``catch_up`` learns it again."""
        self._seen = 0
        self._last: str | None = None
        self._forget()

    def _note_seen(self, entries: Sequence[Entry]) -> None:
        self._seen = len(entries)
        self._last = entries[-1].id if entries else None

    @abstractmethod
    def _learn(self, entry: Entry) -> None:
        """Take in the next entry. Called for each, in order."""

    @abstractmethod
    def _forget(self) -> None:
        """Forget all facts."""


class LearnedSessions(Generic[L]):
    """The learned sessions of one adapter. Any number of threads may use it."""

    def __init__(self, make: Callable[[SessionManager], L]) -> None:
        self._make = make
        self._known: WeakKeyDictionary[SessionManager, L] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, manager: SessionManager) -> L:
        """The knowledge of an open session. Only its user may ``catch_up``."""
        with self._lock:
            known = self._known.get(manager)
            if known is None:
                known = self._known[manager] = self._make(manager)
        return known

    def caught_up(self, manager: SessionManager) -> L:
        """The same, with all entries learned that there are now."""
        known = self.of(manager)
        known.catch_up()
        return known


class ListedSessions(Generic[T]):
    """The results of ``read`` for the sessions of a scope; an unchanged session is not read again.

    ``read`` gives None for a session that is not to be listed.
    """

    def __init__(self, store: SessionStore, read: Callable[[SessionLog], T | None]) -> None:
        self._store = store
        self._read = read
        self._known: dict[str | None, dict[Ref, tuple[object, T | None]]] = {}

    def of_scope(self, scope: str | None) -> list[T]:
        """The knowledge of a scope's sessions. A session that cannot be read is logged."""
        before = self._known.get(scope, {})
        now: dict[Ref, tuple[object, T | None]] = {}
        for info in self._store.find("", scope=scope):
            state = (info.size, info.modified)
            known = before.get(info.path)
            if known is not None and known[0] == state:
                now[info.path] = known
                continue
            try:
                with closing(self._store.read(info.path)) as log:
                    now[info.path] = (state, self._read(log))
            except SessionTreeError as error:
                logger.warning("left out of the list: %s", error)
        self._known[scope] = now
        return [made for _, made in now.values() if made is not None]
