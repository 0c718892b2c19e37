"""A live ``AgentSession`` driven by Hypothesis: turns, aborts, moves, faults, and reopening.

What must hold is told in three sentences: the agent, the session in memory and the session on disk
say the same; nothing that was said and acknowledged is ever missing; nothing is left running.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.torture.session_machine import PICKS, choose

from sessiontree import (
    AgentSession,
    MemorySessionStorage,
    SessionManager,
    SessionTreeError,
    create_agent_session,
)
from sessiontree.core.compaction import CompactionError, CompactionSettings
from sessiontree.profiles import Profile
from sessiontree.runtime.agent_base import ToolOutput
from sessiontree.runtime.hooks import Cancel
from sessiontree.runtime.models import Model, ModelRegistry
from sessiontree.runtime.settings import RuntimeSettings
from sessiontree.testing import FaultyStorage
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent

T = TypeVar("T")
MODELS = [Model("acme", "thinker", max_thinking="high"), Model("acme", "plain")]
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=15).filter(str.strip)
MOVES = ["new", "switch", "fork", "branch", "navigate"]


class AgentMachine(RuleBasedStateMachine):
    """One live session at a time; all files that it ever wrote are remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.threads = set(threading.enumerate())
        self.storage = FaultyStorage(MemorySessionStorage())
        self.profile = Profile("sessiontree", "/home/agent", "omp")
        self.said: dict[str, dict[str, Any]] = {}
        """Of each file, the messages that were acknowledged, by entry id."""
        self.run(self._start(None))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, 20))

    async def _start(self, path: str | None) -> None:
        async def tool(arguments: Any, progress: Any) -> ToolOutput:
            return ToolOutput(str(arguments["text"]))

        self.agent = ScriptedAgent(tools={"tool": tool})
        self.session: AgentSession = await create_agent_session(
            self.agent,
            cwd="/project",
            resume=path,
            profile=self.profile,
            storage=self.storage,
            models=ModelRegistry(MODELS, default="acme/thinker"),
            settings=RuntimeSettings(
                compaction=CompactionSettings(enabled=False, keep_recent_tokens=40)
            ),
        )

    def teardown(self) -> None:
        self.storage.heal()
        try:
            self.run(self.session.aclose())
        finally:
            leftovers = asyncio.all_tasks(self.loop)
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
        assert not leftovers, "something is still running"
        for thread in set(threading.enumerate()) - self.threads:
            thread.join(5)
            assert not thread.is_alive(), "a thread is still running"

    @property
    def file(self) -> str:
        return str(self.session.session_file)

    def _entries(self) -> list[Any]:
        return self.run(self.session.read(lambda manager: manager.get_entries()))

    # -- talking ---------------------------------------------------------------------------

    @rule(prompt=TEXTS, reply=TEXTS)
    def prompt(self, prompt: str, reply: str) -> None:
        self.agent.say_next(reply)
        self.run(self.session.prompt(prompt))

    @rule(prompt=TEXTS, output=st.text(max_size=20))
    def prompt_that_needs_a_tool(self, prompt: str, output: str) -> None:
        self.agent.say_next(Reply("let me see", tool_calls=[("tool", {"text": output})]), "done")
        self.run(self.session.prompt(prompt))

    @rule(prompt=TEXTS)
    def prompt_that_fails(self, prompt: str) -> None:
        self.agent.say_next(Reply("half", error="overloaded"))
        self.run(self.session.prompt(prompt))

    @rule(prompt=TEXTS, move=st.sampled_from(["abort", *MOVES]), pick=PICKS)
    def interrupt(self, prompt: str, move: str, pick: int) -> None:
        async def work() -> None:
            self.agent.say_next(Reply("a long answer that is cut", hold=True))
            running = asyncio.ensure_future(self.session.prompt(prompt))
            await self.agent.wait_held()
            await self._move(move, pick)
            if not running.done():
                await self.session.abort()
            await running

        self.run(work())

    @rule(text=TEXTS, later=st.booleans())
    def queue(self, text: str, later: bool) -> None:
        self.run(self.session.follow_up(text) if later else self.session.steer(text))

    # -- state -----------------------------------------------------------------------------

    @rule(
        model=st.sampled_from(MODELS),
        level=st.sampled_from(["off", "low", "high", "xhigh"]),
        mode=st.sampled_from(["none", "plan"]),
        name=st.text(max_size=5),
    )
    def change_state(self, model: Model, level: str, mode: str, name: str) -> None:
        self.run(self.session.set_model(model.ref))
        self.run(self.session.set_thinking_level(level))
        self.run(self.session.set_mode(mode))
        self.run(self.session.set_session_name(name))

    @rule()
    def compact(self) -> None:
        try:
            self.run(self.session.compact())
        except CompactionError:
            pass

    # -- moving ----------------------------------------------------------------------------

    @rule(move=st.sampled_from(MOVES), pick=PICKS, is_refused=st.booleans())
    def move(self, move: str, pick: int, is_refused: bool) -> None:
        undo = [
            self.session.on(f"session_before_{event}", lambda payload: Cancel())
            for event in ("switch", "branch", "tree")
            if is_refused
        ]
        before = (self.file, list(self.session.messages))
        self.run(self._move(move, pick))
        for remove in undo:
            remove()
        if is_refused:
            assert (self.file, list(self.session.messages)) == before

    async def _move(self, move: str, pick: int) -> None:
        session = self.session
        entries = await session.read(lambda manager: manager.get_entries())
        prompts = [
            e.id for e in entries if e.type == "message" and e.data["message"]["role"] == "user"
        ]
        match move:
            case "abort":
                await session.abort()
            case "new":
                await session.new_session()
            case "switch" if self.said:
                await session.switch_session(choose(self.said, pick))
            case "fork" if prompts:
                await session.fork()
            case "branch" if prompts:
                await session.branch(choose(prompts, pick))
            case "navigate" if entries:
                await session.navigate_tree(choose(entries, pick).id, summarize=pick % 2 == 0)

    # -- bad days --------------------------------------------------------------------------

    @rule(
        operation=st.sampled_from(["write_line", "write_atomic", "fsync", "open_reader", "lock"]),
        code=st.sampled_from([errno.ENOSPC, errno.EIO]),
        at=st.integers(1, 4),
        move=st.sampled_from(["prompt", *MOVES]),
        pick=PICKS,
    )
    def the_disk_fails(self, operation: str, code: int, at: int, move: str, pick: int) -> None:
        self.storage.fail(operation, code, at=at)
        work = self.session.prompt("on a bad day") if move == "prompt" else self._move(move, pick)
        try:
            self.run(work)
        except SessionTreeError:
            pass
        self.storage.heal()
        self.run(self.session.recover())
        assert self.session.unsaved == 0

    @precondition(lambda self: self.said.get(self.file))
    @rule()
    def end_and_resume(self) -> None:
        file, messages = self.file, list(self.session.messages)
        self.run(self.session.aclose())
        self.run(self._start(file))
        assert list(self.session.messages) == messages

    # -- what must hold --------------------------------------------------------------------

    @invariant()
    def agent_and_session_say_the_same(self) -> None:
        session = self.session
        context = self.run(session.read(lambda manager: manager.build_session_context()))
        assert list(session.messages) == context.messages
        assert list(self.agent.messages) == context.messages
        assert self.agent.session_id == session.session_id
        assert len(self.agent._listeners) == 1
        assert not session.is_running

    @invariant()
    def nothing_said_is_missing_on_disk(self) -> None:
        here = {e.id: e.data["message"] for e in self._entries() if e.type == "message"}
        if here:
            self.said[self.file] = {**self.said.get(self.file, {}), **here}
        for path, messages in self.said.items():
            other = SessionManager.open(path, profile=self.profile, storage=self.storage)
            found = {e.id: e.data["message"] for e in other.get_entries() if e.type == "message"}
            assert {key: found.get(key) for key in messages} == messages
