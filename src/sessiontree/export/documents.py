"""Render a session as a Markdown or JSON document.

Markdown is for readers: the path to the leaf in reading order, including what a compaction hides
from the model. ``markdown_safety`` keeps session text from breaking the document.

JSON is for programs: all branches, as
``{"format": "sessiontree.session", "version": 1, "name", "leafId", "header", "entries": […]}``.
Entries are the wire objects of the file, with images and long texts in place of blob references.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sessiontree.core.described import describe_edit, describe_image_briefly, describe_system
from sessiontree.core.llm import system_text
from sessiontree.core.usage import PAID_TYPES, Usage, arguments_text, usage_of_entry
from sessiontree.export import markdown_safety as safe
from sessiontree.export.view import SessionView
from sessiontree.model import codec
from sessiontree.model.dialects import read_model_change
from sessiontree.model.entries import Entry
from sessiontree.model.messages import answered_by, as_text, text_of

if TYPE_CHECKING:  # it compiles many patterns: only who redacts needs them
    from sessiontree.export.redact import Redactor

_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?Z?")

_SHOWN_TYPES = frozenset(
    (
        "message",
        "custom_message",
        "compaction",
        "branch_summary",
        "model_change",
        "thinking_level_change",
        "mode_change",
        "reset_boundary",
        "context_edit",
    )
)


@dataclass(frozen=True, slots=True)
class MarkdownOptions:
    """Options: the parts to include in the document."""

    thinking: bool = True
    tools: bool = True


def render_markdown(
    view: SessionView,
    *,
    options: MarkdownOptions | None = None,
    redactor: Redactor | None = None,
) -> Iterator[str]:
    """The document in pieces, each ending a line. Secrets are replaced if there is a redactor."""
    writer = _Writer(view, options or MarkdownOptions(), redactor)
    yield writer.head()
    for entry in view.path:
        text = writer.entry(entry)
        if text:
            yield f"\n{text}\n"
    yield writer.foot()


class _Writer:
    def __init__(
        self, view: SessionView, options: MarkdownOptions, redactor: Redactor | None
    ) -> None:
        self._view = view
        self._options = options
        self._redactor = redactor
        self._labels = view.tree.labels()

    # -- the frame -------------------------------------------------------------------------------

    def head(self) -> str:
        view = self._view
        title = view.name or "Session"
        count, used = _tally(view)
        lines = [
            f"# {safe.inline(self._redact(title)) or 'Session'}",
            "",
            f"- Session: {safe.code(self._redact(view.id))}",
            f"- Project: {safe.code(self._redact(view.cwd) or '(unknown)')}",
            f"- Started: {_time(view.timestamp) or '(unknown)'}",
            f"- Messages: {count}",
        ]
        if used.total_tokens:
            cost = f", ${used.cost:.2f}" if used.cost else ""
            lines.append(f"- Used: {used.total_tokens:,} tokens{cost}")
        return "\n".join(lines) + "\n"

    def foot(self) -> str:
        others = len(self._view.tree.entries) - len(self._view.path)
        if not others:
            return ""
        entries = "1 entry" if others == 1 else f"{others} entries"
        return f"\n---\n\n*{entries} on other branches: not part of this document.*\n"

    # -- entries ---------------------------------------------------------------------------------

    def entry(self, entry: Entry) -> str:
        """The entry's part of the document; empty for what only programs read."""
        if entry.type not in _SHOWN_TYPES:
            return ""
        data: Any = entry.decode()
        if self._redactor is not None:
            data = self._redactor.redact_value(data)
        match entry.type:
            case "message":
                message = data.get("message")
                return self._message(entry, message) if isinstance(message, dict) else ""
            case "custom_message":
                if data.get("display") is False:
                    return ""
                return self._section(
                    entry, as_text(data.get("customType")) or "Note", self._body(data)
                )
            case "compaction":
                before = data.get("tokensBefore")
                size = before if isinstance(before, int) else "?"
                note = f"*{size} tokens were summarised:*"
                return self._section(
                    entry, "Compaction", f"{note}\n\n{self._prose(data, 'summary')}"
                )
            case "branch_summary":
                return self._section(entry, "Branch summary", self._prose(data, "summary"))
            case "model_change":
                change = read_model_change(data)
                return f"*Model: {safe.inline(change[1])}*" if change else ""
            case "thinking_level_change":
                return f"*Thinking: {safe.inline(as_text(data.get('thinkingLevel')) or 'off')}*"
            case "mode_change":
                return f"*Mode: {safe.inline(as_text(data.get('mode')) or 'none')}*"
            case "reset_boundary":
                return "*The context was cleared here.*"
            case "context_edit":
                return f"*Context: {safe.inline(self._redact(describe_edit(data)))}*"
            case _:
                return ""

    def _message(self, entry: Entry, message: Mapping[str, Any]) -> str:
        match message.get("role"):
            case "user":
                return self._section(entry, "User", self._body(message))
            case "assistant":
                return self._section(entry, _assistant(message), self._assistant_body(message))
            case "toolResult":
                return self._tool_result(message) if self._options.tools else ""
            case "bashExecution":
                return self._section(entry, "Command", self._bash_body(message))
            case "system":
                return self._system(message)
            case "custom" | "hookMessage":
                name = as_text(message.get("customType")) or "Note"
                return self._section(entry, name, self._body(message))
            case other:
                return self._section(entry, as_text(other) or "Message", self._body(message))

    def _system(self, message: Mapping[str, Any]) -> str:
        text = self._redact(system_text(message))
        summary = self._redact(f"System: {describe_system(message)}")
        return _folded(summary, safe.contain(text)) if text.strip() else ""

    def _section(self, entry: Entry, name: str, body: str) -> str:
        parts = [safe.inline(name), _time(entry.timestamp)]
        label = self._labels.get(entry.id)
        if label is not None:
            parts.append(f"label: {safe.inline(self._redact(label[0]))}")
        return f"## {' · '.join(part for part in parts if part)}\n\n{body or '*(empty)*'}"

    # -- bodies ----------------------------------------------------------------------------------

    def _body(self, message: Mapping[str, Any]) -> str:
        content = message.get("content")
        if isinstance(content, str):
            return safe.contain(content) if content.strip() else ""
        parts = [self._block(block) for block in content] if isinstance(content, list) else []
        return "\n\n".join(part for part in parts if part)

    def _assistant_body(self, message: Mapping[str, Any]) -> str:
        parts = [self._body(message)]
        error = message.get("errorMessage")
        if isinstance(error, str) and error:
            parts.append(f"**Error:** {safe.inline(error)}")
        elif message.get("stopReason") == "aborted":
            parts.append("*(stopped by the user)*")
        return "\n\n".join(part for part in parts if part)

    def _bash_body(self, message: Mapping[str, Any]) -> str:
        parts = [safe.fence("$ " + as_text(message.get("command")), "console")]
        output = as_text(message.get("output"))
        if output.strip():
            parts.append(safe.fence(output))
        code = message.get("exitCode")
        if message.get("cancelled"):
            parts.append("*(cancelled)*")
        elif isinstance(code, int) and code:
            parts.append(f"*Exit code {code}*")
        return "\n\n".join(parts)

    def _block(self, block: object) -> str:
        if not isinstance(block, dict):
            return ""
        match block.get("type"):
            case "text":
                text = as_text(block.get("text"))
                return safe.contain(text) if text.strip() else ""
            case "thinking":
                text = as_text(block.get("thinking"))
                if not self._options.thinking or not text.strip():
                    return ""
                return _folded("Thinking", safe.contain(text))
            case "toolCall":
                return self._tool_call(block) if self._options.tools else ""
            case "image":
                return f"*{safe.inline(describe_image_briefly(block))}*"
            case other:
                return f"*({safe.inline(as_text(other) or 'unknown block')})*"

    def _tool_call(self, call: Mapping[str, Any]) -> str:
        name = safe.code(as_text(call.get("name")) or "tool")
        arguments = call.get("arguments")
        if isinstance(arguments, dict) and list(arguments) == ["command"]:
            return f"Tool {name}\n\n{safe.fence(as_text(arguments['command']), 'sh')}"
        return f"Tool {name}\n\n{safe.fence(arguments_text(call), 'json')}"

    def _tool_result(self, message: Mapping[str, Any]) -> str:
        text = self._redact(text_of(message.get("content"), "\n"))
        name = as_text(message.get("toolName")) or "tool"
        outcome = "failed" if message.get("isError") else "result"
        body = safe.fence(text) if text.strip() else "*(no output)*"
        images = _images(message.get("content"))
        if images:
            body += "\n\n" + "\n".join(
                f"*{safe.inline(describe_image_briefly(image))}*" for image in images
            )
        return _folded(f"{name} {outcome}", body)

    def _prose(self, data: Mapping[str, Any], key: str) -> str:
        return safe.contain(as_text(data.get(key)))

    def _redact(self, text: str) -> str:
        return self._redactor.redact_text(text) if self._redactor is not None else text


def _folded(summary: str, body: str) -> str:
    # Escaped by hand: inside an HTML block Markdown's own escapes are not read.
    title = summary.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    title = " ".join(safe.clean(title).split())
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _images(content: object) -> list[Mapping[str, Any]]:
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == "image"]


def _assistant(message: Mapping[str, Any]) -> str:
    names = answered_by(message)
    return f"Agent ({', '.join(names)})" if names else "Agent"


def _tally(view: SessionView) -> tuple[int, Usage]:
    """How many messages there are, and what they used."""
    count, used = 0, Usage()
    for entry in view.path:
        if entry.type in PAID_TYPES:
            count += entry.type == "message"
            used += usage_of_entry(entry.decode()) or Usage()
    return count, used


def _time(timestamp: str) -> str:
    found = _ISO.fullmatch(timestamp)
    return f"{found[1]} {found[2]} UTC" if found else ""


JSON_FORMAT = "sessiontree.session"
JSON_VERSION = 1


def render_json(view: SessionView, *, redactor: Redactor | None = None) -> Iterator[str]:
    """The document in pieces, an entry each. Secrets are replaced if there is a redactor."""

    def spell(value: object) -> str:
        cleaned = redactor.redact_value(value) if redactor is not None else value
        return codec.encode(cleaned).decode("utf-8")

    leaf_id = view.path[-1].id if view.path else None
    if redactor is not None and leaf_id is not None:
        leaf_id = redactor.redact_name(leaf_id)
    yield f'{{"format":{spell(JSON_FORMAT)},"version":{JSON_VERSION},"name":{spell(view.name)}'
    yield f',"leafId":{spell(leaf_id)},"header":{spell(dict(view.header))},"entries":['
    for number, entry in enumerate(view.tree.entries):
        yield f"{',' if number else ''}\n{spell(entry.decode())}"
    yield "\n]}\n"
