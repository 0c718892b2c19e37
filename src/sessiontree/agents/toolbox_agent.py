"""An agent whose tools come out of a `Toolbox`.

Owns joining `AgentBase`'s loop with the toolbox: the mode, the ids of calls, the confirmation.
Knows neither the tools nor the model; the real and the offline agent are built on it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from sessiontree.agents.tools.base import Confirm
from sessiontree.agents.tools.toolbox import Toolbox
from sessiontree.runtime.agent_base import AgentBase, Progress, ToolOutput


class ToolboxAgent(AgentBase):
    """Everything of an agent but `respond`, with the tools of a toolbox."""

    def __init__(
        self,
        toolbox: Toolbox | None = None,
        *,
        system_prompt: str | None = None,
        clock_ms: Callable[[], int] | None = None,
    ) -> None:
        self.toolbox = toolbox if toolbox is not None else Toolbox(())
        tools = {spec.name: functools.partial(self._use, spec.name) for spec in self.toolbox.specs}
        super().__init__(tools=tools, system_prompt=system_prompt, clock_ms=clock_ms)

    @property
    def confirm(self) -> Confirm | None:
        """Who is asked before a tool writes or runs; with None all of that is refused."""
        return self.toolbox.confirm

    @confirm.setter
    def confirm(self, confirm: Confirm | None) -> None:
        self.toolbox.confirm = confirm

    async def _use(self, name: str, arguments: Mapping[str, Any], progress: Progress) -> ToolOutput:
        call = {"id": self._call_id(arguments), "name": name, "arguments": arguments}
        outcome = await self.toolbox.call(call, mode=self.mode, report=progress)
        return ToolOutput(outcome.content, outcome.is_error, outcome.details)

    def _call_id(self, arguments: Mapping[str, Any]) -> str:
        """The id of the call under way, found by the very arguments it was made with."""
        for message in reversed(self.messages):
            content = message.get("content")
            for block in content if isinstance(content, list) else ():
                if isinstance(block, dict) and block.get("arguments") is arguments:
                    return str(block.get("id", ""))
        return ""
