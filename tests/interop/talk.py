"""A short conversation for tests that state a difference, as steps and as lines of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .living import Peer
from .ours import read_session
from .scripts import Step


def user(text: str, at: int = 1) -> Step:
    return {"do": "message", "message": {"role": "user", "content": text, "timestamp": at}}


def assistant(text: str, at: int = 2) -> Step:
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": {
            "input": 1,
            "output": 1,
            "cacheRead": 0,
            "cacheWrite": 0,
            "totalTokens": 2,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
        },
        "stopReason": "stop",
        "timestamp": at,
    }
    return {"do": "message", "message": message}


def talk(turns: int) -> list[Step]:
    """Questions and answers; 2 messages a turn."""
    steps = []
    for n in range(turns):
        steps += [user(f"question {n}", 10 * n + 1), assistant(f"answer {n}", 10 * n + 2)]
    return steps


def texts(messages: list[dict[str, Any]]) -> list[str]:
    found = []
    for message in messages:
        content = message.get("content")
        found.append(content if isinstance(content, str) else content[0]["text"] if content else "")
    return found


def their_texts(peer: Peer, file: Path) -> list[str]:
    return texts(peer.ask("read", file=file)["context"]["messages"])


def our_texts(file: Path, peer: Peer) -> list[str]:
    return texts(read_session(file, peer.name)["messages"])


ALL_SIX = ["question 0", "answer 0", "question 1", "answer 1", "question 2", "answer 2"]


def entry_line(number: int, parent: str | None, role: str, text: str, entry_id: str = "") -> str:
    message: dict[str, Any] = {"role": role, "content": text, "timestamp": number}
    if role == "assistant":
        message = {**assistant(text, number)["message"]}
    entry = {
        "type": "message",
        "id": entry_id or f"{number:08x}",
        "parentId": parent,
        "timestamp": f"2026-02-16T10:20:{number:02d}.000Z",
        "message": message,
    }
    return json.dumps(entry)


def header_line(project: Path, **more: Any) -> str:
    header = {
        "type": "session",
        "version": 3,
        "id": "01a1e358-b45b-743b-a9ce-1b7cb8d02105",
        "timestamp": "2026-02-16T10:20:00.000Z",
        "cwd": str(project),
    }
    return json.dumps({**header, **more})


def write_lines(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines))
    return path
