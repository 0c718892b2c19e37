"""A session that is imported early, and again when it has grown, is what one import makes of it.

The transcripts are made up, with what real ones have: answers in parts, parallel calls, records out
of order, rewinds, copies of history, subagents, notes, compactions; events without items, and token
counts in all the places where versions of Codex have put them.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.errors import NotASessionError
from sessiontree.importers.imports import ImportReport, import_session
from sessiontree.model.entries import is_answer
from sessiontree.model.messages import text_of
from sessiontree.session.manager import SessionManager
from sessiontree.storage.memory import MemorySessionStorage

Record = dict[str, Any]
SESSION = "5f2c81d0-0000-4000-8000-000000000000"


class ClaudeWriter:
    """Writes a transcript as Claude Code would, in a conversation that takes odd turns."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.leaf: str | None = None
        self.pending: list[tuple[str, str]] = []
        self.count = 0

    def stamp(self) -> str:
        self.count += 1
        return f"2026-03-01T10:{self.count // 60 % 60:02d}:{self.count % 60:02d}.000Z"

    def add(self, kind: str, parent: str | None, **fields: Any) -> str:
        stamp = self.stamp()
        uuid = f"u{self.count}"
        base = {"type": kind, "uuid": uuid, "parentUuid": parent, "timestamp": stamp}
        self.records.append({**base, "sessionId": SESSION, "cwd": "/srv/shop", **fields})
        return uuid

    def prompt(self, choice: int) -> None:
        texts = [
            "Add a column",
            "<ide_opened_file>The user opened a.py</ide_opened_file>\nWhat is this?",
            "<command-name>/review</command-name><command-args>12</command-args>",
            "continue",
        ]
        message = {"role": "user", "content": texts[choice % len(texts)]}
        self.leaf = self.add("user", self.leaf, message=message)

    def answer(self, choice: int) -> None:
        message_id, at = f"msg{self.count}", self.leaf
        blocks: list[Record] = [{"type": "text", "text": f"answer {self.count}"}]
        if choice % 3:
            blocks.insert(0, {"type": "thinking", "thinking": "hm", "signature": "s"})
        for number in range(choice % 4):
            call_id = f"toolu{self.count}_{number}"
            blocks.append({"type": "tool_use", "id": call_id, "name": "Bash", "input": {}})
        for number, block in enumerate(blocks):
            usage = {"input_tokens": 10, "output_tokens": 3 + number}
            body = {"role": "assistant", "id": message_id, "model": "claude-x", "usage": usage}
            at = self.add("assistant", at, message={**body, "content": [block]})
            if block["type"] == "tool_use":
                self.pending.append((block["id"], at))
        self.leaf = at

    def result(self, choice: int) -> None:
        if not self.pending:
            return
        call_id, at = self.pending.pop(choice % len(self.pending))
        block = {"type": "tool_result", "tool_use_id": call_id, "content": "ok"}
        uuid = self.add("user", at, message={"role": "user", "content": [block]})
        if choice % 2:
            self.leaf = uuid

    def note(self, choice: int) -> None:
        self.records.append({"type": "queue-operation", "operation": choice % 2})
        if choice % 3 == 0:
            self.records[-1]["timestamp"] = self.stamp()

    def title(self, choice: int) -> None:
        self.records.append({"type": "ai-title", "aiTitle": f"Title {choice}"})

    def system(self, choice: int) -> None:
        self.leaf = self.add("system", self.leaf, subtype="informational", content=str(choice))

    def queued(self, choice: int) -> None:
        attachment = {"type": "queued_command", "prompt": f"also {choice}"}
        self.leaf = self.add("attachment", self.leaf, attachment=attachment)

    def shell(self, _: int) -> None:
        for text in ("<bash-input>ls</bash-input>", "<bash-stdout>a</bash-stdout>"):
            message = {"role": "user", "content": text}
            if text.startswith("<bash-stdout>"):
                message["content"] += "<bash-stderr></bash-stderr>"
            self.leaf = self.add("user", self.leaf, message=message)

    def rewind(self, choice: int) -> None:
        asked = [record for record in self.records if record["type"] == "user"]
        if asked:
            self.leaf = asked[choice % len(asked)]["parentUuid"]
            self.pending.clear()

    def copy(self, choice: int) -> None:
        """History once more, under new uuids."""
        said = [r for r in self.records if "uuid" in r and r["type"] in ("user", "assistant")]
        renamed: dict[str | None, str] = {}
        for record in said[: 1 + choice % 6]:
            parent = renamed.get(record["parentUuid"])
            uuid = self.add(record["type"], parent, message=record["message"])
            renamed[record["uuid"]] = uuid
            self.leaf = uuid
        self.pending.clear()

    def swap(self, _: int) -> None:
        """The last two records reached the file the other way round."""
        self.records[-2:] = self.records[:-3:-1]

    def sidechain(self, choice: int) -> None:
        agent = f"a{choice % 2}"
        message = {"role": "user", "content": "explore"}
        at = self.add("user", None, isSidechain=True, agentId=agent, message=message)
        body = {"role": "assistant", "id": f"sub{self.count}", "model": "claude-x"}
        usage = {"input_tokens": 1, "output_tokens": 1}
        said = {**body, "usage": usage, "content": [{"type": "text", "text": "found"}]}
        self.add("assistant", at, isSidechain=True, agentId=agent, message=said)

    def compaction(self, _: int) -> None:
        boundary = self.add("system", None, subtype="compact_boundary", logicalParentUuid=self.leaf)
        message = {"role": "user", "content": "Summary of all that."}
        self.leaf = self.add("user", boundary, isCompactSummary=True, message=message)

    def repeat(self, choice: int) -> None:
        if self.records:
            self.records.append(dict(self.records[choice % len(self.records)]))


class CodexWriter:
    """Writes a rollout as one version of Codex or another would."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.records: list[Record] = []
        meta = {"id": SESSION, "cwd": "/srv/shop", "model_provider": "openai"}
        self.add("session_meta", {**meta, "timestamp": "2026-03-01T10:00:00.000Z"})

    def add(self, kind: str, payload: Record) -> None:
        self.count += 1
        stamp = f"2026-03-01T10:{self.count // 60 % 60:02d}:{self.count % 60:02d}.000Z"
        self.records.append({"timestamp": stamp, "type": kind, "payload": payload})

    def item(self, kind: str, **fields: Any) -> None:
        self.add("response_item", {"type": kind, **fields})

    def event(self, kind: str, **fields: Any) -> None:
        self.add("event_msg", {"type": kind, **fields})

    def tokens(self, choice: int) -> None:
        """A count that is new, or the last one once more."""
        if choice % 3:
            self.total += 10
        total = {"input_tokens": self.total, "output_tokens": self.total}
        last = {"input_tokens": 10, "output_tokens": 10}
        info = {"total_token_usage": total, "last_token_usage": last}
        self.event("token_count", info=info)

    def turn(self, choice: int) -> None:
        self.event("task_started", turn_id=f"t{self.count}")
        self.add("turn_context", {"model": f"gpt-{choice % 2}", "effort": "high"})

    def prompt(self, choice: int) -> None:
        text = ["continue", "Add a price column to the shop", f"number {choice}"][choice % 3]
        content = [{"type": "input_text", "text": text}]
        if choice % 4:
            self.item("message", role="user", content=content)
        if choice % 5:
            self.event("user_message", message=text)

    def answer(self, choice: int) -> None:
        text = f"answer {self.count} of the model to the question"
        content = [{"type": "output_text", "text": text}]
        if choice % 2:
            self.event("agent_message", message=text)
        if choice % 7:
            self.item("message", role="assistant", content=content)
        if choice % 3:
            self.event("agent_message", message=text)

    def reasoning(self, choice: int) -> None:
        text = f"**thinking {self.count}**"
        if choice % 3:
            self.item("reasoning", summary=[{"type": "summary_text", "text": text}])
        if choice % 2:
            self.event("agent_reasoning", text=text)

    def call(self, choice: int) -> None:
        call_id = f"call{self.count}"
        self.item("function_call", name="shell", arguments="{}", call_id=call_id)
        if choice % 2:
            self.tokens(choice)
        if choice % 5:
            self.item("function_call_output", call_id=call_id, output="ok")

    def search(self, choice: int) -> None:
        action = {"type": "search", "query": f"query {choice % 3}"}
        if choice % 4:
            self.item("web_search_call", status="completed", action=action)
        if choice % 3:
            self.event("web_search_end", call_id=f"ws{self.count}", action=action)

    def note(self, choice: int) -> None:
        self.add("world_state", {"files": choice % 2})
        if choice % 2:
            del self.records[-1]["timestamp"]

    def abort(self, _: int) -> None:
        self.event("turn_aborted", reason="interrupted")

    def roll_back(self, choice: int) -> None:
        self.event("thread_rolled_back", num_turns=1 + choice % 2)

    def compaction(self, choice: int) -> None:
        self.add("compacted", {"message": "Summary." if choice % 3 else ""})

    def title(self, choice: int) -> None:
        self.event("thread_name_updated", thread_name=f"Title {choice}")


def transcripts(writer: type[Any], *actions: str) -> st.SearchStrategy[list[Record]]:
    step = st.tuples(st.sampled_from(actions), st.integers(0, 60))

    def write(steps: list[tuple[str, int]]) -> list[Record]:
        made = writer()
        for name, choice in steps:
            getattr(made, name)(choice)
        return list(made.records)

    return st.lists(step, min_size=1, max_size=14).map(write)


CLAUDE = transcripts(
    ClaudeWriter, "prompt", "answer", "answer", "result", "result", "note", "title", "system",
    "queued", "shell", "rewind", "copy", "swap", "sidechain", "compaction", "repeat",
)  # fmt: skip
CODEX = transcripts(
    CodexWriter, "turn", "prompt", "answer", "answer", "reasoning", "call", "call", "tokens",
    "search", "note", "abort", "roll_back", "compaction", "title",
)  # fmt: skip
NAMES = {
    "claude-code": f"{SESSION}.jsonl",
    "codex": f"rollout-2026-03-01T10-00-00-{SESSION}.jsonl",
}


def snapshot(path: str, storage: MemorySessionStorage) -> dict[str, Any]:
    """Everything of a session but the notes on its imports, and its name instead of all it had."""
    with SessionManager.open(path, storage=storage) as session:
        entries = {
            entry.id: entry.data
            for entry in session.get_entries()
            if entry.data.get("customType") != "sessiontree.import" and entry.type != "session_info"
        }
        assert session.warnings == []
        return {
            "entries": entries,
            "context": session.build_session_context().messages,
            "models": session.build_session_context().models,
            "name": session.session_name,
        }


def import_into(storage: MemorySessionStorage, path: str) -> str | None:
    try:
        return import_session(
            path, storage=storage, session_dir="/sessions", now_ms=1_790_000_000_000
        ).path
    except NotASessionError:
        return None  # nothing was said yet


def write(path: str, lines: list[bytes]) -> None:
    with open(path, "wb") as file:
        file.writelines(lines)


def check_growth(agent: str, records: list[Record], cuts: list[int], torn: int) -> None:
    lines = [json.dumps(record).encode() + b"\n" for record in records]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, NAMES[agent])
        grown, fresh = MemorySessionStorage(), MemorySessionStorage()
        for cut in sorted(cut % (len(lines) + 1) for cut in cuts):
            rest = lines[cut][: torn % len(lines[cut])] if cut < len(lines) else b""
            write(path, [*lines[:cut], rest])
            import_into(grown, path)
        write(path, lines)
        first = import_into(fresh, path)
        if first is None:
            return
        again = import_into(grown, path)
        assert again == first
        assert snapshot(again, grown) == snapshot(first, fresh)
        size = grown.stat(again).size
        assert import_into(grown, path) == again
        assert grown.stat(again).size == size


cuts = st.lists(st.integers(0, 200), min_size=1, max_size=3)


@settings(max_examples=100, deadline=None)
@given(CLAUDE, cuts, st.integers(0, 40))
def test_a_claude_code_session_grows_into_what_it_is(
    records: list[Record], cuts: list[int], torn: int
) -> None:
    check_growth("claude-code", records, cuts, torn)


@settings(max_examples=100, deadline=None)
@given(CODEX, cuts, st.integers(0, 40))
def test_a_codex_session_grows_into_what_it_is(
    records: list[Record], cuts: list[int], torn: int
) -> None:
    check_growth("codex", records, cuts, torn)


# -- what was done here since ----------------------------------------------------------------------


def _reply(text: str) -> Record:
    usage = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    body = {"provider": "x", "model": "y", "usage": usage, "stopReason": "stop", "timestamp": 2}
    return {"role": "assistant", "content": [{"type": "text", "text": text}], **body}


def _texts(session: SessionManager) -> list[str]:
    messages = session.build_session_context().messages
    return [text_of(message.get("content")) for message in messages]


def _half_and_whole(tmp_path: Path) -> tuple[Path, str, list[Record]]:
    """A session imported in the middle of an answer; its file, ours, and the records to come."""
    made = ClaudeWriter()
    made.prompt(0)
    made.answer(1)
    records = made.records
    file = tmp_path / NAMES["claude-code"]
    file.write_text("".join(json.dumps(record) + "\n" for record in records[:2]))
    return file, import_session(file).path, records


def _grow(file: Path, records: list[Record]) -> ImportReport:
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return import_session(file)


def test_what_was_said_here_on_half_an_answer_stays_and_stays_the_leaf(tmp_path: Path) -> None:
    file, path, records = _half_and_whole(tmp_path)
    with SessionManager.open(path) as session:
        half = next(e for e in session.get_entries() if is_answer(e.data))
        session.append_label_change(half.id, "here")
        session.append_message({"role": "user", "content": "said here", "timestamp": 1})
        session.append_message(_reply("answered here"))
    report = _grow(file, records)
    assert (report.changed, report.keeps_local_leaf) == (1, True)
    with SessionManager.open(path) as session:
        assert _texts(session)[-2:] == ["said here", "answered here"]
        grown = session.get_entry(half.id)
        assert grown is not None
        assert "answer" in text_of(grown.data["message"]["content"])
        assert session.get_label(half.id) == "here"
        assert session.warnings == []


def test_an_entry_that_was_changed_here_is_left_alone(tmp_path: Path) -> None:
    file, path, records = _half_and_whole(tmp_path)
    with SessionManager.open(path) as session:
        asked = next(e for e in session.get_entries() if e.type == "message")
        asked.data["message"]["content"] = "redacted"
        session.rewrite_entries()
    assert _grow(file, records).changed == 1
    with SessionManager.open(path) as session:
        assert _texts(session)[0] == "redacted"


@pytest.mark.parametrize(("here", "name"), [(None, "Title 2"), ("Mine", "Mine")])
def test_the_name_follows_the_source_unless_one_was_given_here(
    tmp_path: Path, here: str | None, name: str
) -> None:
    file, path, records = _half_and_whole(tmp_path)
    title: Record = {"type": "ai-title", "aiTitle": "Title 1"}
    _grow(file, [*records, title])
    if here is not None:
        with SessionManager.open(path) as session:
            session.set_session_name(here)
    _grow(file, [*records, title, {**title, "aiTitle": "Title 2"}])
    with SessionManager.open(path) as session:
        assert session.session_name == name
    assert import_session(file).is_unchanged


def test_what_an_event_said_stays_if_it_was_continued_here(tmp_path: Path) -> None:
    made = CodexWriter()
    made.turn(0)
    made.prompt(1)
    made.event("agent_message", message="An answer that is in an event alone")
    early = len(made.records)
    content = [{"type": "output_text", "text": "An answer that is in an event alone"}]
    made.item("message", role="assistant", content=content)
    file = tmp_path / NAMES["codex"]
    file.write_text("".join(json.dumps(record) + "\n" for record in made.records[:early]))
    path = import_session(file).path
    with SessionManager.open(path) as session:
        session.append_message({"role": "user", "content": "said here", "timestamp": 1})
        before = _texts(session)
    _grow(file, made.records)
    with SessionManager.open(path) as session:
        assert _texts(session) == before


def test_a_source_that_was_rewritten_takes_nothing_away(tmp_path: Path) -> None:
    file, path, records = _half_and_whole(tmp_path)
    _grow(file, records)
    with SessionManager.open(path) as session:
        before = _texts(session)
    report = _grow(file, records[:2])
    assert (report.changed, report.added) == (0, 0)
    with SessionManager.open(path) as session:
        assert _texts(session) == before
