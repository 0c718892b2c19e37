"""`ScriptedAgent`: an agent that follows a script, for tests and demonstrations.

No model, no network, no randomness. It keeps the whole contract of `agent`, including aborts in the
middle of an answer or a tool, so that what works with it works with a real agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sessiontree.core.usage import estimate_message
from sessiontree.runtime.agent_base import AgentBase, Draft, Request, Tool


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the script."""

    text: str = ""
    thinking: str = ""
    tool_calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    error: str | None = None
    """The error message with which the answer fails; without it, it ends well."""
    hold: bool = False
    """After half of its text, wait for ``ScriptedAgent.release`` or an abort."""
    input_tokens: int | None = None
    """The tokens that the provider counted; by default an estimate of the conversation."""
    output_tokens: int | None = None


@dataclass
class _Hold:
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)


class ScriptedAgent(AgentBase):
    """Answers with its script, one reply for each model call; then with ``default``, for ever.

    ``summaries`` are the answers to `complete` (summaries, compactions), used in the same way.
    ``requests`` and ``completions`` record what the model was asked.
    """

    def __init__(
        self,
        replies: Iterable[Reply | str] = (),
        *,
        default: Reply | str = "Done.",
        summaries: Iterable[Reply | str] = (),
        tools: Mapping[str, Tool] | None = None,
        clock_ms: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(tools=tools, clock_ms=clock_ms)
        self.replies = [_reply(reply) for reply in replies]
        self.summaries = [_reply(summary) for summary in summaries]
        self.default = _reply(default)
        self.requests: list[Request] = []
        self.completions: list[Request] = []
        self._hold = _Hold()

    def say_next(self, *replies: Reply | str) -> None:
        """Add replies to the end of the script."""
        self.replies.extend(_reply(reply) for reply in replies)

    async def wait_held(self) -> None:
        """Return when a reply with ``hold`` is in its middle."""
        await self._hold.reached.wait()

    def release(self) -> None:
        """Let the held reply go on."""
        self._hold.released.set()

    async def respond(self, draft: Draft, request: Request) -> None:
        if request.max_tokens is None:
            self.requests.append(request)
            script = self.replies
        else:
            self.completions.append(request)
            script = self.summaries
        reply = script.pop(0) if script else self.default
        if reply.thinking:
            await draft.add_thinking(reply.thinking)
        half = (len(reply.text) + 1) // 2
        if reply.text:
            await draft.add_text(reply.text[:half])
        if reply.hold:
            await self._wait_in_the_middle()
        if reply.text[half:]:
            await draft.add_text(reply.text[half:])
        if reply.error is not None:
            raise RuntimeError(reply.error)
        for number, (name, arguments) in enumerate(reply.tool_calls):
            await draft.add_tool_call(
                name, arguments, f"call_{len(self.requests)}_{number}_{len(self._messages)}"
            )
        draft.set_usage(*self._usage(draft, request, reply))

    async def _wait_in_the_middle(self) -> None:
        hold = self._hold
        hold.reached.set()
        try:
            await hold.released.wait()
        finally:
            self._hold = _Hold()

    def _usage(self, draft: Draft, request: Request, reply: Reply) -> tuple[int, int]:
        given, made = reply.input_tokens, reply.output_tokens
        if given is None:
            given = sum(estimate_message(message) for message in request.messages)
        return given, estimate_message(draft.message) if made is None else made


def _reply(reply: Reply | str) -> Reply:
    return Reply(reply) if isinstance(reply, str) else reply
