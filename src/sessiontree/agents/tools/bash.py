"""``bash``: run the model's command in the project folder.

Owns asking first, the environment, and telling how the command ended. A shell cannot be confined
to a folder from outside; that is why every command is shown to the user before it runs.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sessiontree.agents.processes import Completed, plain_text, run_command
from sessiontree.agents.tools.base import Parameter, Report, ToolCall, ToolOutcome, ToolSpec
from sessiontree.agents.tools.confinement import ProjectFolder
from sessiontree.agents.tools.limits import OutputWindow

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 3_600
_UPDATE_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class BashTool:
    """Runs a shell command after a confirmation."""

    folder: ProjectFolder
    env: Mapping[str, str] | None = None
    """The command's environment; None for ours."""

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            "bash",
            "Run a shell command in the project folder and get what it prints. The user is asked "
            "first. What it leaves running in the background is ended when it returns.",
            "run",
            (
                Parameter("command", "string", "The command", True),
                Parameter(
                    "timeout",
                    "integer",
                    f"Seconds after which it is ended (default {DEFAULT_TIMEOUT_S})",
                    minimum=1,
                    maximum=MAX_TIMEOUT_S,
                ),
            ),
        )

    async def run(self, call: ToolCall) -> ToolOutcome:
        command: str = call.arguments["command"]
        timeout_s: int = call.arguments.get("timeout", DEFAULT_TIMEOUT_S)
        limit = f", for at most {timeout_s} seconds" if "timeout" in call.arguments else ""
        await call.ask(
            f"Run a command in {self.folder.given}{limit}",
            command,
            "command",
            subject=command,
            folder=self.folder.root,
        )
        output = _Output(call.report)
        ended = await run_command(
            [_shell(), "-c", command],
            cwd=self.folder.root,
            env=self._environment(),
            timeout_s=timeout_s,
            on_output=output.add,
        )
        return _outcome(output.text(), ended, timeout_s)

    def _environment(self) -> dict[str, str]:
        made = dict(os.environ if self.env is None else self.env)
        # There is no terminal: no pager, no colours, no prompts for a password.
        made.update(PAGER="cat", GIT_PAGER="cat", TERM="dumb", GIT_TERMINAL_PROMPT="0")
        made["PWD"] = self.folder.root
        return made


class _Output:
    """Collects what the command prints and shows it, but not more often than a person can see."""

    def __init__(self, report: Report) -> None:
        self._window = OutputWindow()
        self._report = report
        self._shown_at = 0.0

    async def add(self, text: str) -> None:
        self._window.add(text)
        now = time.monotonic()
        if now - self._shown_at >= _UPDATE_EVERY_S:
            self._shown_at = now
            await self._report(self.text())

    def text(self) -> str:
        return plain_text(self._window.text()).rstrip("\n")


def _outcome(text: str, ended: Completed, timeout_s: int) -> ToolOutcome:
    notes = []
    details: dict[str, Any] = {"exitCode": ended.exit_code}
    if ended.timed_out:
        notes.append(f"Command timed out after {timeout_s} seconds and was ended")
        details["timedOut"] = True
    elif ended.exit_code is not None and ended.exit_code < 0:
        notes.append(f"Command was ended by signal {-ended.exit_code}")
    elif ended.exit_code:
        notes.append(f"Command exited with code {ended.exit_code}")
    if ended.left_behind:
        count = ended.left_behind
        notes.append(f"Ended {count} background process{'es' if count != 1 else ''} it left")
    shown = "\n\n".join([text or "(no output)", *notes])
    return ToolOutcome.text(shown, details, is_error=ended.exit_code != 0)


def _shell() -> str:
    return shutil.which("bash") or "/bin/sh"
