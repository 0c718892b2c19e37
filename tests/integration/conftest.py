"""The server, and a real agent that talks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.chat_server import ChatServer
from tests.integration.rig import MODEL, RETRY

from sessiontree.agents.pydantic_ai import PydanticAIAgent
from sessiontree.agents.tools.base import Confirmation
from sessiontree.agents.tools.toolbox import Toolbox, project_tools


@pytest.fixture
async def server() -> AsyncIterator[ChatServer]:
    chat = ChatServer()
    listening = await chat.start()
    yield chat
    listening.close()
    await chat.stop()
    await listening.wait_closed()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def agent(server: ChatServer, project: Path) -> PydanticAIAgent:
    async def yes(_: Confirmation) -> bool:
        return True

    environ = {"LOOPBACK_BASE_URL": server.url, "LOOPBACK_API_KEY": "k-123"}
    return PydanticAIAgent(
        Toolbox(project_tools(project), confirm=yes),
        model=MODEL,
        system_prompt="Be brief.",
        retry=RETRY,
        environ=environ,
    )
