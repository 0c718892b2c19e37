"""Run a command that the user typed (``!command``), show its output and record it.

The screen and the session get a bounded part of the output. If there is more, all of it goes to a
file in the session's artifact folder. There is no question first: the user typed the command.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from sessiontree.agents.processes import plain_text, run_command
from sessiontree.agents.tools.limits import MAX_CHARACTERS, OutputWindow
from sessiontree.clock import now_ns
from sessiontree.errors import SessionTreeError
from sessiontree.storage.file import FileSessionStorage

if TYPE_CHECKING:
    from sessiontree.tui.chat.screen import ChatScreen


@dataclass(frozen=True, slots=True)
class ShellResult:
    """The output and exit code of a command."""

    output: str
    exit_code: int | None
    is_cancelled: bool = False
    full_output_path: str | None = None


class ShellRun:
    """A running command; `text` is the kept part of its output so far."""

    def __init__(
        self, command: str, cwd: str, artifacts_dir: str | None, on_output: Callable[[str], None]
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._on_output = on_output
        self._window = OutputWindow()
        self._spool = _Spool(artifacts_dir)

    @property
    def text(self) -> str:
        return plain_text(self._window.text()).rstrip("\n")

    async def run(self) -> ShellResult:
        """Run to the end. Cancelling ends the command and returns the output so far."""
        code: int | None = None
        is_cancelled = False
        try:
            ended = await run_command(
                [shutil.which("bash") or "/bin/sh", "-c", self._command],
                cwd=self._cwd,
                env={**os.environ, "PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb"},
                on_output=self._take,
            )
            code = ended.exit_code
        except asyncio.CancelledError:
            is_cancelled = True
        except OSError as error:
            self._window.add(f"{error.strerror or error}\n")
            code = 127
        path = self._spool.close(is_wanted=self._window.dropped > 0)
        return ShellResult(self.text, code, is_cancelled, path)

    async def _take(self, text: str) -> None:
        self._window.add(text)
        self._spool.add(text)
        self._on_output(self.text)


class _Spool:
    """The whole output in a file, created only when there is more than is shown."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._kept: list[str] = []
        self._size = 0
        self._file: IO[str] | None = None
        self._path: str | None = None

    def add(self, text: str) -> None:
        self._size += len(text)
        if self._file is None:
            self._kept.append(text)
            if self._size > MAX_CHARACTERS and self._folder is not None:
                self._begin(self._folder)
            return
        self._write(text)

    def _begin(self, folder: str) -> None:
        try:
            FileSessionStorage().ensure_dir(folder)
            path = os.path.join(folder, f"command-{now_ns()}.log")
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            self._folder = None  # the session still records the shown part
            return
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace")
        self._path = path
        self._write("".join(self._kept))
        self._kept = []

    def _write(self, text: str) -> None:
        assert self._file is not None
        try:
            self._file.write(text)
        except OSError:
            self._file.close()
            self._file, self._folder, self._path = None, None, None

    def close(self, *, is_wanted: bool) -> str | None:
        """Close the file; return its path if it holds all output."""
        if self._file is None:
            return None
        try:
            self._file.close()
        except OSError:
            return None
        return self._path if is_wanted else None


async def run_shell_command(chat: ChatScreen, command: str, *, is_excluded: bool) -> None:
    """Run a command to its end (or its cancellation) and record it in the session."""
    session, narrator = chat.session, chat.narrator
    block = narrator.conversation.begin_command(command, is_excluded=is_excluded)
    narrator.is_changed = True

    def show(text: str) -> None:
        block.change(text=text)
        narrator.is_changed = True

    run = ShellRun(command, session.cwd, session.manager.artifacts_dir, show)
    result = await run.run()
    outcome = "stopped" if result.is_cancelled else ""
    if result.exit_code:
        outcome = f"exit {result.exit_code}"
    status = "stopped" if result.is_cancelled else "failed" if result.exit_code else "done"
    block.change(text=result.output, outcome=outcome, status=status)
    narrator.is_changed = True
    try:
        await session.record_bash(
            command,
            result.output,
            result.exit_code,
            cancelled=result.is_cancelled,
            truncated=result.full_output_path is not None,
            full_output_path=result.full_output_path,
            exclude_from_context=is_excluded,
        )
    except SessionTreeError as error:
        chat.say(f"Not recorded: {error}", is_bad=True)
