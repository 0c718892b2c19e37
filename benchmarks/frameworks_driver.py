"""One agent framework on one of its stores: conversations of turns, saved or loaded.

``python -m benchmarks.frameworks_driver NAME append|load '{"turns": N, "folder": D}'`` prints
``{ms, hwm_kb, info}``. A turn is a question, a call of a tool, its result and an answer; the
framework saves the question first and the rest together, or one by one if it knows no other way.
NAME is of ``CONTENDERS``: ``openai/us`` and ``openai/theirs``, …
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

Turn = tuple[str, str, str]
"""What is asked, what the tool gives, what is answered."""


class Contender(Protocol):
    """A framework on a store."""

    async def save(self, number: int, turn: Turn) -> None: ...
    async def load(self) -> int: ...
    async def close(self) -> None: ...


def turns(count: int) -> list[Turn]:
    """Texts as agents have them, the same at every run."""
    dice = random.Random(7)
    words = [f"{dice.getrandbits(dice.choice((12, 20, 32))):x}" for _ in range(2_000)]

    def text(least: int, most: int) -> str:
        return " ".join(dice.choices(words, k=dice.randint(least, most)))

    return [(text(8, 40), text(20, 200), text(20, 120)) for _ in range(count)]


def _url(folder: Path) -> str:
    return f"file:{folder / 'agent'}"


class OpenAIAgents:
    """``add_items`` and ``get_items`` of a session of the OpenAI Agents SDK."""

    def __init__(self, session: Any, close: Callable[[], Awaitable[None]] | None = None) -> None:
        self._session = session
        self._close = close

    @classmethod
    def us(cls, folder: Path) -> OpenAIAgents:
        from sessiontree.adapters.openai_agents import SessiontreeSession

        session = SessiontreeSession("bench", storage=_url(folder))
        return cls(session, session.aclose)

    @classmethod
    def theirs(cls, folder: Path) -> OpenAIAgents:
        from agents.memory import SQLiteSession

        return cls(SQLiteSession("bench", folder / "agents.db"))

    async def save(self, number: int, turn: Turn) -> None:
        asked, output, answered = turn
        await self._session.add_items([{"content": asked, "role": "user"}])
        call_id = f"call_{number:024x}"
        arguments = json.dumps({"path": f"src/module_{number}.py", "limit": number})
        # the keys stand in the order in which the SDK dumps its items
        call = {"arguments": arguments, "call_id": call_id, "name": "read"}
        said = {"annotations": [], "text": answered, "type": "output_text", "logprobs": []}
        answer = {"content": [said], "role": "assistant", "status": "completed", "type": "message"}
        item_id = f"fc_{number:048x}"
        await self._session.add_items(
            [
                {**call, "type": "function_call", "id": item_id, "status": "completed"},
                {"call_id": call_id, "output": output, "type": "function_call_output"},
                {"id": f"msg_{number:048x}", **answer},
            ]
        )

    async def load(self) -> int:
        return len(await self._session.get_items())

    async def close(self) -> None:
        if self._close is not None:
            await self._close()
        else:
            self._session.close()


class GoogleADK:
    """``append_event`` and ``get_session`` of a session service of Google's ADK."""

    _KEY = {"app_name": "app", "user_id": "user", "session_id": "bench"}  # noqa: RUF012

    def __init__(self, service: Any) -> None:
        from google.adk.events.event import Event
        from google.genai import types

        self._service, self._event, self._types = service, Event, types
        self._session: Any = None

    @classmethod
    def us(cls, folder: Path) -> GoogleADK:
        from sessiontree.adapters.google_adk import SessiontreeSessionService

        return cls(SessiontreeSessionService(storage=_url(folder)))

    @classmethod
    def theirs(cls, folder: Path) -> GoogleADK:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        return cls(SqliteSessionService(str(folder / "adk.db")))

    async def save(self, number: int, turn: Turn) -> None:
        asked, output, answered = turn
        types = self._types
        if self._session is None:
            self._session = await self._service.create_session(**self._KEY)
        args = {"path": f"src/module_{number}.py", "limit": number}
        call = types.FunctionCall(id=f"call_{number}", name="read", args=args)
        result = types.FunctionResponse(
            id=f"call_{number}", name="read", response={"result": output}
        )
        for author, role, part in (
            ("user", "user", types.Part(text=asked)),
            ("helper", "model", types.Part(function_call=call)),
            ("helper", "user", types.Part(function_response=result)),
            ("helper", "model", types.Part(text=answered)),
        ):
            content = types.Content(role=role, parts=[part])
            event = self._event(author=author, invocation_id=f"i{number}", content=content)
            await self._service.append_event(self._session, event)

    async def load(self) -> int:
        session = await self._service.get_session(**self._KEY)
        return len(session.events)

    async def close(self) -> None:
        await self._service.close()


class PydanticAI:
    """``save`` and ``load`` of a conversation store of pydantic-ai."""

    def __init__(self, store: Any) -> None:
        from pydantic_ai.conversation import Conversation

        self._store = store
        self._conversation = Conversation(conversation_id="bench")

    @classmethod
    def us(cls, folder: Path) -> PydanticAI:
        from sessiontree.adapters.pydantic_ai import SessiontreeConversationStore

        return cls(SessiontreeConversationStore(storage=_url(folder)))

    @classmethod
    def theirs(cls, _: Path) -> PydanticAI:
        from pydantic_ai.conversation_store import InMemoryConversationStore

        return cls(InMemoryConversationStore())

    async def save(self, number: int, turn: Turn) -> None:
        from pydantic_ai import messages

        asked, output, answered = turn
        call_id = f"call_{number}"
        args = {"path": f"src/module_{number}.py", "limit": number}
        said: list[messages.ModelMessage] = [
            messages.ModelRequest([messages.UserPromptPart(asked)]),
            messages.ModelResponse([messages.ToolCallPart("read", args, call_id)]),
            messages.ModelRequest([messages.ToolReturnPart("read", output, call_id)]),
            messages.ModelResponse([messages.TextPart(answered)]),
        ]
        self._conversation.messages.extend(said)
        await self._store.save(self._conversation)

    async def load(self) -> int:
        found = await self._store.load("bench")
        return len(found.messages)

    async def close(self) -> None:
        if hasattr(self._store, "aclose"):
            await self._store.aclose()


class Claude:
    """``append`` and ``load`` of a session store of the Claude Agent SDK."""

    _KEY = {"project_key": "bench", "session_id": "bench"}  # noqa: RUF012

    def __init__(self, store: Any) -> None:
        self._store = store
        self._last: str | None = None

    @classmethod
    def us(cls, folder: Path) -> Claude:
        from sessiontree.adapters.claude_agent_sdk import SessiontreeSessionStore

        return cls(SessiontreeSessionStore(storage=_url(folder)))

    @classmethod
    def theirs(cls, _: Path) -> Claude:
        from claude_agent_sdk import InMemorySessionStore

        return cls(InMemorySessionStore())

    async def save(self, number: int, turn: Turn) -> None:
        asked, output, answered = turn
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read"}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": output}
        args = {"path": f"src/module_{number}.py", "limit": number}
        made = [
            self._record("user", asked, number, 0),
            self._record("assistant", [{**call, "input": args}], number, 1),
            self._record("user", [result], number, 2),
            self._record("assistant", [{"type": "text", "text": answered}], number, 3),
        ]
        await self._store.append(self._KEY, made[:1])
        await self._store.append(self._KEY, made[1:])

    def _record(self, role: str, content: Any, number: int, step: int) -> dict[str, Any]:
        made = {
            "parentUuid": self._last,
            "isSidechain": False,
            "type": role,
            "message": {"role": role, "content": content},
            "uuid": f"{number:08x}-0000-4000-8000-{step:012x}",
            "timestamp": "2026-03-01T10:00:00.000Z",
            "cwd": "/work/app",
            "sessionId": "bench",
            "version": "2.1.0",
        }
        self._last = str(made["uuid"])
        if role == "assistant":
            usage = {"input_tokens": number, "output_tokens": 20}
            body = {"id": f"msg_{number}_{step}", "model": "claude-sonnet-4-5", "usage": usage}
            made["message"] = {"role": role, "content": content, **body}
        return made

    async def load(self) -> int:
        return len(await self._store.load(self._KEY))

    async def close(self) -> None:
        if hasattr(self._store, "aclose"):
            await self._store.aclose()


class Strands:
    """``create_message`` and ``list_messages`` of a session repository of Strands."""

    def __init__(self, repository: Any) -> None:
        self._repository = repository

    @classmethod
    def us(cls, folder: Path) -> Strands:
        from sessiontree.adapters.strands import SessiontreeSessionRepository

        return cls(SessiontreeSessionRepository(storage=_url(folder)))

    @classmethod
    def theirs(cls, folder: Path) -> Strands:
        from strands.session import FileSessionManager

        return cls(FileSessionManager("bench", storage_dir=str(folder)))

    async def save(self, number: int, turn: Turn) -> None:
        from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

        asked, output, answered = turn
        if number == 0:
            if self._repository.read_session("bench") is None:
                self._repository.create_session(Session("bench", SessionType.AGENT))
            self._repository.create_agent("bench", SessionAgent("helper", {}, {}))
        use = {"toolUseId": f"t{number}", "name": "read", "input": {"path": f"m_{number}.py"}}
        content = [{"text": output}]
        result = {"toolUseId": f"t{number}", "status": "success", "content": content}
        said: list[Any] = [
            {"role": "user", "content": [{"text": asked}]},
            {"role": "assistant", "content": [{"toolUse": use}]},
            {"role": "user", "content": [{"toolResult": result}]},
            {"role": "assistant", "content": [{"text": answered}]},
        ]
        for step, message in enumerate(said):
            made = SessionMessage.from_message(message, 4 * number + step)
            self._repository.create_message("bench", "helper", made)

    async def load(self) -> int:
        return len(self._repository.list_messages("bench", "helper"))

    async def close(self) -> None:
        if hasattr(self._repository, "close"):
            self._repository.close()


class AgentFramework:
    """``save_messages`` and ``get_messages`` of a history provider of agent-framework."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider

    @classmethod
    def us(cls, folder: Path) -> AgentFramework:
        from sessiontree.adapters.agent_framework import SessiontreeHistoryProvider

        return cls(SessiontreeHistoryProvider(storage=_url(folder)))

    @classmethod
    def theirs(cls, folder: Path) -> AgentFramework:
        import warnings

        from agent_framework import FileHistoryProvider

        warnings.simplefilter("ignore")
        return cls(FileHistoryProvider(folder))

    async def save(self, number: int, turn: Turn) -> None:
        from agent_framework import Content, Message

        asked, output, answered = turn
        args = {"path": f"src/module_{number}.py", "limit": number}
        call = Content.from_function_call(f"call_{number}", "read", arguments=args)
        await self._provider.save_messages(
            "bench",
            [
                Message("user", [asked]),
                Message("assistant", [call]),
                Message("tool", [Content.from_function_result(f"call_{number}", result=output)]),
                Message("assistant", [answered]),
            ],
        )

    async def load(self) -> int:
        return len(await self._provider.get_messages("bench"))

    async def close(self) -> None:
        if hasattr(self._provider, "aclose"):
            await self._provider.aclose()


class LangGraph:
    """``put_writes`` and ``put`` of a checkpoint saver: a checkpoint a message, as graphs do."""

    _THREAD = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}  # noqa: RUF012

    def __init__(self, saver: Any, close: Callable[[], object]) -> None:
        self._saver, self._close = saver, close
        self._config: Any = self._THREAD
        self._messages: list[Any] = []

    @classmethod
    def us(cls, folder: Path) -> LangGraph:
        from sessiontree.adapters.langgraph import SessiontreeSaver

        saver = SessiontreeSaver(storage=_url(folder))
        return cls(saver, saver.close)

    @classmethod
    def theirs(cls, folder: Path) -> LangGraph:
        import sqlite3

        from langgraph.checkpoint.sqlite import SqliteSaver

        database = sqlite3.connect(folder / "langgraph.db", check_same_thread=False)
        return cls(SqliteSaver(database), database.close)

    async def save(self, number: int, turn: Turn) -> None:
        from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

        asked, output, answered = turn
        name = f"call_{number}"
        args = {"path": f"src/module_{number}.py", "limit": number}
        call: Any = {"name": "read", "args": args, "id": name, "type": "tool_call"}
        self._step(HumanMessage(asked, id=f"{number}-0"))
        self._step(AIMessage("", tool_calls=[call], id=f"{number}-1"))
        self._step(ToolMessage(output, tool_call_id=name, name="read", id=f"{number}-2"))
        self._step(AIMessage(answered, id=f"{number}-3"))

    def _step(self, message: Any) -> None:
        from langgraph.checkpoint.base import empty_checkpoint

        step = len(self._messages)
        if step:
            self._saver.put_writes(self._config, [("messages", [message])], f"task-{step}")
        self._messages = [*self._messages, message]
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": self._messages}
        checkpoint["channel_versions"] = {"messages": step + 1}
        metadata: Any = {"source": "loop", "step": step, "parents": {}}
        versions = {"messages": step + 1}
        self._config = self._saver.put(self._config, checkpoint, metadata, versions)

    async def load(self) -> int:
        found = self._saver.get_tuple(self._THREAD)
        return len(found.checkpoint["channel_values"]["messages"])

    async def close(self) -> None:
        self._close()


KINDS: dict[str, Any] = {
    "openai": OpenAIAgents,
    "adk": GoogleADK,
    "strands": Strands,
    "agent-framework": AgentFramework,
    "pydantic-ai": PydanticAI,
    "claude": Claude,
    "langgraph": LangGraph,
}
IN_MEMORY = ("pydantic-ai", "claude")
"""Frameworks that have no store but one in memory: it is filled before it is loaded."""
CONTENDERS: dict[str, Callable[[Path], Contender]] = {
    f"{name}/{whose}": getattr(kind, whose)
    for name, kind in KINDS.items()
    for whose in ("us", "theirs")
}


async def _warm_up(name: str) -> None:
    """Import what a framework and its store import when they are first used."""
    with tempfile.TemporaryDirectory() as folder:
        contender = CONTENDERS[name](Path(folder))
        for number, turn in enumerate(turns(2)):
            await contender.save(number, turn)
        await contender.load()
        await contender.close()


async def run(name: str, op: str, count: int, folder: Path) -> tuple[float, dict[str, int]]:
    """How long it took, in milliseconds, and what there is then."""
    await _warm_up(name)
    contender = CONTENDERS[name](folder)
    is_in_memory = name.endswith("/theirs") and name.split("/", maxsplit=1)[0] in IN_MEMORY
    said = turns(count) if op == "append" or is_in_memory else []

    async def save_all() -> None:
        for number, turn in enumerate(said):
            await contender.save(number, turn)

    if op == "load" and is_in_memory:
        await save_all()
    started = time.perf_counter()
    if op == "append":
        await save_all()
        messages = 4 * count
    else:
        messages = await contender.load()
    elapsed_ms = (time.perf_counter() - started) * 1_000
    in_use = _bytes_in(folder)
    await contender.close()
    return elapsed_ms, {"messages": messages, "bytes_in_use": in_use, "bytes": _bytes_in(folder)}


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    name, op, given = sys.argv[1:4]
    args = json.loads(given)
    folder = Path(args["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    if os.environ.get("BENCH_PROFILE"):
        elapsed_ms, info = _profile(lambda: asyncio.run(run(name, op, args["turns"], folder)))
    else:
        elapsed_ms, info = asyncio.run(run(name, op, args["turns"], folder))
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    print(json.dumps({"ms": elapsed_ms, "hwm_kb": int(peak), "info": info}))


def _profile(work: Callable[[], tuple[float, dict[str, int]]]) -> tuple[float, dict[str, int]]:
    import cProfile
    import pstats

    profiler = cProfile.Profile()
    found = profiler.runcall(work)
    pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(25)
    return found


if __name__ == "__main__":
    main()
