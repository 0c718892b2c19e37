"""``show`` and ``tree``: one session's conversation, and all of its branches. Never write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import click

from sessiontree.cli import output, tables
from sessiontree.cli.conversation import Printer, one_line_of
from sessiontree.cli.scope import Count, Scope, with_scope
from sessiontree.cli.targets import find_target, open_target, session_argument
from sessiontree.core.tree import SessionTree
from sessiontree.core.usage import blocks_of, total_usage
from sessiontree.discovery.display import clean_line
from sessiontree.export.prose import clean
from sessiontree.export.view import SessionView
from sessiontree.model.entries import Entry
from sessiontree.model.messages import text_of

_CUTS = ("compaction", "reset_boundary")
_TALK = ("custom_message", "compaction", "branch_summary", "reset_boundary")


# -- show ------------------------------------------------------------------------------------------


@click.command("show", short_help="Show a session's conversation.")
@session_argument()
@click.option("--full", is_flag=True, help="Everything: tool output, thinking, what was compacted.")
@click.option("-n", "--last", metavar="N", type=Count(1), help="Only the last N entries.")
@click.option("--at", metavar="ENTRY", help="The branch that ends at this entry.")
@click.option("--json", "as_json", is_flag=True, help="The entries as JSON, for programs.")
@with_scope
def show_command(
    scope: Scope, session: str | None, full: bool, last: int | None, at: str | None, as_json: bool
) -> None:
    """Show a session's conversation: the newest of this project, or the one of this id.

    Long tool output and what a compaction took out of the model's sight are left out, and told at
    the end. Sessions of Claude Code and Codex can be shown too.

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
            printer = Printer(full=full, find_call=partial(_find_call, view.tree))
            for entry in entries:
                printer.entry(entry)
            output.write_line()
            _write_rest(chosen, hidden, cut, printer)


def _in_sight(path: Sequence[Entry]) -> list[Entry]:
    """The part of a path that the model sees, from the latest cut on."""
    at = max((i for i, entry in enumerate(path) if entry.type in _CUTS), default=-1)
    if at < 0:
        return list(path)
    if path[at].type == "reset_boundary":
        return list(path[at:])
    first = path[at].data.get("firstKeptEntryId")
    kept = next((i for i, entry in enumerate(path[:at]) if entry.id == first), at)
    return [path[at], *path[kept:at], *path[at + 1 :]]


def _find_call(tree: SessionTree, entry: Entry, call_id: str) -> Mapping[str, Any] | None:
    """The call that a tool result answers: it is above it, in the same turn."""
    seen = {entry.id}
    at = tree.by_id.get(entry.parent_id or "")
    while at is not None and at.id not in seen:
        seen.add(at.id)
        message = at.decode().get("message") if at.type == "message" else None
        role = message.get("role") if isinstance(message, dict) else None
        if role == "user":
            return None
        for call in blocks_of(message, "toolCall") if role == "assistant" and message else ():
            if call.get("id") == call_id:
                return call
        at = tree.by_id.get(at.parent_id or "")
    return None


def _write_head(view: SessionView, agent: str | None) -> None:
    messages = _messages(view.path)
    used = total_usage(messages)
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
    """The session's name, else what its latest compaction calls it, else its first prompt."""
    if view.name:
        return view.name
    for entry in reversed(view.tree.entries):
        short = entry.data.get("shortSummary") if entry.type == "compaction" else None
        if isinstance(short, str) and clean_line(short):
            return clean_line(short)
    for message in _messages(view.path):
        if message.get("role") == "user":
            return clean_line(text_of(message.get("content"))) or "(no title)"
    return "(no title)"


def _messages(path: Sequence[Entry]) -> list[dict[str, Any]]:
    found = (entry.data.get("message") for entry in path if entry.type == "message")
    return [message for message in found if isinstance(message, dict)]


def _write_rest(view: SessionView, hidden: int, cut: int, printer: Printer | None) -> None:
    notes = []
    if cut:
        notes.append(f"{tables.plural(cut, 'earlier entry')}: without -n")
    if hidden:
        notes.append(f"{tables.plural(hidden, 'entry')} before the compaction: --full")
    if printer is not None:
        short = printer.shortened
        if short.results:
            notes.append(f"{tables.plural(short.results, 'long output')} cut: --full")
        if short.thoughts:
            notes.append(f"{tables.plural(short.thoughts, 'thought')}: --full")
    others = len(view.tree.entries) - len(view.path)
    if others:
        notes.append(
            f"{tables.plural(others, 'entry')} on other branches: sessiontree tree {view.id}"
        )
    if notes:
        output.write_note(("Not shown: " + " · ".join(notes), "dim"))
    for warning in view.warnings:
        output.write_message((f"warning: {warning}", "yellow"))


def _write_json(view: SessionView, entries: Sequence[Entry]) -> None:
    output.write_json(
        {
            "id": view.id,
            "name": view.name,
            "cwd": view.cwd,
            "path": view.file,
            "leafId": view.path[-1].id if view.path else None,
            "entries": [entry.data for entry in entries],
        }
    )


# -- tree ------------------------------------------------------------------------------------------


@click.command("tree", short_help="Show a session's branches.")
@session_argument()
@click.option("-a", "--all", "everything", is_flag=True, help="Also tool steps and settings.")
@click.option("--json", "as_json", is_flag=True, help="All entries with their depth, as JSON.")
@with_scope
def tree_command(scope: Scope, session: str | None, everything: bool, as_json: bool) -> None:
    """Show a session as a tree: where it branched, which branch is active (●), its labels. Without
    an ID it is the newest of this project.

    Entries step to the right only where branches part.

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
            output.write_json(_tree_wire(view, lines))
            return
        _write_tree(view, lines)
        hidden = len(view.tree.entries) - len(shown)
        if hidden:
            what = "tool step or setting" if hidden == 1 else "tool steps and settings"
            output.write_note((f"Not shown: {hidden:,} {what}: --all", "dim"))


def _is_talk(entry: Entry) -> bool:
    if entry.type != "message":
        return entry.type in _TALK
    message = entry.data.get("message")
    if not isinstance(message, dict) or message.get("role") == "toolResult":
        return False
    kind, _, text = one_line_of(entry)
    return kind != "assistant" or not text.startswith("→ ")


def _lay_out(tree: SessionTree, shown: Sequence[Entry]) -> Iterator[tuple[str, Entry]]:
    """The shown entries in the order of the tree, each with what is drawn before it."""
    visible = {entry.id for entry in shown}
    above = _visible_ancestors(tree, visible)
    children: dict[str | None, list[Entry]] = {}
    for entry in sorted(shown, key=lambda entry: entry.timestamp):
        children.setdefault(above[entry.id], []).append(entry)
    stack = list(_siblings(children.get(None, []), ""))
    while stack:
        entry, mark, indent = stack.pop()
        yield mark, entry
        stack += _siblings(children.get(entry.id, []), indent)


def _siblings(entries: Sequence[Entry], indent: str) -> Iterator[tuple[Entry, str, str]]:
    """Entries of one parent, last first: each with what is drawn before it, and below it."""
    if len(entries) == 1:
        yield entries[0], indent, indent
        return
    for number, entry in enumerate(reversed(entries)):
        mark, below = ("└─ ", "   ") if number == 0 else ("├─ ", "│  ")
        yield entry, indent + mark, indent + below


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


def _write_tree(view: SessionView, lines: Sequence[tuple[str, Entry]]) -> None:
    active = {entry.id for entry in view.path}
    shown = {entry.id for _, entry in lines}
    leaf = next((entry.id for entry in reversed(view.path) if entry.id in shown), None)
    labels = view.tree.labels()
    room = output.terminal_width()
    output.write_line((_title(view), "bold"), (f"  {view.id}", "dim"))
    for mark, entry in lines:
        kind, style, text = one_line_of(entry)
        dot = "●" if entry.id in active else "○"
        label = f" [{labels[entry.id][0]}]" if entry.id in labels else ""
        here = " ← here" if entry.id == leaf else ""
        taken = sum(map(output.text_width, (mark, kind, output.one_line(label), here))) + 14
        line = output.fit(output.one_line(clean(text)), max(10, (room or 240) - taken))
        output.write_line(
            (mark, "dim"),
            (f"{dot} ", "green" if entry.id in active else "dim"),
            (f"{entry.id} ", "dim"),
            (kind, style),
            f" {line}",
            (label, "yellow"),
            (here, "green"),
        )


def _tree_wire(view: SessionView, lines: Sequence[tuple[str, Entry]]) -> dict[str, Any]:
    active = {entry.id for entry in view.path}
    labels = view.tree.labels()
    return {
        "id": view.id,
        "name": view.name,
        "leafId": view.path[-1].id if view.path else None,
        "entries": [
            {
                "id": entry.id,
                "parentId": entry.parent_id,
                "type": entry.type,
                "timestamp": entry.timestamp,
                "depth": len(mark) // 3,
                "active": entry.id in active,
                "label": labels[entry.id][0] if entry.id in labels else None,
                "text": one_line_of(entry)[2],
            }
            for mark, entry in lines
        ],
    }
