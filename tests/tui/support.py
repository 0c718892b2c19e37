"""Sessions on disk, screens without a terminal, and waiting for what happens in threads."""

from __future__ import annotations

import asyncio
import builtins
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests import samples
from textual import events
from textual.app import App
from textual.keys import _character_to_key
from textual.pilot import Pilot

from sessiontree import SessionManager
from sessiontree.config import Config
from sessiontree.discovery.listing import SessionInfo
from sessiontree.history import HistoryStorage
from sessiontree.profiles import Profile
from sessiontree.runtime.agent_session import AgentSession
from sessiontree.runtime.create import create_agent_session
from sessiontree.runtime.hooks import Hooks
from sessiontree.scope import Scope
from sessiontree.testing.scripted_agent import ScriptedAgent
from sessiontree.tui.app import ChatApp
from sessiontree.tui.chat.confirm import Confirmer, ToolDialog
from sessiontree.tui.chat.screen import ChatScreen, ChatSetup
from sessiontree.tui.chat.session_link import OpenedSession
from sessiontree.tui.palette import DARK, Palette

PATIENCE_S = 40.0
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
KEY_NAMES = frozenset(
    (
        *("enter", "backspace", "tab", "escape", "space", "up", "down", "left", "right"),
        *("home", "end", "pageup", "pagedown", "f1"),
    )
)


def user(text: object, **fields: Any) -> dict[str, Any]:
    return samples.user(text, **{"timestamp": 1, **fields})


def assistant(text: str = "", **fields: Any) -> dict[str, Any]:
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.01}
    usage = {"input": 90, "output": 10, "cacheRead": 0, "cacheWrite": 0, "cost": cost}
    own = {"model": "claude-opus-5-5", "usage": usage, "timestamp": 2}
    return samples.assistant(text, **{**own, **fields})


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def result(call_id: str, name: str, text: str, **fields: Any) -> dict[str, Any]:
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": name,
        "content": [{"type": "text", "text": text}],
        "isError": False,
        "timestamp": 3,
        **fields,
    }


def make_info(name: str = "", **fields: Any) -> SessionInfo:
    """A listed session; ``age_s`` says how long ago it was written to."""
    age_s = fields.pop("age_s", 0)
    moment = datetime.fromtimestamp(NOW.timestamp() - age_s, UTC)
    values: dict[str, Any] = {
        "path": f"/sessions/{name}.jsonl",
        "id": f"id-{name}",
        "cwd": "/home/me/app",
        "title": name or None,
        "parent_session": None,
        "created": moment,
        "modified": moment,
        "message_count": 2,
        "first_message": "hello",
        "all_messages_text": "",
        "size": 100,
        "status": "complete",
        **fields,
    }
    return SessionInfo(**values)


@dataclass
class Shop:
    """A profile and two projects in a temporary folder."""

    root: Path
    profile: Profile = field(init=False)

    def __post_init__(self) -> None:
        self.profile = Profile("sessiontree", str(self.root / "agent"), "omp")
        for folder in ("app", "other"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)

    @property
    def project(self) -> str:
        return str(self.root / "app")

    @property
    def other_project(self) -> str:
        return str(self.root / "other")

    def create(self, cwd: str | None = None) -> SessionManager:
        return SessionManager.create(cwd or self.project, profile=self.profile)

    def session(
        self,
        *texts: str,
        title: str | None = None,
        cwd: str | None = None,
        age_s: float = 0,
        parent: str | None = None,
    ) -> str:
        """A closed session of this conversation (user and agent in turn); its file."""
        manager = self.create(cwd)
        if parent is not None:
            manager.new_session(parent)
        moment = time.time() - age_s
        said = list(texts) if len(texts) % 2 == 0 else [*texts, "Understood."]
        for number, text in enumerate(said):
            speaker = user if number % 2 == 0 else assistant
            manager.append_message(speaker(text, timestamp=round(moment * 1000)))
        if title is not None:
            manager.set_session_name(title)
        path = manager.session_file
        assert path is not None
        manager.close()
        if age_s:
            os.utime(path, (moment, moment))
        return path


async def until(condition: Callable[[], object], pilot: Pilot[Any] | None = None) -> None:
    """Wait until the condition holds; fails loudly if it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        await asyncio.sleep(0.005)
    if pilot is not None:
        await settle(pilot)


async def settle(pilot: Pilot[Any]) -> None:
    """Wait until what is under way now is dealt with and drawn (60 times a second it is)."""
    for _ in range(2):
        await react(pilot)
        await asyncio.sleep(1 / 50)


async def react(pilot: Pilot[Any]) -> None:
    """Wait until every message that is under way now, and what it brings about, is dealt with."""
    for _ in range(3):
        waiting = asyncio.ensure_future(pilot._wait_for_screen())
        # A program that is being left deals with nothing any more.
        while not waiting.done() and not pilot.app._exit:
            await asyncio.wait({waiting}, timeout=0.05)
        if not waiting.done():
            waiting.cancel()
            return
        await waiting


def screen_lines(app: App[Any]) -> list[str]:
    """What the screen shows, line by line."""
    strips = app.screen._compositor.render_strips()
    return [strip.text.rstrip() for strip in strips]


def screen_text(app: App[Any]) -> str:
    return "\n".join(screen_lines(app))


def burst(app: App[Any], *keys: str) -> None:
    """Press keys faster than anything can react; a text of several letters is typed."""
    for key in keys:
        if key in KEY_NAMES or "+" in key:
            app.post_message(events.Key(key, "\r" if key == "enter" else None))
        else:
            for letter in key:
                name = "ctrl+j" if letter == "\n" else _character_to_key(letter)
                app.post_message(events.Key(name, letter if letter.isprintable() else None))


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys one after the other, each after what the one before has brought about."""
    for key in keys:
        burst(pilot.app, key)
        await react(pilot)
    await settle(pilot)


async def type_text(pilot: Pilot[Any], text: str) -> None:
    """Type letter by letter; a line break is Ctrl+J."""
    await press(pilot, *text)


@dataclass
class ChatRig:
    """A running chat with a scripted agent."""

    app: ChatApp
    pilot: Pilot[Any]
    agent: ScriptedAgent
    history: HistoryStorage

    @property
    def chat(self) -> ChatScreen:
        for screen in self.app.screen_stack:
            if isinstance(screen, ChatScreen):
                return screen
        raise AssertionError("there is no chat")

    @property
    def session(self) -> AgentSession:
        return self.chat.session

    @property
    def text(self) -> str:
        return screen_text(self.app)

    @property
    def said(self) -> str:
        """The notice above the editor."""
        return self.chat.status.notice

    async def press(self, *keys: str) -> None:
        await press(self.pilot, *keys)

    async def type(self, text: str) -> None:
        await type_text(self.pilot, text)

    async def send(self, text: str) -> None:
        """Put a text into the editor and press Enter."""
        self.chat.editor.put(text)
        await self.press("enter")

    async def ask(self, text: str) -> None:
        """Send a prompt and wait for the end of the answer."""
        answers = len(self.session.messages)
        await self.send(text)
        await self.until(lambda: len(self.session.messages) > answers + 1 and self.is_idle)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way and everything is shown."""
        narrator, link = self.chat.narrator, self.chat.link
        if not self.chat.is_ready or self.session.is_running or link.is_busy:
            return False
        return not (narrator.is_changed or narrator.needs_reload or narrator.has_new_figures)

    async def until(self, condition: Callable[[], object]) -> None:
        await until(condition, self.pilot)

    async def until_said(self, words: str) -> None:
        await self.until(lambda: words in self.said)

    async def until_asked(self) -> ToolDialog:
        """Wait for an agent's question, and until a key is an answer to it."""
        await self.until_screen(ToolDialog)
        dialog = self.app.screen
        assert isinstance(dialog, ToolDialog)
        await self.until(lambda: dialog.is_armed)
        return dialog

    async def until_screen(self, kind: builtins.type[Any]) -> None:
        await self.until(lambda: isinstance(self.app.screen, kind))
        await self.until(lambda: not getattr(self.app.screen, "is_busy", False))


@asynccontextmanager
async def running_chat(
    manager: SessionManager,
    *replies: Any,
    size: tuple[int, int] = (100, 30),
    palette: Palette = DARK,
    tools: Mapping[str, Any] | None = None,
    hooks: Hooks | None = None,
    initial_prompt: str | None = None,
    notice: str | None = None,
    session_dir: str | None = None,
    open_with: Callable[[Confirmer, ScriptedAgent], Awaitable[OpenedSession]] | None = None,
    summaries: Sequence[str] = (),
    config: Config | None = None,
) -> AsyncIterator[ChatRig]:
    """A chat on this session, ready for keys."""
    agent = ScriptedAgent(replies, tools=tools, summaries=summaries)
    history = HistoryStorage.for_profile(manager.profile)

    async def open_session(confirmer: Confirmer) -> OpenedSession:
        if open_with is not None:
            return await open_with(confirmer, agent)
        session = await create_agent_session(agent, manager=manager, hooks=hooks)
        return OpenedSession(session)

    scope = Scope(manager.cwd, manager.profile, session_dir)
    setup = ChatSetup(scope, initial_prompt, notice, history, config=config or Config(""))
    app = ChatApp(setup, open_session, palette)
    try:
        async with app.run_test(size=size) as pilot:
            rig = ChatRig(app, pilot, agent, history)
            await until(lambda: isinstance(app.screen, ChatScreen), pilot)
            await rig.until(lambda: rig.is_idle)
            yield rig
            await app.close_session()
    finally:
        history.close()
