"""`create_agent_session`: from nothing to a live agent on a session, in one call.

Owns the order of start-up: the session is chosen before the agent exists, its messages are restored
once, then model and thinking level are picked, then the mode is entered.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from sessiontree.core.context import DEFAULT_ROLE, SessionContext
from sessiontree.profiles import Profile, get_profile
from sessiontree.runtime import events
from sessiontree.runtime.agent import Agent
from sessiontree.runtime.agent_session import AgentSession
from sessiontree.runtime.hooks import Hooks
from sessiontree.runtime.models import Model, ModelRegistry, clamp_thinking
from sessiontree.runtime.modes import ModeRegistry
from sessiontree.runtime.restoring import (
    default_model,
    default_thinking,
    names_thinking,
    restore_mode,
    restore_model,
    restore_thinking,
)
from sessiontree.runtime.sessions import SessionSource
from sessiontree.runtime.settings import RuntimeSettings
from sessiontree.runtime.state import Wiring
from sessiontree.session.manager import SessionManager
from sessiontree.session.worker import DiskThread
from sessiontree.stores import Storage
from sessiontree.stores.base import Durability

StrPath: TypeAlias = str | os.PathLike[str]

AgentFactory: TypeAlias = Callable[[SessionManager], "Agent | Awaitable[Agent]"]
"""Makes the agent for a session that is chosen already (its ``cwd``, for instance, is known)."""


async def create_agent_session(
    agent: Agent | AgentFactory,
    *,
    manager: SessionManager | None = None,
    cwd: StrPath | None = None,
    session_dir: StrPath | None = None,
    resume: StrPath | None = None,
    continue_recent: bool = False,
    persist: bool = True,
    profile: str | Profile | None = None,
    storage: Storage | None = None,
    durability: Durability = "flush",
    model: str | Model | None = None,
    thinking_level: str | None = None,
    models: ModelRegistry | None = None,
    modes: ModeRegistry | None = None,
    hooks: Hooks | None = None,
    settings: RuntimeSettings | None = None,
) -> AgentSession:
    """A live agent on a session.

    The session is ``manager`` if given; else the one in the file ``resume``; else, with
    ``continue_recent``, this terminal's or project's last one; else a new one, which is kept
    nowhere if ``persist`` is false. ``model`` and ``thinking_level`` win over what the session
    says, which wins over the settings.

    Raises ModelNotFoundError for a ``model`` that is not known, NotASessionError,
    PersistenceError; and what making the agent or entering the mode raises.
    """
    choice = _Choice(
        manager, cwd, session_dir, resume, continue_recent, persist, profile, storage, durability
    )
    disk = DiskThread()
    try:
        chosen = await disk.run(choice.open)
        registry = models if models is not None else await disk.run(_load_models, chosen)
        wiring = Wiring(
            await _make_agent(agent, chosen),
            chosen,
            disk=disk,
            source=SessionSource.of(chosen),
            hooks=hooks or Hooks(),
            models=registry,
            modes=modes or ModeRegistry(),
            settings=settings or RuntimeSettings(),
        )
        await _start(wiring, model, thinking_level)
    except BaseException:
        if choice.opened is not None:
            disk.run_later(choice.opened.close, "closing a session that did not start")
        disk.close()
        raise
    session = AgentSession(wiring)
    await wiring.hooks.emit(events.SessionStart(session.session_id, session.session_file))
    return session


@dataclass(slots=True)
class _Choice:
    """The session that is wanted, and our manager of it once it is open."""

    manager: SessionManager | None
    cwd: StrPath | None
    session_dir: StrPath | None
    resume: StrPath | None
    continue_recent: bool
    persist: bool
    profile: str | Profile | None
    storage: Storage | None
    durability: Durability
    opened: SessionManager | None = None
    """To be closed if the start fails, also if it is cancelled while a thread opens it."""

    def open(self) -> SessionManager:
        if self.manager is not None:
            return self.manager
        self.opened = self._open()
        return self.opened

    def _open(self) -> SessionManager:
        project = os.path.abspath(self.cwd) if self.cwd is not None else os.getcwd()
        options: dict[str, Any] = {
            "profile": self.profile,
            "storage": self.storage,
            "durability": self.durability,
        }
        if self.resume is not None:
            return SessionManager.open(self.resume, self.session_dir, **options)
        if not self.persist:
            return SessionManager.in_memory(project, profile=self.profile)
        if self.continue_recent:
            return SessionManager.continue_recent(project, self.session_dir, **options)
        return SessionManager.create(project, self.session_dir, **options)


async def _make_agent(agent: Agent | AgentFactory, manager: SessionManager) -> Agent:
    made = agent if isinstance(agent, Agent) else agent(manager)
    return await made if inspect.isawaitable(made) else made


def _load_models(manager: SessionManager) -> ModelRegistry:
    return ModelRegistry.load(get_profile(manager.profile).agent_dir)


async def _start(wiring: Wiring, model: str | Model | None, thinking_level: str | None) -> None:
    agent = wiring.agent
    context = await wiring.disk.run(wiring.manager.build_session_context)
    agent.session_id = wiring.manager.session_id
    if agent.cwd is None:
        agent.cwd = wiring.manager.cwd
    wiring.replace_messages(context.messages)
    await _choose_model(wiring, context, model)
    if thinking_level is None:
        await restore_thinking(wiring, context, default_thinking(wiring))
    else:
        level = agent.thinking_level = clamp_thinking(thinking_level, agent.model)
        is_named = await wiring.disk.run(names_thinking, wiring.manager)
        if not is_named or level != context.thinking_level:
            await wiring.disk.run(wiring.manager.append_thinking_level_change, level)
    await restore_mode(wiring, context)
    wiring.attach()


async def _choose_model(
    wiring: Wiring, context: SessionContext, explicit: str | Model | None
) -> None:
    """Choose the model asked for, else the session's, else the default; record a new choice."""
    agent = wiring.agent
    named = context.models.get(DEFAULT_ROLE)
    if explicit is not None:
        agent.model = wiring.models.get(explicit) if isinstance(explicit, str) else explicit
    elif named is not None:
        agent.model = agent.model or default_model(wiring)
        restore_model(wiring, context)
        return
    else:
        agent.model = agent.model or default_model(wiring)
    if agent.model is not None and agent.model.ref != named:
        await wiring.disk.run(wiring.manager.append_model_change, agent.model.ref)
