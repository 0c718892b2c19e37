"""A part of a session in few words, for a model to read. Pure.

Messages of the branch are numbered from 1. As many are shown as the budget allows, and the last
line says where to read on; a text that is too long by itself is cut, and says how much is missing.
In the compact form a tool call and its result are a line each, and thinking is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sessiontree.core.described import (
    describe_call,
    describe_image_briefly,
    describe_result,
    describe_system,
)
from sessiontree.core.usage import blocks_of
from sessiontree.errors import EntryNotFoundError
from sessiontree.export.markdown_safety import clean
from sessiontree.export.redact import Redactor
from sessiontree.export.view import SessionView
from sessiontree.model.entries import Entry
from sessiontree.model.messages import as_text, text_of

Detail = Literal["compact", "full"]

LEAST_BUDGET, MOST_BUDGET = 1_000, 400_000
_SHOWN_TYPES = frozenset(("message", "custom_message", "compaction", "branch_summary"))
_MOST_BRANCHES = 8
_LINE = 160
_FAILED_LINES = 6


@dataclass(frozen=True, slots=True)
class Part:
    """The part to read. ``start`` counts from 1, below 0 from the end."""

    start: int = 1
    count: int | None = None
    branch: str | None = None
    """The entry that the branch ends with; by default the active one."""
    around: str | None = None
    """Begin shortly before this entry, on a branch that has it."""
    detail: Detail = "compact"
    budget: int = 24_000


def read_part(view: SessionView, part: Part, redactor: Redactor | None = None) -> str:
    """The part as text. Raises EntryNotFoundError."""
    chosen = _choose_branch(view, part)
    entries = [entry for entry in chosen.path if entry.type in _SHOWN_TYPES]
    start = _start_of(entries, part)
    end = len(entries) if part.count is None else min(len(entries), start + max(1, part.count))
    writer = _Writer(part, redactor)
    left = max(LEAST_BUDGET, min(MOST_BUDGET, part.budget))
    pieces: list[str] = []
    for entry in writer.skipping(entries[:start]):
        writer.note_calls(entry)
    at = start
    while at < end:
        piece = writer.entry(at + 1, entries[at], max(LEAST_BUDGET // 2, left // 2))
        if pieces and len(piece) > left:
            break
        pieces.append(piece)
        left -= len(piece)
        at += 1
    head = _head(view, chosen, entries, start, at, writer)
    rest = _rest(entries, at, end, chosen)
    return "\n\n".join(each for each in (head, *filter(None, pieces), rest) if each)


def _choose_branch(view: SessionView, part: Part) -> SessionView:
    if part.branch:
        return view.at(part.branch)
    if part.around:
        found = view.at(part.around).path[-1].id
        if all(entry.id != found for entry in view.path):
            return view.at(_newest_below(view, found))
    return view


def _newest_below(view: SessionView, entry_id: str) -> str:
    """The newest end of the branches that hold this entry."""
    below = {entry_id}
    last = entry_id
    for entry in view.tree.entries:  # a child mostly follows its parent
        if entry.parent_id in below:
            below.add(entry.id)
            last = entry.id
    return last


def _start_of(entries: Sequence[Entry], part: Part) -> int:
    if part.around:
        for at, entry in enumerate(entries):
            if entry.id.startswith(part.around):
                return max(0, at - 2)
        raise EntryNotFoundError(part.around)
    if part.start < 0:
        return max(0, len(entries) + part.start)
    return min(max(0, part.start - 1), len(entries))


def _head(
    view: SessionView,
    chosen: SessionView,
    entries: Sequence[Entry],
    start: int,
    end: int,
    writer: _Writer,
) -> str:
    name = writer.line(view.name or "") or "(no name)"
    shown = f"messages {start + 1}-{end} of {len(entries)}" if end > start else (
        f"no messages shown of {len(entries)}"
    )  # fmt: skip
    about = (f"session {writer.name(view.id)}", writer.line(view.cwd), shown)
    lines = [f"# {name}", " · ".join(about)]
    others = list(_other_branches(view, chosen, writer))
    if others:
        lines.append("Other branches (pass as branch):")
        lines += others[:_MOST_BRANCHES]
        if len(others) > _MOST_BRANCHES:
            lines.append(f"- and {len(others) - _MOST_BRANCHES} more")
    return "\n".join(lines)


def _other_branches(view: SessionView, chosen: SessionView, writer: _Writer) -> Iterator[str]:
    """Each end of a branch but the shown one, and with what it left the shown path."""
    on_path = {entry.id for entry in chosen.path}
    parents = {entry.parent_id for entry in view.tree.entries}
    last = chosen.path[-1].id if chosen.path else None
    for leaf in reversed(view.tree.entries):
        if leaf.id in parents or leaf.id == last or leaf.id in on_path:
            continue
        away = [entry for entry in view.tree.path(leaf.id) if entry.id not in on_path]
        said = next(filter(None, map(writer.gist, away)), None)
        if said is not None:
            yield f"- {writer.name(leaf.id)}: {said}"


def _rest(entries: Sequence[Entry], at: int, end: int, chosen: SessionView) -> str:
    del chosen
    if at < end:
        return f"[The budget is used up. Read on with start={at + 1}.]"
    return f"[Read on with start={at + 1}.]" if at < len(entries) else "[End of the branch.]"


class _Writer:
    """Spells entries; knows the calls that it has met, to name results by them."""

    def __init__(self, part: Part, redactor: Redactor | None) -> None:
        self._is_full = part.detail == "full"
        self._redactor = redactor
        self._calls: dict[str, str] = {}

    def skipping(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The hidden entries whose calls may be answered by shown results."""
        return entries[-40:]

    def note_calls(self, entry: Entry) -> None:
        """Remember what an entry calls."""
        self._calls_of(self._data(entry))

    def name(self, entry_id: str) -> str:
        """Make an id safe to show; one in an agent's usual form doesn't change."""
        if self._redactor is not None:
            entry_id = self._redactor.redact_name(entry_id)
        return _shorten(clean(entry_id))

    def line(self, text: str) -> str:
        """One short line of a text."""
        if self._redactor is not None:
            text = self._redactor.redact_text(text)
        return _shorten(clean(text))

    def gist(self, entry: Entry) -> str:
        """The beginning of what an entry says, if it says something."""
        if entry.type not in _SHOWN_TYPES:
            return ""
        data = self._data(entry)
        message = data.get("message")
        said = message if isinstance(message, dict) else data
        return _shorten(clean(text_of(said.get("content")) or as_text(data.get("summary"))))

    def entry(self, number: int, entry: Entry, most: int) -> str:
        """One entry with its number, in at most about so many characters."""
        data = self._data(entry)
        who, body = self._said(entry, data)
        if len(body) > most:
            missing = len(body) - most
            body = f"{body[:most]}\n[… {missing:,} more characters; raise budget to see them]"
        when = entry.timestamp[:16].replace("T", " ")
        head = f"[{number}] {_shorten(who)} · {self.name(entry.id)} · {_shorten(clean(when))}"
        return f"{head}\n{body}".rstrip()

    def _data(self, entry: Entry) -> Mapping[str, Any]:
        data = entry.decode()
        return self._redactor.redact_value(data) if self._redactor is not None else data

    def _said(self, entry: Entry, data: Mapping[str, Any]) -> tuple[str, str]:
        message = data.get("message")
        if entry.type == "message" and isinstance(message, dict):
            return self._message(message)
        if entry.type == "custom_message":
            who = as_text(data.get("customType")) or "note"
            return clean(who), clean(text_of(data.get("content"), "\n"))
        who = "compaction summary" if entry.type == "compaction" else "summary of a left branch"
        return who, clean(as_text(data.get("summary")))

    def _message(self, message: Mapping[str, Any]) -> tuple[str, str]:
        match message.get("role"):
            case "user":
                return "user", clean(self._content(message))
            case "assistant":
                return "assistant", clean(self._answer(message))
            case "toolResult":
                return "tool result", clean(self._result(message))
            case "bashExecution":
                output = as_text(message.get("output")) if self._is_full else ""
                about = describe_result({"content": message.get("output")})
                told = output or (f"({about})" if about else "")
                return "user's command", clean(f"$ {as_text(message.get('command'))}\n{told}")
            case "system":
                return "system", clean(describe_system(message))
            case other:
                who = as_text(message.get("customType")) or as_text(other) or "message"
                return clean(who), clean(self._content(message))

    def _content(self, message: Mapping[str, Any]) -> str:
        content = message.get("content")
        images = [describe_image_briefly(block) for block in blocks_of(message, "image")]
        return "\n".join((text_of(content, "\n"), *images)).strip()

    def _answer(self, message: Mapping[str, Any]) -> str:
        pieces = []
        if self._is_full:
            thoughts = (as_text(block.get("thinking")) for block in blocks_of(message, "thinking"))
            pieces += [f"(thinking) {thought}" for thought in thoughts if thought.strip()]
        pieces.append(self._content(message))
        pieces += [f"→ {call}" for call in self._calls_of({"message": message})]
        if as_text(message.get("errorMessage")):
            pieces.append(f"(error: {as_text(message.get('errorMessage'))})")
        elif message.get("stopReason") == "aborted":
            pieces.append("(stopped by the user)")
        return "\n".join(filter(None, pieces))

    def _calls_of(self, data: Mapping[str, Any]) -> list[str]:
        message = data.get("message")
        told = []
        for call in blocks_of(message, "toolCall") if isinstance(message, dict) else ():
            name = as_text(call.get("name")) or "tool"
            about = describe_call(name, call.get("arguments"))
            line = f"{name}: {_shorten(about)}" if about else name
            self._calls[as_text(call.get("id"))] = line
            told.append(line)
        return told

    def _result(self, message: Mapping[str, Any]) -> str:
        call = self._calls.get(as_text(message.get("toolCallId")))
        name = call or as_text(message.get("toolName")) or "tool"
        failed = message.get("isError") is True
        about = describe_result(message)
        head = f"← {name}{f' ({about})' if about else ''}{' FAILED' if failed else ''}"
        text = text_of(message.get("content"), "\n")
        if self._is_full:
            return f"{head}\n{text}"
        if failed:
            return "\n".join((head, *text.splitlines()[-_FAILED_LINES:]))
        return head


def _shorten(text: str) -> str:
    line = " ".join(text[: _LINE * 4].split())
    return line if len(line) <= _LINE else f"{line[: _LINE - 1]}…"
