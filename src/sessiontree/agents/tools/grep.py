"""``grep``: lines of the project's files that match a pattern.

Owns the tool. The searching itself is `search_worker`'s, in a process of its own: a pattern is a
model's, Python's ``re`` can take for ever on a bad one, holds the interpreter lock meanwhile and
cannot be interrupted; a process can be ended.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any

import sessiontree
from sessiontree.agents.processes import plain_text, run_command
from sessiontree.agents.tools.base import Parameter, ToolCall, ToolError, ToolOutcome, ToolSpec
from sessiontree.agents.tools.confinement import ProjectFolder
from sessiontree.agents.tools.limits import MAX_CHARACTERS

TIMEOUT_S = 30.0
_DEFAULT_LIMIT = 100
_MAX_LIMIT = 2_000

# -I keeps the project folder, the user's site packages and PYTHONPATH out of the import path: a
# file of the project must not become a module of ours. Our own package is added behind the rest.
_START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from sessiontree.agents.tools.grep_worker import main; main()"
)
_PACKAGE_HOME = os.path.dirname(os.path.dirname(os.path.abspath(sessiontree.__file__)))


@dataclass(frozen=True, slots=True)
class GrepTool:
    """Searches files by pattern."""

    folder: ProjectFolder
    timeout_s: float = TIMEOUT_S

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            "grep",
            "Search the project's text files for lines that match a regular expression. Binary "
            "files, links, version control folders and installed packages are passed over.",
            "read",
            (
                Parameter("pattern", "string", "A regular expression (Python's)", True),
                Parameter("path", "string", "File or folder to search; the project if left out"),
                Parameter("glob", "string", 'Only files like this, e.g. "*.py" or "src/**/*.ts"'),
                Parameter("ignoreCase", "boolean", "Upper and lower case are the same"),
                Parameter("literal", "boolean", "The pattern is plain text"),
                Parameter(
                    "context", "integer", "Lines to show around a match", minimum=0, maximum=20
                ),
                Parameter(
                    "limit",
                    "integer",
                    f"Most matches to show (default {_DEFAULT_LIMIT})",
                    minimum=1,
                    maximum=_MAX_LIMIT,
                ),
            ),
        )

    async def run(self, call: ToolCall) -> ToolOutcome:
        request = {"limit": _DEFAULT_LIMIT, **call.arguments}
        request["path"] = request.get("path") or "."
        request["root"] = self.folder.root
        request["maxCharacters"] = MAX_CHARACTERS
        # Judged here as well, so that a path out of the project fails before a process starts.
        self.folder.relative(request["path"])
        chunks: list[str] = []

        async def collect(text: str) -> None:
            chunks.append(text)

        ended = await run_command(
            [sys.executable, "-I", "-c", _START, _PACKAGE_HOME],
            cwd="/",
            stdin=json.dumps(request).encode(),
            timeout_s=self.timeout_s,
            on_output=collect,
        )
        found, end = _parse("".join(chunks))
        if end is None and not ended.timed_out:
            raise ToolError("grep: the search broke off")
        return _outcome(found, end, self.timeout_s)


def _parse(output: str) -> tuple[list[str], dict[str, Any] | None]:
    """The lines to show and the worker's last message, None if it ended without one."""
    found: list[str] = []
    for line in output.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if not isinstance(record, dict):
            continue
        if "line" in record:
            found.append(plain_text(record["line"]))
        elif "error" in record:
            raise ToolError(f"grep: {record['error']}")
        elif "end" in record:
            return found, record["end"]
    return found, None


def _outcome(found: list[str], end: dict[str, Any] | None, timeout_s: float) -> ToolOutcome:
    notes = []
    if end is None:
        notes.append(f"[The search was ended after {timeout_s:g} seconds: narrow it down.]")
    elif end["more"]:
        notes.append("[More matches were left out: narrow the search or raise the limit.]")
    if end is not None and end["unreadable"]:
        notes.append(f"[{end['unreadable']} files were too large or could not be read.]")
    text = "\n".join(found) or "No matches found"
    details = None if end is None else {"matches": end["matches"], "files": end["files"]}
    return ToolOutcome.text("\n\n".join([text, *notes]), details, is_error=end is None)
