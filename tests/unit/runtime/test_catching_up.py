"""Another process appends to the session of a live agent."""

from __future__ import annotations

from pathlib import Path

from tests.samples import user

from sessiontree import SessionManager, create_agent_session
from sessiontree.runtime import events
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent


async def test_entries_that_carry_the_path_on_are_followed(tmp_path: Path) -> None:
    manager = SessionManager.create(tmp_path, tmp_path / "sessions")
    session = await create_agent_session(ScriptedAgent([Reply("Hello")]), manager=manager)
    heard: list[object] = []
    session.subscribe(heard.append)
    async with session:
        await session.prompt("Hi")
        assert await session.catch_up() == 0
        other = SessionManager.open(str(session.session_file))
        other.append_message(user("from the other window"))
        other.close()
        heard.clear()
        assert await session.catch_up() == 1
        assert session.messages[-1] == user("from the other window")
        assert session.manager.leaf_id == other.leaf_id
        assert any(isinstance(event, events.SessionReplaced) for event in heard)


async def test_entries_on_another_branch_leave_us_where_we_are(tmp_path: Path) -> None:
    manager = SessionManager.create(tmp_path, tmp_path / "sessions")
    session = await create_agent_session(ScriptedAgent([Reply("Hello")]), manager=manager)
    async with session:
        await session.prompt("Hi")
        leaf = session.manager.leaf_id
        other = SessionManager.open(str(session.session_file))
        other.branch(other.get_entries()[0].id)
        other.append_message(user("elsewhere"))
        other.close()
        assert await session.catch_up() == 1
        assert session.manager.leaf_id == leaf
        assert user("elsewhere") not in session.messages
