"""Another agent on the same session: what it takes over, and what a failure leaves as it was."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sessiontree.errors import PersistenceError
from sessiontree.runtime import events
from sessiontree.runtime.agent import AgentBusyError
from sessiontree.session.manager import SessionManager
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent

from .rig import DEAR, PLAIN, THINKER, live, picture, saved, texts

FIRST = [("user", "hi"), ("assistant", "one")]


async def test_the_conversation_and_all_around_it_go_over_to_the_other_agent(
    tmp_path: Path,
) -> None:
    other = ScriptedAgent(["two"])
    async with live(ScriptedAgent(["one"]), tmp_path) as session:
        await session.prompt("hi")
        await session.set_mode("plan")
        await session.follow_up("and then")
        heard: list[object] = []
        session.subscribe(heard.append)
        before = picture(session)
        await session.set_agent(other, DEAR)
        after = picture(session)
        assert session.agent is other
        same = before.keys() - {"model", "leaf", "entries", "bytes", "listeners of the agent"}
        assert {key: after[key] for key in same} == {key: before[key] for key in same}
        assert session.model == DEAR
        assert events.ModelChanged("acme/dear") in heard
        await session.clear_queues()
        await session.prompt("more")
        assert texts(other.requests[0].messages) == [*FIRST, ("user", "more")]
        path = session.session_file
    assert saved(path) == [*FIRST, ("user", "more"), ("assistant", "two")]
    async with live(ScriptedAgent(), tmp_path, resume=path) as again:
        assert again.model == DEAR


async def test_the_agent_before_is_not_listened_to_any_more(tmp_path: Path) -> None:
    first = ScriptedAgent(["one", "unheard"])
    async with live(first, tmp_path) as session:
        await session.prompt("hi")
        await session.set_agent(ScriptedAgent(), PLAIN)
        await first.prompt([{"role": "user", "content": "alone", "timestamp": 1}])
        assert texts(session.messages) == FIRST
        path = session.session_file
    assert saved(path) == FIRST


async def test_it_moves_on_to_other_sessions_like_the_first_one(tmp_path: Path) -> None:
    other = ScriptedAgent(["two"])
    async with live(ScriptedAgent(["one"]), tmp_path) as session:
        await session.prompt("hi")
        first = session.session_file
        assert first is not None
        await session.set_agent(other, PLAIN)
        await session.new_session()
        await session.prompt("fresh")
        assert saved(session.session_file) == [("user", "fresh"), ("assistant", "two")]
        await session.switch_session(first)
        assert texts(other.messages) == FIRST
        assert other.session_id == session.session_id


async def test_a_level_is_clamped_and_comes_back_after_a_model_that_had_no_choice(
    tmp_path: Path,
) -> None:
    async with live(ScriptedAgent(), tmp_path) as session:
        await session.set_thinking_level("high")
        await session.set_agent(ScriptedAgent(), PLAIN)
        assert session.thinking_level == "off"
        await session.set_agent(ScriptedAgent(), THINKER)
        assert session.thinking_level == "medium"
        context = await session.read(SessionManager.build_session_context)
        assert context.thinking_level == "medium"


async def test_a_running_agent_is_not_replaced(tmp_path: Path) -> None:
    agent = ScriptedAgent([Reply("one two", hold=True)])
    async with live(agent, tmp_path) as session:
        run = asyncio.create_task(session.prompt("hi"))
        await agent.wait_held()
        with pytest.raises(AgentBusyError):
            await session.set_agent(ScriptedAgent(), PLAIN)
        assert session.agent is agent
        assert session.model == THINKER
        agent.release()
        await run


async def test_a_choice_that_can_not_be_saved_leaves_the_agent_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: SessionManager, ref: str, role: str | None = None) -> str:
        raise PersistenceError("x", "disk full")

    async with live(ScriptedAgent(["one", "two"]), tmp_path) as session:
        await session.prompt("hi")
        before, agent = picture(session), session.agent
        with monkeypatch.context() as patch:
            patch.setattr(SessionManager, "append_model_change", refuse)
            with pytest.raises(PersistenceError):
                await session.set_agent(ScriptedAgent(), PLAIN)
        assert session.agent is agent
        assert picture(session) == before
        await session.prompt("more")
        assert saved(session.session_file)[-1] == ("assistant", "two")
