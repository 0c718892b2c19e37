"""Sessions of other agents for tests, written by hand where those agents keep them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Record = dict[str, Any]
START = "2026-01-01T09:00:0{}.000Z"


def write_lines(path: Path, records: list[Record]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records))
    return path


def claude_prompt(text: str, number: int = 1, **fields: Any) -> Record:
    return _claude("user", {"role": "user", "content": text}, number, fields)


def claude_answer(text: str, number: int = 2, **fields: Any) -> Record:
    message = {
        "role": "assistant",
        "id": fields.pop("answer", f"msg_{number}"),
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": fields.pop("usage", {"input_tokens": 10, "output_tokens": 5}),
    }
    return _claude("assistant", message, number, fields)


def claude_output(text: str, number: int = 3, **fields: Any) -> Record:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": text}
    return _claude("user", {"role": "user", "content": [block]}, number, fields)


def _claude(kind: str, message: Record, number: int, fields: Record) -> Record:
    made = {
        "type": kind,
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number > 1 else None,
        "sessionId": "s",
        "cwd": "/srv/shop",
        "timestamp": START.format(number % 10),
        "isSidechain": False,
        "message": message,
    }
    return made | fields


def put_claude(home: Path, session_id: str, *records: Record, project: str = "-srv-shop") -> Path:
    """A transcript of Claude Code."""
    path = home / ".claude" / "projects" / project / f"{session_id}.jsonl"
    return write_lines(path, [{**each, "sessionId": session_id} for each in records])


def put_subagent(home: Path, session_id: str, name: str, *records: Record) -> Path:
    """A subagent's transcript of that session."""
    folder = home / ".claude" / "projects" / "-srv-shop" / session_id / "subagents"
    made = [{**each, "sessionId": session_id, "isSidechain": True} for each in records]
    return write_lines(folder / f"agent-{name}.jsonl", made)


def put_codex(home: Path, session_id: str, *said: tuple[str, str], cwd: str = "/srv/shop") -> Path:
    """A rollout of Codex: prompts, answers and outputs by ``user``, ``assistant``, ``tool``."""
    meta = {"id": session_id, "timestamp": START.format(0), "cwd": cwd, "model_provider": "openai"}
    records = [_codex("session_meta", meta)]
    for number, (role, text) in enumerate(said):
        if role == "tool":
            call = {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"}
            printed = {"type": "function_call_output", "call_id": "c", "output": text}
            records += [_codex("response_item", call), _codex("response_item", printed)]
            continue
        kind = "input_text" if role == "user" else "output_text"
        item = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        shown = {"type": f"{'user' if role == 'user' else 'agent'}_message", "message": text}
        both = [_codex("response_item", item, number), _codex("event_msg", shown, number)]
        records += both
    folder = home / ".codex" / "sessions" / "2026" / "01" / "01"
    return write_lines(folder / f"rollout-2026-01-01T09-00-00-{session_id}.jsonl", records)


def _codex(kind: str, payload: Record, number: int = 0) -> Record:
    return {"timestamp": START.format(number % 10), "type": kind, "payload": payload}
