"""``SessiontreeHistoryProvider``: the history of agents of Microsoft's agent-framework.

    agent = Agent(client, context_providers=[SessiontreeHistoryProvider()])
    session = agent.create_session(session_id="chat-42")
    await agent.run("Hello", session=session)

An ``AgentSession`` is a session with the same ID, and each of its messages one object of it
(``adapters.entries``) below the message before it. So if you go back to an earlier entry, with
``sessiontree`` or ``SessionManager.branch``, the agent continues from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from inspect import signature
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Self

try:
    from agent_framework import AgentFrameworkException, Content, HistoryProvider, Message
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'agent-framework-core is not installed: pip install "sessiontree[agent-framework]"',
        name=error.name,
    ) from error

from sessiontree.adapters import readable
from sessiontree.adapters.agent_framework_messages import (
    PROVIDER,
    calls_in,
    messages_of,
    skip_replayed,
)
from sessiontree.adapters.entries import entries_of, newest_first, skip
from sessiontree.adapters.sessions import OpenSessions, Wanted, append
from sessiontree.errors import SessionNotFoundError
from sessiontree.model.entries import Entry
from sessiontree.profiles import Profile
from sessiontree.session.manager import SessionManager
from sessiontree.stores import Storage
from sessiontree.stores.base import StrPath

if TYPE_CHECKING:
    from agent_framework import AgentResponse, AgentSession, SessionContext, SupportsAgentRun

HARNESS = PROVIDER


@dataclass(frozen=True)
class _Run:
    """Facts about the run whose messages are being saved."""

    usage: Mapping[str, Any] | None = None
    model: str | None = None


_run: ContextVar[_Run | None] = ContextVar("run", default=None)

_CLOSE = 50
"""The most messages between the call of a tool and its result."""


class SessiontreeHistoryProvider(HistoryProvider):
    """Keep the history of agents in a Sessiontree store.

    ``storage``, ``profile`` and ``scope`` say where, as for ``SessionManager``; the default is
    Sessiontree's own files, in the project ``cwd``. The other arguments are those of the
    framework's own providers. Any number of agents and processes may share one session.
    """

    DEFAULT_SOURCE_ID: ClassVar[str] = "sessiontree"
    DEFAULT_SESSION_ID: ClassVar[str] = "default"
    """The session of messages that are saved without a session ID."""

    def __init__(
        self,
        source_id: str | None = None,
        *,
        storage: Storage | None = None,
        profile: str | Profile | None = None,
        scope: str | None = None,
        cwd: StrPath | None = None,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
    ) -> None:
        super().__init__(
            source_id or self.DEFAULT_SOURCE_ID,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self.skip_excluded = skip_excluded
        self._sessions = OpenSessions(
            HARNESS, storage=storage, profile=profile, scope=scope, cwd=cwd
        )

    # -- the protocol ----------------------------------------------------------------------

    async def get_messages(
        self,
        session_id: str | None,
        *,
        state: dict[str, Any] | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> list[Message]:
        """The messages of the conversation, oldest first."""

        def read(manager: SessionManager) -> list[Message]:
            found = [*newest_first(manager.get_branch(), HARNESS)]
            made = (_message(entry, value) for entry, value in reversed(found))
            return [message for message in made if message is not None]

        try:
            messages = await self._sessions.run(self._key(session_id), read, create=False)
        except SessionNotFoundError:
            return []
        if self.skip_excluded:
            return [each for each in messages if not each.additional_properties.get("_excluded")]
        return messages

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Append messages, all of them or, if that raises, none.

        If they begin with the end of the conversation, only those behind it are appended.
        """
        given = [message.to_dict() for message in messages]
        run = _run.get() or _Run()

        def save(manager: SessionManager) -> None:
            append(manager, lambda: _entries(manager, given, run))

        if given:
            await self._sessions.run(self._key(session_id), save)

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Save the messages of a run, and its usage."""
        response = context.response
        usage = response.usage_details if response is not None else None
        token = _run.set(_Run(usage, _model_of(response)))
        try:
            await super().after_run(agent=agent, session=session, context=context, state=state)
        finally:
            _run.reset(token)

    # -- its own ---------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close all sessions. The provider can be used again."""
        await self._sessions.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _key(self, session_id: str | None) -> str:
        return session_id or self.DEFAULT_SESSION_ID


def _model_of(response: AgentResponse[Any] | None) -> str | None:
    """The model that gave a response: its raw form says it, or the parts that were streamed."""
    raw = None if response is None else response.raw_representation
    for each in reversed(raw if isinstance(raw, list) else [raw]):
        model = getattr(each, "model", None)
        if isinstance(model, str):
            return model
    return None


# -- writing -----------------------------------------------------------------------------------


def _entries(manager: SessionManager, given: Sequence[dict[str, Any]], run: _Run) -> list[Wanted]:
    """Make the entries to append to the session in its present state."""
    count = max(len(given) + 1, _CLOSE)
    before = [
        value
        for _, value in islice(newest_first(manager.get_branch(), HARNESS), count)
        if isinstance(value, dict)
    ][::-1]
    fresh = skip_replayed(before[-len(given) - 1 :], given)
    tools: dict[str, str] = {}
    for message in (*before, *fresh):
        tools |= calls_in(message)
    now, made = manager.store.clock(), []
    answers = [at for at, message in enumerate(fresh) if message.get("role") == "assistant"]
    for at, message in enumerate(fresh):
        spent = run.usage if answers and at == answers[-1] else None
        messages = messages_of(message, now, tools, spent, run.model)
        readable.complete(messages, manager.store.dialect)
        made += entries_of(HARNESS, message, messages)
    return [*made]


# -- reading -----------------------------------------------------------------------------------


def _message(entry: Entry, value: Any) -> Message | None:
    """The message; without the fields of a version to come."""
    try:
        try:
            return Message.from_dict(dict(value))
        except TypeError:
            return Message.from_dict(_known(value))
    except (AgentFrameworkException, TypeError, ValueError, AttributeError, KeyError) as error:
        skip(entry, HARNESS, error)
        return None


def _known(value: dict[str, Any]) -> dict[str, Any]:
    """A message without the fields that this version of the framework refuses."""
    kept = {key: each for key, each in value.items() if key in _fields(Message)}
    kept["contents"] = [_known_content(each) for each in value.get("contents", ())]
    return kept


def _known_content(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kept = {key: each for key, each in value.items() if key in _fields(Content)}
    for key in ("function_call", "screenshot"):
        if key in kept:
            kept[key] = _known_content(kept[key])
    for key in ("items", "inputs", "outputs"):
        if isinstance(kept.get(key), list):
            kept[key] = [_known_content(each) for each in kept[key]]
    return kept


@cache
def _fields(kind: type) -> frozenset[str]:
    return frozenset(signature(kind).parameters)
