"""An agent's project folder: the tools that work in it, and its part of the system prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sessiontree.agents.tools.base import Tool


@dataclass(frozen=True, slots=True)
class Workplace:
    """The tools of one project, and the system prompt that goes with it."""

    tools: Sequence[Tool]
    system_prompt: str | None = None


EnterProject: TypeAlias = Callable[[str], Workplace]
"""Makes the workplace of a folder, in a thread. Raises OSError if the folder is not there."""
