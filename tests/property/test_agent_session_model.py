"""A thousand random operations on a live session, against a model of what a person would expect.

Every message has a text of its own, so that the model can know entries by what they say. The model
keeps, for each place in each session, what the conversation reads there and which state holds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sessiontree.core.compaction import CompactionError, CompactionSettings
from sessiontree.errors import NotASessionError
from sessiontree.profiles import Dialect, Profile
from sessiontree.runtime.agent_base import ToolOutput
from sessiontree.runtime.agent_session import AgentSession
from sessiontree.runtime.create import create_agent_session
from sessiontree.runtime.hooks import Cancel
from sessiontree.runtime.models import Model, ModelRegistry
from sessiontree.runtime.settings import RuntimeSettings
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.memory import MemorySessionStorage
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent

View = tuple[tuple[str, str], ...]

LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh"]
TOP = {"acme/thinker": "high", "acme/plain": "off", "acme/dear": "xhigh"}
MODELS = [Model("acme", ref.removeprefix("acme/"), max_thinking=t) for ref, t in TOP.items()]


class Fault(Exception):
    """Put in by the test."""


class FaultyAgent(ScriptedAgent):
    """Fails once, at the n-th thing that a move does to it."""

    fuse: int | None = None

    def _burn(self) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.fuse = None
                raise Fault

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("session_id", "model", "thinking_level", "mode"):
            self._burn()
        super().__setattr__(name, value)

    def replace_messages(self, messages: Any) -> None:
        self._burn()
        super().replace_messages(messages)

    def subscribe(self, listener: Any) -> Any:
        self._burn()
        return super().subscribe(listener)

    async def abort(self) -> None:
        self._burn()
        await super().abort()


@dataclass(frozen=True)
class Place:
    """Where a conversation can stand."""

    view: View = ()
    path: tuple[str, ...] = ()
    """The texts of all messages from the root, hidden ones too."""
    model: str = "acme/thinker"
    level: str = "medium"
    mode: str = "none"

    def say(self, role: str, text: str) -> Place:
        return replace(self, view=(*self.view, (role, text)), path=(*self.path, text))


@dataclass
class Book:
    """One session file: the place of each message in it, and where it stands."""

    here: Place = field(default_factory=Place)
    users: dict[str, Place] = field(default_factory=dict)
    """Before each prompt."""
    answers: dict[str, Place] = field(default_factory=dict)
    """After each answer."""

    @property
    def is_spoken_in(self) -> bool:
        return bool(self.here.path or self.users or self.answers)

    def copy(self) -> Book:
        return Book(self.here, dict(self.users), dict(self.answers))


class Machine:
    """The live session and its model, side by side."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        dialect: Dialect,
        storage: SessionStorage,
    ) -> None:
        self.folder = folder
        self.profile = Profile("sessiontree", str(folder / "agent"), dialect)
        self.storage = storage
        self.random = random.Random(seed)
        self.books: dict[str, Book] = {}
        self.file = ""
        self.count = 0
        self.done: list[str] = []
        self.steering: list[str] = []
        self.follow_ups: list[str] = []
        self.notes = folder / "notes.txt"
        self.storage.ensure_dir(str(folder))
        self.storage.write_atomic(str(self.notes), b"not a session")
        self.session: AgentSession
        self.agent: FaultyAgent

    # --- the two sides ------------------------------------------------------------------------

    @property
    def book(self) -> Book:
        return self.books[self.file]

    @property
    def here(self) -> Place:
        return self.book.here

    def text(self, kind: str) -> str:
        self.count += 1
        return f"{self.count} {kind} " + "x" * self.random.choice([0, 0, 200])

    async def open(self, path: str | None = None) -> None:
        async def tool(arguments: Any, progress: Any) -> ToolOutput:
            return ToolOutput(arguments["text"])

        self.agent = FaultyAgent(tools={"tool": tool})
        self.session = await create_agent_session(
            self.agent,
            cwd=self.folder,
            resume=path,
            profile=self.profile,
            storage=self.storage,
            models=ModelRegistry(MODELS, default="acme/thinker"),
            settings=RuntimeSettings(
                compaction=CompactionSettings(enabled=False, keep_recent_tokens=60)
            ),
        )
        self.steering, self.follow_ups = [], []
        self.arrive(Book() if path is None else None)

    def arrive(self, fresh: Book | None) -> None:
        """The session stands on another file; ``fresh`` if the model does not know it yet."""
        assert self.session.session_file is not None
        left, self.file = self.file, self.session.session_file
        if left in self.books and left != self.file and not self.books[left].is_spoken_in:
            # Nothing was said there, so nothing was kept; and nothing can come back to it.
            del self.books[left]
        if fresh is not None:
            assert self.file not in self.books
            self.books[self.file] = fresh

    async def check(self) -> None:
        session, here = self.session, self.here
        assert said(session.messages) == here.view
        context = await session.read(lambda manager: manager.build_session_context())
        assert context.messages == list(session.messages)
        assert session.model is not None
        assert (session.model.ref, session.thinking_level) == (here.model, here.level)
        assert (session.mode.name, self.agent.mode) == (here.mode, here.mode)
        assert self.agent.session_id == session.session_id
        assert session.session_file == self.file
        assert [text for _, text in said(session.queued.steering)] == self.steering
        assert [text for _, text in said(session.queued.follow_up)] == self.follow_ups
        assert session.unsaved == 0
        assert len(self.agent._listeners) == 1
        assert not session.is_running

    async def entry_id(self, text: str) -> str:
        for entry in await self.session.read(lambda manager: manager.get_entries()):
            message = entry.data.get("message")
            if entry.type == "message" and said([message])[0][1] == text:
                return str(entry.id)
        raise AssertionError(text)

    # --- talking ------------------------------------------------------------------------------

    def expect_user(self, text: str) -> None:
        self.book.users[text] = self.here
        self.book.here = self.here.say("user", text)

    def expect_answer(self, text: str) -> None:
        self.book.here = self.here.say("assistant", text)
        self.book.answers[text] = self.here

    async def do_prompt(self) -> None:
        prompt, reply = self.text("prompt"), self.text("answer")
        self.agent.say_next(reply)
        self.expect_user(prompt)
        self.expect_answer(reply)
        for waiting in (self.steering, self.follow_ups):
            for text in waiting:
                answer = self.text("answer")
                self.agent.say_next(answer)
                self.expect_user(text)
                self.expect_answer(answer)
            waiting.clear()
        await self.session.prompt(prompt)

    async def do_prompt_with_tool(self) -> None:
        if self.steering or self.follow_ups:
            return
        prompt, thought, output, reply = map(self.text, ("prompt", "call", "output", "answer"))
        self.agent.say_next(Reply(thought, tool_calls=[("tool", {"text": output})]), reply)
        self.expect_user(prompt)
        self.expect_answer(thought)
        self.book.here = self.here.say("toolResult", output)
        self.expect_answer(reply)
        await self.session.prompt(prompt)

    async def do_failing_prompt(self) -> None:
        prompt, reply = self.text("prompt"), self.text("broken answer")
        self.agent.say_next(Reply(reply, error="overloaded"))
        self.expect_user(prompt)
        self.expect_answer(reply)
        await self.session.prompt(prompt)

    async def start_held_answer(self) -> asyncio.Task[None]:
        prompt, reply = self.text("prompt"), self.text("held answer")
        self.agent.say_next(Reply(reply, hold=True))
        self.expect_user(prompt)
        self.expect_answer(reply[: (len(reply) + 1) // 2])
        run = asyncio.create_task(self.session.prompt(prompt))
        await self.agent.wait_held()
        return run

    async def do_abort(self) -> None:
        run = await self.start_held_answer()
        await self.session.abort()
        await run

    async def do_bash(self) -> None:
        text = self.text("command")
        await self.session.record_bash(text, "", 0)
        self.book.here = self.here.say("bashExecution", text)

    async def do_steer(self) -> None:
        self.steering.append(self.text("steer"))
        await self.session.steer(self.steering[-1])

    async def do_follow_up(self) -> None:
        self.follow_ups.append(self.text("follow"))
        await self.session.follow_up(self.follow_ups[-1])

    # --- state --------------------------------------------------------------------------------

    async def do_set_model(self) -> None:
        ref = self.random.choice(list(TOP))
        await self.session.set_model(ref)
        self.book.here = replace(self.here, model=ref, level=clamp(self.here.level, ref))

    async def do_set_level(self) -> None:
        level = self.random.choice(LEVELS)
        await self.session.set_thinking_level(level)
        self.book.here = replace(self.here, level=clamp(level, self.here.model))

    async def do_set_mode(self) -> None:
        mode = self.random.choice(["none", "plan", "plan_paused"])
        await self.session.set_mode(mode)
        self.book.here = replace(self.here, mode=mode)

    async def do_rename(self) -> None:
        name = self.text("name").strip()
        await self.session.set_session_name(name)
        assert self.session.session_name == name

    # --- moving -------------------------------------------------------------------------------

    async def try_move(
        self, move: Callable[[], Awaitable[Any]], expect: Callable[[Any], None]
    ) -> None:
        """A move that may be refused, fail, be cancelled, or interrupt an answer."""
        way = self.random.choice(["plain", "plain", "refused", "fault", "cancelled", "in mid-run"])
        run = None
        if way == "in mid-run":
            run = await self.start_held_answer()
        remove = [
            self.session.on(f"session_before_{event}", lambda payload: Cancel())
            for event in ("switch", "branch", "tree")
            if way == "refused"
        ]
        if way == "fault":
            self.agent.fuse = self.random.randrange(8)
        task = asyncio.ensure_future(move())
        if way == "cancelled":
            for _ in range(self.random.randrange(30)):
                await asyncio.sleep(0)
            task.cancel()
        outcome: Any = (await asyncio.gather(task, return_exceptions=True))[0]
        self.agent.fuse = None
        for undo in remove:
            undo()
        if run is not None:
            await run
        if isinstance(outcome, Fault):
            assert way == "fault"
        elif isinstance(outcome, asyncio.CancelledError):
            assert way == "cancelled"
        elif isinstance(outcome, BaseException):
            raise outcome
        elif way != "refused":
            self.steering, self.follow_ups = [], []
            expect(outcome)

    async def do_new_session(self) -> None:
        kept = Place(model=self.here.model, level=self.here.level)
        await self.try_move(self.session.new_session, lambda _: self.arrive(Book(kept)))

    async def do_switch(self) -> None:
        target = self.random.choice(list(self.books))
        await self.try_move(
            lambda: self.session.switch_session(target), lambda _: self.arrive(None)
        )

    async def do_switch_to_nonsense(self) -> None:
        with pytest.raises(NotASessionError):
            await self.session.switch_session(self.notes)

    async def do_fork(self) -> None:
        if self.book.is_spoken_in:
            await self.try_move(self.session.fork, lambda _: self.arrive(self.book.copy()))

    async def do_branch(self) -> None:
        if not self.book.users:
            return
        text = self.random.choice(list(self.book.users))
        place = self.book.users[text]
        entry_id = await self.entry_id(text)

        def expect(outcome: object) -> None:
            assert outcome == text
            old = self.book
            on_path = set(place.path)
            self.arrive(
                Book(
                    place,
                    {t: p for t, p in old.users.items() if t in on_path},
                    {t: p for t, p in old.answers.items() if t in on_path},
                )
            )

        await self.try_move(lambda: self.session.branch(entry_id), expect)

    async def do_navigate(self) -> None:
        known = {**self.book.users, **self.book.answers}
        if not known:
            return
        text = self.random.choice(list(known))
        entry_id = await self.entry_id(text)
        summarize = self.random.random() < 0.3
        summary = self.text("summary").strip()
        self.agent.summaries[:] = [Reply(summary)]

        def expect(outcome: Any) -> None:
            assert outcome.editor_text == (text if text in self.book.users else None)
            place = known[text]
            if outcome.summary_entry_id is not None:
                told = said(self.session.messages)[-1]
                assert told[0] == "branchSummary"
                assert summary in told[1]
                place = replace(place, view=(*place.view, told))
            if outcome.is_moved:
                self.book.here = place
            else:
                self.steering, self.follow_ups = before

        before = (list(self.steering), list(self.follow_ups))
        await self.try_move(
            lambda: self.session.navigate_tree(entry_id, summarize=summarize), expect
        )

    async def do_compact(self) -> None:
        self.agent.summaries[:] = []
        before = self.here.view
        try:
            await self.session.compact()
        except CompactionError:
            return
        after = said(self.session.messages)
        assert after[0][0] == "compactionSummary"
        kept = after[1:]
        assert kept == before[len(before) - len(kept) :]
        self.book.here = replace(self.here, view=after)

    async def do_reopen(self) -> None:
        await self.session.aclose()
        await self.open(self.file if self.book.is_spoken_in else None)


def said(messages: Any) -> View:
    found = []
    for message in messages:
        content = message.get("content", message.get("summary", message.get("command")))
        if isinstance(content, list):
            content = "".join(block.get("text", "") for block in content)
        found.append((message["role"], content))
    return tuple(found)


def clamp(level: str, ref: str) -> str:
    return LEVELS[min(LEVELS.index(level), LEVELS.index(TOP[ref]))]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("storage", [FileSessionStorage, MemorySessionStorage])
@pytest.mark.parametrize("dialect", ["omp", "pi"])
async def test_a_live_session_is_always_what_a_person_would_expect(
    seed: int, storage: Callable[[], SessionStorage], dialect: Dialect, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, seed, dialect, storage())
    await machine.open()
    operations = [name for name in dir(machine) if name.startswith("do_")]
    try:
        for _ in range(100):
            name = machine.random.choice(["do_prompt", *operations])
            machine.done.append(name)
            await asyncio.wait_for(getattr(machine, name)(), 20)
            await machine.check()
    finally:
        await machine.session.aclose()
    for path in [path for path, book in machine.books.items() if book.is_spoken_in]:
        await machine.open(path)
        await machine.check()
        await machine.session.aclose()
