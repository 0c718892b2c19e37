"""Move a live agent to another session, or not at all.

Owns the fifteen steps (docs/switching.md), their order, and the way back.

**States.** In steps 1 and 2 nothing changes. Steps 3 to 6 leave: the agent stops and its queues
are cleared, but the old session stays in use. Step 7 opens the new one beside it, in a fresh
`SessionManager`; the end of step 9 puts it into use, by one assignment (``wiring.recording``).
Steps 10 to 15 bring the agent into the new session's state. Then the breadcrumb is written and, in
the background, the old session is closed.

**Failures.** Whatever fails after step 3 (also a cancelled task) leaves session, agent, project
folder, queues, model, thinking level, mode and listeners as they were: `Snapshot` is taken before
anything changes, and `put_back` restores each part even if another refuses. What can't be brought
back is a generation that step 4 stopped: its session records it as aborted.

**Crashes.** Both files are whole at every step, since entries are only appended. The breadcrumb is
written last, so ``-c`` opens the old session until all steps have succeeded.

A handler of ``session_switch`` (step 10) receives the new session before the last steps are done.
If one of those fails, a second ``session_switch`` reports the way back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from sessiontree.core.context import SessionContext
from sessiontree.logs import get_logger
from sessiontree.runtime import events
from sessiontree.runtime.events import HookPayload, Message
from sessiontree.runtime.hooks import Cancel
from sessiontree.runtime.models import Model
from sessiontree.runtime.modes import ModeState
from sessiontree.runtime.recording import Recording
from sessiontree.runtime.restoring import restore_mode, restore_model, restore_thinking
from sessiontree.runtime.state import Wiring
from sessiontree.session.manager import SessionManager
from sessiontree.session.worker import run_to_end

logger = get_logger(__name__)

Announce = Callable[[str | None, str | None], HookPayload]
"""Makes the payload for a move, from the old and the new session file."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a move."""

    open: Callable[[], SessionManager]
    """Opens the session, on the disk thread."""
    announce: Announce
    default_thinking: str
    """The level for a session that names none."""
    discard: Callable[[SessionManager, SessionManager], None]
    """Removes the opened session if the move fails, on the disk thread; keeps the second one."""
    names_model: bool = False
    """Whether the present model is to be written into the session (a new one)."""


@dataclass(frozen=True, slots=True)
class Move:
    """A target, and the question to the handlers that goes before it."""

    before: HookPayload
    target: Target


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state that a failed move has to bring back."""

    recording: Recording
    session_id: str | None
    cwd: str | None
    model: Model | None
    model_fallback: events.ModelFallback | None
    thinking_level: str
    agent_mode: str
    mode: ModeState
    steering: tuple[Message, ...]
    follow_ups: tuple[Message, ...]
    next_turn: tuple[Message, ...]
    is_stale: bool
    was_attached: bool

    @classmethod
    def take(cls, wiring: Wiring) -> Snapshot:
        agent = wiring.agent
        return cls(
            wiring.recording,
            agent.session_id,
            agent.cwd,
            agent.model,
            wiring.model_fallback,
            agent.thinking_level,
            agent.mode,
            wiring.mode.state,
            agent.steering.snapshot(),
            agent.follow_ups.snapshot(),
            wiring.next_turn.snapshot(),
            wiring.is_stale,
            wiring.is_attached,
        )

    async def put_back(self, wiring: Wiring, messages: list[Message] | None) -> None:
        """Bring everything back. One part that refuses does not keep the others from it."""
        agent = wiring.agent
        wiring.recording = self.recording
        wiring.model_fallback = self.model_fallback
        wiring.is_stale = self.is_stale
        await wiring.mode.undo(self.mode)

        def set_session_id() -> None:
            agent.session_id = self.session_id

        def set_cwd() -> None:
            agent.cwd = self.cwd

        def set_model() -> None:
            agent.model = self.model

        def set_thinking() -> None:
            agent.thinking_level = self.thinking_level

        def set_mode() -> None:
            agent.mode = self.agent_mode

        def set_messages() -> None:
            if messages is not None:
                agent.replace_messages(messages)

        def set_queues() -> None:
            agent.steering.restore(self.steering)
            agent.follow_ups.restore(self.follow_ups)
            wiring.next_turn.restore(self.next_turn)

        def listen() -> None:
            if self.was_attached:
                wiring.attach()

        for part in (
            set_session_id,
            set_cwd,
            set_messages,
            set_model,
            set_thinking,
            set_mode,
            set_queues,
            listen,
        ):
            try:
                part()
            except Exception:
                logger.exception("going back after a failed move: %s failed", part.__name__)


async def switch(wiring: Wiring, move: Move) -> bool:
    """Ask the handlers, then move; False if one of them said no, and then nothing changed."""
    wiring.operating.check("a switch", waits_for_agent=True)
    async with wiring.changing.hold("a switch", waits_for_agent=True):
        previous = wiring.recording  # 1
        answer = await wiring.hooks.ask(move.before)  # 2
        if not isinstance(answer, Cancel):
            wiring.cancel_summary()
            async with wiring.operating.hold("a switch", waits_for_agent=True):
                await _Journey(wiring, move.target, previous).run()
    if isinstance(answer, Cancel):
        await wiring.emit(events.CalledOff(answer.reason))
        return False
    await emit_replaced(wiring)
    return True


async def emit_replaced(wiring: Wiring) -> None:
    """Tell the subscribers to draw everything again."""
    manager = wiring.manager
    await wiring.emit_queues()
    await wiring.emit(events.SessionReplaced(manager.session_id, manager.session_file))
    if wiring.model_fallback is not None:
        await wiring.emit(wiring.model_fallback)


class _Journey:
    """One way from a session to another."""

    def __init__(self, wiring: Wiring, target: Target, previous: Recording) -> None:
        self._wiring = wiring
        self._target = target
        self._previous = previous
        self._before = Snapshot.take(wiring)
        self._opened: SessionManager | None = None
        self._messages: list[Message] | None = None
        self._is_announced = False

    async def run(self) -> None:
        """All steps from the third on, or none."""
        try:
            await self._leave()
            context = await self._arrive()
            await self._announce()
            await self._restore(context)
            await self._wiring.disk.run(self._manager.leave_breadcrumb)
        except BaseException:
            await run_to_end(asyncio.ensure_future(self._go_back()))
            raise
        self._wiring.disk.run_later(self._close_old, "closing the session that was left")

    def _close_old(self) -> None:
        # A session read again is not left: closing it would drop an unspoken draft under our feet.
        old = self._previous.manager
        if old.session_file is None or old.session_file != self._manager.session_file:
            old.close()

    async def _leave(self) -> None:
        wiring = self._wiring
        wiring.detach()  # 3
        await wiring.stop_agent()  # 4
        wiring.clear_queues()  # 5
        await wiring.flush()  # 6

    async def _arrive(self) -> SessionContext:
        wiring = self._wiring
        await wiring.disk.run(self._open)  # 7
        manager = self._manager
        wiring.agent.session_id = manager.session_id  # 8
        if manager.cwd != self._previous.manager.cwd:
            wiring.agent.cwd = manager.cwd
        context = await wiring.disk.run(manager.build_session_context)  # 9
        wiring.recording = Recording(manager)
        return context

    def _open(self) -> None:
        # Kept by the thread that opens it: a cancelled switch must still be able to close it.
        self._opened = self._target.open()

    @property
    def _manager(self) -> SessionManager:
        assert self._opened is not None
        return self._opened

    async def _announce(self) -> None:
        old, new = self._previous.manager.session_file, self._manager.session_file
        self._is_announced = True
        await self._wiring.hooks.emit(self._target.announce(old, new))  # 10

    async def _restore(self, context: SessionContext) -> None:
        wiring = self._wiring
        self._messages = list(wiring.agent.messages)
        wiring.replace_messages(context.messages)  # 11
        restore_model(wiring, context)  # 12
        model = wiring.agent.model
        if self._target.names_model and model is not None:
            await wiring.disk.run(wiring.manager.append_model_change, model.ref)
        await restore_thinking(wiring, context, self._target.default_thinking)  # 13
        await restore_mode(wiring, context)  # 14
        wiring.attach()  # 15

    async def _go_back(self) -> None:
        wiring = self._wiring
        await self._before.put_back(wiring, self._messages)
        old = self._previous.manager
        opened = self._opened
        if opened is not None:
            wiring.disk.run_later(
                lambda: self._target.discard(opened, old), "leaving the new session"
            )
        wiring.disk.run_later(old.leave_breadcrumb, "the breadcrumb")
        if opened is not None and self._is_announced:
            announce = self._target.announce
            await wiring.hooks.emit(announce(opened.session_file, old.session_file))
