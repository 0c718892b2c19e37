"""The interactive program: `run_chat` opens a screen on a session and returns when it is left.

Owns the agent behind the screen, leaving (the program saves everything first, whatever ends it) and
what the command line reports afterwards. Prints nothing itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, ClassVar

from textual import _ansi_sequences
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from sessiontree.agents import create_agent, create_session_agent
from sessiontree.config import Config, load_config
from sessiontree.core.gc import collect_as_usual
from sessiontree.errors import SessionTreeError
from sessiontree.history import HistoryStorage
from sessiontree.runtime.agent_session import AgentSession
from sessiontree.runtime.create import create_agent_session
from sessiontree.scope import Scope
from sessiontree.session.manager import SessionManager
from sessiontree.tui.chat.confirm import Confirmer
from sessiontree.tui.chat.screen import ChatScreen, ChatSetup, SpellResume
from sessiontree.tui.chat.session_link import OpenedSession, OpenSession
from sessiontree.tui.palette import Palette
from sessiontree.tui.theme import ThemedApp
from sessiontree.user_hooks import load_hooks

_HISTORY_PATIENCE_S = 1.0
"""Seconds that leaving waits for another program that holds the prompt history."""


@dataclass(frozen=True, slots=True)
class ExitInfo:
    """The session that was open when the user left the program."""

    session_file: str | None
    """The session's file; None if it was not saved."""
    session_id: str | None
    session_name: str | None
    cwd: str
    exit_code: int = 0
    warning: str | None = None
    """One line about what could not be saved besides the session."""


class ChatApp(ThemedApp[None]):
    """Run the chat screen as a program."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", priority=True, show=False),
        Binding("ctrl+q", "leave", priority=True, show=False),
    ]

    def __init__(
        self, setup: ChatSetup, open_session: OpenSession, palette: Palette | None = None
    ) -> None:
        super().__init__(palette)
        self._setup = setup
        self._open_session = open_session
        self.session: AgentSession | None = None
        self.failure: Exception | None = None
        """Why the program could not start, or what could not be saved when it was left."""
        self.signal: int | None = None

    def on_mount(self) -> None:
        self._catch_signals()
        self.push_screen(ChatScreen(self._setup, self._open, self.fail))

    async def _open(self, confirmer: Confirmer) -> OpenedSession:
        opened = await self._open_session(confirmer)
        self.session = opened.session
        return opened

    def _catch_signals(self) -> None:
        """On SIGHUP and SIGTERM leave as the user would: saved, terminal restored."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, self._end_by, number)

    def _end_by(self, number: int) -> None:
        self.signal = number
        self.exit()

    def fail(self, error: Exception) -> None:
        """End the program with this error."""
        self.failure = error
        self.exit()

    def action_interrupt(self) -> None:
        """Handle Ctrl+C: cancel an open dialog or picker, else leave the chat."""
        chat = self._chat
        if isinstance(self.screen, ModalScreen):
            self.screen.dismiss(None)
        elif chat is None or self.screen is not chat or chat.interrupt():
            self.exit()

    def action_leave(self) -> None:
        self.exit()

    @property
    def _chat(self) -> ChatScreen | None:
        return next((one for one in self.screen_stack if isinstance(one, ChatScreen)), None)

    async def close_session(self) -> None:
        """Save everything and close the session; an error while saving is kept as `failure`."""
        session, self.session = self.session, None
        if session is None:
            return
        try:
            await session.aclose()
        except (SessionTreeError, OSError) as error:
            self.failure = self.failure or error


def run_chat(
    session_manager: SessionManager,
    scope: Scope,
    *,
    config: Config | None = None,
    model: str | None = None,
    work_dir: str | None = None,
    initial_prompt: str | None = None,
    notice: str | None = None,
    spell_resume: SpellResume | None = None,
) -> ExitInfo:
    """Run the program on this session until it is left.

    Tools work in the session's project, or in ``work_dir`` if that is given. ``spell_resume`` gives
    the command that opens another session in its own project. The session is closed
    when this returns or raises. Raises ModelNotFoundError, AmbiguousModelError, and errors of
    saving.
    """
    teach_alt_enter()
    collect_as_usual()
    history = HistoryStorage.for_profile(scope.profile)
    config = config or load_config()
    setup = ChatSetup(scope, initial_prompt, notice, history, spell_resume, config)
    opening = partial(
        open_agent_session, session_manager, config=config, model=model, work_dir=work_dir
    )
    app = ChatApp(setup, opening)
    try:
        left = asyncio.run(_run(app, session_manager))
    finally:
        history.close(_HISTORY_PATIENCE_S)
    return replace(left, warning=history.loss)


async def _run(app: ChatApp, manager: SessionManager) -> ExitInfo:
    try:
        await app.run_async()
    finally:
        current = app.session.manager if app.session is not None else manager
        left = ExitInfo(
            current.session_file if current.is_persisted else None,
            current.session_id,
            current.session_name,
            current.cwd,
        )
        if app.session is not None:
            await app.close_session()
        else:
            manager.close()
    if app.failure is not None:
        raise app.failure
    if app.signal is not None:
        return replace(left, exit_code=128 + app.signal)
    return replace(left, exit_code=app.return_code or 0)


async def open_agent_session(
    manager: SessionManager,
    confirmer: Confirmer,
    config: Config,
    model: str | None,
    work_dir: str | None = None,
) -> OpenedSession:
    """Open a live session with an agent for ``model``, by default for the session's own model."""
    options: dict[str, Any] = {
        "confirm": confirmer.confirm,
        "attempts": config.number("attempts"),
    }
    choice = await asyncio.to_thread(
        create_session_agent, manager, model, cwd=work_dir, default=config.text("model"), **options
    )
    # The offline agent stands in; it must not become the session's model for good.
    chosen = None if choice.is_offline and model is None else choice.model
    own = await asyncio.to_thread(load_hooks, config, work_dir or manager.cwd)
    session = await create_agent_session(
        choice.agent,
        manager=manager,
        model=chosen,
        settings=config.for_runtime(),
        hooks=own.hooks,
    )
    own.attach(session)
    make_agent = partial(create_agent, registry=session.models, **options)
    return OpenedSession(session, choice.is_offline, choice.reason, make_agent, own)


class _Key(Enum):
    ALT_ENTER = "alt+enter"


def teach_alt_enter() -> None:
    """Make Textual report Alt+Enter as ``alt+enter`` on every terminal.

    Terminals without the newer keyboard protocols send Esc Return, which Textual's parser splits
    and reports as a plain Enter. Textual has no public way to add a sequence.
    """
    sequences = getattr(_ansi_sequences, "ANSI_SEQUENCES_KEYS", None)
    if isinstance(sequences, dict):
        sequences.setdefault("\x1b\r", (_Key.ALT_ENTER,))
