"""What type checkers say about agents on sessions. mypy checks this file; nothing runs it."""

from __future__ import annotations

from typing import assert_type

from sessiontree import Agent, AgentBase, AgentSession, create_agent_session
from sessiontree.runtime.agent_base import Draft, Request


class Echo(AgentBase):
    async def respond(self, draft: Draft, request: Request) -> None:
        await draft.add_text("You said something.")


async def run(agent: Agent) -> None:
    session = await create_agent_session(agent, cwd="/project", continue_recent=True)
    assert_type(session, AgentSession)
    await session.prompt("Hi")
    assert_type(await session.fork(), bool)
    assert_type(await session.switch_session("/elsewhere.jsonl"), bool)
    assert_type(await session.read(lambda manager: len(manager.get_entries())), int)
    assert_type(session.session_file, str | None)
    await create_agent_session("an agent")  # type: ignore[arg-type]
