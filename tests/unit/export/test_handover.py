"""A session of any agent, written where Claude Code or Codex finds it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.agent_samples import claude_answer, claude_prompt, put_claude

from sessiontree import SessionManager
from sessiontree.discovery.adapters import places
from sessiontree.errors import NotASessionError, PersistenceError
from sessiontree.export.handover import HANDOVER_AGENTS, HandoverReport, hand_over
from sessiontree.export.view import SessionView, view_of
from sessiontree.importers.foreign import load_foreign
from sessiontree.model.messages import text_of
from sessiontree.scope import choose_scope

START = 1_790_000_000_000
PICTURE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
both = pytest.mark.parametrize("agent", HANDOVER_AGENTS)


def answer(*blocks: dict[str, Any], at: int) -> dict[str, Any]:
    usage = {"input": 7, "output": 3, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 10}
    return {
        "role": "assistant", "content": list(blocks), "api": "x", "provider": "x", "model": "m",
        "usage": usage, "stopReason": "stop", "timestamp": START + at,
    }  # fmt: skip


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def call(call_id: str, name: str = "read") -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": {"path": "a.py"}}


def result(call_id: str, said: str, at: int, **more: Any) -> dict[str, Any]:
    return {
        "role": "toolResult", "toolCallId": call_id, "toolName": "read", "isError": False,
        "content": [text(said)], "timestamp": START + at, **more,
    }  # fmt: skip


def make(cwd: Path, *messages: Mapping[str, Any]) -> SessionManager:
    session = SessionManager.create(str(cwd))
    for message in messages:
        session.append_message(dict(message))
    return session


def give(session: SessionManager, agent: str, **options: Any) -> HandoverReport:
    return hand_over(view_of(session), agent, source_agent="sessiontree", **options)


def said(report: HandoverReport) -> list[tuple[str, str]]:
    messages = load_foreign(report.path).build_session_context().messages
    return [(message["role"], text_of(message.get("content"))) for message in messages]


@both
def test_the_conversation_arrives(home: Path, tmp_path: Path, agent: str) -> None:
    with make(
        tmp_path,
        {"role": "user", "content": [text("Look"), PICTURE], "timestamp": START},
        answer(text("Looking."), call("a|b", "mcp.read"), call("a|b"), at=1),
        result("a|b", "one", 2),
        result("a|b", "two", 3, isError=True),
        answer({"type": "thinking", "thinking": "hm"}, text("Done."), at=4),
    ) as session:
        report = give(session, agent)
    assert report.path.startswith(str(home))
    assert said(report) == [
        ("user", "Look"),
        ("assistant", "Looking."),
        ("toolResult", "one"),
        ("toolResult", "two"),
        ("assistant", "Done."),
    ]
    messages = load_foreign(report.path).build_session_context().messages
    calls = [block for block in messages[1]["content"] if block["type"] == "toolCall"]
    assert [block["arguments"] for block in calls] == [{"path": "a.py"}] * 2
    assert all(re.fullmatch("[0-9A-Za-z_-]+", block["id"] + block["name"]) for block in calls)
    assert {block["id"] for block in calls} == {each["toolCallId"] for each in messages[2:4]}
    assert messages[0]["content"][1] == PICTURE
    assert report.lines() == ["left out: the model's thinking (1)"]


@both
def test_it_is_the_same_session_and_was_paid_for_once(
    home: Path, tmp_path: Path, agent: str
) -> None:
    with make(
        tmp_path, {"role": "user", "content": "hi", "timestamp": START}, answer(text("Yes."), at=1)
    ) as session:
        source, report = session.session_file, give(session, agent)
    found = SessionManager.list_all(agents="all")
    assert {info.path: info.copy_of for info in found} == {source: None, report.path: source}
    assert choose_scope().reaching("all", agents="all").usage().total.total_tokens == 10


@both
def test_what_the_model_no_longer_sees_stays_behind(home: Path, tmp_path: Path, agent: str) -> None:
    with make(
        tmp_path, {"role": "user", "content": "old", "timestamp": START}, answer(text("past"), at=1)
    ) as session:
        first = session.get_branch()[0].id
        kept = session.append_message({"role": "user", "content": "kept", "timestamp": START + 2})
        session.append_compaction("They spoke of old.", kept, 10)
        session.append_message(answer(text("new"), at=3))
        left = session.leaf_id
        session.branch(first)
        session.append_message(answer(text("elsewhere"), at=4))
        session.branch(str(left))
        report = give(session, agent)
    conversation = said(report)
    assert "They spoke of old." in conversation[0][1]
    assert conversation[1:] == [("user", "kept"), ("assistant", "new")]
    assert report.lines() == ["left out: 1 of other branches"]
    lines = [json.loads(line) for line in Path(report.path).read_text().splitlines()]
    stamps = [line["timestamp"] for line in lines if "timestamp" in line]
    assert stamps == sorted(stamps)
    assert stamps[0] == "2026-09-21T14:13:20.002Z"  # not when the summary was written


@both
def test_the_name_and_another_project(home: Path, tmp_path: Path, agent: str) -> None:
    with make(tmp_path, {"role": "user", "content": "hi", "timestamp": START}) as session:
        session.append_message(answer(text("Yes."), at=1))
        session.set_session_name("Greeting")
        report = give(session, agent, cwd=tmp_path / "other", home=tmp_path / "elsewhere")
    assert report.path.startswith(str(tmp_path / "elsewhere"))
    document = load_foreign(report.path)
    assert document.cwd == str(tmp_path / "other")
    assert document.title == ("Greeting" if agent == "claude-code" else None)
    assert os.stat(report.path).st_mode & 0o077 == 0


def test_between_the_two(home: Path) -> None:
    path = put_claude(home, "1" * 8, claude_prompt("hello"), claude_answer("world"))
    before = path.read_bytes()
    document = load_foreign(path)
    with make(home) as empty:
        view = SessionView(
            document.header, document.title, str(path), document.tree, document.get_branch()
        )
        there = hand_over(view, "codex", source_agent="claude-code")
        with pytest.raises(NotASessionError, match="no messages"):
            give(empty, "codex")
    assert said(there) == [("user", "hello"), ("assistant", "world")]
    assert path.read_bytes() == before


def test_nothing_is_written_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uuid.uuid4", lambda: "00000000-0000-4000-8000-000000000000")
    project = home / "p"
    with make(project, {"role": "user", "content": "hi"}, answer(text("a"), at=1)) as session:
        folder = home / ".claude" / "projects" / places.claude_project_name(str(project))
        folder.mkdir(parents=True)
        theirs = folder / "00000000-0000-4000-8000-000000000000.jsonl"
        theirs.write_text("theirs")
        with pytest.raises((PersistenceError, AttributeError)):
            give(session, "claude-code")
    assert theirs.read_text() == "theirs"


def test_project_names_are_claude_codes(tmp_path: Path) -> None:
    """What its SDK makes of the same paths (claude-agent-sdk 0.2.184)."""
    from claude_agent_sdk._internal.sessions import _sanitize_path

    for path in ("/srv/shop-a.b_c", "/" + "x" * 300, "/" + "ä/" * 150):
        assert places.claude_project_name(path) == _sanitize_path(os.path.realpath(path))
    assert places.claude_project_name("/srv/🦓") == "-srv---"  # two UTF-16 units
