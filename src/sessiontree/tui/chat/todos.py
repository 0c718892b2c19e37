"""The todo list that an agent keeps in a session's artifact folder (``todos.json``). Never writes.

Reads leniently: a list of tasks, or phases with tasks, as agents write them. A file that is missing
or has another form counts as an empty list.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from rich.text import Text

from sessiontree.model import codec
from sessiontree.storage.file import FileSessionStorage
from sessiontree.tui import safe_text
from sessiontree.tui.palette import Palette

FILE_NAME = "todos.json"
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


def load_todos(artifacts_dir: str | None) -> list[Todo]:
    """Load the todo list of a session; [] if there is none."""
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
