"""A real agent: any provider that pydantic-ai knows, with the tools of `tools`.

Owns asking a model and taking its answer as it streams in: text, thinking, tool calls, usage, cost,
retries, aborts. The loop, the queues and the events are `AgentBase`'s; messages, requests, clients
and failures have modules of their own here. Needs the extra ``agent``; nothing else imports it.

pydantic-ai brings an agent of its own, which is not used: its run owns history, tools and retries
and ends when its graph says so, while a session must be able to steer between any two model calls,
abort at any moment with what is there on record, and have each message the moment it is complete.
``pydantic_ai.direct`` gives exactly what is needed: one streamed request, to any provider.

A call that fails in passing is made again. As long as nothing of the answer was shown, that is the
same answer, only later. Once something was shown it cannot be taken back: what came is recorded as
a failed answer, and a new one begins.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from sessiontree.agents import NOT_INSTALLED
from sessiontree.logs import get_logger
from sessiontree.model.messages import as_text

try:
    from pydantic_ai.direct import model_request_stream
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(NOT_INSTALLED, name=error.name) from error
from pydantic_ai.messages import (
    InstructionPart,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model as ClientModel
from pydantic_ai.models import ModelRequestParameters

from sessiontree.agents.clients import (
    MakeClient,
    api_name,
    make_client,
    request_settings,
    tool_definitions,
)
from sessiontree.agents.failures import BrokenOffError, ModelCallError, describe_failure
from sessiontree.agents.instructions import PLAN
from sessiontree.agents.outgoing import outgoing_messages
from sessiontree.agents.parts import wire_content, wire_usage
from sessiontree.agents.response_limits import limit_responses
from sessiontree.agents.retries import RetryPolicy
from sessiontree.agents.toolbox_agent import ToolboxAgent
from sessiontree.agents.tools.toolbox import INVALID_ARGUMENTS, PLAN_MODES, Toolbox
from sessiontree.agents.workplace import EnterProject
from sessiontree.core.usage import estimate_context, estimate_text
from sessiontree.runtime.agent import AgentBusyError
from sessiontree.runtime.agent_base import Draft, Request
from sessiontree.runtime.events import (
    Delta,
    Message,
    MessageUpdate,
    ModelRetry,
    TurnEnd,
    TurnStart,
)
from sessiontree.runtime.masking import KeyMask, StreamMask
from sessiontree.runtime.models import Model, Prices

logger = get_logger(__name__)

_LEAST_OUTPUT = 1_024
_MARGIN = 2_048
"""Tokens left free, because the size of a conversation is only estimated."""


class PydanticAIAgent(ToolboxAgent):
    """Asks models through pydantic-ai.

    ``make_client`` replaces the choice of provider by the environment. ``model`` may be set at any
    time; each call uses the one that is set when it begins.
    """

    def __init__(
        self,
        toolbox: Toolbox | None = None,
        *,
        model: Model | None = None,
        system_prompt: str | None = None,
        retry: RetryPolicy | None = None,
        make_client: MakeClient | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: str | None = None,
        enter: EnterProject | None = None,
    ) -> None:
        super().__init__(toolbox, system_prompt=system_prompt, cwd=cwd, enter=enter)
        self.model = model
        self._retry = retry or RetryPolicy()
        self._make_client = make_client
        self._environ = os.environ if environ is None else environ
        self.mask = KeyMask.of_environment(self._environ)
        self._clients: dict[str, ClientModel] = {}
        self._open = AsyncExitStack()
        self._is_open: set[str] = set()
        self._attempts = 0
        """The number of calls for the present answer, including those that broke off."""
        self._again: list[ModelRetry] = []
        """Holds one retry when an answer broke off and is worth another try."""

    async def prompt(self, messages: Sequence[Message]) -> None:
        if self.is_running:
            raise AgentBusyError
        try:
            await super().prompt(messages)
        finally:
            await self._close()

    async def complete(
        self, *, system: str, messages: Sequence[Message], max_tokens: int
    ) -> Message:
        try:
            return await super().complete(system=system, messages=messages, max_tokens=max_tokens)
        finally:
            if not self.is_running:
                await self._close()

    async def respond(self, draft: Draft, request: Request) -> None:
        """Ask until something of an answer can be shown, or trying again is of no use."""
        model = self.model
        if model is None:
            raise ModelCallError("No model is chosen")
        # Another one may have been chosen since the draft was begun.
        draft.message.update(provider=model.provider, model=model.id)
        # A one-shot answer is shown only as a whole, so it can always be tried again.
        is_shown = request.max_tokens is None
        attempt = self._attempts if is_shown else 0
        while True:
            attempt += 1
            try:
                await self._ask(await self._client(model), model, draft, request)
                return
            except Exception as error:
                failure = describe_failure(error, self.mask)
                wait_s = None
                if failure.is_transient:
                    wait_s = self._retry.wait_s(attempt, failure.retry_after_s)
                if wait_s is None:
                    raise ModelCallError(_with_attempts(failure.message, attempt)) from error
                logger.info("%s: trying again in %.1f s: %s", model.ref, wait_s, failure.message)
                again = ModelRetry(attempt + 1, self._retry.attempts, wait_s, failure.message)
                if is_shown and draft.message["content"]:
                    self._attempts = attempt
                    self._again.append(again)
                    raise ModelCallError(failure.message) from error
            await self._emit(again)
            await asyncio.sleep(wait_s)
            draft.replace_content(())

    async def _answer(self) -> Message:
        """The next answer; one that broke off after it was shown is followed by another."""
        self._attempts = 0
        while True:
            self._again.clear()
            answer = await super()._answer()
            if answer["stopReason"] != "error" or not self._again:
                return answer
            await self._emit(TurnEnd(answer))
            await self._emit(self._again[0])
            await self._take_step(asyncio.sleep(self._again[0].wait_s))
            await self._emit(TurnStart())

    # --- one call -----------------------------------------------------------------------------

    async def _client(self, model: Model) -> ClientModel:
        """The client for a model, its connections open until the end of the run."""
        client = self._clients.get(model.ref)
        if client is None:
            if self._make_client is not None:
                client = self._make_client(model)
            else:
                client = make_client(model, self._environ)
                limit_responses(client)
            self._clients[model.ref] = client
        if model.ref not in self._is_open:
            await self._open.enter_async_context(client)
            self._is_open.add(model.ref)
        return client

    async def _close(self) -> None:
        self._is_open.clear()
        await self._open.aclose()

    async def _ask(self, client: ClientModel, model: Model, draft: Draft, request: Request) -> None:
        stream_manager = model_request_stream(
            client,
            outgoing_messages(request.messages, model),
            model_settings=request_settings(
                client,
                model,
                max_tokens=request.max_tokens or _room(model, request),
                thinking_level=self.thinking_level if request.max_tokens is None else "off",
                session_id=self.session_id,
            ),
            model_request_parameters=self._parameters(request),
        )
        async with stream_manager as stream:
            writing = _Writing(self, draft)
            try:
                async for event in stream:
                    await writing.take(event)
                await draft.settle()
            finally:
                # Also when it fails or is aborted: what came is on record, with what it cost.
                _take_over(draft, stream.get(), model, client)
        _check_end(stream.get(), draft)

    def _parameters(self, request: Request) -> ModelRequestParameters:
        system = request.system or ""
        if request.tools and self.mode in PLAN_MODES:
            system = f"{system}\n\n{PLAN}".strip()
        return ModelRequestParameters(
            function_tools=tool_definitions(self.toolbox.specs, request.tools),
            instruction_parts=[InstructionPart(system)] if system else [],
        )

    async def emit_tool_call(self, draft: Draft, text: str, index: int) -> None:
        """Tell the listeners that a tool call grew."""
        await self._emit(MessageUpdate(draft.message, Delta("tool_call", text, index)))

    def _price(self, message: Message) -> None:
        """Return no price: an answer is priced when it ends, by the model that gave it."""


class _Writing:
    """Puts a stream of pydantic-ai's events into a draft."""

    def __init__(self, agent: PydanticAIAgent, draft: Draft) -> None:
        self._agent = agent
        self._draft = draft
        self._places: dict[int, int] = {}
        """Part → block, for the tool calls, of which several may grow in turns."""
        self._arguments: dict[int, StreamMask] = {}

    async def take(self, event: ModelResponseStreamEvent) -> None:
        match event:
            case PartStartEvent(part=TextPart(content=text)) if text:
                await self._draft.add_text(text)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                await self._draft.add_text(text)
            case PartStartEvent(part=ThinkingPart(content=text)) if text:
                await self._draft.add_thinking(text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)) if text:
                await self._draft.add_thinking(text)
            case PartStartEvent(part=ToolCallPart() as call):
                await self._draft.settle()
                content = self._draft.message["content"]
                self._places[event.index] = len(content)
                self._arguments[event.index] = StreamMask(self._agent.mask)
                content.append(
                    {
                        "type": "toolCall",
                        "id": call.tool_call_id,
                        "name": call.tool_name,
                        "arguments": {},
                    }
                )
                await self._grow_call(event.index, call.args)
            case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=text)):
                await self._grow_call(event.index, text)
            case _:
                pass

    async def _grow_call(self, part: int, arguments: object) -> None:
        if part in self._places:
            text = self._arguments[part].feed(as_text(arguments))
            await self._agent.emit_tool_call(self._draft, text, self._places[part])


def _take_over(draft: Draft, response: ModelResponse, model: Model, client: ClientModel) -> None:
    """Make the draft say exactly what has been received, in the form it is kept in."""
    message = draft.message
    draft.replace_content(
        [block for block in wire_content(response.parts) if not _is_unfinished(block, response)]
    )
    usage = wire_usage(response.usage)
    message["usage"] = {**usage, "cost": _cost(response, model, usage)}
    if (api := api_name(client)) is not None:
        message["api"] = api
    if response.provider_response_id is not None:
        message["responseId"] = response.provider_response_id


def _is_unfinished(block: Mapping[str, Any], response: ModelResponse) -> bool:
    """Whether a block is empty, or a tool call that was cut off in the middle of its arguments."""
    if block["type"] == "toolCall":
        return response.state != "complete" and INVALID_ARGUMENTS in block["arguments"]
    return block["type"] == "text" and not block["text"] and len(block) == 2


def _cost(response: ModelResponse, model: Model, usage: Mapping[str, int]) -> dict[str, float]:
    """Dollars by our table of models; if that has no prices, by pydantic-ai's; else nothing."""
    if model.prices == Prices():
        try:
            price = response.cost()
        except (AssertionError, LookupError, ValueError):
            return model.cost(0, 0)
        parts = {"input": float(price.input_price), "output": float(price.output_price)}
        return {**parts, "cacheRead": 0.0, "cacheWrite": 0.0, "total": float(price.total_price)}
    return model.cost(usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"])


def _check_end(response: ModelResponse, draft: Draft) -> None:
    """Set the stop reason. Raises ModelCallError or BrokenOffError if it was no proper end."""
    match response.finish_reason:
        case "content_filter":
            raise ModelCallError("The provider's content filter stopped the answer")
        case "error":
            raise ModelCallError("The provider ended the answer with an error")
        case "length":
            draft.message["stopReason"] = "length"
        case _:
            if response.state == "incomplete" or _is_cut(response):
                raise BrokenOffError


def _is_cut(response: ModelResponse) -> bool:
    """Whether a stream that said no reason for its end cannot have come to it.

    Some servers never say why they end, so silence alone proves nothing; an answer of nothing, or
    one that ends inside a tool call, does.
    """
    if (response.provider_details or {}).get("finish_reason"):
        return False
    content = wire_content(response.parts)
    return not content or any(INVALID_ARGUMENTS in block.get("arguments", ()) for block in content)


def _room(model: Model, request: Request) -> int:
    """The most tokens for an answer: the model's limit, if the window has room for it."""
    used = estimate_context(request.messages).tokens + estimate_text(request.system or "")
    left = model.context_window - used - _MARGIN
    return max(min(model.max_output, left), min(_LEAST_OUTPUT, model.max_output))


def _with_attempts(message: str, attempts: int) -> str:
    return message if attempts == 1 else f"{message} (after {attempts} attempts)"


__all__ = ["PydanticAIAgent"]
