"""`AgentSession`: an agent that runs on a session and can move to another one at any moment.

A façade: each method is a few lines that call `prompting`, `switching`, `navigation`, `compacting`
or the session's manager on the disk thread. All methods belong to one event loop. The module also
holds the messages that a session makes itself (a prompt, a shell command, a program's own message)
and its statistics.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypeVar

from sessiontree.clock import now_ms
from sessiontree.core.usage import (
    PAID_TYPES,
    MessageCounts,
    Usage,
    count_messages,
    total_usage,
)
from sessiontree.runtime import (
    catching_up,
    compacting,
    events,
    navigation,
    prompting,
    replacing,
    switching,
    targets,
)
from sessiontree.runtime.agent import Agent, AgentBusyError
from sessiontree.runtime.compacting import estimate_session
from sessiontree.runtime.events import Message, SessionListener
from sessiontree.runtime.hooks import HookHandler, Unsubscribe
from sessiontree.runtime.models import Model, ModelRegistry, clamp_thinking
from sessiontree.runtime.modes import ModeRegistry, ModeState
from sessiontree.runtime.navigation import Navigation
from sessiontree.runtime.state import Wiring
from sessiontree.session.manager import SessionManager

R = TypeVar("R")


class AgentSession:
    """A live agent on a session. Made by ``create_agent_session``; an async context manager."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._is_closed = False

    # --- what is --------------------------------------------------------------------------------

    @property
    def agent(self) -> Agent:
        return self._wiring.agent

    @property
    def manager(self) -> SessionManager:
        """The session's manager. Read its plain properties only; anything else through `read`."""
        return self._wiring.manager

    @property
    def session_id(self) -> str:
        return self.manager.session_id

    @property
    def session_file(self) -> str | None:
        return self.manager.session_file

    @property
    def session_name(self) -> str | None:
        return self.manager.session_name

    @property
    def cwd(self) -> str:
        """The folder that tools and commands work in: the session's project, as a rule."""
        return self.agent.cwd or self.manager.cwd

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation as the agent has it."""
        return self.agent.messages

    @property
    def model(self) -> Model | None:
        return self.agent.model

    @property
    def models(self) -> ModelRegistry:
        return self._wiring.models

    @property
    def model_fallback(self) -> events.ModelFallback | None:
        """The model that replaces the session's own, if that is not available."""
        return self._wiring.model_fallback

    @property
    def thinking_level(self) -> str:
        return self.agent.thinking_level

    @property
    def mode(self) -> ModeState:
        return self._wiring.mode.state

    @property
    def modes(self) -> ModeRegistry:
        return self._wiring.mode.registry

    @property
    def is_running(self) -> bool:
        return self.agent.is_running

    @property
    def queued(self) -> events.QueueChanged:
        """The queued messages."""
        return self._wiring.queued()

    @property
    def unsaved(self) -> int:
        """The number of finished messages that could not be saved so far; see `recover`."""
        return len(self._wiring.recording.pending)

    async def read(self, function: Callable[[SessionManager], R]) -> R:
        """Call ``function`` with the session's manager, off the event loop and in order; return its
        result."""
        return await self._wiring.disk.run(function, self.manager)

    async def stats(self) -> SessionStats:
        """Count the session's entries, cost and context."""
        return await self._wiring.disk.run(gather_stats, self.manager, self._wiring.window)

    # --- telling --------------------------------------------------------------------------------

    def subscribe(self, listener: SessionListener) -> Unsubscribe:
        """Call ``listener`` with the events of the agent and the session, also after switches."""
        return self._wiring.listeners.subscribe(listener)

    def on(self, event: str, handler: HookHandler, *, order: int = 0) -> Unsubscribe:
        """Call ``handler`` on ``session_…`` events (see `hooks`). ValueError: no such event."""
        return self._wiring.hooks.on(event, handler, order=order)

    # --- talking --------------------------------------------------------------------------------

    async def prompt(self, content: Content) -> None:
        """Prompt the agent; return when it is done. Raises AgentBusyError while it runs."""
        await prompting.run_prompt(self._wiring, user_message(content))

    async def steer(self, content: Content) -> None:
        """Say something in the middle of a run, before the next model call."""
        async with self._wiring.operating.hold("steering"):
            self.agent.steering.put(user_message(content))
        await self._wiring.emit_queues()

    async def follow_up(self, content: Content) -> None:
        """Say something once the run would otherwise be over."""
        async with self._wiring.operating.hold("a follow-up"):
            self.agent.follow_ups.put(user_message(content))
        await self._wiring.emit_queues()

    async def clear_queues(self) -> list[Message]:
        """Remove and return all queued messages, for instance to edit them."""
        async with self._wiring.operating.hold("clearing the queues"):
            taken = self._wiring.clear_queues()
        await self._wiring.emit_queues()
        return taken

    async def send_custom_message(
        self,
        custom_type: str,
        content: Content,
        *,
        display: bool = True,
        details: Any = None,
        deliver: Literal["now", "steer", "follow_up", "next_turn"] = "now",
    ) -> None:
        """Put a program's own message into the conversation (a ``custom_message`` entry).

        ``now`` adds it at once; while the agent runs it is steered instead.
        """
        message = custom_message(custom_type, content, display, details)
        wiring = self._wiring
        async with wiring.operating.hold("a custom message"):
            if deliver == "next_turn":
                wiring.next_turn.put(message)
            elif deliver == "follow_up":
                wiring.agent.follow_ups.put(message)
            elif deliver == "steer" or wiring.agent.is_running:
                wiring.agent.steering.put(message)
            else:
                await wiring.add_message(message)
        await wiring.emit_queues()

    async def record_bash(
        self,
        command: str,
        output: str,
        exit_code: int | None,
        *,
        cancelled: bool = False,
        truncated: bool = False,
        full_output_path: str | None = None,
        exclude_from_context: bool = False,
    ) -> None:
        """Record a command that the user ran; in mid-turn it is added when the turn is over."""
        message = bash_message(
            command,
            output,
            exit_code,
            cancelled=cancelled,
            truncated=truncated,
            full_output_path=full_output_path,
            exclude_from_context=exclude_from_context,
        )
        wiring = self._wiring
        async with wiring.operating.hold("recording a command"):
            if wiring.agent.is_running:
                wiring.recording.deferred.append(wiring.mask.value(message))
            else:
                await wiring.add_message(message)

    async def abort(self) -> None:
        """Stop what runs: the agent, its tools, a summary. Returns when it has stopped.

        From inside a listener it only asks.
        """
        self._wiring.aborts += 1
        self._wiring.cancel_summary()
        await self.agent.abort()
        if not self._wiring.delivery.is_here:
            await self.agent.wait_idle()

    # --- state ----------------------------------------------------------------------------------

    async def set_model(self, model: str | Model) -> Model:
        """Use another model, clamp the thinking level to it, and write both into the session.

        Raises ModelNotFoundError, PersistenceError; then nothing has changed.
        """
        wiring = self._wiring
        chosen = wiring.models.get(model) if isinstance(model, str) else model
        async with wiring.operating.hold("choosing a model"):
            before = wiring.agent.thinking_level
            level = clamp_thinking(before, chosen)
            await wiring.disk.run(wiring.manager.append_model_change, chosen.ref)
            wiring.agent.model = chosen
            wiring.model_fallback = None
            if level != before:
                wiring.agent.thinking_level = level
                await wiring.disk.run(wiring.manager.append_thinking_level_change, level)
        await wiring.emit(events.ModelChanged(chosen.ref))
        if level != before:
            await wiring.emit(events.ThinkingLevelChanged(level, before))
        return chosen

    async def set_agent(self, agent: Agent, model: Model | None = None) -> None:
        """Let another agent continue this conversation; its model is written into the session.

        Raises AgentBusyError during a run, PersistenceError; then nothing has changed.
        """
        await replacing.replace_agent(self._wiring, agent, model)

    async def set_thinking_level(self, level: str) -> str:
        """Set the thinking level, clamped to what the model can do; return the level now in
        force."""
        wiring = self._wiring
        async with wiring.operating.hold("choosing a thinking level"):
            chosen = clamp_thinking(level, wiring.agent.model)
            if chosen != wiring.agent.thinking_level:
                await wiring.disk.run(wiring.manager.append_thinking_level_change, chosen)
                wiring.agent.thinking_level = chosen
        await wiring.emit(events.ThinkingLevelChanged(chosen, level))
        return chosen

    async def set_mode(self, name: str, data: Any = None) -> ModeState:
        """Enter a mode and write it into the session. KeyError if this program doesn't know it."""
        wiring = self._wiring
        async with wiring.operating.hold("changing the mode"):
            wiring.mode.registry.get(name)
            before = wiring.mode.state
            state = await wiring.mode.change(name, data)
            if state != before:
                try:
                    await wiring.disk.run(wiring.manager.append_mode_change, name, data)
                except BaseException:
                    await wiring.mode.undo(before)
                    raise
                wiring.agent.mode = name
        await wiring.emit(events.ModeChanged(state.name, state.data, state.available))
        return state

    async def set_session_name(self, name: str) -> None:
        """Name the session; an empty name clears it."""
        async with self._wiring.operating.hold("naming the session"):
            await self._wiring.disk.run(self.manager.set_session_name, name)

    async def set_label(self, entry_id: str, label: str | None) -> None:
        """Label an entry; None removes the label. EntryNotFoundError."""
        async with self._wiring.operating.hold("setting a label"):
            await self._wiring.disk.run(self.manager.append_label_change, entry_id, label)

    async def edit_context(self, entry_id: str, replacement: dict[str, Any] | None) -> str:
        """Hide an earlier message from the model, or replace the content that it sees.

        See ``SessionManager.append_context_edit``; the new entry's id. AgentBusyError while the
        agent runs: what it is working on would change under it.
        """
        wiring = self._wiring
        async with wiring.operating.hold("editing the context"):
            if wiring.agent.is_running:
                raise AgentBusyError
            await wiring.flush()
            entry_id = await wiring.disk.run(
                self.manager.append_context_edit, entry_id, replacement
            )
            await wiring.refresh()
        await switching.emit_replaced(wiring)
        return entry_id

    async def append_custom_entry(self, custom_type: str, data: Any = None) -> str:
        """Keep a program's own data in the session, outside the context; the entry's id."""
        async with self._wiring.operating.hold("a custom entry"):
            return await self._wiring.disk.run(self.manager.append_custom_entry, custom_type, data)

    async def catch_up(self) -> int:
        """Read what other processes appended to this session; return the number of entries.

        While the agent is idle, the conversation continues from them if they carry its path on.
        """
        return await catching_up.catch_up(self._wiring)

    async def recover(self) -> None:
        """Save what could not be saved, after its cause is gone. Raises it again if not."""
        async with self._wiring.operating.hold("recovering"):
            await self._wiring.recover()

    # --- moving ---------------------------------------------------------------------------------

    async def switch_session(self, path: str | os.PathLike[str]) -> bool:
        """Move to the session in a file, or not at all; False if a hook said no."""
        where = await self._wiring.disk.run(self._wiring.source.ref_of, path)
        return await switching.switch(self._wiring, targets.resume(self._wiring, where))

    async def new_session(self, parent_session: str | None = None) -> bool:
        """Move to a new session with the present model and level; False if a hook said no."""
        move = targets.start_new(self._wiring, parent_session)
        return await switching.switch(self._wiring, move)

    async def fork(self) -> bool:
        """Copy the session into a new file and continue there; False if a hook said no.

        Raises NothingToForkError for a session that is not on disk.
        """
        return await switching.switch(self._wiring, targets.fork(self._wiring))

    async def copy_session(self, path: str | os.PathLike[str]) -> bool:
        """Copy the session in a file into this project and continue there, or leave no copy.

        False if a hook said no. Raises SessionNotFoundError, NotASessionError, PersistenceError.
        """
        where = await self._wiring.disk.run(self._wiring.source.ref_of, path)
        return await switching.switch(self._wiring, targets.copy(self._wiring, where))

    async def branch(self, entry_id: str) -> str | None:
        """Continue in a new file from before a user's prompt; return its text. None if a hook said
        no.

        Raises EntryNotFoundError, NotAPromptError.
        """
        wiring = self._wiring
        leaf_id, text = await wiring.disk.run(navigation.find_prompt, wiring.manager, entry_id)
        is_moved = await switching.switch(wiring, targets.branch(wiring, entry_id, leaf_id))
        return text if is_moved else None

    async def navigate_tree(
        self, target_id: str, *, summarize: bool = False, instructions: str | None = None
    ) -> Navigation:
        """Continue from another entry of the same file, or not at all. EntryNotFoundError.

        A user's prompt (or custom message) gives its text for the editor, and the leaf goes before
        it. ``summarize`` keeps notes on the branch that is left; `abort` calls all of it off.
        """
        return await navigation.navigate(
            self._wiring, target_id, summarize=summarize, instructions=instructions
        )

    async def compact(self, instructions: str | None = None) -> str:
        """Summarise the older part of the conversation now; return the new entry's id.
        CompactionError."""
        wiring = self._wiring
        async with wiring.operating.hold("compacting", waits_for_agent=True):
            await wiring.stop_agent()
            await wiring.flush()
            entry_id = await compacting.compact(wiring, "request", instructions)
        await switching.emit_replaced(wiring)
        return entry_id

    # --- ending ---------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Stop the agent, save everything, close the session. Raises what could not be saved."""
        if self._is_closed:
            return
        wiring = self._wiring
        wiring.operating.check("closing", waits_for_agent=True)
        self._is_closed = True
        async with wiring.changing.hold("closing", waits_for_agent=True):
            await wiring.hooks.emit(events.SessionShutdown(self.session_id, self.session_file))
            wiring.cancel_summary()
            async with wiring.operating.hold("closing", waits_for_agent=True):
                await wiring.close()

    dispose = aclose

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.aclose()
        except Exception:
            if error is None:
                raise


Content: TypeAlias = str | Sequence[dict[str, Any]]
"""Text, or text and image blocks."""


def user_message(content: Content) -> Message:
    """A user's message."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
    return {"role": "user", "content": blocks, "timestamp": now_ms()}


def custom_message(custom_type: str, content: Content, display: bool, details: Any) -> Message:
    """A program's own message, saved as a ``custom_message`` entry."""
    message: Message = {
        "role": "custom",
        "customType": custom_type,
        "content": content if isinstance(content, str) else [*content],
        "display": display,
    }
    if details is not None:
        message["details"] = details
    return {**message, "timestamp": now_ms()}


def bash_message(
    command: str,
    output: str,
    exit_code: int | None,
    *,
    cancelled: bool = False,
    truncated: bool = False,
    full_output_path: str | None = None,
    exclude_from_context: bool = False,
) -> Message:
    """A command that the user ran."""
    message: Message = {
        "role": "bashExecution",
        "command": command,
        "output": output,
        "exitCode": exit_code,
        "cancelled": cancelled,
        "truncated": truncated,
    }
    if full_output_path is not None:
        message["fullOutputPath"] = full_output_path
    if exclude_from_context:
        message["excludeFromContext"] = True
    return {**message, "timestamp": now_ms()}


@dataclass(frozen=True, slots=True)
class SessionStats:
    """A session in numbers."""

    session_id: str
    session_file: str | None
    session_name: str | None
    messages: MessageCounts
    """The messages of the present context."""
    usage: Usage
    """The usage of everything that was ever asked in this session, abandoned branches too."""
    context_tokens: int
    """The estimated size of the context."""
    context_window: int


def gather_stats(manager: SessionManager, window: int) -> SessionStats:
    """Count entries, cost and context. Reads the whole session, on the disk thread."""
    everything = (entry.decode() for entry in manager.get_entries() if entry.type in PAID_TYPES)
    return SessionStats(
        manager.session_id,
        manager.session_file,
        manager.session_name,
        count_messages(manager.build_session_context().messages),
        total_usage(everything),
        estimate_session(manager).tokens,
        window,
    )
