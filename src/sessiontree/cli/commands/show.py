"""``show`` and ``tree``: one session's conversation, and all of its branches. Never write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click

from sessiontree.cli import output, tables
from sessiontree.cli.conversation import Printer, first_line, line_of_message, one_line_of
from sessiontree.cli.options import Count, Scope, with_scope
from sessiontree.cli.resolve import find_target, open_target, session_argument
from sessiontree.core.context import find_cut, find_kept, iter_messages
from sessiontree.core.tree import SessionTree
from sessiontree.core.usage import PAID_TYPES, blocks_of, total_usage
from sessiontree.export.view import SessionView
from sessiontree.model.entries import Entry
from sessiontree.model.messages import text_of
from sessiontree.text.words import clean_line, make_name

_TALK = ("custom_message", "compaction", "branch_summary", "reset_boundary")
_MAX_GUIDES = 12
"""Levels of branches that are drawn; of deeper ones the nearest."""


# -- show ------------------------------------------------------------------------------------------


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
    see it. Sessions of Claude Code and Codex work too.

    \b
    Examples:
      sessiontree show
      sessiontree show 0199a3f2 --full
      sessiontree show ~/.pi/agent/sessions/…/2026-….jsonl
    """
    target = find_target(session, scope, foreign=True)
    with open_target(target, scope) as view:
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
    """The calls that are not shown themselves, for the shown results that answer them.

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
    output.write_line((_title(view), "bold"))
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
    output.write_line((" · ".join(facts), "dim"))


def _title(view: SessionView) -> str:
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


# -- tree ------------------------------------------------------------------------------------------


@click.command("tree", short_help="Show a session's branches.")
@session_argument()
@click.option("-a", "--all", "everything", is_flag=True, help="Include tool steps and settings.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print all entries with their depth, as JSON."
)
@with_scope
def tree_command(scope: Scope, session: str | None, everything: bool, as_json: bool) -> None:
    """Show a session's branches, labels and active branch (●). Without an ID, show this project's
    newest session.

    Lines are indented only where branches split.

    \b
    Examples:
      sessiontree tree
      sessiontree tree 0199a3f2 --all
    """
    target = find_target(session, scope, foreign=True)
    with open_target(target, scope) as view:
        shown = [entry for entry in view.tree.entries if everything or as_json or _is_talk(entry)]
        lines = list(_lay_out(view.tree, shown))
        if as_json:
            _write_tree_json(view, lines)
            return
        _write_tree(view, lines)
        hidden = len(view.tree.entries) - len(shown)
        if hidden:
            what = "tool step or setting" if hidden == 1 else "tool steps and settings"
            output.write_note((f"Hidden: {hidden:,} {what} (--all)", "dim"))


class _Line(NamedTuple):
    """An entry, what is drawn before it, and how often branches parted above it."""

    entry: Entry
    mark: str
    depth: int


def _is_talk(entry: Entry) -> bool:
    if entry.type != "message":
        return entry.type in _TALK
    message = entry.decode().get("message")
    if not isinstance(message, dict) or message.get("role") in ("toolResult", "system"):
        return False
    kind, _, text = line_of_message(message)
    return kind != "assistant" or not text.startswith("→ ")


def _lay_out(tree: SessionTree, shown: Sequence[Entry]) -> Iterator[_Line]:
    """The shown entries in the order of the tree."""
    visible = {entry.id for entry in shown}
    above = _visible_ancestors(tree, visible)
    children: dict[str | None, list[Entry]] = {}
    for entry in sorted(shown, key=lambda entry: entry.timestamp):
        children.setdefault(above[entry.id], []).append(entry)
    stack = list(_siblings(children.get(None, []), "", 0))
    while stack:
        line, below = stack.pop()
        yield line
        stack += _siblings(children.get(line.entry.id, []), below, line.depth)


def _siblings(entries: Sequence[Entry], indent: str, depth: int) -> Iterator[tuple[_Line, str]]:
    """Entries of one parent, last first: each with what is drawn before those below it."""
    if len(entries) == 1:
        yield _Line(entries[0], indent, depth), indent
        return
    kept = indent[-3 * (_MAX_GUIDES - 1) :]
    for number, entry in enumerate(reversed(entries)):
        mark, below = ("└─ ", "   ") if number == 0 else ("├─ ", "│  ")
        yield _Line(entry, kept + mark, depth + 1), kept + below


def _visible_ancestors(tree: SessionTree, visible: set[str]) -> dict[str, str | None]:
    """For each entry its nearest ancestor that is shown."""
    found: dict[str, str | None] = {}
    for entry in tree.entries:
        walked: list[Entry] = []
        at: Entry | None = entry
        answer: str | None = None
        while at is not None and at.id not in found:
            walked.append(at)
            at = tree.by_id.get(at.parent_id) if at.parent_id is not None else None
        if at is not None:
            answer = at.id if at.id in visible else found[at.id]
        for step in reversed(walked):
            found[step.id] = answer
            if step.id in visible:
                answer = step.id
    return found


def _write_tree(view: SessionView, lines: Sequence[_Line]) -> None:
    active = {entry.id for entry in view.path}
    shown = {line.entry.id for line in lines}
    leaf = next((entry.id for entry in reversed(view.path) if entry.id in shown), None)
    labels = view.tree.labels()
    room = output.terminal_width()
    output.write_line((_title(view), "bold"), (f"  {view.id}", "dim"))
    for entry, mark, _ in lines:
        kind, style, text = one_line_of(entry)
        dot = "●" if entry.id in active else "○"
        label = f" [{labels[entry.id][0]}]" if entry.id in labels else ""
        here = " ← here" if entry.id == leaf else ""
        taken = sum(map(output.text_width, (mark, kind, output.one_line(label), here))) + 14
        line = first_line(text, max(10, (room or 240) - taken))
        output.write_line(
            (mark, "dim"),
            (f"{dot} ", "green" if entry.id in active else "dim"),
            (f"{entry.id} ", "dim"),
            (kind, style),
            f" {line}",
            (label, "yellow"),
            (here, "green"),
        )


def _write_tree_json(view: SessionView, lines: Sequence[_Line]) -> None:
    active = {entry.id for entry in view.path}
    labels = view.tree.labels()
    leaf_id = view.path[-1].id if view.path else None
    entries = (
        {
            "id": entry.id,
            "parentId": entry.parent_id,
            "type": entry.type,
            "timestamp": entry.timestamp,
            "depth": depth,
            "active": entry.id in active,
            "label": labels[entry.id][0] if entry.id in labels else None,
            "text": one_line_of(entry)[2],
        }
        for entry, _, depth in lines
    )
    output.write_json_list(
        {"id": view.id, "name": view.name, "leafId": leaf_id}, "entries", entries
    )
