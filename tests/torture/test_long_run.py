"""A day of agent work in minutes: memory and latency stay flat, and nothing is left open."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import resource
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.torture.conftest import Budget

from sessiontree import AgentSession, SessionManager, create_agent_session
from sessiontree.core.compaction import CompactionError, CompactionSettings
from sessiontree.runtime.agent_base import ToolOutput
from sessiontree.runtime.models import Model, ModelRegistry
from sessiontree.runtime.settings import RuntimeSettings
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent

ENTRIES = 50_000
"""What a day comes to; a shorter run does as much of it as there is time for."""
_MODEL = Model("acme", "m", context_window=60_000, max_output=4_000)


def resident_kb() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize() >> 10


@dataclass
class Day:
    """The work, and what was measured during it."""

    session: AgentSession
    agent: ScriptedAgent
    rng: random.Random
    entries: int = 0
    turns: list[float] = field(default_factory=list)
    """Seconds of computing that each turn took; what else the machine does is not counted."""
    memory: list[tuple[int, int]] = field(default_factory=list)
    """Entries written, and kilobytes resident."""
    moves: int = 0
    compactions: int = 0
    files: set[str] = field(default_factory=set)

    async def turn(self) -> None:
        """A prompt, some tool calls, an answer."""
        rng = self.rng
        calls = rng.randint(1, 6)
        for number in range(calls):
            text = "thinking about it " * rng.randint(1, 20)
            arguments = {"path": f"src/{number}.py", "size": rng.choice([50, 500, 3_000])}
            self.agent.say_next(Reply(text, tool_calls=[("read", arguments)]))
        self.agent.say_next("That is done. " * 5)
        began = time.process_time()
        await self.session.prompt(f"do the next thing, number {len(self.turns)}")
        self.turns.append(time.process_time() - began)
        self.entries += 2 + 2 * calls
        self.agent.requests.clear()
        self.agent.completions.clear()

    async def move(self) -> None:
        """Now and then somebody goes elsewhere."""
        session, rng = self.session, self.rng
        self.moves += 1
        entries = await session.read(lambda manager: manager.get_branch())
        prompts = [
            entry.id
            for entry in entries[-200:]
            if entry.type == "message" and entry.data["message"]["role"] == "user"
        ]
        roll = rng.random()
        if roll < 0.4 and self.files:
            await session.switch_session(rng.choice(sorted(self.files)[-20:]))
        elif roll < 0.6 and prompts:
            await session.navigate_tree(rng.choice(prompts), summarize=rng.random() < 0.5)
        elif roll < 0.7 and prompts:
            await session.branch(rng.choice(prompts))
        elif roll < 0.8:
            await session.fork()
        elif roll < 0.9:
            await session.new_session()
        else:
            try:
                await session.compact()
            except CompactionError:
                return
            self.compactions += 1

    def measure(self) -> None:
        gc.collect()
        self.memory.append((self.entries, resident_kb()))


async def begin(project: Path) -> tuple[AgentSession, ScriptedAgent]:
    async def read(arguments: Any, progress: Any) -> ToolOutput:
        return ToolOutput("line of a file\n" * (arguments["size"] // 15))

    agent = ScriptedAgent(tools={"read": read}, default="A summary of what was done. " * 20)
    session = await create_agent_session(
        agent,
        cwd=project,
        models=ModelRegistry([_MODEL], default=_MODEL.ref),
        settings=RuntimeSettings(
            compaction=CompactionSettings(reserve_tokens=8_000, keep_recent_tokens=5_000)
        ),
    )
    return session, agent


async def live_a_day(project: Path, rng: random.Random, budget: Budget) -> Day:
    """One long conversation, left now and then for others and come back to."""
    session, agent = await begin(project)
    day = Day(session, agent, rng)
    main = str(session.session_file)
    try:
        while day.entries < ENTRIES and (budget.is_left() or len(day.turns) < 300):
            for _ in range(20):
                await day.turn()
            day.measure()
            await day.move()
            if session.session_file != main:
                day.files.add(str(session.session_file))
                await day.turn()
                day.turns.pop()
                await session.switch_session(main)
        day.files.add(main)
    finally:
        await session.aclose()
    return day


@pytest.mark.share(7)
def test_a_day_of_work_costs_the_same_in_the_evening_as_in_the_morning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rng: random.Random,
    budget: Budget,
    figures: Callable[[str, float], None],
) -> None:
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(tmp_path / "agent"))
    descriptors, threads = set(os.listdir("/proc/self/fd")), set(threading.enumerate())
    began = time.monotonic()
    day = asyncio.run(live_a_day(tmp_path / "project", rng, budget))
    took = time.monotonic() - began
    del day.session, day.agent  # a closed session can still be read, so it keeps its file open
    gc.collect()
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)
        assert not thread.is_alive(), f"still running: {thread}"
    assert len(os.listdir("/proc/self/fd")) <= len(descriptors), "files are still open"

    # after a quarter everything is imported and warm
    quarter = len(day.turns) // 4
    morning = statistics.median(day.turns[quarter : 2 * quarter])
    evening = statistics.median(day.turns[-quarter:])
    settled = [kb for entries, kb in day.memory if entries > day.entries / 4]
    growth_kb = statistics.median(settled[-3:]) - statistics.median(settled[:3])
    grown_by = day.entries * 3 / 4
    figures("entries", day.entries)
    figures("turns", len(day.turns))
    figures("moves", day.moves)
    figures("compactions asked for", day.compactions)
    figures("seconds", round(took, 1))
    figures("ms a turn, morning", round(morning * 1000, 2))
    figures("ms a turn, evening", round(evening * 1000, 2))
    figures("MB resident at the end", day.memory[-1][1] >> 10)
    figures("bytes kept an entry", round(growth_kb * 1024 / grown_by))
    assert evening < 1.4 * morning + 0.001, f"{morning * 1000:.1f} → {evening * 1000:.1f} ms a turn"
    assert growth_kb < 20_000 + grown_by * 0.6, f"{growth_kb} KB more after {grown_by:.0f} entries"
    for path in sorted(day.files)[-20:]:
        with SessionManager.open(path) as session:
            assert not [str(warning) for warning in session.warnings]
