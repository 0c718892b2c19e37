"""``SessiontreeSessionService``: the sessions of Google's ADK.

    service = SessiontreeSessionService()
    runner = Runner(app_name="helper", agent=agent, session_service=service)

A session is one of its app and user (its scope), and each event one object of it
(``adapters.entries``), as messages that everybody can read. What ADK does to a session becomes a
move in its tree:

=================== ============================================================================
``append_event``    entries below what others have added meanwhile
a rewind            a branch from before the invocation; what came later stays in the tree
``delete_session``  the session goes to the trash
=================== ============================================================================

**State** is what the events on the current branch have set, so a rewind takes it back as well.
That of users and apps is in sessions of its own (``adapters.adk_state``).

**Stale sessions.** A ``Session`` is a copy, and others may have added events since. Then these come
into the copy, in their order, before the new event. That is refused, with ADK's StaleSessionError,
only where a change would be lost: if the new event sets a value that one of these has set as well,
or the conversation was taken back to before the copy's last event.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar
from urllib.parse import quote
from weakref import WeakKeyDictionary, WeakValueDictionary

try:
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError as NotFoundError
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions
    from google.adk.sessions import BaseSessionService, Session
    from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
    from pydantic import ValidationError
    from pydantic_core import to_jsonable_python
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'google-adk is not installed: pip install "sessiontree[adk]"', name=error.name
    ) from error

from sessiontree.adapters import readable
from sessiontree.adapters.adk_events import as_standard_base64, messages_of
from sessiontree.adapters.adk_state import (
    HARNESS,
    SIGN,
    SharedState,
    Standing,
    State,
    before_event,
    delta_of,
    event_of,
    events_up,
    is_late,
    merge_state,
    read_standing,
    session_entry,
    split_state,
    state_entries,
    timestamp_of,
)
from sessiontree.adapters.entries import entries_of, fresh_id, holds_object, skip, wire
from sessiontree.adapters.learned import LearnedSessions, ListedSessions
from sessiontree.adapters.sessions import OpenSessions, Wanted, append, key_of
from sessiontree.adapters.verbatim import UnpackError
from sessiontree.errors import SessionNotFoundError
from sessiontree.logs import get_logger
from sessiontree.model.entries import Entry
from sessiontree.model.ids import new_uuid7
from sessiontree.profiles import Profile
from sessiontree.session.manager import SessionManager
from sessiontree.stores import Storage
from sessiontree.stores.base import SessionLog, StrPath

__all__ = ["SessiontreeSessionService"]

logger = get_logger(__name__)

R = TypeVar("R")


class SessiontreeSessionService(BaseSessionService):
    """Keep ADK's sessions in a Sessiontree store.

    ``storage``, ``profile`` and ``scope`` say where, as for ``SessionManager``; the default is
    Sessiontree's own files, in the project ``cwd``. The sessions of each app and user have a scope
    of their own (``scope_of``). ``delete_session`` moves a session to the trash, with
    ``delete_permanently`` it removes it.
    """

    def __init__(
        self,
        *,
        storage: Storage | None = None,
        profile: str | Profile | None = None,
        scope: str | None = None,
        cwd: StrPath | None = None,
        delete_permanently: bool = False,
    ) -> None:
        self.scope = scope
        self._sessions = OpenSessions(HARNESS, storage=storage, profile=profile, cwd=cwd)
        self.store = self._sessions.store
        """Where the sessions are kept."""
        self._delete_permanently = delete_permanently
        self._standing: WeakKeyDictionary[SessionManager, Standing] = WeakKeyDictionary()
        self._shared = LearnedSessions(SharedState)
        self._locks: WeakValueDictionary[Any, asyncio.Lock] = WeakValueDictionary()
        self._listed = ListedSessions(self.store, _read_listed)

    # -- the protocol ----------------------------------------------------------------------

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session. Raises AlreadyExistsError."""
        clock = self.store.clock
        session_id = (session_id or "").strip() or new_uuid7(clock(), os.urandom)
        given = to_jsonable_python(state or {}, serialize_unknown=True, bytes_mode="base64")
        app, user, own = split_state(given)
        standing = Standing(state=own, updated=clock() / 1000)
        fields = {"appName": app_name, "userId": user_id, "id": session_id}

        def create(manager: SessionManager) -> Standing:
            def make() -> list[Wanted]:
                if manager.get_entries():
                    raise AlreadyExistsError(f"Session with id {session_id} already exists.")
                return [session_entry(fields, standing)]

            append(manager, make)
            return self._stand(manager)

        await self._note_user(app_name, user_id)
        scope = self.scope_of(app_name, user_id)
        made = await self._sessions.run(session_id, create, scope=scope, header={SIGN: fields})
        await self._share(app_name, user_id, app, user)
        session = Session(app_name=app_name, user_id=user_id, id=session_id)
        return await self._filled(session, made)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """The session as it is now, or None.

        With a ``config`` only the events that it wants are read.
        """
        session_id = session_id.strip()
        wanted = config or GetSessionConfig()

        def read(manager: SessionManager) -> tuple[Standing, list[Event]]:
            return self._stand(manager), _read(manager, wanted)

        try:
            scope = self.scope_of(app_name, user_id)
            standing, events = await self._sessions.run(session_id, read, create=False, scope=scope)
        except SessionNotFoundError:
            return None
        session = Session(app_name=app_name, user_id=user_id, id=session_id, events=events)
        return await self._filled(session, standing)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """The sessions of a user, or of all users of an app, without their events.

        The one that was used last is the last.
        """
        users = [user_id] if user_id is not None else await self._users(app_name)
        found: list[Session] = []
        app = await self._state_of(app_name)
        for each in users:
            listed = await self._sessions.elsewhere(lambda each=each: self._list(app_name, each))  # type: ignore[misc]
            user = await self._state_of(app_name, each) if listed else {}
            for one in listed:
                session = Session(app_name=app_name, user_id=each, id=one.session_id)
                session.state = merge_state(app, user, dict(one.standing.state))
                found.append(_at(session, one.standing))
        found.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=found)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session; nothing if there is none."""
        scope, permanently = self.scope_of(app_name, user_id), self._delete_permanently
        await self._sessions.elsewhere(
            lambda: self._sessions.delete(session_id.strip(), permanently=permanently, scope=scope)
        )

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """A user's state, by keys without "user:"."""
        return await self._state_of(app_name, user_id)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event to a session, and to this copy of it.

        An event that already exists is not appended again. Raises SessionNotFoundError of ADK,
        and StaleSessionError where a change of somebody else would be lost.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        place = (asyncio.get_running_loop(), session.app_name, session.user_id, session.id)
        lock = self._locks.setdefault(place, asyncio.Lock())
        async with lock:  # events that one program appends at once come in the order of the calls
            written = await self._append(session, event)
            _bring_up(session, written)
            if written.is_new or event not in session.events:
                self._commit_event_to_session(session, event)
            if written.is_rewind:
                session.state = written.merged(session.state)
            _at(session, written.standing)
        return event

    # -- its own ---------------------------------------------------------------------------

    def scope_of(self, app_name: str, user_id: str) -> str:
        """The scope of a user's sessions, for ``SessionManager.list`` and ``search``."""
        return f"{self._app_scope(app_name)}/{_quoted(user_id)}"

    async def aclose(self) -> None:
        """Close all sessions. The service can be used again."""
        await self._sessions.aclose()

    async def close(self) -> None:
        """The same, as ADK's Runner calls it."""
        await self.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # -- appending -------------------------------------------------------------------------

    async def _append(self, session: Session, event: Event) -> _Written:
        scope = self.scope_of(session.app_name, session.user_id)
        write = _Write(session, event)

        async def run(work: Callable[[SessionManager], R]) -> R:
            try:
                return await self._sessions.run(session.id, work, create=False, scope=scope)
            except SessionNotFoundError:
                raise NotFoundError(f"Session {session.id} not found.") from None

        def add(manager: SessionManager) -> _Written:
            append(manager, lambda: write.entries(manager, self._stand(manager)))
            return write.written(self._stand(manager))

        app, user, _ = split_state(delta_of(write.value))
        if app or user:
            # What is refused must not have changed them, and an event that is there, they have it.
            await run(lambda manager: write.entries(manager, self._stand(manager)))
            await self._share(session.app_name, session.user_id, app, user, event.id)
        return await run(add)

    def _stand(self, manager: SessionManager) -> Standing:
        known = self._standing.get(manager, Standing())
        found = read_standing(manager.leaf_entry, manager.get_entry, known)
        self._standing[manager] = found
        return found

    async def _filled(self, session: Session, standing: Standing) -> Session:
        """The session with all its state."""
        app = await self._state_of(session.app_name)
        user = await self._state_of(session.app_name, session.user_id)
        session.state = merge_state(app, user, dict(standing.state))
        return _at(session, standing)

    # -- users and apps --------------------------------------------------------------------

    def _app_scope(self, app_name: str) -> str:
        name = _quoted(app_name)
        return name if self.scope is None else f"{self.scope}/{name}"

    async def _use_shared(
        self,
        app_name: str,
        user_id: str | None,
        work: Callable[[SharedState], R],
        *,
        create: bool = False,
    ) -> R | None:
        """Return the result of ``work`` for the state of an app or a user, if there is any."""

        def use(manager: SessionManager) -> R:
            return work(self._shared.caught_up(manager))

        key = "app" if user_id is None else f"user:{user_id}"
        # no user has this scope, since a colon in a user's is spelled otherwise
        scope = f"{self._app_scope(app_name)}/:state"
        try:
            return await self._sessions.run(key, use, create=create, scope=scope)
        except SessionNotFoundError:
            return None

    async def _state_of(self, app_name: str, user_id: str | None = None) -> State:
        found = await self._use_shared(app_name, user_id, lambda shared: dict(shared.values))
        return found or {}

    async def _share(
        self, app_name: str, user_id: str, app: State, user: State, key: str | None = None
    ) -> None:
        for delta, whose in ((app, None), (user, user_id)):
            if delta:
                await self._use_shared(
                    app_name,
                    whose,
                    lambda shared, delta=delta: shared.set(delta, key=key),  # type: ignore[misc]
                    create=True,
                )

    async def _note_user(self, app_name: str, user_id: str) -> None:
        await self._use_shared(app_name, None, lambda shared: shared.add_user(user_id), create=True)

    async def _users(self, app_name: str) -> list[str]:
        found = await self._use_shared(app_name, None, lambda shared: [*shared.users])
        return found or []

    # -- listing ---------------------------------------------------------------------------

    def _list(self, app_name: str, user_id: str) -> list[_Listed]:
        """A user's sessions."""
        return self._listed.of_scope(self.scope_of(app_name, user_id))


@dataclass(frozen=True, slots=True)
class _Listed:
    session_id: str
    standing: Standing


def _read_listed(log: SessionLog) -> _Listed:
    tree = log.tree
    leaf = tree.by_id.get(tree.leaf_id) if tree.leaf_id is not None else None
    return _Listed(key_of(log.header), read_standing(leaf, tree.by_id.get, Standing()))


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="surrogatepass")


# -- a copy that programs hold -----------------------------------------------------------------


def _at(session: Session, standing: Standing) -> Session:
    """The session, with a note of what in the store it is a copy of."""
    session.last_update_time = standing.updated
    session._storage_update_marker = standing.tip  # noqa: SLF001 - ADK has it for its services
    return session


@dataclass(frozen=True, slots=True)
class _Written:
    """The changes for a copy after an event was appended."""

    standing: Standing
    missed: list[Event]
    """The events that others had added."""
    kept: frozenset[str] | None
    """The events that a rewind has left, by their ids."""
    is_new: bool
    """Whether the event was not there already."""

    @property
    def is_rewind(self) -> bool:
        return self.kept is not None

    def merged(self, state: State) -> State:
        """The copy's state, with the conversation's own as it is in the store."""
        shared = {key: value for key, value in state.items() if key.startswith(_SHARED)}
        return {**shared, **self.standing.state}


_SHARED = ("app:", "user:", "temp:")


def _bring_up(session: Session, written: _Written) -> None:
    """Put what others have added into the copy, and take out what a rewind left behind."""
    known = {each.id for each in session.events} if written.missed else set()
    for event in written.missed:
        if event.id not in known:
            session.events.append(event)
            session.state.update(
                {k: v for k, v in event.actions.state_delta.items() if not k.startswith("temp:")}
            )
    if written.kept is not None:
        session.events[:] = [each for each in session.events if each.id in written.kept]


# -- writing -----------------------------------------------------------------------------------


@dataclass
class _Write:
    """One event to append, with the events of others before it."""

    session: Session
    event: Event
    value: dict[str, Any] = field(init=False)
    missed: list[Event] = field(default_factory=list)
    kept: frozenset[str] | None = None
    is_new: bool = False

    def __post_init__(self) -> None:
        self.value = _to_json(self.event)

    def written(self, standing: Standing) -> _Written:
        return _Written(standing, self.missed, self.kept, self.is_new)

    def entries(self, manager: SessionManager, standing: Standing) -> list[Wanted]:
        """The entries to append, as the session is now; none if it has the event.

        Raises StaleSessionError.
        """
        self.kept, self.missed, self.is_new = None, [], False
        twin = manager.get_entry(self.event.id)
        if twin is not None and self._is_of(twin, manager):
            return []
        self.is_new = True
        missed = _missed(self.session, manager)
        self.missed = [each for entry, value in missed if (each := _event(entry, value))]
        self._refuse_clashes([value for _, value in missed])
        signs: dict[str, Any] = {}
        branch = self._branch_point(manager)
        if branch is not None:
            parent, self.kept = branch
            made: list[Wanted] = []
            signs["rewound"] = True
        else:
            parent, made = _below_state(manager, standing)
        if timestamp_of(self.value) < standing.latest:
            signs["late"] = True
        entry_id = self.event.id if twin is None and _is_fit(self.event.id) else fresh_id(manager)
        messages = messages_of(self.value, self._at_ms(manager))
        readable.complete(messages, manager.store.dialect)
        made += entries_of(HARNESS, self.value, messages, entry_id=entry_id, parent_id=parent)
        if signs:
            made[-1] = {**made[-1], SIGN: signs}
        return made

    def _is_of(self, entry: Entry, manager: SessionManager) -> bool:
        """Whether an entry holds this very event: it was sent twice."""
        data = wire(entry)
        return holds_object(data, HARNESS) and self.value == event_of(
            entry, data, manager.get_entry
        )

    def _refuse_clashes(self, missed: list[dict[str, Any]]) -> None:
        mine = split_state(delta_of(self.value))[2]
        for event in missed:
            theirs = split_state(delta_of(event))[2]
            for key in mine.keys() & theirs.keys():
                if mine[key] != theirs[key]:
                    raise StaleSessionError(
                        f"{key!r} of session {self.session.id} was changed meanwhile: get the "
                        "session again, and append the event to it."
                    )

    def _branch_point(self, manager: SessionManager) -> tuple[str | None, frozenset[str]] | None:
        """The entry that a rewind goes back to, and the events that it leaves, by their ids."""
        invocation = self.event.actions.rewind_before_invocation_id
        if not invocation:
            return None
        first: Entry | None = None
        left: set[str] = set()
        for entry, _, event in events_up(manager.leaf_entry, manager.get_entry):
            if event.get("invocation_id") == invocation:
                first = entry
                left.clear()
            else:
                left.add(str(event.get("id")))
        if first is None:
            return None
        return before_event(first, manager.get_entry), frozenset(left)

    def _at_ms(self, manager: SessionManager) -> int:
        return readable.milliseconds(self.event.timestamp, manager.store.clock())


def _below_state(manager: SessionManager, standing: Standing) -> tuple[str | None, list[Wanted]]:
    """The entry below which to append, and first one with the whole state if it is time for it."""
    made = state_entries(standing)
    if not made:
        return manager.leaf_id, []
    state_id = fresh_id(manager)
    return state_id, [{**made[0], "id": state_id, "parentId": manager.leaf_id}]


def _missed(session: Session, manager: SessionManager) -> list[tuple[Entry, dict[str, Any]]]:
    """The events that the copy lacks, oldest first. Raises StaleSessionError if it is elsewhere."""
    marker = session._storage_update_marker  # noqa: SLF001
    if marker is None or manager.get_entry(marker) is None:
        if not session.events:
            return []  # made by hand, to append to: it shows nothing, so it misses nothing
        marker = session.events[-1].id
    found: list[tuple[Entry, dict[str, Any]]] = []
    entry = manager.leaf_entry
    while entry is not None and entry.id != marker:
        data = wire(entry)
        event = event_of(entry, data, manager.get_entry) if holds_object(data, HARNESS) else None
        if event is not None:
            found.append((entry, event))
        entry = manager.get_entry(entry.parent_id) if entry.parent_id is not None else None
    if entry is None:
        raise StaleSessionError(
            f"Session {session.id} was taken back to an earlier event, or has not the copy's last "
            "one: get the session again."
        )
    return found[::-1]


def _is_fit(entry_id: str) -> bool:
    return 0 < len(entry_id) <= 100 and entry_id.isprintable()


# -- reading -----------------------------------------------------------------------------------


def _read(manager: SessionManager, wanted: GetSessionConfig) -> list[Event]:
    """The events that are wanted, oldest first; nothing above them is read."""
    count, after = wanted.num_recent_events, wanted.after_timestamp
    found: list[Event] = []
    left = count
    if left == 0:
        return found
    for entry, data, value in events_up(manager.leaf_entry, manager.get_entry):
        if after is not None and timestamp_of(value) < after:
            if not is_late(data):
                break  # all above are older still
        else:
            event = _event(entry, value)
            if event is not None:
                found.append(event)
        if left is not None:
            left -= 1
            if left == 0:
                break
    return found[::-1]


def _event(entry: Entry, value: dict[str, Any]) -> Event | None:
    """The event; without the fields of a version to come that this one refuses."""
    try:
        return Event.model_validate(value)
    except ValidationError as error:
        try:
            return Event.model_validate(_without_unknown(value, error))
        except (ValidationError, UnpackError) as again:
            skip(entry, HARNESS, again)
            return None


def _without_unknown(value: dict[str, Any], error: ValidationError) -> dict[str, Any]:
    known: dict[str, Any] = to_jsonable_python(value)
    for each in error.errors(include_url=False, include_input=False):
        if each["type"] != "extra_forbidden":
            raise UnpackError(each["msg"])
        holder: Any = known
        for step in each["loc"][:-1]:
            holder = holder[step]
        del holder[each["loc"][-1]]
    return known


_EMPTY_IN_MOST = [
    name for name, each in EventActions.model_fields.items() if each.default_factory is dict
]


def _to_json(event: Event) -> dict[str, Any]:
    """The event without what is empty in every event."""
    value = event.model_dump(mode="json", exclude_none=True)
    actions = value.get("actions")
    if isinstance(actions, dict):
        value["actions"] = {
            key: each for key, each in actions.items() if each or key not in _EMPTY_IN_MOST
        }
    for key, empty in (("actions", {}), ("node_info", {"path": ""})):
        if value.get(key) == empty:
            del value[key]
    made: dict[str, Any] = as_standard_base64(value)
    return made
