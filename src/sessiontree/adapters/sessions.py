"""The sessions that an adapter works on, by the ids that its framework gives them.

A framework asks for one conversation after the other, from any task or thread, and never says which
it is done with. So the sessions used last stay open, each with a lock and a thread of its own:

    await sessions.run("chat-42", work)     work(manager) on that session's thread
    sessions.use("chat-42", work)           the same, in the caller's thread

``work`` finds the session caught up with what other processes wrote, standing where they left it.
Work that other writers must not interrupt goes through ``append``.

After an error of the disk the session is closed: what was not acknowledged is not saved later,
and the next call reads what is really there.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from sessiontree.errors import (
    InvalidIdError,
    PersistenceError,
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
)
from sessiontree.model.header import Header
from sessiontree.model.ids import sha256_hex
from sessiontree.profiles import Profile
from sessiontree.session.manager import SessionManager
from sessiontree.session.worker import DiskThread, run_to_end
from sessiontree.stores import Storage, choose_store
from sessiontree.stores.base import Ref, SessionStore, StrPath
from sessiontree.stores.identity import new_header, require_id

R = TypeVar("R")

Wanted = Mapping[str, Any]
"""An entry to append, as ``SessionManager.append_many`` takes it."""

_HASH = 32
_LOOKS_HASHED = re.compile(rf".*\.[0-9a-f]{{{_HASH}}}", re.DOTALL)
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


def session_id_of(key: str) -> str:
    """The session id for a framework's id: the same if it can be one, else a readable hash of it.

    Two keys never share an id: a key that looks like such a hash is hashed as well.
    """
    with suppress(InvalidIdError):
        if not _LOOKS_HASHED.fullmatch(require_id(key)):
            return key
    readable = _UNFIT.sub("-", key).strip("-")[:64] or "session"
    digest = sha256_hex(key.encode("utf-8", "surrogatepass"))
    return f"{readable}.{digest[:_HASH]}"


def key_of(header: Header) -> str:
    """The framework's id of the session with this header."""
    key = header.get("key")
    return key if isinstance(key, str) else str(header.get("id", ""))


def append(manager: SessionManager, make: Callable[[], Sequence[Wanted]]) -> list[str]:
    """Append what ``make`` gives, in one write, with no other process writing meanwhile; their ids.

    ``make`` finds in the session what others wrote. In some stores it is called again if somebody
    was faster. The last of the entries is where the session then stands, whatever their parents.
    """
    return manager.append_many(make, to_last=True)


@dataclass(eq=False)
class _Slot:
    """One session: perhaps open, and how many calls are using it or waiting for it."""

    place: tuple[str | None, str]
    """Its scope, and the framework's id."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    manager: SessionManager | None = None
    users: int = 0
    thread: DiskThread = field(default_factory=DiskThread)

    def leave(self) -> None:
        """Close a session that is not to be written to."""
        manager, self.manager = self.manager, None
        if manager is not None:
            manager.abandon()

    def close(self) -> None:
        """Close the session, with all of it on the medium; raise what prevents that.

        No leaf is kept, as closing a manager would: where the conversation stands has been said by
        the one that moved it, and others may have continued since.
        """
        with self.lock:
            manager, self.manager = self.manager, None
            self.thread.close()
            if manager is not None:
                try:
                    if manager.store.exists(manager.ref):  # else it was deleted, here or elsewhere
                        manager.flush()
                finally:
                    manager.abandon()


class OpenSessions:
    """The sessions of one adapter. Any number of threads and tasks may use it."""

    def __init__(
        self,
        harness: str,
        *,
        storage: Storage | None = None,
        profile: str | Profile | None = None,
        scope: str | None = None,
        cwd: StrPath | None = None,
        keep_open: int = 64,
    ) -> None:
        """``harness`` names the framework in the header of new sessions; ``cwd`` is their project,
        by default the current folder.
        """
        self.store: SessionStore = choose_store(storage, profile)
        self.scope = scope
        self.cwd = os.path.abspath(cwd or os.getcwd())
        self._harness = harness
        self._keep_open = keep_open
        self._slots: OrderedDict[tuple[str | None, str], _Slot] = OrderedDict()
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _close_dropped, self._slots)

    # -- using a session -------------------------------------------------------------------

    def use(
        self,
        key: str,
        work: Callable[[SessionManager], R],
        *,
        create: bool = True,
        header: Mapping[str, Any] | None = None,
        scope: str | None = None,
        only_appends: bool = False,
    ) -> R:
        """The result of ``work`` for the session of this id, run in this thread.

        Without ``create``, SessionNotFoundError if there is none; ``header`` has more fields for
        a new one; ``scope`` is the session's if it is not the adapter's. Work that ``only_appends``
        looks at the session in nothing but what it gives to ``append``, which catches up. Raises
        what ``work`` raises, and a SessionTreeError of the store.
        """
        slot = self._take(key, scope)
        try:
            return self._use(slot, work, create, header, only_appends)
        finally:
            _close(self._give_back(slot))

    async def run(
        self,
        key: str,
        work: Callable[[SessionManager], R],
        *,
        create: bool = True,
        header: Mapping[str, Any] | None = None,
        scope: str | None = None,
        only_appends: bool = False,
    ) -> R:
        """The same on the session's own thread, in the order of the calls.

        A call that has begun is completed even if the task is cancelled meanwhile.
        """
        slot = self._take(key, scope)
        try:
            return await slot.thread.run(self._use, slot, work, create, header, only_appends)
        finally:
            idle = self._give_back(slot)
            if idle:
                await self.elsewhere(lambda: _close(idle))

    async def elsewhere(self, work: Callable[[], R]) -> R:
        """Run work that is about no single session, off the event loop."""
        return await run_to_end(asyncio.ensure_future(asyncio.to_thread(work)))

    def locate(self, key: str, *, scope: str | None = None) -> Ref | None:
        """The session of this id, if there is one."""
        scope = self.scope if scope is None else scope
        return self.store.locate(session_id_of(key), scope=scope)

    def delete(self, key: str, *, permanently: bool = False, scope: str | None = None) -> None:
        """Move a session to the trash, or remove it for good; nothing if there is none."""

        def delete(manager: SessionManager) -> None:
            manager.delete(permanently=permanently)

        with suppress(SessionNotFoundError):
            self.use(key, delete, create=False, scope=scope)

    def _use(
        self,
        slot: _Slot,
        work: Callable[[SessionManager], R],
        create: bool,
        header: Mapping[str, Any] | None,
        only_appends: bool,
    ) -> R:
        with slot.lock:
            try:
                if slot.manager is not None and not self.store.exists(slot.manager.ref):
                    slot.leave()  # deleted or moved; an append would bring it back
                if slot.manager is None:
                    slot.manager = self._open(*slot.place, create, header or {})
                elif not only_appends:
                    slot.manager.catch_up()
                return work(slot.manager)
            except PersistenceError:
                slot.leave()
                raise

    def _open(
        self, scope: str | None, key: str, create: bool, fields: Mapping[str, Any]
    ) -> SessionManager:
        ref = self.store.locate(session_id_of(key), scope=scope)
        if ref is None:
            if not create:
                raise SessionNotFoundError(key)
            try:
                return self._create(scope, key, fields)
            except SessionExistsError as error:
                ref = error.ref  # another process was faster
        return SessionManager(self.store.open(ref, cwd=self.cwd), leaves_breadcrumb=False)

    def _create(self, scope: str | None, key: str, fields: Mapping[str, Any]) -> SessionManager:
        session_id = session_id_of(key)
        header = new_header(
            self.store,
            self.cwd,
            session_id=session_id,
            scope=scope,
        )
        wire = cast("dict[str, Any]", header)
        wire |= {"harness": self._harness, **fields}
        if key != session_id:
            wire["key"] = key
        return SessionManager(self.store.create(header, is_new_id=False), leaves_breadcrumb=False)

    # -- which are open --------------------------------------------------------------------

    def _take(self, key: str, scope: str | None) -> _Slot:
        place = (self.scope if scope is None else scope, key)
        with self._lock:
            slot = self._slots.get(place)
            if slot is None:
                slot = self._slots[place] = _Slot(place)
            self._slots.move_to_end(place)
            slot.users += 1
            return slot

    def _give_back(self, slot: _Slot) -> list[_Slot]:
        """The sessions to close now, because more are open than shall stay so."""
        with self._lock:
            slot.users -= 1
            too_many = len(self._slots) - self._keep_open
            if too_many <= 0:
                return []
            oldest = [*self._slots.values()][:too_many]
            idle = [each for each in oldest if not each.users]
            for each in idle:
                del self._slots[each.place]
            return idle

    def close(self) -> None:
        """Close all sessions; using one again opens it."""
        with self._lock:
            slots = [*self._slots.values()]
            self._slots.clear()
        _close(slots)

    async def aclose(self) -> None:
        """The same off the event loop."""
        await asyncio.to_thread(self.close)


def _close_dropped(slots: OrderedDict[tuple[str | None, str], _Slot]) -> None:
    """Close the sessions of an adapter that was dropped without being closed.

    Where it was dropped there may be an event loop, so that is done elsewhere; not at the end of
    the program, which would not wait for a thread any more.
    """

    def close() -> None:
        with suppress(SessionTreeError):
            _close([*slots.values()])

    if not slots:
        return
    if threading.main_thread().is_alive():
        threading.Thread(target=close, name="sessiontree-close").start()
    else:
        close()


def _close(slots: Sequence[_Slot]) -> None:
    """Close all; the first error is raised when all are closed."""
    errors = []
    for slot in slots:
        try:
            slot.close()
        except SessionTreeError as error:
            errors.append(error)
    if errors:
        raise errors[0]
