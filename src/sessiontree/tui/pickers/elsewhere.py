"""Ask about a session of another project: open it there, copy it here, or neither.

The chat and the picker of the command line put the same question.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Literal, TypeAlias

from textual.app import App

from sessiontree.discovery.listing import NO_MESSAGES, SessionInfo
from sessiontree.discovery.paths import same_cwd
from sessiontree.text.words import make_name
from sessiontree.tui.pickers.dialogs import ChoiceDialog, ConfirmDialog, Option
from sessiontree.tui.pickers.session_rows import short_path

Where: TypeAlias = Literal["there", "here"]
"""Whether to open a session in its own project, or a copy of it in this one."""


async def is_elsewhere(info: SessionInfo, project: str) -> bool:
    """Whether a session belongs to another project than this one."""
    return bool(info.cwd) and not await asyncio.to_thread(same_cwd, info.cwd, project)


async def ask_where(app: App[Any], info: SessionInfo, project: str) -> Where | None:
    """Ask where to open another project's session; None if the person wants neither."""
    name, cwd = session_name(info), info.cwd
    if not await asyncio.to_thread(os.path.isdir, cwd):
        question = ConfirmDialog(
            "Fork into current directory?",
            f"{name}\nbelongs to a folder that no longer exists:\n{short_path(cwd)}",
            yes="yes, copy it here",
        )
        return "here" if await app.push_screen_wait(question) else None
    answer = await app.push_screen_wait(
        ChoiceDialog(
            f"{name} belongs to another project",
            [
                Option("there", f"Open in {short_path(cwd)}", "the agent works there"),
                Option("here", f"Copy into {short_path(project)}", "the original stays unchanged"),
                Option("", "Cancel"),
            ],
        )
    )
    return "there" if answer == "there" else "here" if answer == "here" else None


def session_name(info: SessionInfo) -> str:
    """Return title, else first prompt, else id."""
    prompt = None if info.first_message == NO_MESSAGES else info.first_message
    return make_name(info.title, prompt, info.id, os.path.basename(info.path))
