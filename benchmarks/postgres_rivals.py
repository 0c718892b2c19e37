"""What agent frameworks keep conversations in PostgreSQL with; run by ``.bench/venv-postgres``.

``postgres_rivals.py STORE '{"url": URL, "count": N, "text": TEXT}'`` appends N messages one by one
and reads them back; it prints ``{ms, hwm_kb, info}``: milliseconds for all appends, and in ``info``
for the reading. Imports none of ours: it must not see our dependencies.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

WARMED = 5
"""Appends before the clock starts: imports, tables and connections are theirs to make once."""

Times = tuple[float, float, int]
"""Milliseconds of all appends, of the reading, and how many messages were read."""


def _async_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+asyncpg://", 1)


async def openai_agents(url: str, count: int, text: str) -> Times:
    """OpenAI Agents SDK, ``SQLAlchemySession``: one ``add_items`` a message."""
    from agents.extensions.memory import SQLAlchemySession

    name = f"bench-{time.time_ns()}"
    session = SQLAlchemySession.from_url(name, url=_async_url(url), create_tables=True)
    for _ in range(WARMED):
        await session.add_items([{"role": "user", "content": text}])
    started = time.perf_counter()
    for _ in range(count):
        await session.add_items([{"role": "user", "content": text}])
    appended = time.perf_counter()
    found = len(await session.get_items())
    return (appended - started) * 1e3, (time.perf_counter() - appended) * 1e3, found


async def google_adk(url: str, count: int, text: str) -> Times:
    """Google ADK, ``DatabaseSessionService``: one ``append_event`` a message."""
    from google.adk.events.event import Event
    from google.adk.sessions.database_session_service import DatabaseSessionService
    from google.genai import types

    service = DatabaseSessionService(_async_url(url))
    key: dict[str, Any] = {"app_name": "bench", "user_id": "u", "session_id": f"{time.time_ns()}"}
    session = await service.create_session(**key)

    async def append() -> None:
        content = types.Content(role="user", parts=[types.Part(text=text)])
        event = Event(author="user", invocation_id="i", content=content)
        await service.append_event(session, event)

    for _ in range(WARMED):
        await append()
    started = time.perf_counter()
    for _ in range(count):
        await append()
    appended = time.perf_counter()
    read = await service.get_session(**key)
    assert read is not None
    return (appended - started) * 1e3, (time.perf_counter() - appended) * 1e3, len(read.events)


async def langgraph(url: str, count: int, text: str) -> Times:
    """LangGraph, ``PostgresSaver``: a checkpoint of the state so far a message.

    The state has what an agent's has: messages of LangChain, with ids as ``add_messages`` gives.
    """
    from langchain_core.messages import HumanMessage
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.postgres import PostgresSaver  # type: ignore[import-not-found]

    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        where = {"thread_id": f"bench-{time.time_ns()}", "checkpoint_ns": ""}
        config: Any = {"configurable": where}
        state: list[Any] = []

        def append() -> None:
            nonlocal config
            state.append(HumanMessage(content=text, id=str(uuid.uuid4())))
            version = len(state)
            checkpoint: Any = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": list(state)}
            checkpoint["channel_versions"] = {"messages": version}
            metadata: Any = {"source": "loop", "step": version, "parents": {}}
            config = saver.put(config, checkpoint, metadata, {"messages": version})

        for _ in range(WARMED):
            append()
        started = time.perf_counter()
        for _ in range(count):
            append()
        appended = time.perf_counter()
        found = saver.get_tuple({"configurable": where})
        assert found is not None
        read = len(found.checkpoint["channel_values"]["messages"])
        return (appended - started) * 1e3, (time.perf_counter() - appended) * 1e3, read


STORES: dict[str, Callable[[str, int, str], Any]] = {
    "openai-agents": openai_agents,
    "google-adk": google_adk,
    "langgraph": langgraph,
}


def main() -> None:
    name, given = sys.argv[1:3]
    args = json.loads(given)
    ms, load_ms, found = asyncio.run(STORES[name](args["url"], args["count"], args["text"]))
    assert found == args["count"] + WARMED, found
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    print(json.dumps({"ms": ms, "hwm_kb": int(peak), "info": {"load_ms": load_ms}}))


if __name__ == "__main__":
    main()
