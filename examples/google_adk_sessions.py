"""Google's ADK on Sessiontree: answer, be killed, resume, rewind and branch, see the tree.

    pip install "sessiontree[adk]"
    python google_adk_sessions.py

The model is scripted, so no key is needed. The first turn runs in a process of its own, which is
killed as soon as the turn is saved.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types

from sessiontree.adapters.google_adk import SessiontreeSessionService

APP, USER, CHAT = "helper", "anna", "adk-chat"


class Scripted(BaseLlm):
    """Says how many messages it has seen."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002
    ) -> AsyncGenerator[LlmResponse, None]:
        text = f"Message {len(llm_request.contents) + 1}"
        yield LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text=text)]),
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=10, candidates_token_count=2
            ),
        )


def make_runner(service: SessiontreeSessionService) -> Runner:
    agent = LlmAgent(name="helper", model=Scripted(model="scripted"), output_key="last_answer")
    return Runner(app_name=APP, agent=agent, session_service=service, auto_create_session=True)


async def ask(question: str) -> str:
    """A turn of a new runner, which finds the session where it stands; the turn's invocation."""
    invocation = ""
    async with SessiontreeSessionService() as service:
        message = types.Content(role="user", parts=[types.Part(text=question)])
        turn = make_runner(service).run_async(user_id=USER, session_id=CHAT, new_message=message)
        async for event in turn:
            invocation = event.invocation_id
            if event.content and event.content.parts:
                print(f"{question} -> {event.content.parts[0].text}", flush=True)
        if sys.argv[1:] == ["first"]:
            os.kill(os.getpid(), signal.SIGKILL)
    return invocation


async def go_back(invocation: str) -> None:
    """Stand before a turn again; what came later stays on a branch of its own."""
    async with SessiontreeSessionService() as service:
        await make_runner(service).rewind_async(
            user_id=USER, session_id=CHAT, rewind_before_invocation_id=invocation
        )


async def main() -> None:
    second = await ask("And now?")
    await go_back(second)
    await ask("Or rather this?")
    async with SessiontreeSessionService() as service:
        session = await service.get_session(app_name=APP, user_id=USER, session_id=CHAT)
        assert session is not None
        print(f"State: {session.state}")


if __name__ == "__main__":
    if sys.argv[1:] == ["first"]:
        asyncio.run(ask("Where did we leave off?"))
    killed = subprocess.run([sys.executable, __file__, "first"], check=False)
    print(f"The first process ended with {killed.returncode}.", flush=True)
    asyncio.run(main())
    subprocess.run([sys.executable, "-m", "sessiontree", "tree", CHAT], check=True)
