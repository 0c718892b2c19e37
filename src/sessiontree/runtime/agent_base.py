"""`AgentBase`: implements the agent contract; you write one method.

Owns the loop (answer, tools, steering, follow-ups), the order of events, aborting, and the message
list. Knows no provider: a subclass answers a `Request` by filling a `Draft`. An agent whose
framework brings its own loop implements the protocol of `agent` directly instead.
"""

from __future__ import annotations

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from sessiontree.clock import now_ms
from sessiontree.core.llm import convert_to_llm
from sessiontree.runtime import events
from sessiontree.runtime.agent import AgentBusyError
from sessiontree.runtime.events import AgentEvent, AgentListener, Delta, Message
from sessiontree.runtime.hooks import Listeners, Unsubscribe
from sessiontree.runtime.masking import KeyMask, StreamMask
from sessiontree.runtime.models import Model
from sessiontree.runtime.queues import MessageQueue

Progress: TypeAlias = Callable[[str], Awaitable[None]]
"""Awaited by a tool with its output so far."""

Tool: TypeAlias = Callable[[Mapping[str, Any], Progress], "Awaitable[ToolOutput | str]"]
"""Runs one call. An exception becomes an error result; on cancellation, stop and clean up."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of a tool."""

    content: str | list[dict[str, Any]]
    is_error: bool = False
    details: Any = None


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the model. ``messages`` have only the roles a model knows."""

    messages: Sequence[Message]
    system: str | None = None
    max_tokens: int | None = None
    tools: Sequence[str] = field(default_factory=tuple)
    """Names of the tools that may be called; none for a one-shot call."""


class Draft:
    """An assistant message that is being written; each call tells the listeners."""

    def __init__(
        self,
        message: Message,
        emit: Callable[[AgentEvent], Awaitable[None]],
        mask: KeyMask | None = None,
    ) -> None:
        self.message = message
        self._emit = emit
        self._mask = mask if mask is not None else KeyMask()
        self._tail = StreamMask(self._mask)
        self._growing: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """The text written so far."""
        return "".join(b["text"] for b in self.message["content"] if b["type"] == "text")

    async def add_text(self, text: str) -> None:
        """Add to the answer's text."""
        await self._grow("text", text)

    async def add_thinking(self, text: str) -> None:
        """Add to what the model thinks."""
        await self._grow("thinking", text)

    async def add_tool_call(
        self, name: str, arguments: Mapping[str, Any], call_id: str | None = None
    ) -> None:
        """Add a whole tool call."""
        await self.settle()
        block = {
            "type": "toolCall",
            "id": call_id or f"call_{uuid.uuid4().hex[:12]}",
            "name": name,
            "arguments": self._mask.value(dict(arguments)),
        }
        self.message["content"].append(block)
        await self._emit_delta(Delta("tool_call", "", len(self.message["content"]) - 1))

    def set_usage(
        self, input_tokens: int, output_tokens: int, cache_read: int = 0, cache_write: int = 0
    ) -> None:
        """Set the answer's usage; its cost follows from ``model``'s prices if they are known."""
        usage = self.message["usage"]
        usage.update(input=input_tokens, output=output_tokens)
        usage.update(cacheRead=cache_read, cacheWrite=cache_write)
        usage["totalTokens"] = input_tokens + output_tokens + cache_read + cache_write

    def replace_content(self, blocks: Sequence[dict[str, Any]]) -> None:
        """Replace the whole content without an event; ``MessageEnd`` will show it."""
        self._tail.finish()
        self.message["content"][:] = [self._mask.value(block) for block in blocks]

    async def settle(self) -> None:
        """Show the end of a text, which was held back because it might have become a provider's
        key."""
        rest = self._tail.finish()
        if rest:
            await self._append(rest)

    async def _grow(self, kind: Literal["text", "thinking"], text: str) -> None:
        content = self.message["content"]
        if not content or content[-1]["type"] != kind:
            await self.settle()
            content.append({"type": kind, kind: ""})
        self._growing = content[-1]
        shown = self._tail.feed(text)
        if shown:
            await self._append(shown)

    async def _append(self, text: str) -> None:
        block, content = self._growing, self.message["content"]
        kind = block["type"]
        block[kind] += text
        index = next((at for at, each in enumerate(content) if each is block), len(content))
        await self._emit_delta(Delta(kind, text, index))

    async def _emit_delta(self, delta: Delta) -> None:
        await self._emit(events.MessageUpdate(self.message, delta))


class AgentBase(ABC):
    """An agent that lacks only one method, `respond`."""

    def __init__(
        self,
        *,
        tools: Mapping[str, Tool] | None = None,
        system_prompt: str | None = None,
        clock_ms: Callable[[], int] | None = None,
    ) -> None:
        self.session_id: str | None = None
        self.cwd: str | None = None
        self.model: Model | None = None
        self._asked_model: Model | None = None
        self.thinking_level = "off"
        self.mode = "none"
        self.steering = MessageQueue()
        self.follow_ups = MessageQueue()
        self.tools: dict[str, Tool] = dict(tools or {})
        self.system_prompt = system_prompt
        self._clock_ms = clock_ms or now_ms
        self._messages: list[Message] = []
        self._listeners = Listeners()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_aborted = False
        self._step: asyncio.Task[Any] | None = None
        self.mask = KeyMask.of_environment()
        """Hides the keys of providers in whatever this agent says or records."""
        self.turns_left: int | None = None
        """The number of model calls that are left in a conversation; None for no limit.

        At 0 a run ends after the tools of the last answer. The agent counts it down; it does not
        reset it.
        """

    @abstractmethod
    async def respond(self, draft: Draft, request: Request) -> None:
        """Ask the model and write its answer into ``draft``. Yours to write.

        Raise to make the answer an error. Being cancelled means an abort: what the draft holds is
        kept. Called both for the conversation and, with a throw-away draft, for `complete`.
        """

    # --- state --------------------------------------------------------------------------------

    @property
    def messages(self) -> Sequence[Message]:
        return self._messages

    @property
    def is_running(self) -> bool:
        return not self._idle.is_set()

    def replace_messages(self, messages: Sequence[Message]) -> None:
        self._messages = list(messages)

    def subscribe(self, listener: AgentListener) -> Unsubscribe:
        return self._listeners.subscribe(listener)

    # --- running ------------------------------------------------------------------------------

    async def prompt(self, messages: Sequence[Message]) -> None:
        if self.is_running:
            raise AgentBusyError
        self._idle.clear()
        self._is_aborted = False
        # A task of its own: the awaiting task may be cancelled in the middle of telling a
        # listener, and the conversation must still come to a proper end.
        run = asyncio.ensure_future(self._run_and_tell(messages))
        try:
            await asyncio.shield(run)
        except asyncio.CancelledError:
            if not run.done():
                await self.abort()
                await asyncio.wait({run})
            raise

    async def _run_and_tell(self, messages: Sequence[Message]) -> None:
        first = len(self._messages)
        try:
            await self._emit(events.AgentStart())
            try:
                await self._run(messages)
            finally:
                await self._emit(events.AgentEnd(tuple(self._messages[first:])))
        finally:
            self._idle.set()

    async def abort(self) -> None:
        if self.is_running:
            self._is_aborted = True
            if self._step is not None:
                self._step.cancel()

    async def wait_idle(self) -> None:
        await self._idle.wait()

    async def complete(
        self, *, system: str, messages: Sequence[Message], max_tokens: int
    ) -> Message:
        draft = Draft(self._new_answer(), Listeners().emit, self.mask)
        try:
            await self.respond(draft, Request(messages, system, max_tokens))
        except Exception as error:
            draft.message.update(stopReason="error", errorMessage=self._word(error))
        await draft.settle()
        self._price(draft.message)
        return draft.message

    async def _run(self, messages: Sequence[Message]) -> None:
        due = list(messages)
        while True:
            await self._emit(events.TurnStart())
            for message in due:
                await self._add(message)
            if self.turns_left is not None:
                self.turns_left = max(0, self.turns_left - 1)
            answer = await self._answer()
            results = await self._call_tools(answer)
            await self._emit(events.TurnEnd(answer, tuple(results)))
            if self._is_aborted or answer["stopReason"] == "error" or self.turns_left == 0:
                return
            due = self.steering.take()
            if not due and not results:
                due = self.follow_ups.take()
                if not due:
                    return

    async def _answer(self) -> Message:
        draft = Draft(self._new_answer(), self._emit, self.mask)
        await self._emit(events.MessageStart(draft.message))
        request = Request(
            convert_to_llm(self._messages, repair=True),
            self.system_prompt,
            tools=tuple(self.tools),
        )
        step = await self._take_step(self.respond(draft, request))
        await draft.settle()
        message = draft.message
        # Also what an agent wrote into the message itself, past the draft's methods.
        message["content"][:] = self.mask.value(message["content"])
        if self._is_aborted:
            message.update(stopReason="aborted", errorMessage="Aborted")
        elif (error := step.exception()) is not None:
            message.update(stopReason="error", errorMessage=self._word(error))
        elif any(block["type"] == "toolCall" for block in message["content"]):
            message["stopReason"] = "toolUse"
        self._price(message)
        self._messages.append(message)
        await self._emit(events.MessageEnd(message))
        return message

    async def _call_tools(self, answer: Message) -> list[Message]:
        if answer["stopReason"] != "toolUse":
            return []
        results = []
        for block in answer["content"]:
            if block["type"] == "toolCall":
                result = await self._call_tool(block)
                results.append(result)
                await self._add(result)
        return results

    async def _call_tool(self, call: Message) -> Message:
        call_id, name = call["id"], call["name"]

        async def progress(partial: str) -> None:
            await self._emit(events.ToolUpdate(call_id, name, self.mask.growing(partial)))

        await self._emit(events.ToolStart(call_id, name, call["arguments"]))
        if self._is_aborted:
            output = ToolOutput("Not run: the turn was aborted.", is_error=True)
        else:
            step = await self._take_step(self._run_tool(name, call["arguments"], progress))
            if step.cancelled() or self._is_aborted:
                output = ToolOutput("Stopped: the turn was aborted.", is_error=True)
            else:
                output = step.result()
        result = self._tool_result(call_id, name, output)
        await self._emit(events.ToolEnd(call_id, name, result, output.is_error))
        return result

    async def _run_tool(
        self, name: str, arguments: Mapping[str, Any], progress: Progress
    ) -> ToolOutput:
        tool = self.tools.get(name)
        if tool is None:
            return ToolOutput(f"There is no tool {name!r}.", is_error=True)
        try:
            output = await tool(arguments, progress)
        except Exception as error:
            return ToolOutput(str(error) or repr(error), is_error=True)
        return ToolOutput(output) if isinstance(output, str) else output

    def _word(self, error: BaseException) -> str:
        return self.mask.text(str(error) or repr(error))

    async def _take_step(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run one step to its end or to its abort; the run goes on either way."""
        step = self._step = asyncio.ensure_future(work)
        if self._is_aborted:
            step.cancel()
        try:
            await asyncio.wait({step})
        finally:
            self._step = None
            step.cancel()
        if step.cancelled():
            self._is_aborted = True
        return step

    # --- messages -----------------------------------------------------------------------------

    async def _add(self, message: Message) -> None:
        message = self.mask.value(message)
        await self._emit(events.MessageStart(message))
        self._messages.append(message)
        await self._emit(events.MessageEnd(message))

    async def _emit(self, event: AgentEvent) -> None:
        await self._listeners.emit(event)

    def _new_answer(self) -> Message:
        model = self._asked_model = self.model
        return {
            "role": "assistant",
            "content": [],
            "provider": model.provider if model else "none",
            "model": model.id if model else "none",
            "usage": {
                "input": 0,
                "output": 0,
                "cacheRead": 0,
                "cacheWrite": 0,
                "totalTokens": 0,
                "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
            },
            "stopReason": "stop",
            "timestamp": self._clock_ms(),
        }

    def _price(self, message: Message) -> None:
        """Price the answer by the model that gave it, which may not be the present one."""
        usage = message["usage"]
        model = self._asked_model
        if model is not None:
            usage["cost"] = model.cost(
                usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"]
            )

    def _tool_result(self, call_id: str, name: str, output: ToolOutput) -> Message:
        content = output.content
        message: Message = {
            "role": "toolResult",
            "toolCallId": call_id,
            "toolName": name,
            "content": [{"type": "text", "text": content}] if isinstance(content, str) else content,
            "isError": output.is_error,
            "timestamp": self._clock_ms(),
        }
        if output.details is not None:
            message["details"] = output.details
        masked: Message = self.mask.value(message)
        return masked
