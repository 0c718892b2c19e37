"""A project folder with something secret beside it, and tools on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sessiontree.agents.tools.base import Confirmation
from sessiontree.agents.tools.toolbox import Toolbox, project_tools

RunTool = Callable[..., Awaitable[dict[str, Any]]]


class Asked:
    """A user who answers every question alike, and remembers the questions."""

    def __init__(self) -> None:
        self.answer: object = True
        self.questions: list[Confirmation] = []

    async def __call__(self, question: Confirmation) -> bool:
        self.questions.append(question)
        return self.answer  # type: ignore[return-value]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("the secret\n")
    return folder


@pytest.fixture
def secret(project: Path) -> Path:
    return project.parent / "outside" / "secret.txt"


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def toolbox(project: Path, asked: Asked) -> Toolbox:
    return Toolbox(project_tools(project), confirm=asked)


@pytest.fixture
def run_tool(toolbox: Toolbox) -> RunTool:
    """Runs a tool by name and gives the toolResult message."""

    async def run(name: str, /, **arguments: Any) -> dict[str, Any]:
        async def report(_: str) -> None:
            return None

        block = {"type": "toolCall", "id": "call-1", "name": name, "arguments": arguments}
        return await toolbox.run(block, report=report)

    return run
