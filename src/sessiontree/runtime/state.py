"""The parts of a live session that its operations share.

Owns the wiring: the agent, the recording it is saved to, who listens, what waits in queues, which
operation has the floor. Decides nothing; `switching`, `branching`, `compacting` and the façade do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sessiontree.core.compaction import CompactionSettings
from sessiontree.errors import SessionTreeError
from sessiontree.logs import get_logger
from sessiontree.runtime import events
from sessiontree.runtime.agent import Agent
from sessiontree.runtime.events import AgentEvent, Message, SessionEvent
from sessiontree.runtime.hooks import Hooks, Listeners, Unsubscribe
from sessiontree.runtime.masking import KeyMask
from sessiontree.runtime.models import ModelRegistry
from sessiontree.runtime.modes import CurrentMode, ModeRegistry
from sessiontree.runtime.operations import Delivery, Gate
from sessiontree.runtime.queues import MessageQueue
from sessiontree.runtime.recording import Recording
from sessiontree.runtime.sessions import SessionSource
from sessiontree.runtime.settings import RuntimeSettings
from sessiontree.session.manager import SessionManager
from sessiontree.session.worker import DiskThread

logger = get_logger(__name__)

R = TypeVar("R")

FALLBACK_WINDOW = 128_000
"""The window assumed while no model is chosen."""


class SummaryCancelled(Exception):  # noqa: N818 - not an error: somebody wished it
    """The summary under way was cancelled."""


class Wiring:
    """An agent, its session and everything around them."""

    def __init__(
        self,
        agent: Agent,
        manager: SessionManager,
        *,
        disk: DiskThread,
        source: SessionSource,
        hooks: Hooks,
        models: ModelRegistry,
        modes: ModeRegistry,
        settings: RuntimeSettings,
    ) -> None:
        self.agent = agent
        self._mask = KeyMask.of_environment()
        self.recording = Recording(manager)
        self.disk = disk
        self.source = source
        self.hooks = hooks
        self.models = models
        self.mode = CurrentMode(modes)
        self.settings = settings
        self.listeners = Listeners()
        self.next_turn = MessageQueue("all")
        self.delivery = Delivery()
        self.changing = Gate(self.delivery)
        """Held by an operation that moves the agent to another conversation, from its first hook
        on."""
        self.operating = Gate(self.delivery)
        """Held by an operation that changes session and agent together."""
        self.epoch = 0
        """Grows when the agent's messages are replaced: work that began before must stop."""
        self.aborts = 0
        """Counts how often a person said stop; nothing that follows a run happens after that."""
        self.model_fallback: events.ModelFallback | None = None
        self._unsubscribe: Unsubscribe | None = None
        self._summary: asyncio.Task[Any] | None = None
        self._emitted_queues: events.QueueChanged = events.QueueChanged()
        self.is_failing = False
        """Whether the last attempt to save failed."""
        self.is_stale = False
        """Whether the session holds messages that the agent has not seen."""

    @property
    def manager(self) -> SessionManager:
        return self.recording.manager

    @property
    def mask(self) -> KeyMask:
        """Hides the keys of providers: those that the agent knows, else the environment's."""
        own = getattr(self.agent, "mask", None)
        return own if isinstance(own, KeyMask) else self._mask

    @property
    def window(self) -> int:
        return self.agent.model.context_window if self.agent.model else FALLBACK_WINDOW

    @property
    def compaction(self) -> CompactionSettings:
        """The compaction settings, fitted to the model."""
        return self.settings.compaction.scaled_to(self.window)

    # --- listening ----------------------------------------------------------------------------

    @property
    def is_attached(self) -> bool:
        return self._unsubscribe is not None

    def attach(self) -> None:
        """Listen to the agent."""
        if self._unsubscribe is None:
            self._unsubscribe = self.agent.subscribe(self._on_agent_event)

    def detach(self) -> None:
        """Stop listening to the agent."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    async def _on_agent_event(self, event: AgentEvent) -> None:
        with self.delivery.mark():
            if isinstance(event, events.MessageEnd):
                event = events.MessageEnd(self.mask.value(event.message))
                self.recording.take(event.message)
                await self.save()
            elif isinstance(event, events.TurnEnd) and self.recording.deferred:
                self.recording.take_deferred()
                self.is_stale = True
                await self.save()
            if not isinstance(event, events.MessageUpdate):
                await self.emit_queues()
            await self.listeners.emit(event)

    async def emit(self, event: SessionEvent) -> None:
        """Tell the session's subscribers."""
        await self.listeners.emit(event)

    def queued(self) -> events.QueueChanged:
        """The messages that wait."""
        return events.QueueChanged(
            self.agent.steering.snapshot(),
            self.agent.follow_ups.snapshot(),
            self.next_turn.snapshot(),
        )

    async def emit_queues(self) -> None:
        """Tell the subscribers about the queues, if they changed."""
        now = self.queued()
        if now != self._emitted_queues:
            self._emitted_queues = now
            await self.emit(now)

    # --- saving -------------------------------------------------------------------------------

    async def save(self) -> None:
        """Save pending messages. Reports and keeps a failure, never raises it: the agent
        continues."""
        try:
            await self._on_disk(self.recording.drain)
        except Exception as error:
            if not isinstance(error, SessionTreeError):
                logger.exception("saving failed")
            self.is_failing = True
            await self.emit(events.PersistenceFailed(error, len(self.recording.pending)))

    async def flush(self) -> None:
        """Take over what the idle agent finished unheard, and have it all on the medium. Raises."""
        self.recording.take_rest(self.agent.messages, self.mask)
        self.recording.take_deferred()
        await self._on_disk(self.recording.flush)

    async def recover(self) -> None:
        """Try to save again after a failure. Raises what still prevents it."""
        count = len(self.recording.pending)
        await self._on_disk(self.recording.recover)
        if self.is_failing:
            self.is_failing = False
            await self.emit(events.PersistenceRestored(count))

    async def _on_disk(self, function: Callable[[], None]) -> None:
        recording = self.recording
        try:
            await self.disk.run(function)
        finally:
            while recording.saved:
                await self.emit(events.MessageSaved(*recording.saved.popleft()))

    # --- the agent's conversation -------------------------------------------------------------

    def replace_messages(self, messages: list[Message]) -> None:
        """Replace the agent's conversation by messages that are all in the session."""
        self.agent.replace_messages(messages)
        self.recording.taken = len(messages)
        self.is_stale = False
        self.epoch += 1

    async def refresh(self) -> None:
        """Replace the agent's conversation by the session's."""
        context = await self.disk.run(self.manager.build_session_context)
        self.replace_messages(context.messages)

    async def add_message(self, message: Message) -> None:
        """Add a message that the agent did not make to the idle agent's conversation."""
        message = self.mask.value(message)
        self.agent.replace_messages([*self.agent.messages, message])
        self.recording.take(message)
        await self.save()

    async def stop_agent(self) -> None:
        """Abort what runs and wait until it is over."""
        await self.agent.abort()
        await self.agent.wait_idle()

    def clear_queues(self) -> list[Message]:
        """Empty the steering, follow-up and next-turn queues; return their messages."""
        return [
            *self.agent.steering.clear(),
            *self.agent.follow_ups.clear(),
            *self.next_turn.clear(),
        ]

    async def close(self) -> None:
        """Stop the agent, save everything, close the session.

        Raises the first error, after all the rest is done nevertheless.
        """
        problems: list[BaseException] = []
        self.epoch += 1
        try:
            await self.stop_agent()
        except Exception as error:
            problems.append(error)
        self.detach()
        try:
            if self.is_failing:
                await self.recover()
            await self.flush()
        except Exception as error:
            problems.append(error)
        try:
            await self.disk.run(self.manager.close)
        except Exception as error:
            problems.append(error)
        self.disk.close()
        if problems:
            raise problems[0]

    # --- summaries ----------------------------------------------------------------------------

    async def run_summary(self, work: Coroutine[Any, Any, R]) -> R:
        """Run work that `cancel_summary` may cancel. Raises SummaryCancelled if it does."""
        task: asyncio.Task[R] = asyncio.ensure_future(work)
        self._summary = task
        try:
            return await task
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if me is not None and me.cancelling():
                task.cancel()
                raise
            raise SummaryCancelled from None
        finally:
            self._summary = None

    def cancel_summary(self) -> bool:
        """Cancel the summary under way; return whether there was one."""
        if self._summary is None:
            return False
        self._summary.cancel()
        return True
