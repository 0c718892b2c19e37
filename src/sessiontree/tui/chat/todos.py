"""The agent's todo list. Never writes.

The latest result of a todo tool on the active path counts, so the list follows branches and
switches. A session without one may have a list in its artifact folder (``todos.json``).

Reads leniently: a list of tasks, or phases with tasks, as agents write them. Anything else counts
as an empty list.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rich.text import Text

from sessiontree.model import codec
from sessiontree.session.manager import SessionManager
from sessiontree.storage.file import FileSessionStorage
from sessiontree.tui import safe_text
from sessiontree.tui.palette import Palette

FILE_NAME = "todos.json"
_TOOLS = frozenset(("todo", "todo_write"))
_MAX_ENTRIES = 2_000
_MAX_BYTES = 1 << 20
_MAX_SHOWN = 6
_MAX_DEPTH = 20

State = Literal["open", "active", "done"]
_STATES: dict[str, State] = {
    "completed": "done",
    "done": "done",
    "in_progress": "active",
    "active": "active",
}


@dataclass(frozen=True, slots=True)
class Todo:
    """One task."""

    text: str
    state: State


def said_todos(result: Mapping[str, Any]) -> list[Todo] | None:
    """The list in a tool's result; None if it is not a todo tool's."""
    details = result.get("details")
    if result.get("toolName") not in _TOOLS or result.get("isError") or not details:
        return None
    return list(_tasks(details))


def read_todos(manager: SessionManager) -> list[Todo] | None:
    """The list that the agent has last written on the active path; None if it wrote none."""
    for entry in reversed(manager.get_branch()[-_MAX_ENTRIES:]):
        message = entry.decode().get("message") if entry.type == "message" else None
        if isinstance(message, dict) and message.get("role") == "toolResult":
            found = said_todos(message)
            if found is not None:
                return found
    return None


def load_todos(artifacts_dir: str | None) -> list[Todo]:
    """Load the list in a session's artifact folder; [] if there is none."""
    if artifacts_dir is None:
        return []
    try:
        path = os.path.join(artifacts_dir, FILE_NAME)
        data = FileSessionStorage().read_prefix(path, _MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            return []
        return list(_tasks(codec.decode(data)))
    except (OSError, ValueError):
        return []


def _tasks(value: Any, depth: int = 0) -> Iterator[Todo]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key in ("todos", "tasks", "phases", "items"):
            if isinstance(value.get(key), list):
                yield from _tasks(value[key], depth + 1)
                return
        text = value.get("content") or value.get("text") or value.get("title")
        if isinstance(text, str) and text.strip():
            status = value.get("status")
            done = value.get("done") is True or value.get("completed") is True
            state = _STATES.get(status, "open") if isinstance(status, str) else "open"
            yield Todo(text, "done" if done else state)
    elif isinstance(value, list):
        for one in value[:1_000]:
            if isinstance(one, dict):
                yield from _tasks(one, depth + 1)
            elif isinstance(one, str) and one.strip():
                yield Todo(one, "open")


def draw_todos(todos: list[Todo], width: int, palette: Palette) -> list[Text]:
    """Draw the open tasks in a few lines; none once all are done."""
    left = [todo for todo in todos if todo.state != "done"]
    if not left:
        return []
    done = len(todos) - len(left)
    left.sort(key=lambda todo: todo.state != "active")
    lines = [Text(f"Todo · {done} of {len(todos)} done", palette.dim)]
    for todo in left[:_MAX_SHOWN]:
        is_active = todo.state == "active"
        mark, style = ("▸ ", palette.of("accent")) if is_active else ("☐ ", palette.dim)
        text = safe_text.fit(safe_text.one_line(todo.text), max(4, width - 2))
        lines.append(
            Text.assemble((mark, style), (text, palette.text if is_active else palette.dim))
        )
    if len(left) > _MAX_SHOWN:
        lines.append(Text(f"  … {len(left) - _MAX_SHOWN} more", palette.dim))
    return lines
