"""``ls``: the names in a folder of the project."""

from __future__ import annotations

from dataclasses import dataclass

from sessiontree.agents.processes import plain_text
from sessiontree.agents.tools.base import Parameter, ToolCall, ToolOutcome, ToolSpec, in_thread
from sessiontree.agents.tools.confinement import DirectoryItem, ProjectFolder
from sessiontree.agents.tools.limits import MAX_CHARACTERS

_DEFAULT_LIMIT = 500
_MARKS = {"directory": "/", "link": "@", "file": "", "other": "?"}


@dataclass(frozen=True, slots=True)
class LsTool:
    """Lists one folder, sorted, hidden names included."""

    folder: ProjectFolder

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            "ls",
            "List a folder of the project: sorted, hidden names included; folders end in /, links "
            "in @.",
            "read",
            (
                Parameter("path", "string", "The folder; the project folder if left out"),
                Parameter(
                    "limit", "integer", f"Most names to show (default {_DEFAULT_LIMIT})", minimum=1
                ),
            ),
        )

    async def run(self, call: ToolCall) -> ToolOutcome:
        path = call.arguments.get("path") or "."
        limit = call.arguments.get("limit", _DEFAULT_LIMIT)
        items = await in_thread(lambda _: self.folder.list_directory(path))
        if not items:
            return ToolOutcome.text("(empty folder)")
        lines: list[str] = []
        size = 0
        for item in items[:limit]:
            line = _line(item)
            size += len(line) + 1
            if size > MAX_CHARACTERS:
                break
            lines.append(line)
        text = "\n".join(lines)
        if len(lines) < len(items):
            text += f"\n\n[{len(lines)} of {len(items)} names shown. Use limit for more.]"
        return ToolOutcome.text(text, {"total": len(items)})


def _line(item: DirectoryItem) -> str:
    return plain_text(item.name).replace("\n", "?") + _MARKS[item.kind]
