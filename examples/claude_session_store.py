"""Keep the transcripts of the Claude Agent SDK in Sessiontree, where people can read them.

Needs no key and no network: a scripted agent stands for Claude Code. It writes the records that the
command line writes, through the store, and is killed. Another process resumes the conversation,
rewinds it, and `sessiontree tree` prints both branches.

    pip install "sessiontree[claude]"
    python examples/claude_session_store.py

In your own program, pass the store to the SDK::

    store = SessiontreeSessionStore(storage="file:/srv/agent")
    options = ClaudeAgentOptions(session_store=store, resume=session_id)
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from datetime import UTC, datetime
from typing import Any

from claude_agent_sdk import (
    SessionKey,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
    rename_session_via_store,
)

from sessiontree import SessionManager
from sessiontree.adapters.claude_agent_sdk import SessiontreeSessionStore

PROJECT = os.getcwd()
SESSION_ID = "7d1c0f5e-2b0a-4c55-9d0a-5e6f7a8b9c01"
KEY: SessionKey = {"project_key": project_key_for_directory(PROJECT), "session_id": SESSION_ID}


def record(role: str, text: str, parent: str | None) -> Any:
    """A line of a transcript, as Claude Code writes it."""
    message: dict[str, Any] = {"role": role, "content": text}
    if role == "assistant":
        message |= {
            "model": "claude-sonnet-4-5",
            "content": [{"type": "text", "text": text}],
            "usage": {"input_tokens": 12, "output_tokens": 5},
        }
    return {
        "type": role,
        "uuid": str(uuid.uuid4()),
        "parentUuid": parent,
        "sessionId": SESSION_ID,
        "cwd": PROJECT,
        "timestamp": datetime.now(UTC).isoformat(),
        "message": message,
    }


async def talk(store: SessiontreeSessionStore, prompt: str, parent: str | None) -> str:
    """A turn of the scripted agent; the uuid of its answer."""
    asked = record("user", prompt, parent)
    answered = record("assistant", f"I was asked: {prompt}", asked["uuid"])
    await store.append(KEY, [asked])
    await store.append(KEY, [answered])
    return str(answered["uuid"])


async def begin(url: str) -> None:
    """Answer once, then be killed, as by a machine that runs out of memory."""
    await talk(SessiontreeSessionStore(storage=url), "Why does the login fail?", None)
    os.kill(os.getpid(), signal.SIGKILL)


async def resume(url: str) -> None:
    async with SessiontreeSessionStore(storage=url) as store:
        messages = await get_session_messages_from_store(store, SESSION_ID, directory=PROJECT)
        print(f"Resumed with {len(messages)} messages.")
        first = messages[-1].uuid
        await talk(store, "Fix it.", first)
        await talk(store, "Only show me the line.", first)  # rewound: a branch
        await rename_session_via_store(store, SESSION_ID, "Login", directory=PROJECT)
        for listed in await list_sessions_from_store(store, directory=PROJECT):
            print(f"The SDK lists: {listed.summary}")
        scope = store.scope_of(KEY["project_key"])
    (info,) = SessionManager.list(None, scope=scope, storage=url)
    print(f"Sessiontree lists: {info.title}", flush=True)


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run(begin(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        url = f"file:{folder}"
        killed = subprocess.run([sys.executable, __file__, url], check=False)
        print(f"The first process ended with {killed.returncode}.")
        asyncio.run(resume(url))
        tree = [sys.executable, "-m", "sessiontree", "--store", url, "tree", SESSION_ID]
        subprocess.run(tree, check=True)


if __name__ == "__main__":
    main()
