"""pydantic-ai on Sessiontree: answer, be killed, resume, branch, and look at the tree.

    pip install "sessiontree[pydantic-ai]"
    python pydantic_ai_store.py

The model is a function, so no key is needed. The first turn runs in a process of its own, which is
killed as soon as the turn is saved.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from sessiontree.adapters.pydantic_ai import SessiontreeConversationStore

CHAT = "pydantic-ai-chat"


def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Count the questions that are in sight."""
    questions = [
        part
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]
    return ModelResponse([TextPart(f"You have asked {len(questions)} questions.")])


agent = Agent(FunctionModel(model))
store = SessiontreeConversationStore()


async def ask(question: str, conversation: Conversation) -> None:
    result = await agent.run(question, conversation=conversation)
    await store.save(result)
    print(f"{question} -> {result.output}", flush=True)


async def first_turn() -> None:
    conversation = await store.load(CHAT) or Conversation(conversation_id=CHAT)
    await ask("Where did we leave off?", conversation)
    os.kill(os.getpid(), signal.SIGKILL)


async def resume_and_branch() -> None:
    conversation = await store.load(CHAT)
    assert conversation is not None
    await ask("And now?", conversation)

    # go back to after the first answer; what came later stays on a branch of its own
    current = await store.load(CHAT)
    assert current is not None
    branched = await store.branch(CHAT, at=2, expected_revision=current.revision)
    await ask("Or rather this?", branched)

    fork = await store.fork(CHAT)
    print(f"A fork starts with {len(fork.messages)} messages.", flush=True)
    await store.aclose()


if __name__ == "__main__":
    if sys.argv[1:] == ["first"]:
        asyncio.run(first_turn())
    killed = subprocess.run([sys.executable, __file__, "first"], check=False)
    print(f"The first process ended with {killed.returncode}.", flush=True)
    asyncio.run(resume_and_branch())
    subprocess.run([sys.executable, "-m", "sessiontree", "tree", CHAT], check=True)
