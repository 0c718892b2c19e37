"""``SessiontreeSessionRepository``: the sessions of Strands agents.

    repository = SessiontreeSessionRepository()
    manager = RepositorySessionManager("chat-42", repository)
    agent = Agent(model=model, session_manager=manager)

Each agent of a session is a branch, which begins with its ``strands.agent`` entry. A message is one
object below the message before it (``adapters.entries``); the agent's state is the last
``strands.agent`` entry above its last message. So if you go back to an earlier entry, with
``sessiontree`` or ``SessionManager.branch``, the agent is as it was there.

Redacting leaves the message in the log: a ``context_edit`` below it has what stands there now.

The protocol is synchronous, and so is this: Strands calls it where the agent runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

try:
    from strands.session import SessionRepository
    from strands.types.exceptions import SessionException
    from strands.types.session import Session, SessionAgent, SessionMessage
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'strands-agents is not installed: pip install "sessiontree[strands]"', name=error.name
    ) from error

from sessiontree.adapters import readable
from sessiontree.adapters.entries import (
    COUNT,
    entries_of,
    fresh_id,
    holds_object,
    newest_first,
    skip,
    wire,
)
from sessiontree.adapters.learned import LearnedSession, LearnedSessions
from sessiontree.adapters.sessions import OpenSessions, Wanted, append
from sessiontree.adapters.strands_messages import PROVIDER, messages_of
from sessiontree.adapters.verbatim import NATIVE, UnpackError, pack, unpack
from sessiontree.discovery.adapters.records import get_object
from sessiontree.errors import SessionNotFoundError
from sessiontree.logs import get_logger
from sessiontree.model.entries import Entry
from sessiontree.model.messages import WireMessage, as_text
from sessiontree.profiles import Profile
from sessiontree.session.manager import SessionManager
from sessiontree.stores import Storage
from sessiontree.stores.base import StrPath

if TYPE_CHECKING:
    from strands.multiagent.base import MultiAgentBase

logger = get_logger(__name__)

HARNESS = PROVIDER
SESSION = "strands.session"
AGENT = "strands.agent"
MULTI_AGENT = "strands.multi-agent"
_NAMELESS = "default"
"""The ID that Strands gives to an agent without one."""

R = TypeVar("R")


class SessiontreeSessionRepository(SessionRepository):
    """Keep Strands' sessions in a Sessiontree store.

    ``storage``, ``profile`` and ``scope`` say where, as for ``SessionManager``; the default is
    Sessiontree's own files, in the project ``cwd``. Any number of session managers, threads and
    processes may share one session. A number that another of them has given to a message
    meanwhile is not given again: ``create_message`` changes ``message_id`` to the next one.
    """

    def __init__(
        self,
        *,
        storage: Storage | None = None,
        profile: str | Profile | None = None,
        scope: str | None = None,
        cwd: StrPath | None = None,
    ) -> None:
        self._sessions = OpenSessions(
            HARNESS, storage=storage, profile=profile, scope=scope, cwd=cwd
        )
        self._known = LearnedSessions(_Session)

    # -- sessions --------------------------------------------------------------------------

    def create_session(self, session: Session, **kwargs: Any) -> Session:  # noqa: ARG002
        """Create a session. Raises SessionException if there is one of this ID."""

        def make(known: _Session) -> list[Wanted]:
            if known.find(SESSION) is not None:
                raise SessionException(f"Session {session.session_id} already exists")
            return [_record(SESSION, session.to_dict())]

        self._append(session.session_id, make, create=True)
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:  # noqa: ARG002
        """The session of this ID, or None."""
        found = self._read(session_id, lambda known: known.find(SESSION))
        return None if found is None else Session.from_dict(found)

    def delete_session(self, session_id: str, **kwargs: Any) -> None:  # noqa: ARG002
        """Move a session to the trash. Raises SessionException if there is none."""
        if self._sessions.locate(session_id) is None:
            raise SessionException(f"Session {session_id} does not exist")
        self._sessions.delete(session_id)

    # -- agents ----------------------------------------------------------------------------

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:  # noqa: ARG002
        """Create an agent, which begins a branch, or replace the state of one there is."""
        fields = session_agent.to_dict()
        self._append(
            session_id,
            lambda known: [known.agent_entry(session_agent.agent_id, fields)],
            create=True,
        )

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:  # noqa: ARG002
        """The agent as it was where its conversation stands, or None."""
        found = self._read(session_id, lambda known: known.agent(agent_id))
        return None if found is None else SessionAgent.from_dict(found)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:  # noqa: ARG002
        """Keep an agent's state. Raises SessionException if there is no such agent."""
        agent_id = session_agent.agent_id

        def make(known: _Session) -> list[Wanted]:
            previous = known.agent(agent_id)
            if previous is None:
                raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")
            session_agent.created_at = previous.get("created_at", session_agent.created_at)
            fields = session_agent.to_dict()
            kept = {key: value for key, value in previous.items() if key not in fields}
            return [known.agent_entry(agent_id, {**kept, **fields})]

        self._append(session_id, make)

    # -- messages --------------------------------------------------------------------------

    def create_message(
        self,
        session_id: str,
        agent_id: str,
        session_message: SessionMessage,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Append a message. If another one has its number, it gets the next that is free."""
        given = session_message.message_id

        def make(known: _Session) -> list[Wanted]:
            numbers = known.thread(agent_id).numbers
            session_message.message_id = max(numbers) + 1 if given in numbers else given
            return known.message_entries(agent_id, session_message.to_dict())

        self._append(session_id, make, create=True)

    def read_message(
        self,
        session_id: str,
        agent_id: str,
        message_id: int,
        **kwargs: Any,  # noqa: ARG002
    ) -> SessionMessage | None:
        """The message of this number, or None."""
        found = self._read(session_id, lambda known: known.message(agent_id, message_id))
        return None if found is None else _message(found)

    def update_message(
        self,
        session_id: str,
        agent_id: str,
        session_message: SessionMessage,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Show and give something else in place of a message; the log keeps what stood there.

        Raises SessionException if there is no such message.
        """
        number = session_message.message_id

        def make(known: _Session) -> list[Wanted]:
            previous = known.message(agent_id, number)
            if previous is None:
                raise SessionException(f"Message {number} does not exist")
            session_message.created_at = previous.get("created_at", session_message.created_at)
            return known.edit_entries(agent_id, number, previous, session_message.to_dict())

        self._append(session_id, make)

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,  # noqa: ARG002
    ) -> list[SessionMessage]:
        """An agent's messages by number. Raises SessionException if there is no such agent."""
        end = None if limit is None else offset + limit
        found = self._read(session_id, lambda known: known.messages(agent_id, offset, end))
        if found is None:
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")
        return [made for each in found if (made := _message(each)) is not None]

    # -- graphs and swarms -----------------------------------------------------------------

    def create_multi_agent(
        self,
        session_id: str,
        multi_agent: MultiAgentBase,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Keep the state of a graph or swarm."""
        entry = _record(MULTI_AGENT, multi_agent.serialize_state(), key=multi_agent.id)
        self._append(session_id, lambda _: [entry], create=True)

    def read_multi_agent(
        self,
        session_id: str,
        multi_agent_id: str,
        **kwargs: Any,  # noqa: ARG002
    ) -> dict[str, Any] | None:
        """The state of a graph or swarm, or None."""
        return self._read(session_id, lambda known: known.find(MULTI_AGENT, multi_agent_id))

    def update_multi_agent(
        self,
        session_id: str,
        multi_agent: MultiAgentBase,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Keep the state of a graph or swarm. Raises SessionException if there is none."""
        name, state = multi_agent.id, multi_agent.serialize_state()

        def make(known: _Session) -> list[Wanted]:
            if known.find(MULTI_AGENT, name) is None:
                raise SessionException(
                    f"MultiAgent state {name} in session {session_id} does not exist"
                )
            return [_record(MULTI_AGENT, state, key=name)]

        self._append(session_id, make)

    # -- its own ---------------------------------------------------------------------------

    def close(self) -> None:
        """Close all sessions. The repository can be used again."""
        self._sessions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, session_id: str, work: Callable[[_Session], R]) -> R | None:
        try:
            return self._sessions.use(
                session_id, lambda manager: work(self._known.caught_up(manager)), create=False
            )
        except SessionNotFoundError:
            return None

    def _append(
        self, session_id: str, make: Callable[[_Session], list[Wanted]], *, create: bool = False
    ) -> None:
        def write(manager: SessionManager) -> None:
            append(manager, lambda: make(self._known.caught_up(manager)))

        try:
            self._sessions.use(session_id, write, create=create)
        except SessionNotFoundError:
            raise SessionException(f"Session {session_id} does not exist") from None


@dataclass
class _Thread:
    """One agent's branch, up to where its conversation stands."""

    tip: str | None = None
    numbers: dict[int, str] = field(default_factory=dict)
    """The entry of each message by its number."""


class _Session(LearnedSession):
    """An open session, with what is known of its agents."""

    def _forget(self) -> None:
        self._threads: dict[str, _Thread] = {}
        self._thread_of: dict[str, _Thread] = {}
        self._tools: dict[str, str] = {}

    def _learn(self, entry: Entry) -> None:
        data = wire(entry)
        thread = self._thread_of.get(entry.parent_id or "")
        agent_id = data.get("key") if data.get("customType") == AGENT else None
        if isinstance(agent_id, str):
            thread = self._threads.setdefault(agent_id, thread or _Thread())
        if thread is None:
            return
        self._thread_of[entry.id] = thread
        if thread.tip is not None and entry.parent_id != thread.tip:
            path = self._manager.get_branch(entry.parent_id) if entry.parent_id else []
            thread.numbers = {}
            for each in path:
                self._note(thread, each, wire(each))
        thread.tip = entry.id
        self._note(thread, entry, data)

    def _note(self, thread: _Thread, entry: Entry, data: dict[str, Any]) -> None:
        number = _number_of(entry, data)
        if number is not None:
            thread.numbers[number] = entry.id
        message = data.get("message")
        if isinstance(message, dict) and message.get("role") == "assistant":
            for block in message.get("content") or ():
                if isinstance(block, dict) and block.get("type") == "toolCall":
                    self._tools[as_text(block.get("id"))] = as_text(block.get("name"))

    # -- what there is ---------------------------------------------------------------------

    def thread(self, agent_id: str) -> _Thread:
        """An agent's branch; an empty one if there is no such agent."""
        return self._threads.get(agent_id) or _Thread()

    def find(self, custom_type: str, key: str | None = None) -> Any:
        """The last record of its kind, on whatever branch."""
        return _last_record(self._manager.get_entries(), custom_type, key)

    def agent(self, agent_id: str) -> Any:
        """An agent's state on its branch; None without one."""
        return _last_record(self._path(agent_id), AGENT, agent_id) or None

    def message(self, agent_id: str, number: int) -> dict[str, Any] | None:
        """A message, with what was edited in it since."""
        entry_id = self.thread(agent_id).numbers.get(number)
        found = self._objects(agent_id, {entry_id}) if entry_id is not None else []
        return found[0] if found else None

    def messages(self, agent_id: str, start: int, end: int | None) -> list[dict[str, Any]] | None:
        """The messages of an agent, in the order of their numbers; None if there is no agent."""
        if agent_id not in self._threads:
            return None
        numbers = self.thread(agent_id).numbers
        found = self._objects(agent_id, {numbers[at] for at in sorted(numbers)[start:end]})
        return sorted(found, key=lambda each: int(each["message_id"]))

    def _objects(self, agent_id: str, wanted: set[str]) -> list[dict[str, Any]]:
        edits: dict[str, dict[str, Any]] = {}
        found: list[dict[str, Any]] = []
        for entry, value in newest_first(self._path(agent_id), HARNESS):
            if not isinstance(value, dict):
                skip(entry, HARNESS, UnpackError("it is not an object"))
            elif entry.type == "context_edit":
                target = wire(entry).get("targetId", "")
                edits[target] = {**value, **edits.get(target, {})}
            elif entry.id in wanted:
                found.append({**value, **edits.get(entry.id, {})})
                if len(found) == len(wanted):
                    break
        return found

    def _path(self, agent_id: str) -> Sequence[Entry]:
        tip = self.thread(agent_id).tip
        return self._manager.get_branch(tip) if tip is not None else []

    # -- what to write ---------------------------------------------------------------------

    def agent_entry(self, agent_id: str, fields: dict[str, Any]) -> Wanted:
        """An agent's state; the first one begins its branch."""
        parent = self.thread(agent_id).tip
        if parent is None:
            first = next(iter(self._manager.get_entries()), None)
            is_session = first is not None and wire(first).get("customType") == SESSION
            parent = first.id if first is not None and is_session else None
        return {**_record(AGENT, fields, key=agent_id), "parentId": parent}

    def message_entries(self, agent_id: str, value: dict[str, Any]) -> list[Wanted]:
        """A message below the agent's last one; an agent that there is not begins with it."""
        made: list[Wanted] = []
        parent, entry_id = self.thread(agent_id).tip, fresh_id(self._manager)
        if parent is None:
            parent = f"{entry_id}.agent"
            made.append({**self.agent_entry(agent_id, {}), "id": parent})
        messages = self._readable(agent_id, value)
        made += entries_of(HARNESS, value, messages, entry_id=entry_id, parent_id=parent)
        return made

    def edit_entries(
        self, agent_id: str, number: int, previous: dict[str, Any], value: dict[str, Any]
    ) -> list[Wanted]:
        """The entries that show ``value`` instead of a message; only differences are kept."""
        thread = self.thread(agent_id)
        changes = {
            key: item for key, item in value.items() if key not in previous or previous[key] != item
        }
        group = self._group(thread.numbers[number])
        parent, made = thread.tip, []
        for target, content in _edited(group, self._readable(agent_id, value)):
            entry_id = fresh_id(self._manager)
            edit = {"type": "context_edit", "targetId": target, "parentId": parent, "id": entry_id}
            made.append({**edit, "replacement": content})
            parent = entry_id
        made[-1][NATIVE] = {HARNESS: pack(changes)}
        return [*made]

    def _group(self, entry_id: str) -> list[Entry]:
        """The entries that stand for a message, the last of which has this id."""
        path = self._manager.get_branch(entry_id)
        count = wire(path[-1]).get(COUNT, 1)
        return path[-count:] if isinstance(count, int) and count > 0 else path[-1:]

    def _readable(self, agent_id: str, value: dict[str, Any]) -> list[WireMessage]:
        manager = self._manager
        at_ms = readable.milliseconds(value.get("created_at"), manager.store.clock())
        said = value.get("redact_message") or value["message"]
        agent = agent_id if agent_id != _NAMELESS else None
        messages = messages_of(said, at_ms, self._tools, agent)
        readable.complete(messages, manager.store.dialect)
        return messages


# -- entries -----------------------------------------------------------------------------------


def _record(custom_type: str, fields: Any, *, key: str | None = None) -> dict[str, Any]:
    """An entry that only programs read, the last of its kind and key counts."""
    entry = {"type": "custom", "customType": custom_type, "data": pack(fields)}
    return entry if key is None else {**entry, "key": key}


def _last_record(entries: Sequence[Entry], custom_type: str, key: str | None) -> Any:
    for entry in reversed(entries):
        if entry.type != "custom":
            continue
        data = wire(entry)
        if data.get("customType") != custom_type or (key is not None and data.get("key") != key):
            continue
        try:
            found = unpack(data.get("data"))
            if isinstance(found, dict):
                return found
            raise UnpackError("it is not an object")
        except UnpackError as error:
            skip(entry, custom_type, error)
    return None


def _number_of(entry: Entry, data: dict[str, Any]) -> int | None:
    """The number of the message that ends with this entry, if one does."""
    if entry.type == "context_edit" or not holds_object(data, HARNESS):
        return None
    packed = data[NATIVE][HARNESS]
    number = packed.get("message_id") if isinstance(packed, dict) else None
    return number if type(number) is int else None


def _edited(
    group: Sequence[Entry], messages: Sequence[WireMessage]
) -> list[tuple[str, dict[str, Any] | None]]:
    """What replaces each entry of a message; all in the last one if they do not match."""
    before = [get_object(wire(entry), "message").get("role") for entry in group]
    if before == [message["role"] for message in messages]:
        contents = [{"content": message["content"]} for message in messages]
        return [(entry.id, content) for entry, content in zip(group, contents, strict=True)]
    blocks = [block for message in messages for block in _blocks(message["content"])]
    return [*((entry.id, None) for entry in group[:-1]), (group[-1].id, {"content": blocks})]


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [readable.text(content)] if isinstance(content, str) else content


def _message(fields: dict[str, Any]) -> SessionMessage | None:
    try:
        return SessionMessage.from_dict(fields)
    except (TypeError, ValueError) as error:
        number = fields.get("message_id")
        logger.warning("message %s cannot be read by this version of Strands: %s", number, error)
        return None
