"""What the tests of the real agent share besides the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from sessiontree.agents.retries import RetryPolicy
from sessiontree.runtime import events
from sessiontree.runtime.agent import Agent
from sessiontree.runtime.models import Model, Prices

MODEL = Model(
    "loopback",
    "test-model",
    context_window=32_000,
    max_output=4_000,
    max_thinking="high",
    images=True,
    prices=Prices(input=1.0, output=10.0, cache_read=0.5),
)

RETRY = RetryPolicy(attempts=4, first_wait_s=0.01, longest_wait_s=0.05)


class Heard:
    """Every event, and a way to wait for one."""

    def __init__(self, agent: Agent) -> None:
        self.events: list[Any] = []
        self._changed = asyncio.Condition()
        agent.subscribe(self._hear)

    async def _hear(self, event: events.AgentEvent) -> None:
        async with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        async with asyncio.timeout(20), self._changed:
            while True:
                for event in self.events:
                    if wanted(event):
                        return event
                await self._changed.wait()

    def ended(self) -> list[dict[str, Any]]:
        return [e.message for e in self.events if isinstance(e, events.MessageEnd)]

    def deltas(self, kind: str) -> list[str]:
        updates = [e for e in self.events if isinstance(e, events.MessageUpdate)]
        return [e.delta.text for e in updates if e.delta.kind == kind and e.delta.text]


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
