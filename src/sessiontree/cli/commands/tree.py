"""``tree``: a session's branches, one line an entry. It never writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click

from sessiontree.cli import output
from sessiontree.cli.commands.show import session_title
from sessiontree.cli.options import with_scope
from sessiontree.cli.resolve import find_target, open_target, session_argument
from sessiontree.core.described import describe_image_briefly, describe_state, describe_system
from sessiontree.core.tree import SessionTree
from sessiontree.core.usage import arguments_text
from sessiontree.export.markdown_safety import clean
from sessiontree.export.view import SessionView
from sessiontree.model.entries import Entry
from sessiontree.model.messages import AGENT_NAME, as_text, text_of
from sessiontree.scope import Scope

_TALK = ("custom_message", "compaction", "branch_summary", "reset_boundary")
_MAX_GUIDES = 12
"""The most levels of branches to draw; deeper down, only the nearest ones."""


_LONG_SEQUENCE = 4_200
"""Characters that no terminal sequence exceeds which `clean` takes out."""


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
    with open_target(target, scope) as view, output.paged():
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
    is_answer = message.get("role") == "assistant"
    return not (is_answer and line_of_message(message)[2].startswith("→ "))


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
    output.write_line((session_title(view), "bold"), (f"  {view.id}", "dim"))
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


# -- entries in one line --


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

    A tool may have printed megabytes: this reads only what fills the line, even if much of it is
    colours and blanks that take no room.
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
            said = text or _calls(content) or as_text(message.get("errorMessage"))
            name = output.one_line(as_text(message.get(AGENT_NAME)))
            return f"agent {name}".rstrip(), "cyan", said
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
            return describe_image_briefly(block)
    return ""
