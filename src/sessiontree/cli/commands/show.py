"""``show``: one session's conversation. It never writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import Count, with_scope
from sessiontree.cli.resolve import find_target, open_target, session_argument
from sessiontree.cli.tables import plural
from sessiontree.core.context import find_cut, find_kept, iter_messages
from sessiontree.core.described import (
    describe_edit,
    describe_image_briefly,
    describe_state,
    describe_system,
)
from sessiontree.core.llm import system_text
from sessiontree.core.usage import PAID_TYPES, arguments_text, blocks_of, total_usage
from sessiontree.export.markdown_safety import clean
from sessiontree.export.view import SessionView
from sessiontree.model.entries import Entry
from sessiontree.model.messages import answered_by, as_text, text_of
from sessiontree.scope import Scope
from sessiontree.text.words import clean_line, make_name

_SHORT_LINES = 6


@click.command("show", short_help="Show a session's conversation.")
@session_argument()
@click.option(
    "--full", is_flag=True, help="Show everything: tool output, thinking, compacted history."
)
@click.option("-n", "--last", metavar="N", type=Count(1), help="Show only the last N entries.")
@click.option("--at", metavar="ENTRY", help="Show the branch that ends at this entry.")
@click.option("--json", "as_json", is_flag=True, help="Print the entries as JSON.")
@with_scope
def show_command(
    scope: Scope, session: str | None, full: bool, last: int | None, at: str | None, as_json: bool
) -> None:
    """Show a session's conversation: the one with this ID, or this project's newest.

    Long tool output and compacted history are hidden; the last line says how much. Use --full to
    see it. Sessions of other agents (Claude Code, Codex and others) work too.

    \b
    Examples:
      sessiontree show
      sessiontree show 0199a3f2 --full
      sessiontree show ~/.pi/agent/sessions/…/2026-….jsonl
    """
    target = find_target(session, scope, foreign=True)
    with open_target(target, scope) as view, output.paged():
        chosen = view.at(at) if at else view
        entries = list(chosen.path) if full else _in_sight(chosen.path)
        hidden = len(chosen.path) - len(entries)
        cut = max(0, len(entries) - last) if last else 0
        entries = entries[cut:]
        if as_json:
            _write_json(chosen, entries)
            _write_rest(chosen, hidden, cut, None)
        else:
            _write_head(chosen, target.agent)
            printer = Printer(full=full, find_call=_HiddenCalls(chosen.path, entries).find)
            for entry in entries:
                printer.entry(entry)
            output.write_line()
            _write_rest(chosen, hidden, cut, printer)


def _in_sight(path: Sequence[Entry]) -> list[Entry]:
    """The part of a path that the model sees, from the latest cut on."""
    at = find_cut(path)
    if at < 0:
        return list(path)
    return [path[at], *path[find_kept(path, at) : at], *path[at + 1 :]]


class _HiddenCalls:
    """Finds calls that are not shown, for the shown results that answer them.

    A result's call is above it, in the same turn. The path is read once, when the first is missed.
    """

    def __init__(self, path: Sequence[Entry], shown: Sequence[Entry]) -> None:
        self._path = path
        self._shown = shown
        self._by_result: dict[str, Mapping[str, Any]] | None = None

    def find(self, result: Entry, _call_id: str) -> Mapping[str, Any] | None:
        """The call that this result answers."""
        if self._by_result is None:
            self._by_result = dict(self._match())
        return self._by_result.get(result.id)

    def _match(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        shown = {entry.id for entry in self._shown}
        in_turn: dict[object, Mapping[str, Any]] = {}
        for entry, message in iter_messages(self._path):
            role = message.get("role")
            if role == "user":
                in_turn = {}
            elif role == "assistant" and entry.id not in shown:
                calls = list(blocks_of(message, "toolCall"))
                in_turn |= {call["id"]: call for call in reversed(calls) if _has_id(call)}
            elif role == "toolResult" and entry.id in shown and _has_id(message, "toolCallId"):
                call = in_turn.get(message["toolCallId"])
                if call is not None:
                    yield entry.id, call


def _has_id(value: Mapping[str, Any], key: str = "id") -> bool:
    return isinstance(value.get(key), str)


def _write_head(view: SessionView, agent: str | None) -> None:
    used = total_usage(entry.decode() for entry in view.path if entry.type in PAID_TYPES)
    output.write_line((session_title(view), "bold"))
    # A listing counts those of all branches.
    in_all = sum(1 for entry in view.tree.entries if entry.type == "message")
    on_path = sum(1 for entry in view.path if entry.type == "message")
    count = tables.plural(in_all, "message")
    facts = [view.id, tables.short_path(view.cwd)]
    facts.append(count if on_path == in_all else f"{on_path:,} of {count}")
    if agent:
        facts.insert(0, agent)
    if used.total_tokens:
        facts.append(f"{used.total_tokens:,} tokens")
    if used.cost:
        facts.append(f"${used.cost:.2f}")
    for line in _join(facts, output.terminal_width()):
        output.write_line((line, "dim"))


def _join(facts: Sequence[str], room: int | None) -> list[str]:
    """The facts in one line, or in several that fit; none is broken."""
    lines = [facts[0]]
    for fact in facts[1:]:
        longer = f"{lines[-1]} · {fact}"
        if room is None or output.text_width(output.one_line(longer)) <= room:
            lines[-1] = longer
        else:
            lines.append(fact)
    return lines


def session_title(view: SessionView) -> str:
    """Its name, else what its latest compaction calls it, else its first prompt in short."""
    if view.name:
        return view.name
    for entry in reversed(view.tree.entries):
        short = entry.data.get("shortSummary") if entry.type == "compaction" else None
        if isinstance(short, str) and clean_line(short):
            return clean_line(short)
    for message in _messages(view.path):
        if message.get("role") == "user":
            return make_name(text_of(message.get("content"))) or "(no title)"
    return "(no title)"


def _messages(path: Sequence[Entry]) -> Iterator[dict[str, Any]]:
    return (message for _, message in iter_messages(path))


def _write_rest(view: SessionView, hidden: int, cut: int, printer: Printer | None) -> None:
    notes = []
    if cut:
        notes.append(f"{tables.plural(cut, 'earlier entry')} (leave out -n)")
    if hidden:
        notes.append(f"{tables.plural(hidden, 'entry')} before the compaction (--full)")
    if printer is not None:
        short = printer.shortened
        if short.results:
            notes.append(f"{tables.plural(short.results, 'long output')} cut (--full)")
        if short.thoughts:
            notes.append(f"{tables.plural(short.thoughts, 'thought')} (--full)")
    others = len(view.tree.entries) - len(view.path)
    if others:
        notes.append(
            f"{tables.plural(others, 'entry')} on other branches (sessiontree tree {view.id})"
        )
    if notes:
        output.write_note(("Hidden: " + " · ".join(notes), "dim"))
    for warning in view.warnings:
        output.write_message((f"warning: {warning}", "yellow"))


def _write_json(view: SessionView, entries: Sequence[Entry]) -> None:
    frame = {
        "id": view.id,
        "name": view.name,
        "cwd": view.cwd,
        "path": view.file,
        "leafId": view.path[-1].id if view.path else None,
    }
    output.write_json_list(frame, "entries", (entry.decode() for entry in entries))


# -- entries as text --


@dataclass(slots=True)
class Shortened:
    """Counts of what was shown only in part."""

    results: int = 0
    thoughts: int = 0
    notes: int = 0


WriteText = Callable[[str], None]
"""Writes a text: as it was typed, or as Markdown."""

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
        """Write one entry, unless only programs read it; keep nothing of it."""
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
                output.write_markdown(as_text(data.get("summary")))
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
                self._heading("Agent", "cyan", entry, *answered_by(message))
                self._content(message.get("content"), output.write_markdown)
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

    def _content(self, content: object, write: WriteText = output.write_block) -> None:
        if isinstance(content, str):
            write(content)
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict):
                self._block(block, write)

    def _block(self, block: Mapping[str, Any], write: WriteText) -> None:
        match block.get("type"):
            case "text":
                text = as_text(block.get("text"))
                if text.strip():
                    write(text)
            case "thinking":
                self._thinking(as_text(block.get("thinking")))
            case "toolCall":
                self._call(block)
            case "image":
                output.write_line((describe_image_briefly(block), "dim"))
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
        """Write the call that a result answers, unless it was shown."""
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
                output.write_line((f"  {describe_image_briefly(block)}", "dim"))

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
        output.write_markdown(as_text(data.get("summary")))


def local_time(timestamp: str) -> str:
    """An entry's time, in the user's own zone; empty if it has none."""
    from datetime import datetime

    try:
        return f"{datetime.fromisoformat(timestamp).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return ""
