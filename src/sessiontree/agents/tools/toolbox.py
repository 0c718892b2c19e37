"""Look up, check and run all tools of one project.

Owns looking a tool up, checking its arguments, the user's confirmation, plan mode, and turning
every outcome, failures included, into a ``toolResult`` message. Knows no model provider.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sessiontree.agents.tools.base import (
    Confirm,
    Report,
    Tool,
    ToolCall,
    ToolError,
    ToolOutcome,
    ToolSpec,
)
from sessiontree.agents.tools.bash import BashTool
from sessiontree.agents.tools.confinement import ConfinementError, ProjectFolder
from sessiontree.agents.tools.files import EditTool, ReadTool, WriteTool
from sessiontree.agents.tools.grep import GrepTool
from sessiontree.agents.tools.ls import LsTool
from sessiontree.agents.tools.todo import TodoTool
from sessiontree.clock import SecondsClock, now_s
from sessiontree.logs import get_logger
from sessiontree.model.messages import as_text

logger = get_logger(__name__)

INVALID_ARGUMENTS = "INVALID_JSON"
"""The one argument of a call whose arguments were not a JSON object; it holds their text."""

PLAN_MODES = frozenset({"plan"})
"""Modes in which nothing is written or run."""


def project_tools(
    cwd: str | os.PathLike[str], *, env: Mapping[str, str] | None = None
) -> tuple[Tool, ...]:
    """The seven tools, confined to the folder; ``env`` is what commands see (None: ours)."""
    folder = ProjectFolder(cwd)
    return (
        ReadTool(folder),
        WriteTool(folder),
        EditTool(folder),
        BashTool(folder, env),
        GrepTool(folder),
        LsTool(folder),
        TodoTool(),
    )


class Toolbox:
    """Runs tool calls of a model.

    ``confirm`` is asked before anything is written or run; without one all of that is refused.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        confirm: Confirm | None = None,
        clock: SecondsClock = now_s,
    ) -> None:
        self._tools: dict[str, Tool] = {}
        self._refusal: str | None = None
        self._clock = clock
        self.confirm = confirm
        self.fill(tools)

    def fill(self, tools: Sequence[Tool]) -> None:
        """Replace the tools."""
        self._tools = {tool.spec.name: tool for tool in tools}
        self._refusal = None

    def refuse(self, reason: str) -> None:
        """Answer every call with this, until there are tools to `fill` in again."""
        self._refusal = reason

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The definitions for the model."""
        return tuple(tool.spec for tool in self._tools.values())

    async def run(
        self, block: Mapping[str, Any], *, mode: str = "none", report: Report
    ) -> dict[str, Any]:
        """The ``toolResult`` message for a ``toolCall`` block. Raises only when cancelled."""
        outcome = await self.call(block, mode=mode, report=report)
        message: dict[str, Any] = {
            "role": "toolResult",
            "toolCallId": as_text(block.get("id")),
            "toolName": as_text(block.get("name")),
            "content": outcome.content,
            "isError": outcome.is_error,
            "timestamp": int(self._clock() * 1000),
        }
        if outcome.details is not None:
            message["details"] = outcome.details
        return message

    async def call(
        self, block: Mapping[str, Any], *, mode: str = "none", report: Report
    ) -> ToolOutcome:
        """Run a ``toolCall`` block; a failure is an outcome too."""
        name, call_id = as_text(block.get("name")), as_text(block.get("id"))
        arguments = block.get("arguments")
        try:
            tool = self._tools.get(name)
            if tool is None:
                known = ", ".join(self._tools) or "none"
                raise ToolError(f'Unknown tool "{name}". Tools: {known}')
            if self._refusal is not None:
                raise ToolError(f"{name} was not run: {self._refusal}")
            if not isinstance(arguments, Mapping) or INVALID_ARGUMENTS in arguments:
                raise ToolError(f"{name}: the arguments are not a JSON object")
            spec = tool.spec
            checked = spec.check(arguments)
            if mode in PLAN_MODES and spec.effect != "read":
                raise ToolError(f"{name} blocked: plan mode is on (/plan turns it off)")
            call = ToolCall(call_id, name, spec.effect, checked, report, self.confirm)
            return await tool.run(call)
        except ToolError as error:
            return ToolOutcome.text(str(error), error.details, is_error=True)
        except ConfinementError as error:
            return ToolOutcome.text(str(error), is_error=True)
        except OSError as error:
            return ToolOutcome.text(_describe(name, arguments, error), is_error=True)
        except Exception as error:
            # A broken tool or confirmation callback is not the model's fault, and no reason to
            # lose the turn: the model gets a line, the log has the rest.
            logger.exception("tool %s failed", name)
            return ToolOutcome.text(f"{name} failed: {type(error).__name__}", is_error=True)


def _describe(name: str, arguments: object, error: OSError) -> str:
    path = arguments.get("path") if isinstance(arguments, Mapping) else None
    where = path if isinstance(path, str) and path else name
    return f"{where}: {error.strerror or type(error).__name__}"
