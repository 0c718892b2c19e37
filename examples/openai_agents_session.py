"""The OpenAI Agents SDK on Sessiontree: answer, be killed, resume, take a turn back, see the tree.

    pip install "sessiontree[openai]"
    python openai_agents_session.py

The model is scripted, so no key is needed. The first turn runs in a process of its own, which is
killed as soon as the turn is saved.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

from agents import Agent, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message

from sessiontree.adapters.openai_agents import SessiontreeSession

CHAT = "openai-agents-chat"

set_tracing_disabled(True)
model = ScriptedModel([[assistant_message(f"Answer {number}")] for number in (1, 2, 3)])
agent = Agent(name="Scripted", model=model)
session = SessiontreeSession(CHAT)


async def ask(question: str) -> None:
    result = await Runner.run(agent, question, session=session)
    print(f"{question} -> {result.final_output}", flush=True)


async def first_turn() -> None:
    await ask("Where did we leave off?")
    os.kill(os.getpid(), signal.SIGKILL)


async def resume_and_take_back() -> None:
    print(f"Resumed with {len(await session.get_items())} items.", flush=True)
    await ask("And now?")
    # the SDK's way to take a turn back; here the turn stays, on a branch of its own
    await session.pop_item()
    await session.pop_item()
    await ask("Or rather this?")
    print(f"In sight: {len(await session.get_items())} items.", flush=True)
    await session.aclose()


if __name__ == "__main__":
    if sys.argv[1:] == ["first"]:
        asyncio.run(first_turn())
    killed = subprocess.run([sys.executable, __file__, "first"], check=False)
    print(f"The first process ended with {killed.returncode}.", flush=True)
    asyncio.run(resume_and_take_back())
    subprocess.run([sys.executable, "-m", "sessiontree", "tree", CHAT], check=True)
