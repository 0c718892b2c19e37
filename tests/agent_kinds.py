"""A session of each agent that is described by its turns, all of one story, to test them alike.

Someone asks ("Add a price column"), the agent looks (``bash``, whose output says "zebra"), answers
("Done with the walrus"); the session is named or not, and grows by a question and an answer with
the word "narwhal".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.agent_databases import (
    GooseDatabase,
    HermesDatabase,
    OpenCodeDatabase,
    Record,
    goose_call,
    goose_result,
    hermes_call,
    opencode_call,
    opencode_step,
)
from tests.agent_samples import START, write_lines

PROMPT = "Add a price column"
CWD = "/srv/shop"


def at(number: int) -> str:
    return START.format(number % 10)


def append_lines(path: Path, records: list[Record]) -> None:
    with path.open("ab") as file:
        file.write("".join(json.dumps(each) + "\n" for each in records).encode())


@dataclass
class Sample:
    """What is known of the session made, and how it grows."""

    id: str
    path: Path
    grow: Callable[[], None]
    command: list[str]
    roots: list[Path]
    """The agent's files and folders: none of them may change."""
    title: str | None = None
    tokens: tuple[int, int, int, int] | None = None
    """Input, output, read from and written to the cache."""
    model: str | None = None
    messages: int = 4
    kept: list[str] = field(default_factory=list)
    """Kinds of records that an import keeps as custom entries."""


def make_opencode(home: Path) -> Sample:
    database = OpenCodeDatabase(home)
    own = database.session("ses_1", title="Price column")
    database.prompt(own, PROMPT)
    start, finish = opencode_step("tool-calls")
    call = opencode_call("bash", {"command": "ls"}, "shop.py zebra")
    thought = {"type": "reasoning", "text": "First a look.", "time": {"start": 1}}
    said = {"type": "text", "text": "Looking."}
    database.answer(own, start, thought, said, call, finish, {"type": "strange", "x": [1]})
    start, finish = opencode_step()
    database.answer(own, start, {"type": "text", "text": "Done with the walrus."}, finish)
    database.close()

    def grow() -> None:
        again = OpenCodeDatabase(home)
        again.connection.execute("BEGIN")
        again._count, again._at_ms = 50, again._at_ms + 60_000
        again.prompt(own, "And a narwhal?")
        again.answer(own, {"type": "text", "text": "A narwhal, too."})
        again.connection.execute("COMMIT")
        again.close()

    return Sample(
        own,
        database.path / own,
        grow,
        ["opencode", "--session", own],
        [database.path.parent],
        title="Price column",
        tokens=(200, 50, 600, 80),
        model="anthropic/claude-sonnet-4-5",
        kept=["strange"],
    )


GEMINI_ID = "5f2c81d0-0000-4000-8000-000000000001"
QWEN_ID = "5f2c81d0-0000-4000-8000-000000000002"


def gemini_file(home: Path) -> Path:
    folder = home / ".gemini" / "tmp" / "shop" / "chats"
    return folder / f"session-2026-01-01T09-00-{GEMINI_ID[:8]}.jsonl"


def gemini_head() -> Record:
    return {
        "sessionId": GEMINI_ID,
        "projectHash": "0" * 64,
        "startTime": at(0),
        "lastUpdated": at(0),
        "kind": "main",
    }


def gemini_message(number: int, kind: str, content: object, **fields: object) -> Record:
    made = {"id": f"m{number}", "timestamp": at(number), "type": kind, "content": content}
    return {**made, **fields}


def gemini_answer(number: int, content: object, **fields: object) -> Record:
    tokens = {"input": 400, "output": 15, "cached": 300, "thoughts": 5, "tool": 0, "total": 420}
    made = {"thoughts": [], "tokens": tokens, "model": "gemini-3-pro"}
    return gemini_message(number, "gemini", content, **{**made, **fields})


def gemini_call(output: str) -> Record:
    response = {"id": "call_1", "name": "bash", "response": {"output": output}}
    return {
        "id": "call_1",
        "name": "bash",
        "args": {"command": "ls"},
        "result": [{"functionResponse": response}],
        "status": "success",
        "timestamp": at(2),
        "displayName": "Shell",
    }


def make_gemini(home: Path) -> Sample:
    path = gemini_file(home)
    looked = gemini_answer(2, "Looking.", thoughts=[{"subject": "A look", "description": "first"}])
    write_lines(
        path,
        [
            gemini_head(),
            gemini_message(1, "user", [{"text": PROMPT}]),
            gemini_answer(2, "Looking.", tokens=None),
            {**looked, "tokens": None},
            looked,
            {**looked, "toolCalls": [gemini_call("shop.py zebra")]},
            {"$set": {"lastUpdated": at(3)}},
            gemini_answer(4, [{"text": "Done with the walrus."}]),
            gemini_message(5, "info", "Something happened"),
            {"$set": {"summary": "Price column", "lastUpdated": at(6)}},
        ],
    )
    (path.parent.parent / ".project_root").write_text(CWD)

    def grow() -> None:
        more = [
            gemini_message(7, "user", [{"text": "And a narwhal?"}]),
            gemini_answer(8, "A narwhal, too."),
        ]
        append_lines(path, more)

    return Sample(
        GEMINI_ID,
        path,
        grow,
        ["gemini", "--resume", GEMINI_ID],
        [home / ".gemini"],
        title="Price column",
        tokens=(200, 40, 600, 0),
        model="google/gemini-3-pro",
        kept=["info"],
    )


def qwen_record(number: int, kind: str, parts: list[Record] | None, **fields: object) -> Record:
    made: Record = {
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number > 1 else None,
        "sessionId": QWEN_ID,
        "timestamp": at(number),
        "type": kind,
        "cwd": CWD,
        "version": "0.24.0",
    }
    if parts is not None:
        made["message"] = {"role": "model" if kind == "assistant" else "user", "parts": parts}
    return {**made, **fields}


def qwen_answer(number: int, *parts: Record, **fields: object) -> Record:
    counts = {
        "promptTokenCount": 400,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 5,
        "cachedContentTokenCount": 300,
        "totalTokenCount": 420,
    }
    made = {"model": "qwen3-coder-plus", "usageMetadata": counts}
    return qwen_record(number, "assistant", list(parts), **{**made, **fields})


def qwen_path(home: Path) -> Path:
    return home / ".qwen" / "projects" / "-srv-shop" / "chats" / f"{QWEN_ID}.jsonl"


def make_qwen(home: Path) -> Sample:
    path = qwen_path(home)
    call = {"functionCall": {"id": "call_1", "name": "bash", "args": {"command": "ls"}}}
    response = {"id": "call_1", "name": "bash", "response": {"output": "shop.py zebra"}}
    title = {"customTitle": "Price column", "titleSource": "manual"}
    telemetry = {"uiEvent": {"event.name": "qwen-code.api_response"}}
    write_lines(
        path,
        [
            qwen_record(1, "user", [{"text": PROMPT}]),
            qwen_answer(2, {"text": "A look first.", "thought": True}, {"text": "Looking."}, call),
            qwen_record(
                3,
                "tool_result",
                [{"functionResponse": response}],
                toolCallResult={"callId": "call_1", "status": "success", "resultDisplay": "shown"},
            ),
            qwen_answer(4, {"text": "Done with the walrus."}),
            qwen_record(5, "system", None, subtype="custom_title", systemPayload=title),
            qwen_record(6, "system", None, subtype="ui_telemetry", systemPayload=telemetry),
        ],
    )

    def grow() -> None:
        more = [
            qwen_record(7, "user", [{"text": "And a narwhal?"}]),
            qwen_answer(8, {"text": "A narwhal, too."}),
        ]
        append_lines(path, more)

    return Sample(
        QWEN_ID,
        path,
        grow,
        ["qwen", "--resume", QWEN_ID],
        [home / ".qwen"],
        title="Price column",
        tokens=(200, 40, 600, 0),
        model="qwen/qwen3-coder-plus",
        kept=["ui_telemetry"],
    )


COPILOT_ID = "5f2c81d0-0000-4000-8000-000000000003"


class CopilotEvents:
    """Write a session's events, each linked to the one before it."""

    def __init__(self, home: Path) -> None:
        self.path = home / ".copilot" / "session-state" / COPILOT_ID / "events.jsonl"
        self._count = 0

    def event(self, kind: str, data: Record, **fields: object) -> Record:
        self._count += 1
        before = f"e{self._count - 1}" if self._count > 1 else None
        made = {"type": kind, "data": data, "id": f"e{self._count}", "parentId": before}
        return {**made, "timestamp": at(self._count // 4), **fields}

    def start(self) -> Record:
        return self.event(
            "session.start",
            {
                "sessionId": COPILOT_ID,
                "version": 1,
                "producer": "copilot-agent",
                "copilotVersion": "1.0.102",
                "startTime": at(0),
                "selectedModel": "gpt-5.2",
                "context": {"cwd": CWD},
            },
        )

    def prompt(self, text: str, **fields: object) -> Record:
        return self.event("user.message", {"content": text, "transformedContent": f"<x>{text}"},
                          **fields)  # fmt: skip

    def used(self, **fields: object) -> Record:
        usage = {"model": "gpt-5.2", "inputTokens": 400, "outputTokens": 20, "reasoningTokens": 5}
        more = {"cacheReadTokens": 300, "cacheWriteTokens": 0, "cost": 0.0}
        return self.event("session.usage_record", {"usage": {**usage, **more}}, **fields)

    def answer(self, text: str, *calls: Record, **fields: object) -> Record:
        data: Record = {"content": text, "toolRequests": list(calls), "model": "gpt-5.2"}
        for key in ("reasoningText", "outputTokens"):
            if key in fields:
                data[key] = fields.pop(key)
        return self.event("assistant.message", data, **fields)

    def result(self, call_id: str, output: str, **fields: object) -> Record:
        data = {"toolCallId": call_id, "success": True, "result": {"content": output}}
        return self.event("tool.execution_complete", {**data, **fields})


def copilot_call(name: str = "bash", call_id: str = "call_1", **arguments: object) -> Record:
    return {"toolCallId": call_id, "name": name, "arguments": arguments, "type": "function"}


def make_copilot(home: Path) -> Sample:
    events = CopilotEvents(home)
    write_lines(
        events.path,
        [
            events.start(),
            events.prompt(PROMPT),
            events.event("system.message", {"role": "system", "content": "You are a CLI."}),
            events.event("assistant.turn_start", {"turnId": "0"}),
            events.used(),
            events.answer("Looking.", copilot_call(command="ls"), reasoningText="A look first."),
            events.event("tool.execution_start", {"toolCallId": "call_1", "toolName": "bash"}),
            events.result("call_1", "shop.py zebra"),
            events.used(),
            events.answer("Done with the walrus."),
            events.event("session.shutdown", {"accountingSnapshot": {"modelMetrics": {}}}),
        ],
    )
    names = f"id: {COPILOT_ID}\ncwd: {CWD}\nname: Price column\nuser_named: false\n"
    (events.path.parent / "workspace.yaml").write_text(names)

    def grow() -> None:
        append_lines(
            events.path,
            [events.prompt("And a narwhal?"), events.used(), events.answer("A narwhal, too.")],
        )

    return Sample(
        COPILOT_ID,
        events.path,
        grow,
        ["copilot", f"--resume={COPILOT_ID}"],
        [home / ".copilot"],
        title="Price column",
        tokens=(200, 40, 600, 0),
        model="github-copilot/gpt-5.2",
        kept=["system.message"],
    )


def make_goose(home: Path) -> Sample:
    database = GooseDatabase(home)
    own = database.session("20260101_1", name="Price column")
    database.say(own, "user", PROMPT)
    thought = {"type": "thinking", "thinking": "A look first.", "signature": "s"}
    said = {"type": "text", "text": "Looking."}
    asked = {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "x"}
    database.message(own, "assistant", thought, said, goose_call("c1", "bash", command="ls"), asked)
    database.used(own)
    printed = {"type": "text", "text": "shop.py zebra", "annotations": {"audience": ["assistant"]}}
    shown = {"type": "text", "text": "for the eyes", "annotations": {"audience": ["user"]}}
    database.message(own, "user", goose_result("c1", printed, shown))
    database.say(own, "assistant", "Done with the walrus.")
    database.used(own)
    database.close()

    def grow() -> None:
        again = GooseDatabase(home)
        again.connection.execute("BEGIN")
        again.say(own, "user", "And a narwhal?")
        again.say(own, "assistant", "A narwhal, too.")
        again.used(own)
        again.connection.execute("COMMIT")
        again.close()

    return Sample(
        own,
        database.path / own,
        grow,
        ["goose", "session", "--resume", "--session-id", own],
        [database.path.parent],
        title="Price column",
        tokens=(200, 40, 600, 80),
        model="anthropic/claude-sonnet-4-5",
        kept=["systemNotification"],
    )


def make_hermes(home: Path) -> Sample:
    database = HermesDatabase(home)
    own = database.session("20260101_090000_a1b2c3", title="Price column")
    database.message(own, "session_meta", "tools changed")
    database.message(own, "user", PROMPT)
    calls = hermes_call("c1", "bash", command="ls")
    database.message(own, "assistant", "Looking.", tool_calls=calls, reasoning="A look first.")
    database.message(own, "tool", "shop.py zebra", tool_call_id="c1", tool_name="bash")
    database.message(own, "assistant", "Done with the walrus.", finish_reason="stop")
    database.used(own)
    database.close()

    def grow() -> None:
        again = HermesDatabase(home)
        again.connection.execute("BEGIN")
        again.message(own, "user", "And a narwhal?")
        again.message(own, "assistant", "A narwhal, too.")
        again.connection.execute("COMMIT")
        again.close()

    return Sample(
        own,
        database.path / own,
        grow,
        ["hermes", "--resume", own],
        [database.path.parent],
        title="Price column",
        tokens=(200, 40, 600, 80),
        model="anthropic/claude-sonnet-4-5",
        kept=["session_meta"],
    )


KINDS: dict[str, Callable[[Path], Sample]] = {
    "copilot-cli": make_copilot,
    "gemini-cli": make_gemini,
    "goose": make_goose,
    "hermes": make_hermes,
    "opencode": make_opencode,
    "qwen-code": make_qwen,
}
