"""An agent of your own on a session: all that has to be written is how it answers.

Run it: ``python examples/custom_agent.py``. It needs no key and no network: the "model" here
turns your words round and counts with a tool. Put a call to your provider where
`TurnAround.respond` makes up its answer, and everything else (saving, switching, branching,
compaction) works as it is.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from typing import Any

from sessiontree import AgentSession, create_agent_session
from sessiontree.runtime.agent_base import AgentBase, Draft, Progress, Request
from sessiontree.runtime.events import MessageUpdate, SessionEvent, ToolStart


class TurnAround(AgentBase):
    """Says everything backwards; asked to count, it uses its tool."""

    async def respond(self, draft: Draft, request: Request) -> None:
        last = request.messages[-1]
        text = " ".join(block.get("text", "") for block in last["content"])
        if last["role"] == "user" and text.startswith("count") and "count" in request.tools:
            await draft.add_tool_call("count", {"text": text})
            return
        for word in reversed(text.split()):
            await draft.add_text(word + " ")
        draft.set_usage(input_tokens=len(text) // 4, output_tokens=len(draft.text) // 4)


async def count_words(arguments: Mapping[str, Any], progress: Progress) -> str:
    """A tool: takes the call's arguments, may tell how far it is, gives a text."""
    await progress("counting")
    return f"words {len(arguments['text'].split())}"


def show(event: SessionEvent) -> None:
    """A front end in three lines."""
    match event:
        case MessageUpdate(_, delta):
            print(delta.text, end="", flush=True)
        case ToolStart(_, name, arguments):
            print(f"[{name} {dict(arguments)}]")


async def talk(session: AgentSession) -> None:
    """Two exchanges, then back to the first one, then another session."""
    session.subscribe(show)
    await session.prompt("dlrow olleh")
    print()
    first_answer = session.manager.leaf_id
    await session.prompt("count these words please")
    print()

    assert first_answer is not None
    await session.navigate_tree(first_answer)
    await session.prompt("again once and")
    print()

    here = session.session_file
    await session.new_session()
    await session.prompt("session other the from")
    print()
    if here is not None:
        await session.switch_session(here)
        print(f"back in {session.session_id} with {len(session.messages)} messages")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        agent = TurnAround(tools={"count": count_words})
        async with await create_agent_session(agent, cwd=folder, session_dir=folder) as session:
            await talk(session)


if __name__ == "__main__":
    asyncio.run(main())
