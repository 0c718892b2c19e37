"""The tools follow the session into its project, and into no other folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sessiontree.agents import create_agent
from sessiontree.model.messages import text_of
from sessiontree.profiles import Profile
from sessiontree.runtime.agent_session import AgentSession
from sessiontree.runtime.create import create_agent_session
from sessiontree.session.manager import SessionManager

from .conftest import Asked


class Town:
    """Two projects that have a file of the same name, and a session in each."""

    def __init__(self, root: Path) -> None:
        self.profile = Profile("sessiontree", str(root / "agent"), "omp")
        self.here, self.there = root / "here", root / "there"
        for folder in (self.here, self.there):
            folder.mkdir()
            (folder / "name.txt").write_text(f"this is {folder.name}\n")

    def session(self, project: Path) -> str:
        with SessionManager.create(project, profile=self.profile) as manager:
            manager.append_message({"role": "user", "content": "hello", "timestamp": 1})
            manager.append_message({"role": "assistant", "content": [], "timestamp": 2})
            assert manager.session_file is not None
            return manager.session_file

    async def open(self, asked: Asked | None = None) -> AgentSession:
        choice = create_agent("offline", self.here, confirm=asked)
        return await create_agent_session(choice.agent, cwd=self.here, profile=self.profile)


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path.resolve())


async def result_of(session: AgentSession, prompt: str) -> dict[str, Any]:
    """What the tool gave that the offline agent calls for this prompt."""
    await session.prompt(prompt)
    return next(m for m in reversed(session.messages) if m["role"] == "toolResult")


async def read_name(session: AgentSession) -> str:
    return text_of((await result_of(session, "read name.txt"))["content"])


async def test_every_tool_works_in_the_project_of_the_session_that_was_switched_to(
    town: Town, asked: Asked
) -> None:
    target = town.session(town.there)
    async with await town.open(asked) as session:
        home = session.session_file
        assert home is not None
        assert "this is here" in await read_name(session)
        await session.switch_session(target)
        assert "this is there" in await read_name(session)
        shown = await result_of(session, "run: pwd")
        assert text_of(shown["content"]) == str(town.there)
        await result_of(session, "write new.txt\nhello")
        assert (town.there / "new.txt").read_text() == "hello"
        assert not (town.here / "new.txt").exists()
        refused = await result_of(session, f"read {town.here / 'name.txt'}")
        assert refused["isError"]
        await session.switch_session(home)
        assert "this is here" in await read_name(session)


async def test_a_switch_that_fails_leaves_the_tools_in_their_project(town: Town) -> None:
    target = town.session(town.there)
    async with await town.open() as session:
        await session.prompt("list")
        replace = session.agent.replace_messages

        def fail(messages: object) -> None:
            session.agent.replace_messages = replace  # type: ignore[method-assign]
            raise RuntimeError("no")

        session.agent.replace_messages = fail  # type: ignore[method-assign]
        with pytest.raises(RuntimeError):
            await session.switch_session(target)
        assert session.agent.cwd == str(town.here)
        assert "this is here" in await read_name(session)


async def test_in_a_project_that_is_gone_every_tool_is_refused_until_it_is_back(
    town: Town, asked: Asked
) -> None:
    target = town.session(town.there)
    (town.there / "name.txt").unlink()
    town.there.rmdir()
    async with await town.open(asked) as session:
        await session.switch_session(target)
        for prompt in ("read name.txt", "list", "grep here", "run: pwd", "write a.txt\nb"):
            result = await result_of(session, prompt)
            assert result["isError"]
            assert f"the project folder {town.there} is not there" in text_of(result["content"])
        assert asked.questions == []
        assert sorted(os.listdir(town.here)) == ["name.txt"]
        town.there.mkdir()
        (town.there / "name.txt").write_text("back again")
        assert "back again" in await read_name(session)


async def test_a_model_is_told_of_the_project_it_is_in(town: Town) -> None:
    (town.here / "AGENTS.md").write_text("Use tabs.")
    (town.there / "AGENTS.md").write_text("Use spaces.")
    environ = {"MINE_BASE_URL": "http://127.0.0.1:9/v1"}
    agent = create_agent("mine/m", town.here, environ=environ).agent
    assert "Use tabs." in (agent.system_prompt or "")
    agent.cwd = str(town.there)
    await agent._enter_project()
    assert str(town.there) in (agent.system_prompt or "")
    assert "Use spaces." in (agent.system_prompt or "")
    agent.cwd = str(town.here / "gone")
    await agent._enter_project()
    assert f"{town.here / 'gone'} is not there" in (agent.system_prompt or "")
    assert "Use " not in (agent.system_prompt or "")
