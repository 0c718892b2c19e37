"""An agent whose tools come out of a `Toolbox`.

Owns joining `AgentBase`'s loop with the toolbox: the mode, the ids of calls, the confirmation, and
going to another project's tools when the session did.
Knows neither the tools nor the model; the real and the offline agent are built on it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sessiontree.agents.instructions import homeless_prompt
from sessiontree.agents.tools.base import Confirm
from sessiontree.agents.tools.toolbox import Toolbox
from sessiontree.agents.workplace import EnterProject
from sessiontree.runtime import events
from sessiontree.runtime.agent_base import AgentBase, Progress, ToolOutput
from sessiontree.runtime.events import Message


class ToolboxAgent(AgentBase):
    """Everything of an agent but `respond`, with the tools of a toolbox.

    ``cwd`` is the project that the toolbox belongs to, and ``enter`` makes the workplace of another
    one; without it the agent stays where it is.
    """

    def __init__(
        self,
        toolbox: Toolbox | None = None,
        *,
        system_prompt: str | None = None,
        clock_ms: Callable[[], int] | None = None,
        cwd: str | None = None,
        enter: EnterProject | None = None,
    ) -> None:
        self.toolbox = toolbox if toolbox is not None else Toolbox(())
        super().__init__(system_prompt=system_prompt, clock_ms=clock_ms)
        self.cwd = self._entered = cwd
        self._enter = enter
        self._offer_tools()
        self._partials: dict[str, str] = {}
        """Call → its output so far, for those that an abort may end."""

    @property
    def confirm(self) -> Confirm | None:
        """The function that approves tools that write or run; None refuses all of them."""
        return self.toolbox.confirm

    @confirm.setter
    def confirm(self, confirm: Confirm | None) -> None:
        self.toolbox.confirm = confirm

    def _offer_tools(self) -> None:
        specs = self.toolbox.specs
        self.tools = {spec.name: functools.partial(self._use, spec.name) for spec in specs}

    async def _enter_project(self) -> None:
        """Have the tools and the instructions of the project that the session is of now.

        Tools never work in the project that was left: of a folder that is gone, all are refused,
        and the next run looks for it again.
        """
        cwd = self.cwd
        if self._enter is None or cwd is None or cwd == self._entered:
            return
        self._entered = None
        try:
            place = await asyncio.to_thread(self._enter, cwd)
        except OSError:
            self.toolbox.refuse(f"the project folder {cwd} is not there")
            if self.system_prompt is not None:
                self.system_prompt = homeless_prompt(cwd)
            return
        self.toolbox.fill(place.tools)
        self.system_prompt = place.system_prompt
        self._offer_tools()
        self._entered = cwd

    async def _use(self, name: str, arguments: Mapping[str, Any], progress: Progress) -> ToolOutput:
        call_id = self._call_id(arguments)

        async def report(partial: str) -> None:
            self._partials[call_id] = partial
            await progress(partial)

        call = {"id": call_id, "name": name, "arguments": arguments}
        outcome = await self.toolbox.call(call, mode=self.mode, report=report)
        return ToolOutput(outcome.content, outcome.is_error, outcome.details)

    def _tool_result(self, call_id: str, name: str, output: ToolOutput) -> Message:
        """The result as a message; of an aborted call with what it had put out by then."""
        partial = self._partials.pop(call_id, "")
        content = output.content
        if self._is_aborted and isinstance(content, str) and partial not in content:
            output = ToolOutput(f"{partial}\n\n{content}", output.is_error, output.details)
        return super()._tool_result(call_id, name, output)

    async def _run(self, messages: Sequence[Message]) -> None:
        """Run, and have it on record if the run was aborted in the middle of its tools.

        The answer that called them had ended well, so it takes an empty one to say so.
        """
        await self._enter_project()
        await super()._run(messages)
        if self._is_aborted and self.messages[-1:] and self.messages[-1]["role"] == "toolResult":
            answer = self._new_answer()
            answer.update(stopReason="aborted", errorMessage="Aborted")
            await self._emit(events.TurnStart())
            await self._add(answer)
            await self._emit(events.TurnEnd(answer))

    def _call_id(self, arguments: Mapping[str, Any]) -> str:
        """The id of the call under way, found by the very arguments it was made with."""
        for message in reversed(self.messages):
            content = message.get("content")
            for block in content if isinstance(content, list) else ():
                if isinstance(block, dict) and block.get("arguments") is arguments:
                    return str(block.get("id", ""))
        return ""
