"""A session as Markdown and as JSON: what is in it, and that no text can escape its place."""

from __future__ import annotations

import json
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sessiontree.errors import EntryNotFoundError, NotASessionError, SessionNotFoundError
from sessiontree.export import markdown_safety as safe
from sessiontree.export.documents import MarkdownOptions, render_json, render_markdown
from sessiontree.export.redact import Redactor
from sessiontree.export.view import open_view
from sessiontree.model.entries import PayloadSource, WireEntry

_HEADER = {
    "type": "session",
    "version": 3,
    "id": "0199a3f2c0de1234",
    "timestamp": "2026-02-16T10:20:30.000Z",
    "cwd": "/work/pi",
    "title": "Fix the *login*",
}
_TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def _write(path: Path, *entries: dict[str, Any], header: dict[str, Any] | None = None) -> Path:
    """Entries without a parent hang on the one before."""
    lines: list[dict[str, Any]] = [_HEADER if header is None else header]
    before = None
    for number, entry in enumerate(entries):
        base = {
            "type": "message",
            "id": f"{number:08x}",
            "parentId": before,
            "timestamp": f"2026-02-16T10:{number:02d}:00.000Z",
        }
        lines.append({**base, **entry})
        before = lines[-1]["id"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _user(text: str) -> dict[str, Any]:
    return {"message": {"role": "user", "content": text, "timestamp": 1}}


def _assistant(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "provider": "p", "model": "m-1", "content": list(blocks)}
    return {"message": {**message, **fields}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _markdown(path: Path, **options: Any) -> str:
    with open_view(path) as view:
        return "".join(render_markdown(view, **options))


def _json(path: Path, **options: Any) -> str:
    with open_view(path) as view:
        return "".join(render_json(view, **options))


def _name(path: Path) -> str | None:
    with open_view(path) as view:
        return view.name


def _headings(document: str) -> list[tuple[str, str]]:
    """Level and text of the headings that belong to the document itself, by a real parser."""
    tokens = MarkdownIt("commonmark").parse(document)
    return [
        (token.tag, tokens[number + 1].content)
        for number, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0
    ]


def test_the_conversation_reads_in_order_under_its_title(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "s.jsonl",
        _user("Why does login fail?"),
        _assistant(
            {"type": "thinking", "thinking": "maybe the cookie"},
            _text("Let me look."),
            {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}},
            {"type": "toolCall", "id": "c2", "name": "read", "arguments": {"path": "a.py", "n": 1}},
            usage={"input": 1000, "output": 200, "cost": {"total": 0.25}},
        ),
        {"message": {"role": "toolResult", "toolName": "bash", "content": [_text("a.py")]}},
        {"message": {"role": "toolResult", "toolName": "read", "isError": True, "content": []}},
        _assistant(_text("The *cookie*."), stopReason="stop"),
    )
    assert _markdown(path) == (
        "# Fix the \\*login\\*\n\n"
        "- Session: `0199a3f2c0de1234`\n- Project: `/work/pi`\n- Started: 2026-02-16 10:20 UTC\n"
        "- Messages: 5\n- Used: 1,200 tokens, $0.25\n"
        "\n## User · 2026-02-16 10:00 UTC\n\nWhy does login fail?\n"
        "\n## Agent (m-1) · 2026-02-16 10:01 UTC\n\n"
        "<details><summary>Thinking</summary>\n\nmaybe the cookie\n\n</details>\n\n"
        "Let me look.\n\nTool `bash`\n\n```sh\nls\n```\n\n"
        'Tool `read`\n\n```json\n{"path":"a.py","n":1}\n```\n'
        "\n<details><summary>bash result</summary>\n\n```\na.py\n```\n\n</details>\n"
        "\n<details><summary>read failed</summary>\n\n*(no output)*\n\n</details>\n"
        "\n## Agent (m-1) · 2026-02-16 10:04 UTC\n\nThe *cookie*.\n"
    )


def test_thinking_and_tools_can_be_left_out(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "s.jsonl",
        _assistant(
            {"type": "thinking", "thinking": "hidden thought"},
            {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "secret ls"}},
            _text("Done."),
        ),
        {"message": {"role": "toolResult", "toolName": "bash", "content": [_text("output")]}},
    )
    document = _markdown(path, options=MarkdownOptions(thinking=False, tools=False))
    assert "Done." in document
    assert not any(word in document for word in ("hidden", "secret", "output", "<details>"))


def test_what_a_compaction_hides_is_shown_with_its_summary(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "s.jsonl",
        _user("first question"),
        _assistant(_text("first answer")),
        {
            "type": "compaction",
            "summary": "## Goal\nlogin",
            "tokensBefore": 9000,
            "firstKeptEntryId": "x",
        },
        _user("second question"),
    )
    document = _markdown(path)
    assert [text.split(" · ")[0] for tag, text in _headings(document) if tag == "h2"] == [
        "User", "Agent (m-1)", "Compaction", "User",
    ]  # fmt: skip
    assert "*9000 tokens were summarised:*\n\n#### Goal\nlogin" in document
    assert "first question" in document


class _Held(dict[str, Any]):
    """A message that one can see being forgotten."""


class _Watch:
    """A source of entries that tells how many of its messages were held at once."""

    def __init__(self, source: PayloadSource) -> None:
        self._source = source
        self._given: weakref.WeakValueDictionary[int, _Held] = weakref.WeakValueDictionary()
        self.most = 0

    def read_line(self, offset: int, length: int) -> bytes:
        return self._source.read_line(offset, length)

    def restore(self, data: WireEntry, line: bytes) -> WireEntry:
        held = data["message"] = _Held(data["message"])
        self._given[id(held)] = held
        self.most = max(self.most, len(self._given))
        return self._source.restore(data, line)

    def is_plain(self, block: bytes) -> bool:
        return self._source.is_plain(block)

    def fetch_blob(self, ref: str) -> bytes | None:
        return None


def test_messages_are_read_one_after_the_other_and_not_held(tmp_path: Path) -> None:
    path = _write(tmp_path / "s.jsonl", *(_user(f"question {n}") for n in range(50)))
    with open_view(path) as view:
        source = view.path[0].source
        assert source is not None
        watch = _Watch(source)
        for entry in view.path:
            entry.source = watch
        assert "- Messages: 50\n" in "".join(render_markdown(view))
    assert watch.most <= 2


def test_only_a_number_is_shown_as_one(tmp_path: Path) -> None:
    hostile = {"type": "compaction", "summary": "x", "tokensBefore": "<script>alert(1)</script>"}
    assert "script" not in _markdown(_write(tmp_path / "s.jsonl", _user("first"), hostile))


def test_every_kind_of_entry_has_its_place(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "s.jsonl",
        {"type": "model_change", "provider": "anthropic", "modelId": "claude"},
        {"type": "thinking_level_change", "thinkingLevel": "high"},
        {"type": "mode_change", "mode": "plan"},
        {"message": {"role": "bashExecution", "command": "false", "output": "", "exitCode": 1}},
        {"type": "custom_message", "customType": "todo", "content": "remember", "display": True},
        {"type": "custom_message", "customType": "x", "content": "unseen", "display": False},
        {"type": "custom", "customType": "state", "data": {"unseen": 1}},
        {"type": "branch_summary", "fromId": "root", "summary": "tried A"},
        {
            "message": {
                "role": "user",
                "content": [{"type": "image", "mimeType": "image/png", "data": "QUJD" * 1024}],
            }
        },
        _assistant(_text(""), errorMessage="overloaded", stopReason="error"),
        {"type": "label", "targetId": "00000003", "label": "check"},
        {"type": "something_new", "text": "unseen"},
    )
    document = _markdown(path)
    assert "*Model: anthropic/claude*" in document
    assert "*Thinking: high*" in document
    assert "*Mode: plan*" in document
    assert "## Command · 2026-02-16 10:03 UTC · label: check\n\n```console\n$ false" in document
    assert "*Exit code 1*" in document
    assert "## todo · 2026-02-16 10:04 UTC\n\nremember" in document
    assert "## Branch summary · 2026-02-16 10:07 UTC\n\ntried A" in document
    assert "[image: image/png, 3 KB]".replace("[", "\\[").replace("]", "\\]") in document
    assert "**Error:** overloaded" in document
    assert "unseen" not in document


def test_other_branches_are_counted_and_can_be_chosen(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "s.jsonl",
        _user("question"),
        _assistant(_text("answer one")),
        {**_assistant(_text("answer two")), "parentId": "00000000"},
    )
    document = _markdown(path)
    assert "answer two" in document
    assert "answer one" not in document
    assert "*1 entry on other branches: not part of this document.*" in document
    with open_view(path) as view:
        assert "answer one" in "".join(render_markdown(view.at("00000001")))
        for wrong in ("0000000", "ffff"):
            with pytest.raises(EntryNotFoundError):
                view.at(wrong)


def test_secrets_are_replaced_on_request_everywhere(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "s.jsonl",
        _user(f"my token is {_TOKEN}"),
        _assistant(
            {"type": "thinking", "thinking": _TOKEN},
            {
                "type": "toolCall",
                "id": "c",
                "name": "bash",
                "arguments": {"command": f"x {_TOKEN}"},
            },
            {
                "type": "toolCall",
                "id": "d",
                "name": "http",
                "arguments": {"a": _TOKEN, "password": "hunter22"},
            },
            errorMessage=_TOKEN,
        ),
        {"message": {"role": "toolResult", "toolName": "bash", "content": [_text(_TOKEN)]}},
        {"message": {"role": "bashExecution", "command": _TOKEN, "output": _TOKEN}},
        {"type": "compaction", "summary": _TOKEN, "firstKeptEntryId": "x", "tokensBefore": 1},
        {"type": "label", "targetId": "00000000", "label": _TOKEN},
        header={**_HEADER, "title": _TOKEN},
    )
    redactor = Redactor()
    document = _markdown(path, redactor=redactor)
    assert _TOKEN not in document
    assert "hunter22" not in document
    assert redactor.counts["github-token"] == 11
    assert _TOKEN not in _json(path, redactor=Redactor())


def test_exporting_an_old_file_leaves_it_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text(
        '{"type":"session","id":"s","timestamp":"2024-01-01T00:00:00.000Z","cwd":"/x"}\n'
        '{"type":"message","timestamp":"2024-01-01T00:00:01.000Z","message":{"role":"user","content":"one"}}\n'
        '{"type":"message","timestamp":"2024-01-01T00:00:02.000Z","message":{"role":"user","content":"two"}}\n'
    )
    before = path.read_bytes(), path.stat().st_mtime_ns
    document = _markdown(path)
    assert document.index("one") < document.index("two")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_pi_session_is_titled_by_its_last_name(tmp_path: Path) -> None:
    header = {key: value for key, value in _HEADER.items() if key != "title"}
    path = _write(
        tmp_path / "s.jsonl",
        {"type": "session_info", "name": "old"},
        {"type": "session_info", "name": " new "},
        header=header,
    )
    assert _name(path) == "new"
    _write(path, {"type": "session_info", "name": "old"}, {"type": "session_info"}, header=header)
    assert _name(path) is None


def test_what_is_no_session_is_said_so(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# hello\n")
    with pytest.raises(NotASessionError):
        open_view(readme)
    with pytest.raises(SessionNotFoundError):
        open_view(tmp_path / "missing.jsonl")


# -- any text keeps to its place -----------------------------------------------------------------

# fmt: off
_LINES = st.sampled_from([
    "```", "````", "~~~", "~~~~ x", "  ```", "   ```js", "    ```", "\t```", "- ```", "1. ```",
    "> ```", "```a`b", "# H", "## User", "#", "####### x", "===", "---", "--", "- x", "  y", "x",
    "", " ", "     ", "    code", "<!--", "-->", "<div>", "</details>", "<script>", "- <pre>",
    "<?", "<![CDATA[", "&lt;", "[a]: <", "|a|b|", "|---|", "\\", "`", "*", "***", "+", "1) ", ">",
    "\x1b[31m", "\u2028# H", "a\r# H",
])
# fmt: on
_HOSTILE = st.lists(_LINES, max_size=12).map("\n".join) | st.text(max_size=60)


@given(_HOSTILE, _HOSTILE)
@example("- a\n\n   ```\nb\n```", "")
@example("```\n# no heading", "x\n===")
def test_no_text_can_swallow_or_imitate_what_follows(first: str, second: str) -> None:
    document = f"# T\n\n## A\n\n{safe.contain(first)}\n\n## B\n\n{safe.contain(second)}\n\n## C\n"
    found = [(tag, text) for tag, text in _headings(document) if tag in ("h1", "h2")]
    assert found == [("h1", "T"), ("h2", "A"), ("h2", "B"), ("h2", "C")]


@given(_HOSTILE)
def test_a_fence_holds_any_text(text: str) -> None:
    document = f"{safe.fence(text, 'json')}\n\n## B\n"
    tokens = MarkdownIt("commonmark").parse(document)
    assert [token.type for token in tokens][:2] == ["fence", "heading_open"]
    assert tokens[0].content.rstrip("\n") == safe.clean(text).rstrip("\n")


@given(_HOSTILE)
def test_inline_text_is_shown_literally(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse(f"x {safe.inline(text)} x")
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    shown = "".join(child.content for child in tokens[1].children or [])
    assert shown == f"x {' '.join(safe.clean(text).split())} x" or not text.strip()


@given(_HOSTILE)
def test_a_code_span_shows_its_text(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse(f"x {safe.code(text)} x")
    spans = [child.content for child in tokens[1].children or [] if child.type == "code_inline"]
    assert [span.strip() for span in spans] == [" ".join(safe.clean(text).split())]


@given(st.text(st.characters(), max_size=60))
def test_no_control_character_is_exported_as_markdown(text: str) -> None:
    assert not [
        c for c in safe.clean(text) if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160
    ]


def test_ordinary_markdown_is_passed_on_unchanged() -> None:
    text = (
        "Do this:\n\n1. run\n   ```sh\n   make\n   ```\n2. look at `a < b`\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |"
    )
    assert safe.contain(text) == text


def test_colours_of_tools_are_removed() -> None:
    assert safe.clean("\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;u\x1b\\y") == "red xy"


# -- JSON ----------------------------------------------------------------------------------------


def test_the_json_document_holds_every_branch_as_it_was(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "s.jsonl",
        _user("half \ud83d pair"),
        _assistant(_text("one")),
        {**_assistant(_text("two")), "parentId": "00000000", "unknown": {"kept": True}},
    )
    document = json.loads(_json(path))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert document == {
        "format": "sessiontree.session",
        "version": 1,
        "name": "Fix the *login*",
        "leafId": "00000002",
        "header": lines[0],
        "entries": lines[1:],
    }


def test_a_prompt_and_edits_of_the_context_are_told(tmp_path: Path) -> None:
    system = {"role": "system", "content": f"use {_TOKEN}", "sections": {"cwd": "/x"}}
    used = {"input": 5, "cost": {"total": 0.5}}
    path = _write(
        tmp_path / "s.jsonl",
        {"message": system},
        _user("hello"),
        {"type": "context_edit", "targetId": "00000001", "replacement": {"content": _TOKEN}},
        {"type": "usage", "kind": "cache_warm", "usage": used},
    )
    with open_view(path) as view:
        text = "".join(render_markdown(view, redactor=Redactor()))
    assert "<summary>System: prompt; sections cwd</summary>" in text
    assert "*Context: 00000001 now reads:" in text
    assert _TOKEN not in text
    assert "$0.50" in text
