"""The real agent and a server that repeats its key, or never ends what it sends."""

from __future__ import annotations

import asyncio
import json
import resource
from pathlib import Path

import pytest
from tests.integration.chat_server import Answer, ChatServer, Connection, calls, fails, says
from tests.integration.rig import MODEL, RETRY, Heard
from tests.samples import text_of, user

from sessiontree import SessionManager
from sessiontree.agents.pydantic_ai import PydanticAIAgent
from sessiontree.agents.tools.base import Confirmation
from sessiontree.agents.tools.toolbox import Toolbox, project_tools
from sessiontree.runtime.create import create_agent_session
from sessiontree.runtime.masking import HIDDEN

KEY = "sk-gateway-0123456789abcdefghij"


@pytest.fixture
def agent(server: ChatServer, project: Path) -> PydanticAIAgent:
    async def yes(_: Confirmation) -> bool:
        return True

    environ = {"LOOPBACK_BASE_URL": server.url, "LOOPBACK_API_KEY": KEY}
    tools = Toolbox(project_tools(project), confirm=yes)
    return PydanticAIAgent(tools, model=MODEL, retry=RETRY, environ=environ)


def _recorded(manager: SessionManager) -> str:
    return Path(str(manager.session_file)).read_text()


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.mark.parametrize(
    "script",
    [
        [fails("401 Unauthorized", f"invalid key: {KEY}")],
        [fails("400 Bad Request", "x" * 1_990 + KEY)],
        [fails("500 Internal Server Error", f"Authorization: Bearer {KEY}")] * 4,
        [says(*_pieces(f"Your key {KEY} is out of money.", 3))],
        [says("fine", thinks=tuple(_pieces(f"the key is {KEY}", 5)))],
        [calls(("1", "read", json.dumps({"path": KEY}))), says(f"no {KEY[:12]}")],
        [calls(("1", KEY, "{}")), says("no")],
    ],
)
async def test_a_key_that_a_gateway_repeats_is_neither_recorded_nor_shown(
    agent: PydanticAIAgent, server: ChatServer, tmp_path: Path, script: list[Answer]
) -> None:
    server.script = list(script)
    heard = Heard(agent)
    manager = SessionManager.create(tmp_path, tmp_path / "sessions")
    async with await create_agent_session(agent, manager=manager) as session:
        await session.prompt("Hi")
        messages = repr(list(session.messages))
    assert server.keys[0] == KEY
    recorded = _recorded(manager)
    for place in (recorded, messages, repr(heard.events)):
        assert KEY not in place
        assert KEY[-12:] not in place
    assert HIDDEN[:6] in recorded


async def test_an_answer_is_shown_whole_although_its_end_looks_like_a_key(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    server.script = [says("keys begin with ", KEY[:10])]
    heard = Heard(agent)
    await agent.prompt([user("Hi")])
    assert "".join(heard.deltas("text")) == f"keys begin with {KEY[:10]}"
    assert text_of(agent.messages[-1]) == f"keys begin with {KEY[:10]}"


async def test_what_a_command_prints_and_a_user_types_is_masked_too(
    agent: PydanticAIAgent, server: ChatServer, project: Path, tmp_path: Path
) -> None:
    (project / ".env").write_text(f"LOOPBACK_API_KEY={KEY}\n")
    server.script = [
        calls(("1", "read", json.dumps({"path": ".env"}))),
        calls(("2", "bash", json.dumps({"command": "cat .env; sleep 0.2; cat .env"}))),
        says("done"),
    ]
    heard = Heard(agent)
    manager = SessionManager.create(tmp_path, tmp_path / "sessions")
    async with await create_agent_session(agent, manager=manager) as session:
        await session.prompt(f"my key is {KEY}")
        await session.record_bash("env", f"LOOPBACK_API_KEY={KEY}", 0)
        await session.send_custom_message("note", f"key {KEY}", details={"key": KEY})
        session.agent.follow_ups.clear()
    recorded = _recorded(manager)
    assert KEY not in recorded
    assert KEY not in repr(heard.events)
    assert recorded.count(HIDDEN) >= 6
    assert KEY not in json.dumps(server.requests)


@pytest.mark.parametrize("is_error", [False, True])
async def test_a_line_without_end_is_cut_off_in_little_memory(
    agent: PydanticAIAgent, server: ChatServer, is_error: bool
) -> None:
    sent = 0

    async def endless(connection: Connection) -> None:
        nonlocal sent
        await connection.open_stream("500 Oops" if is_error else "200 OK")
        block = b"x" * (1 << 20)
        await connection.raw(b"data: ")
        for _ in range(2 << 10):
            await connection.raw(block)
            sent += 1

    server.script = [endless]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with asyncio.timeout(60):
        await agent.prompt([user("Hi")])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    answer = agent.messages[-1]
    assert answer["stopReason"] == "error"
    assert "sent more than" in answer["errorMessage"]
    assert len(server.requests) == 1
    assert sent < 300
    assert grown < 400 << 10


async def test_an_aborted_line_without_end_is_left_at_once(
    agent: PydanticAIAgent, server: ChatServer
) -> None:
    started = asyncio.Event()

    async def endless(connection: Connection) -> None:
        await connection.open_stream()
        await connection.raw(b"data: x")
        started.set()
        while True:
            await connection.raw(b"x" * 1024)
            await asyncio.sleep(0)

    server.script = [endless]
    prompting = asyncio.ensure_future(agent.prompt([user("Hi")]))
    await started.wait()
    async with asyncio.timeout(5):
        await agent.abort()
        await prompting
    assert agent.messages[-1]["stopReason"] == "aborted"
