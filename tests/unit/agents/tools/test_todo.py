"""todo: a list of tasks that is a part of the conversation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sessiontree.agents.tools.toolbox import Toolbox, project_tools


async def run(project: Path, mode: str = "none", **arguments: object) -> dict[str, Any]:
    async def silent(_: str) -> None:
        return None

    call = {"type": "toolCall", "id": "c1", "name": "todo", "arguments": arguments}
    return await Toolbox(project_tools(project)).run(call, mode=mode, report=silent)


async def test_a_list_is_kept_in_the_result_without_asking_and_in_plan_mode(project: Path) -> None:
    tasks = [
        {"content": "Read", "status": "completed"},
        {"content": " Write\nthe tests ", "status": "in_progress"},
        {"content": "Ship"},
    ]
    result = await run(project, mode="plan", todos=tasks)
    assert result["isError"] is False
    assert result["content"][0]["text"] == "[x] Read\n[>] Write the tests\n[ ] Ship"
    assert result["details"] == {
        "todos": [
            {"content": "Read", "status": "completed"},
            {"content": "Write the tests", "status": "in_progress"},
            {"content": "Ship", "status": "pending"},
        ]
    }
    assert os.listdir(project) == []


@pytest.mark.parametrize(
    ("todos", "words"),
    [
        ("Read", '"todos" must be of type array'),
        (None, 'the argument "todos" is missing'),
        ([{"content": " "}], "todos[0] has no content"),
        ([{"content": "a"}, 5], "todos[1] has no content"),
        ([{"content": "a", "status": "maybe"}], "must be one of pending, in_progress, completed"),
        ([{"content": "a", "status": ["x"]}], "must be one of pending"),
        ([{"content": "a"}] * 101, "101 tasks are too many"),
    ],
)
async def test_what_is_no_list_of_tasks_is_refused(
    project: Path, todos: object, words: str
) -> None:
    result = await run(project, todos=todos)
    assert result["isError"] is True
    assert words in result["content"][0]["text"]
