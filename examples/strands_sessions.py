"""Strands on Sessiontree: answer, be killed, resume, go back and branch, see the tree.

    pip install "sessiontree[strands]"
    python strands_sessions.py

The model is scripted, so no key is needed. The first turn runs in a process of its own, which is
killed as soon as the turn is saved.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent
from strands.models.model import Model
from strands.session import RepositorySessionManager

from sessiontree import SessionManager
from sessiontree.adapters.strands import SessiontreeSessionRepository

CHAT = "strands-chat"


class Scripted(Model):
    """Says how many messages it has seen."""

    def update_config(self, **_: Any) -> None:
        pass

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise ValueError("This model only talks")

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": f"Message {len(messages) + 1}"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def ask(question: str) -> None:
    """A turn of a new agent, which finds the conversation where it stands."""
    with SessiontreeSessionRepository() as repository:
        manager = RepositorySessionManager(CHAT, repository)
        agent = Agent(
            model=Scripted(), agent_id="helper", session_manager=manager, callback_handler=None
        )
        print(f"{question} -> {str(agent(question)).strip()}", flush=True)
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
        ask("Where did we leave off?")
    killed = subprocess.run([sys.executable, __file__, "first"], check=False)
    print(f"The first process ended with {killed.returncode}.", flush=True)
    ask("And now?")
    go_back()
    ask("Or rather this?")
    subprocess.run([sys.executable, "-m", "sessiontree", "tree", CHAT], check=True)
