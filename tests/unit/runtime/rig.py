"""What the runtime tests share: an agent that notes what is done to it, and pictures of a
session."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sessiontree import FileStore
from sessiontree.profiles import Profile
from sessiontree.runtime.agent_session import AgentSession
from sessiontree.runtime.create import create_agent_session
from sessiontree.runtime.events import AgentListener, Message
from sessiontree.runtime.hooks import Unsubscribe
from sessiontree.runtime.models import Model, ModelRegistry, Prices
from sessiontree.runtime.queues import MessageQueue
from sessiontree.runtime.settings import RuntimeSettings
from sessiontree.session.manager import SessionManager
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent

THINKER = Model("acme", "thinker", max_thinking="high", context_window=200_000, max_output=32_000)
PLAIN = Model("acme", "plain", context_window=100_000)
DEAR = Model("acme", "dear", max_thinking="xhigh", prices=Prices(1.0, 2.0))


def registry() -> ModelRegistry:
    return ModelRegistry([THINKER, PLAIN, DEAR], default="acme/thinker", default_thinking="medium")


class Boom(Exception):
    """A fault put in by a test."""


@dataclass
class Notes:
    """What happened, in order; and where to fail, once."""

    steps: list[str] = field(default_factory=list)
    fail_at: str | None = None

    def step(self, name: str) -> None:
        self.steps.append(name)
        if self.fail_at == name:
            self.fail_at = None
            raise Boom(name)


class NotedQueue(MessageQueue):
    def __init__(self, name: str, notes: Notes) -> None:
        super().__init__()
        self._name = name
        self._notes = notes

    def clear(self) -> list[Message]:
        self._notes.step(f"clear {self._name}")
        return super().clear()


class RecordingAgent(ScriptedAgent):
    """A scripted agent that notes each call of the protocol, and can be made to fail at one."""

    _WATCHED = ("session_id", "cwd", "model", "thinking_level", "mode")

    def __init__(self, replies: Sequence[Reply | str] = (), **options: Any) -> None:
        self.notes = Notes()
        super().__init__(replies, **options)
        self.steering = NotedQueue("steering", self.notes)
        self.follow_ups = NotedQueue("follow-ups", self.notes)
        self.notes.steps.clear()

    def __setattr__(self, name: str, value: object) -> None:
        if name in self._WATCHED:
            self.notes.step(f"set {name}")
        super().__setattr__(name, value)

    @property
    def listener_count(self) -> int:
        return len(self._listeners)

    def replace_messages(self, messages: Sequence[Message]) -> None:
        self.notes.step("replace messages")
        super().replace_messages(messages)

    def subscribe(self, listener: AgentListener) -> Unsubscribe:
        self.notes.step("subscribe")
        unsubscribe = super().subscribe(listener)

        def noted() -> None:
            self.notes.step("unsubscribe")
            unsubscribe()

        return noted

    async def abort(self) -> None:
        self.notes.step("abort")
        await super().abort()

    async def wait_idle(self) -> None:
        self.notes.step("wait idle")
        await super().wait_idle()


@contextlib.contextmanager
def noted_manager(notes: Notes, monkeypatch: Any) -> Iterator[None]:
    """Note what the runtime asks of session managers and their store, too."""

    def watch(owner: type, name: str, step: str) -> None:
        original = getattr(owner, name)

        def watched(self: object, *args: Any, **kwargs: Any) -> Any:
            notes.step(step)
            return original(self, *args, **kwargs)

        patch.setattr(owner, name, watched)

    with monkeypatch.context() as patch:
        for name in ("flush", "build_session_context", "append_thinking_level_change"):
            watch(SessionManager, name, name)
        watch(FileStore, "open", "open the session")
        yield


def picture(session: AgentSession) -> dict[str, Any]:
    """Everything that a failed move must leave as it was."""
    agent = session.agent
    manager = session.manager
    return {
        "file": session.session_file,
        "id": session.session_id,
        "leaf": manager.leaf_id,
        "entries": [entry.id for entry in manager.get_entries()],
        "bytes": file_bytes(session.session_file),
        "agent session": agent.session_id,
        "agent folder": agent.cwd,
        "messages": list(agent.messages),
        "model": agent.model,
        "fallback": session.model_fallback,
        "thinking": agent.thinking_level,
        "mode": session.mode,
        "agent mode": agent.mode,
        "queued": session.queued,
        "unsaved": session.unsaved,
        "attached": session._wiring.is_attached,
        "listeners of the agent": getattr(agent, "listener_count", None),
        "listeners of the session": len(session._wiring.listeners),
    }


def file_bytes(path: str | None) -> bytes | None:
    if path is None or not os.path.exists(path):
        return None
    return Path(path).read_bytes()


def texts(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Roles and texts: a conversation a person can compare."""
    found = []
    for message in messages:
        content = message.get("content", message.get("summary", ""))
        if isinstance(content, list):
            content = "".join(b.get("text", "") for b in content if isinstance(b, dict))
        found.append((message["role"], str(content)))
    return found


def saved(path: str | None) -> list[tuple[str, str]]:
    """The conversation as another program would read it from the file."""
    assert path is not None
    with SessionManager.open(path) as manager:
        return texts(manager.build_session_context().messages)


Opener = Callable[..., Any]


@contextlib.asynccontextmanager
async def live(agent: Any, folder: Path, **options: Any) -> AsyncIterator[AgentSession]:
    """A live session in ``folder``, closed at the end."""
    options.setdefault("models", registry())
    options.setdefault("profile", Profile("sessiontree", str(folder / "agent"), "omp"))
    options.setdefault("cwd", folder)
    options.setdefault("settings", RuntimeSettings())
    session = await create_agent_session(agent, **options)
    try:
        yield session
    finally:
        await session.aclose()
