"""Pieces of sessions for tests: messages, entries, headers, and whole files written by hand.

Written from the reference documents, not with the code under test: plain dictionaries and ``json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sessiontree import SessionManager

Wire = dict[str, Any]

TIME = "2026-02-16T10:20:30.000Z"
TIME_MS = 1_771_237_230_000
SESSION_ID = "1f9d2a6b9c0d1234"


def header(**fields: Any) -> Wire:
    """A version 3 header; a field given as None is left out."""
    made = {
        "type": "session",
        "version": 3,
        "id": SESSION_ID,
        "timestamp": TIME,
        "cwd": "/work/pi",
        **fields,
    }
    return {key: value for key, value in made.items() if value is not None}


def slot(title: str, source: str | None = "auto", size: int = 256) -> bytes:
    """omp's title slot: one line of exactly ``size`` bytes."""
    fields: Wire = {"type": "title", "v": 1, "title": title}
    if source is not None:
        fields["source"] = source
    fields["updatedAt"] = TIME
    bare = len(dump({**fields, "pad": ""})) + 1
    return dump({**fields, "pad": " " * (size - bare)}) + b"\n"


def user(text: object = "hello", **fields: Any) -> Wire:
    return {"role": "user", "content": text, "timestamp": TIME_MS, **fields}


def assistant(text: str = "hi", **fields: Any) -> Wire:
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": {
            "input": 100,
            "output": 20,
            "cacheRead": 0,
            "cacheWrite": 0,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
        },
        "stopReason": "stop",
        "timestamp": TIME_MS,
        **fields,
    }


def calling(*call_ids: str, **fields: Any) -> Wire:
    """An assistant message that calls a tool under each of these ids."""
    blocks = [
        {"type": "toolCall", "id": call_id, "name": "bash", "arguments": {"command": "ls"}}
        for call_id in call_ids
    ]
    return assistant(content=blocks, stopReason="toolUse", **fields)


def result(call_id: str, text: str = "done", **fields: Any) -> Wire:
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": "bash",
        "content": [{"type": "text", "text": text}],
        "isError": False,
        "timestamp": TIME_MS,
        **fields,
    }


def entry(entry_type: str, entry_id: str, parent_id: str | None, **fields: Any) -> Wire:
    return {
        "type": entry_type,
        "id": entry_id,
        "parentId": parent_id,
        "timestamp": TIME,
        **fields,
    }


def message(entry_id: str, parent_id: str | None, content: Wire | None = None) -> Wire:
    made = user(entry_id) if content is None else content
    return entry("message", entry_id, parent_id, message=made)


def chain(*contents: Wire, start: str = "a") -> list[Wire]:
    """Message entries ``a1``, ``a2``, … each the child of the one before."""
    made = []
    parent: str | None = None
    for number, content in enumerate(contents, 1):
        made.append(message(f"{start}{number}", parent, content))
        parent = f"{start}{number}"
    return made


def dump(record: object) -> bytes:
    """One JSON text as JavaScript agents write it: compact, not escaped."""
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )


def lines(*records: Wire | bytes) -> bytes:
    """A file of these records; bytes stand as they are, with their own newline or without."""
    return b"".join(
        record if isinstance(record, bytes) else dump(record) + b"\n" for record in records
    )


def write(path: Path, *records: Wire | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(*records))
    return path


def read(path: Path | str) -> list[Any]:
    """Every line of a file, parsed strictly."""
    data = Path(path).read_bytes()
    assert data.endswith(b"\n"), "the last line has no newline"
    return [json.loads(line) for line in data.splitlines()]


def texts(messages: Iterable[Wire]) -> list[str]:
    """What each message says, in one string each."""
    said = []
    for item in messages:
        content = item.get("content", item.get("summary"))
        if isinstance(content, list):
            content = "".join(block.get("text", f"<{block.get('type')}>") for block in content)
        said.append(str(content))
    return said


def text_of(message: Wire) -> str:
    """The text of a message or a tool's result: its text blocks, joined."""
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def said(session: SessionManager) -> list[str]:
    """What the model would see of the session, in one string for each message."""
    return texts(session.build_session_context().messages)


def with_artifacts(session: SessionManager) -> SessionManager:
    """The session after one turn, with a file in its artifact folder."""
    session.append_message(user("1"))
    session.append_message(assistant("2"))
    artifacts = Path(str(session.artifacts_dir))
    artifacts.mkdir()
    (artifacts / "todo.json").write_text("{}")
    return session


TALK = chain(user("1"), assistant("2"), user("3"), assistant("4"))
"""The message entries ``a1`` to ``a4``."""
ONE_TURN = TALK[:2]
ASKED = TALK[:3]
