"""Microsoft's agent-framework on Sessiontree: answer, be killed, resume, go back and branch.

    pip install "sessiontree[agent-framework]"
    python agent_framework_history.py

The model is scripted, so no key is needed. The first turn runs in a process of its own, which is
killed as soon as the turn is saved.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, FunctionInvocationLayer, Message

from sessiontree import SessionManager
from sessiontree.adapters.agent_framework import SessiontreeHistoryProvider

CHAT = "agent-framework-chat"


class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Says how many messages it has seen."""

    async def _inner_get_response(
        self,
        *,
        messages: Sequence[Message],
        stream: bool,  # noqa: ARG002
        options: Any,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResponse:
        return ChatResponse(messages=[Message("assistant", [f"Message {len(messages) + 1}"])])


async def ask(question: str) -> None:
    """A turn of a new agent, which finds the conversation where it stands."""
    async with SessiontreeHistoryProvider() as history:
        agent = Agent(Scripted(), name="helper", context_providers=[history])
        answer = await agent.run(question, session=agent.create_session(session_id=CHAT))
        print(f"{question} -> {answer.text}", flush=True)
        if sys.argv[1:] == ["first"]:
            os.kill(os.getpid(), signal.SIGKILL)


def go_back() -> None:
    """Stand after the first answer again; what came later stays on a branch of its own."""
    with SessionManager.open_or_create(CHAT, os.getcwd()) as session:
        answers = [
            entry.id
            for entry in session.get_branch()
            if entry.data.get("message", {}).get("role") == "assistant"
        ]
        session.branch(answers[0])


if __name__ == "__main__":
    if sys.argv[1:] == ["first"]:
        asyncio.run(ask("Where did we leave off?"))
    killed = subprocess.run([sys.executable, __file__, "first"], check=False)
    print(f"The first process ended with {killed.returncode}.", flush=True)
    asyncio.run(ask("And now?"))
    go_back()
    asyncio.run(ask("Or rather this?"))
    subprocess.run([sys.executable, "-m", "sessiontree", "tree", CHAT], check=True)
