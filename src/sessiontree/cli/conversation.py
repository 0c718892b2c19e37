"""A conversation as text for a terminal: who said what, tools in short, what was left out.

Turns entries into lines; which entries, and where they come from, is ``viewing``'s business. The
escaping is ``output``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sessiontree.cli import output
from sessiontree.cli.tables import plural
from sessiontree.core.described import describe_edit, describe_state, describe_system
from sessiontree.core.llm import system_text
from sessiontree.core.usage import arguments_text
from sessiontree.export.documents import describe_image
from sessiontree.export.markdown_safety import clean
from sessiontree.model.entries import Entry
from sessiontree.model.messages import as_text, text_of

_SHORT_LINES = 6
_LONG_SEQUENCE = 4_200
"""Characters that no terminal sequence exceeds which `clean` takes out."""


@dataclass(slots=True)
class Shortened:
    """What was shown only in part."""

    results: int = 0
    thoughts: int = 0
    notes: int = 0


FindCall = Callable[[Entry, str], Mapping[str, Any] | None]


class Printer:
    """Writes entries one after the other.

    ``find_call`` gives the tool call that a result answers, for a result whose call is not shown.
    """

    def __init__(self, *, full: bool, find_call: FindCall | None = None) -> None:
        self._full = full
        self._find_call = find_call
        self._called: set[str] = set()
        self.shortened = Shortened()

    def entry(self, entry: Entry) -> None:
        """Write one entry; what only programs read is passed over. Nothing of it is kept."""
        data = entry.decode()
        match entry.type:
            case "message":
                message = data.get("message")
                if isinstance(message, dict):
                    self._message(entry, message)
            case "custom_message":
                if data.get("display") is not False:
                    self._heading(as_text(data.get("customType")) or "note", "magenta", entry)
                    self._content(data.get("content"))
            case "compaction":
                self._compaction(entry, data)
            case "branch_summary":
                self._heading("Branch summary", "magenta", entry)
                output.write_block(as_text(data.get("summary")))
            case "reset_boundary":
                self._heading("The context was cleared here", "magenta", entry)
            case "context_edit":
                said = output.fit(output.one_line(describe_edit(data)), 200)
                output.write_line((f"(context: {said})", "dim"))
            case "usage" | "model_change" | "thinking_level_change" | "mode_change":
                state = describe_state(entry.type, data)
                if state is not None:
                    self._state(*state)
            case _:
                pass

    # -- pieces ----------------------------------------------------------------------------------

    def _heading(self, name: str, style: str, entry: Entry, more: str = "") -> None:
        parts = [part for part in (more, local_time(entry.timestamp), entry.id) if part]
        output.write_line()
        output.write_line((name, f"bold {style}"), (f"  {' · '.join(parts)}", "dim"))

    def _state(self, name: str, value: str) -> None:
        if self._full:
            output.write_line((f"({name}: {value})", "dim"))
        else:
            self.shortened.notes += 1

    def _message(self, entry: Entry, message: Mapping[str, Any]) -> None:
        match message.get("role"):
            case "user":
                self._heading("You", "green", entry)
                self._content(message.get("content"))
            case "assistant":
                self._heading("Assistant", "cyan", entry, as_text(message.get("model")))
                self._content(message.get("content"))
                self._ending(message)
            case "toolResult":
                self._call_before(entry, message)
                self._tool_result(message)
            case "bashExecution":
                self._bash(entry, message)
            case "system":
                self._system(message)
            case other:
                name = as_text(message.get("customType")) or as_text(other) or "message"
                self._heading(name, "magenta", entry)
                self._content(message.get("content"))

    def _system(self, message: Mapping[str, Any]) -> None:
        self._state("system", describe_system(message))
        if self._full:
            self._indented(system_text(message), "dim")

    def _ending(self, message: Mapping[str, Any]) -> None:
        error = message.get("errorMessage")
        if isinstance(error, str) and error:
            output.write_line((f"error: {error}", "red"))
        elif message.get("stopReason") == "aborted":
            output.write_line(("(stopped)", "red"))

    def _content(self, content: object) -> None:
        if isinstance(content, str):
            output.write_block(content)
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict):
                self._block(block)

    def _block(self, block: Mapping[str, Any]) -> None:
        match block.get("type"):
            case "text":
                text = as_text(block.get("text"))
                if text.strip():
                    output.write_block(text)
            case "thinking":
                self._thinking(as_text(block.get("thinking")))
            case "toolCall":
                self._call(block)
            case "image":
                output.write_line((describe_image(block), "dim"))
            case _:
                pass

    def _thinking(self, text: str) -> None:
        if not text.strip():
            return
        if self._full:
            output.write_block(text, "dim italic")
        else:
            self.shortened.thoughts += 1

    def _call(self, call: Mapping[str, Any]) -> None:
        self._called.add(as_text(call.get("id")))
        summary = self._call_summary(call)
        output.write_line(("→ ", "yellow"), (as_text(call.get("name")), "yellow"), summary)

    def _call_before(self, entry: Entry, message: Mapping[str, Any]) -> None:
        """What a result answers, if that is not to be read above it."""
        call_id = as_text(message.get("toolCallId"))
        if call_id in self._called:
            return
        call = self._find_call(entry, call_id) if self._find_call is not None else None
        output.write_line()
        if call is not None:
            self._call(call)
        else:
            output.write_line(("→ ", "yellow"), (as_text(message.get("toolName")) or "?", "yellow"))

    def _call_summary(self, call: Mapping[str, Any]) -> str:
        arguments = call.get("arguments")
        if isinstance(arguments, dict) and len(arguments) == 1:
            (value,) = arguments.values()
            text = value if isinstance(value, str) else arguments_text(call)
        else:
            text = arguments_text(call)
        line = output.one_line(text)
        if not self._full and len(line) > 200:
            self.shortened.results += 1
            line = output.fit(line, 200)
        return f" {line}"

    def _tool_result(self, message: Mapping[str, Any]) -> None:
        failed = bool(message.get("isError"))
        text = text_of(message.get("content"), "\n")
        style = "red" if failed else "dim"
        self._indented(text if text.strip() else "(no output)", style)
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "image":
                output.write_line((f"  {describe_image(block)}", "dim"))

    def _indented(self, text: str, style: str) -> None:
        lines = clean(text).rstrip("\n").split("\n")
        shown = lines if self._full else lines[:_SHORT_LINES]
        output.write_block("\n".join(f"  {line}" for line in shown), style)
        if len(shown) < len(lines):
            self.shortened.results += 1
            output.write_line((f"  … {plural(len(lines) - len(shown), 'more line')}", style))

    def _bash(self, entry: Entry, message: Mapping[str, Any]) -> None:
        self._heading("Command", "green", entry)
        output.write_block(f"$ {as_text(message.get('command'))}")
        result = as_text(message.get("output"))
        self._indented(result if result.strip() else "(no output)", "dim")
        code = message.get("exitCode")
        if isinstance(code, int) and code:
            output.write_line((f"  exit code {code}", "red"))

    def _compaction(self, entry: Entry, data: Mapping[str, Any]) -> None:
        before = data.get("tokensBefore")
        size = f"{before:,} tokens summarised" if isinstance(before, int) else ""
        self._heading("Compaction", "magenta", entry, size)
        output.write_block(as_text(data.get("summary")))


def one_line_of(entry: Entry) -> tuple[str, str, str]:
    """An entry in one line, as (kind, its style, text). Nothing of it is kept."""
    data = entry.decode()
    state = describe_state(entry.type, data)
    if state is not None:
        return state[0], "dim", state[1]
    match entry.type:
        case "message":
            message = data.get("message")
            return line_of_message(message if isinstance(message, dict) else {})
        case "custom_message":
            return (
                as_text(data.get("customType")) or "note",
                "magenta",
                text_of(data.get("content")),
            )
        case "compaction":
            short = as_text(data.get("shortSummary")) or as_text(data.get("summary"))
            return "compaction", "magenta", short
        case "branch_summary":
            return "branch summary", "magenta", as_text(data.get("summary"))
        case "custom":
            return as_text(data.get("customType")) or "custom", "dim", ""
        case other:
            return other or "entry", "dim", ""


def first_line(text: str, width: int) -> str:
    """The text in one safe line, cut to ``width`` columns.

    A tool may have printed megabytes: no more of it is read than fills the line, even where much of
    it are colours and blanks that take no room.
    """
    size = 2 * width
    while size < len(text):
        # A sequence that begins just before the cut may be cut itself.
        escape = text.rfind("\x1b", max(0, size - _LONG_SEQUENCE), size)
        line = output.one_line(clean(text[: escape if escape >= 0 else size]))
        fitted = output.fit(line, width)
        if fitted != line:
            return fitted
        size *= 4
    return output.fit(output.one_line(clean(text)), width)


def line_of_message(message: Mapping[str, Any]) -> tuple[str, str, str]:
    """A message in one line, as (kind, its style, text)."""
    content = message.get("content")
    text = text_of(content)
    match message.get("role"):
        case "user":
            return "you", "green", text or _first_image(content)
        case "assistant":
            return (
                "assistant",
                "cyan",
                text or _calls(content) or as_text(message.get("errorMessage")),
            )
        case "toolResult":
            name = as_text(message.get("toolName")) or "tool"
            return f"{name} {'failed' if message.get('isError') else 'result'}", "dim", text
        case "bashExecution":
            return "command", "green", f"$ {as_text(message.get('command'))}"
        case "system":
            return "system", "dim", describe_system(message)
        case other:
            return (
                as_text(message.get("customType")) or as_text(other) or "message",
                "magenta",
                text,
            )


def _calls(content: object) -> str:
    blocks = content if isinstance(content, list) else []
    return " ".join(
        f"→ {as_text(block.get('name'))} {arguments_text(block)}"
        for block in blocks
        if isinstance(block, dict) and block.get("type") == "toolCall"
    )


def _first_image(content: object) -> str:
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "image":
            return describe_image(block)
    return ""


def local_time(timestamp: str) -> str:
    """An entry's time, in the user's own zone; empty if it has none."""
    from datetime import datetime

    try:
        return f"{datetime.fromisoformat(timestamp).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return ""
