"""The command that opens a session in its own agent, and running it.

The agent's adapter gives the arguments; its session gives the id and the project, and both are
untrusted. They never pass through a shell here: a program starts from a list of arguments. Where
the command is printed for a shell, every part is quoted, and values that quoting can't make safe to
read or paste (control characters, an id that would be taken for an option) are refused.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from typing import NoReturn

from sessiontree.discovery.adapters import get_adapter
from sessiontree.errors import SessionTreeError


class NoNativeCommandError(SessionTreeError):
    """The session's own agent can't be told to open it."""


@dataclass(frozen=True, slots=True)
class NativeCommand:
    """The command that opens a session in its own agent: ``argv``, run in the folder ``cwd``."""

    agent: str
    title: str
    argv: tuple[str, ...]
    cwd: str | None

    @property
    def program(self) -> str | None:
        """The file that would run; None if the agent is not installed."""
        if self.argv[0] == "sessiontree":
            return sys.executable
        import shutil

        found = shutil.which(self.argv[0])
        # A relative entry of PATH must not be looked up again in the session's project.
        return os.path.abspath(found) if found else None

    @property
    def shell(self) -> str:
        """The command for a shell, to be run in any folder."""
        spelled = shlex.join(self.argv)
        return f"cd {shlex.quote(self.cwd)} && {spelled}" if self.cwd else spelled

    def arguments(self) -> list[str]:
        """The arguments for running it, the program first. Raises NoNativeCommandError."""
        program = self.program
        if program is None:
            raise NoNativeCommandError(f"{self.title} is not installed: no {self.argv[0]} in PATH")
        if self.argv[0] == "sessiontree":
            # -P: in the session's project, a file of that name would run instead.
            return [program, "-P", "-m", "sessiontree", *self.argv[1:]]
        return [program, *self.argv[1:]]

    def replace_this_process(self) -> NoReturn:
        """Become the agent. Raises NoNativeCommandError, and OSError if it cannot be run."""
        arguments = self.arguments()
        if self.cwd:
            os.chdir(self.cwd)
            os.environ["PWD"] = self.cwd
        os.execv(arguments[0], arguments)


def native_command(agent: str, path: str, session_id: str, cwd: str | None) -> NativeCommand:
    """Return how to open this session in its own agent. Raises NoNativeCommandError."""
    adapter = get_adapter(agent)
    argv = adapter.resume_command(path, session_id)
    if not argv:
        raise NoNativeCommandError(f"{adapter.title} can't open this session by a command")
    if session_id.startswith("-") and session_id in argv:
        raise NoNativeCommandError(f"{adapter.title} would take this session's ID for an option")
    if cwd is not None and not os.path.isabs(cwd):
        cwd = None
    if not all(each.isprintable() for each in (*argv, cwd or "")):
        raise NoNativeCommandError("The session's ID or project contains control characters")
    if cwd is not None and not os.path.isdir(cwd):
        raise NoNativeCommandError(f"The folder of this session no longer exists ({cwd})")
    return NativeCommand(agent, adapter.title, tuple(argv), cwd)
