"""What Python programs keep conversations in otherwise; run by ``.bench/venv``'s interpreter.

``alternatives_driver.py STORE-append|STORE-load '{"messages": FILE, "count": N, "folder": D}'``
prints ``{ms, hwm_kb, info}``. Imports none of ours: it must not see our dependencies.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

Messages = list[dict[str, Any]]


def agents_append(messages: Messages, folder: Path) -> Callable[[], int]:
    """OpenAI Agents SDK, ``SQLiteSession``: one ``add_items`` a message."""
    from agents.memory import SQLiteSession

    session = SQLiteSession("bench", folder / "agents.db")

    async def work() -> int:
        for message in messages:
            await session.add_items([cast("Any", message)])
        return len(messages)

    return lambda: asyncio.run(work())


def agents_load(_: Messages, folder: Path) -> Callable[[], int]:
    from agents.memory import SQLiteSession

    session = SQLiteSession("bench", folder / "agents.db")
    return lambda: len(asyncio.run(session.get_items()))


def langgraph_append(messages: Messages, folder: Path) -> Callable[[], int]:
    """LangGraph ``SqliteSaver``: a checkpoint a message with the state so far, as a graph does."""
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver

    def work() -> int:
        config: Any = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
        state: Messages = []
        with SqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
            for step, message in enumerate(messages):
                state.append(message)
                checkpoint = empty_checkpoint()
                checkpoint["channel_values"] = {"messages": list(state)}
                checkpoint["channel_versions"] = {"messages": step + 1}
                metadata: Any = {"source": "loop", "step": step, "parents": {}}
                config = saver.put(config, checkpoint, metadata, {"messages": step + 1})
        return len(state)

    return work


def langgraph_load(_: Messages, folder: Path) -> Callable[[], int]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    def work() -> int:
        config: Any = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
        with SqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
            found = saver.get_tuple(config)
            assert found is not None
            return len(found.checkpoint["channel_values"]["messages"])

    return work


def json_append(messages: Messages, folder: Path) -> Callable[[], int]:
    """The loop everyone writes first: ``json.dumps``, append, flush."""

    def work() -> int:
        with (folder / "plain.jsonl").open("a") as out:
            for message in messages:
                out.write(json.dumps(message) + "\n")
                out.flush()
        return len(messages)

    return work


def json_load(_: Messages, folder: Path) -> Callable[[], int]:
    def work() -> int:
        with (folder / "plain.jsonl").open() as lines:
            return len([json.loads(line) for line in lines])

    return work


def simdjson_check(_: Messages, folder: Path) -> Callable[[], int]:
    """A floor: simdjson walks every line of a session and builds nothing."""
    import simdjson  # type: ignore[import-not-found]

    parser = simdjson.Parser()

    def work() -> int:
        count = 0
        with (folder / "session.jsonl").open("rb") as lines:
            for line in lines:
                parsed = parser.parse(line)
                count += 1
                del parsed
        return count

    return work


OPS: dict[str, Callable[[Messages, Path], Callable[[], int]]] = {
    "agents-append": agents_append,
    "agents-load": agents_load,
    "langgraph-append": langgraph_append,
    "langgraph-load": langgraph_load,
    "json-append": json_append,
    "json-load": json_load,
    "simdjson-check": simdjson_check,
}


def main() -> None:
    op, given = sys.argv[1:3]
    args = json.loads(given)
    folder = Path(args["folder"])
    messages: Messages = []
    if op.endswith("-append"):
        lines = Path(args["messages"]).read_bytes().splitlines()[: args["count"]]
        messages = [json.loads(line) for line in lines]
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.iterdir():
            left.unlink()
    work = OPS[op](messages, folder)
    started = time.perf_counter()
    count = work()
    elapsed_ms = (time.perf_counter() - started) * 1_000
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    on_disk = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())
    info = {"count": count, "bytes": on_disk}
    print(json.dumps({"ms": elapsed_ms, "hwm_kb": int(peak), "info": info}))


if __name__ == "__main__":
    main()
