"""``todo``: the model's plan for the work at hand.

The list is in the result's ``details``, and nowhere else: it is a part of the conversation, so it
follows branches, forks and switches, and is there in every store. The program shows the latest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sessiontree.agents.processes import plain_text
from sessiontree.agents.tools.base import Parameter, ToolCall, ToolError, ToolOutcome, ToolSpec

NAME = "todo"
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
_MOST_TASKS = 100
_MOST_CHARACTERS = 500
_ITEM = {
    "type": "object",
    "properties": {
        "content": {"type": "string", "description": "What is to be done, in a few words"},
        "status": {"type": "string", "enum": list(_MARKS)},
    },
    "required": ["content", "status"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class TodoTool:
    """Replaces the list of tasks."""

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            NAME,
            "Write down the tasks of the work at hand; the user sees the list. For work of several "
            "steps only. Each call replaces the whole list: send all tasks, one of them "
            "in_progress, and call again as soon as a task is completed.",
            "read",
            (Parameter("todos", "array", "All tasks, in order", required=True, items=_ITEM),),
        )

    async def run(self, call: ToolCall) -> ToolOutcome:
        given = call.arguments["todos"]
        if len(given) > _MOST_TASKS:
            raise ToolError(f"todo: {len(given)} tasks are too many; the most are {_MOST_TASKS}")
        todos = [_task(number, task) for number, task in enumerate(given)]
        lines = [f"{_MARKS[task['status']]} {task['content']}" for task in todos]
        return ToolOutcome.text("\n".join(lines) or "(no tasks)", {"todos": todos})


def _task(number: int, given: object) -> dict[str, Any]:
    content = given.get("content") if isinstance(given, Mapping) else given
    status = given.get("status") if isinstance(given, Mapping) else None
    if not isinstance(content, str) or not content.strip():
        raise ToolError(f"todo: todos[{number}] has no content")
    if status is not None and not (isinstance(status, str) and status in _MARKS):
        raise ToolError(f"todo: the status of todos[{number}] must be one of {', '.join(_MARKS)}")
    words = " ".join(plain_text(content).split())[:_MOST_CHARACTERS]
    return {"content": words, "status": status or "pending"}
