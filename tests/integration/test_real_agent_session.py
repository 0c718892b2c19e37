"""Agents on sessions: what they say reaches the file, and a session can rely on them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.integration.chat_server import ChatServer, Connection, breaks_off, calls, fails, says
from tests.integration.rig import MODEL, Heard
from tests.samples import text_of

from sessiontree.agents import create_agent
from sessiontree.agents.pydantic_ai import PydanticAIAgent
from sessiontree.core.compaction import CompactionSettings
from sessiontree.core.summaries import SYSTEM_PROMPT
from sessiontree.runtime import events
from sessiontree.runtime.agent import Agent
from sessiontree.runtime.agent_session import AgentSession
from sessiontree.runtime.create import create_agent_session
from sessiontree.runtime.models import ModelRegistry
from sessiontree.runtime.settings import RuntimeSettings
from sessiontree.session.manager import SessionManager


async def live(agent: Agent, project: Path, **options: Any) -> AgentSession:
    return await create_agent_session(
        agent,
        cwd=project,
        session_dir=project.parent / "sessions",
        models=ModelRegistry([MODEL], default=MODEL.ref),
        **options,
    )


def is_so_far(event: object) -> bool:
    return isinstance(event, events.MessageUpdate) and event.delta.text == "So far"


def recorded(path: str | None) -> list[dict[str, Any]]:
    """The messages in the file, as another program would read them."""
    assert path is not None
    entries = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return [entry["message"] for entry in entries if entry["type"] == "message"]


async def test_a_turn_with_tools_is_in_the_file_and_continues_after_reopening(
    agent: PydanticAIAgent, server: ChatServer, project: Path
) -> None:
    (project / "a.txt").write_text("inside a\n")
    server.script = [
        calls(("c1", "read", '{"path": "a.txt"}')),
        says("It says: inside a.", thinks=("hm",)),
        says("Yes."),
    ]
    async with await live(agent, project) as session:
        await session.prompt("What is in a.txt?")
        path = session.session_file
        stats = await session.stats()
    assert [m["role"] for m in recorded(path)] == ["user", "assistant", "toolResult", "assistant"]
    assert stats.usage.cost > 0

    again = PydanticAIAgent(agent.toolbox, model=MODEL, environ=agent._environ)
    async with await live(again, project, resume=path) as session:
        await session.prompt("Sure?")
    sent = server.requests[-1]["messages"]
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[2]["content"] == "inside a"
    assert text_of(recorded(path)[-1]) == "Yes."


async def test_failed_and_aborted_answers_are_in_the_file_too(
    agent: PydanticAIAgent, server: ChatServer, project: Path
) -> None:
    async def slow(connection: Connection) -> None:
        await connection.open_stream()
        await connection.chunk({"content": "So far"})
        await connection.until_client_leaves()

    server.script = [breaks_off("Half"), says("Whole."), fails("401 Unauthorized", "who?"), slow]
    heard = Heard(agent)
    async with await live(agent, project) as session:
        await session.prompt("one")
        await session.prompt("two")
        run = asyncio.create_task(session.prompt("three"))
        await heard.until(
            lambda e: isinstance(e, events.MessageUpdate) and e.delta.text == "So far"
        )
        await session.abort()
        await run
        path = session.session_file
    answers = [m for m in recorded(path) if m["role"] == "assistant"]
    assert [(m["stopReason"], text_of(m)) for m in answers] == [
        ("error", "Half"),
        ("stop", "Whole."),
        ("error", ""),
        ("aborted", "So far"),
    ]
    assert answers[2]["errorMessage"] == "401 who?"


async def test_switching_in_the_middle_of_an_answer_keeps_both_sessions_whole(
    agent: PydanticAIAgent, server: ChatServer, project: Path
) -> None:
    async def slow(connection: Connection) -> None:
        await connection.open_stream()
        await connection.chunk({"content": "So far"})
        await connection.until_client_leaves()

    server.script = [says("First."), slow, says("Third.")]
    heard = Heard(agent)
    async with await live(agent, project) as session:
        await session.prompt("one")
        first = session.session_file
        run = asyncio.create_task(session.prompt("two"))
        await heard.until(
            lambda e: isinstance(e, events.MessageUpdate) and e.delta.text == "So far"
        )
        assert await session.new_session()
        await run
        await session.prompt("three")
        second = session.session_file
    assert second != first
    assert recorded(first)[-1]["stopReason"] == "aborted"
    assert [text_of(m) for m in recorded(second) if m["role"] == "assistant"] == ["Third."]
    assert [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "user"] == [
        "three"
    ]


SMALL = RuntimeSettings(compaction=CompactionSettings(keep_recent_tokens=50))


async def test_an_overflow_is_compacted_and_the_question_asked_again(
    agent: PydanticAIAgent, server: ChatServer, project: Path
) -> None:
    async def notes_or_answer(connection: Connection) -> None:
        is_for_notes = connection.body["messages"][0]["content"] == SYSTEM_PROMPT
        text = "## Goal\nTo test." if is_for_notes else "Answer after all."
        await says(text)(connection)

    overflow = fails("400 Bad Request", "too many tokens here", "context_length_exceeded")
    server.script = [says("x" * 400), says("y" * 400), overflow, *[notes_or_answer] * 3]
    async with await live(agent, project, settings=SMALL) as session:
        await session.prompt("one " * 100)
        await session.prompt("two " * 100)
        await session.prompt("three")
        path = session.session_file
        assert text_of(session.messages[-1]) == "Answer after all."
        assert session.messages[0]["role"] == "compactionSummary"
    assert path is not None
    with SessionManager.open(path) as reopened:
        kinds = [entry.type for entry in reopened.get_entries()]
    assert "compaction" in kinds
    assert "## Goal\nTo test." in json.dumps(server.requests[-1]["messages"]).replace("\\n", "\n")


async def test_the_offline_agent_works_on_a_session_and_compacts_it(project: Path) -> None:
    (project / "notes.md").write_text("the needle\n")
    choice = create_agent(None, project, environ={})
    async with await live(choice.agent, project, model=choice.model, settings=SMALL) as session:
        await session.prompt("grep needle")
        await session.prompt("hello")
        await session.prompt("hello again")
        await session.compact()
        path = session.session_file
        summary = session.messages[0]
    assert summary["role"] == "compactionSummary"
    assert summary["summary"].startswith("## Goal\ngrep needle")
    results = [m for m in recorded(path) if m["role"] == "toolResult"]
    assert "notes.md:1: the needle" in text_of(results[0])
    answers = [m for m in recorded(path) if m["role"] == "assistant"]
    assert {m["provider"] for m in answers} == {"offline"}
