"""A conversation as blocks: prompts, answers, thoughts, tool calls, summaries.

Turns entries and messages into blocks. An opened session and a running one yield the same blocks:
an answer that streams in fills them step by step. Pure; knows neither widgets nor widths. Text in
blocks is unescaped session text; drawing makes it safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sessiontree.core.described import (
    describe_call,
    describe_edit,
    describe_image,
    describe_result,
    describe_size,
    diff_of,
)
from sessiontree.model.dialects import read_model_change
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.messages import as_text, text_of

Kind = Literal[
    "user",
    "answer",
    "thinking",
    "tool",
    "command",
    "note",
    "compaction",
    "summary",
    "cleared",
    "state",
    "image",
    "error",
    "notice",
    "start",
]
Status = Literal["", "running", "done", "failed", "stopped"]

FOLDING: frozenset[Kind] = frozenset(
    ("thinking", "tool", "command", "compaction", "summary", "note")
)
"""Kinds that show only their first line until the user unfolds them."""


@dataclass(slots=True)
class Block:
    """One piece of the conversation. ``version`` grows with every change, for caches."""

    kind: Kind
    text: str = ""
    title: str = ""
    about: str = ""
    """A tool call's path or command."""
    outcome: str = ""
    """The outcome in a word: ``12 lines``, ``exit 1``."""
    status: Status = ""
    entry_id: str | None = None
    is_diff: bool = False
    is_excluded: bool = False
    """Whether the model doesn't see it (``!!``)."""
    images: tuple[str, ...] = ()
    call_id: str = ""
    """The tool call's id; an agent may use one twice."""
    size: str = ""
    """How much a call writes, in a word: ``48 lines``."""
    written: str = ""
    """What a call writes."""
    version: int = 0

    @property
    def can_fold(self) -> bool:
        return self.kind in FOLDING

    def change(self, **values: Any) -> None:
        """Set fields and raise the version."""
        for name, value in values.items():
            setattr(self, name, value)
        self.version += 1


@dataclass(slots=True)
class Conversation:
    """The blocks of a conversation in order, and the tool calls that wait for results."""

    blocks: list[Block] = field(default_factory=list)
    _calls: dict[str, list[Block]] = field(default_factory=dict)
    """The calls of each id in order; some agents reuse ids."""
    _lone_results: set[str] = field(default_factory=set)
    """The ids of results whose calls are not in this part."""
    _answer: list[Block] = field(default_factory=list)
    """The blocks of the streaming answer, one for each content block."""
    _states: dict[str, str] = field(default_factory=lambda: {"Mode": "none"})
    """The latest settings by name."""

    # -- entries of a session --------------------------------------------------------------------

    def add_entries(self, entries: Iterable[Entry]) -> None:
        """Add entries of a path."""
        for entry in entries:
            try:
                data = entry.decode()
            except (OSError, ValueError) as error:
                self._add(Block("error", f"Entry {entry.id} can't be read: {error}"), entry.id)
                continue
            self._add_entry(entry, data)

    def _add_entry(self, entry: Entry, data: WireEntry) -> None:
        match entry.type:
            case "message":
                message = data.get("message")
                if isinstance(message, dict):
                    self.add_message(message, entry.id)
            case "custom_message":
                self._add_note(data, entry.id)
            case "compaction":
                self._add(_compaction(data), entry.id)
            case "branch_summary":
                self._add(Block("summary", as_text(data.get("summary"))), entry.id)
            case "reset_boundary":
                self._add(Block("cleared"), entry.id)
            case "context_edit":
                said = " ".join(describe_edit(data)[:200].split())
                self._add(Block("state", f"Context: {said}"), entry.id)
            case _:
                self._add_state(entry, data)

    def _add_state(self, entry: Entry, data: WireEntry) -> None:
        """Add a block for a setting that changes; its first value needs none."""
        found = _state(entry.type, data)
        if found is None:
            return
        name, value = found
        before, self._states[name] = self._states.get(name), value
        if before is not None and before != value:
            said = f"{name}: {value}"
            if name == "Mode":
                said = f"Left {before} mode" if value == "none" else f"Entered {value} mode"
            self._add(Block("state", said), entry.id)

    # -- messages --------------------------------------------------------------------------------

    def add_message(self, message: Mapping[str, Any], entry_id: str | None = None) -> None:
        """Add a whole message of any role."""
        match message.get("role"):
            case "user":
                text = text_of(message.get("content"), "\n")
                images = _images(message.get("content"))
                self._add(Block("user", text, images=images), entry_id)
            case "assistant":
                self.begin_answer()
                self.update_answer(message)
                self.end_answer(message, entry_id)
            case "toolResult":
                self.end_tool(as_text(message.get("toolCallId")), message)
            case "bashExecution":
                self._add(_command(message), entry_id)
            case "compactionSummary":
                self._add(_compaction(message), entry_id)
            case "branchSummary":
                self._add(Block("summary", as_text(message.get("summary"))), entry_id)
            case "system":
                pass  # a system prompt is pages long; `show --full` shows it
            case _:
                self._add_note(message, entry_id)

    def _add_note(self, data: Mapping[str, Any], entry_id: str | None) -> None:
        if data.get("display") is False:
            return
        title = as_text(data.get("customType")) or as_text(data.get("role")) or "note"
        text = text_of(data.get("content"), "\n")
        self._add(Block("note", text, title, images=_images(data.get("content"))), entry_id)

    # -- an answer, as it comes ------------------------------------------------------------------

    def begin_answer(self) -> None:
        """Begin an answer. Tools of earlier answers no longer run."""
        for block in self._answer:
            _give_up(block)
        self._answer = []

    def update_answer(self, message: Mapping[str, Any]) -> None:
        """Show the answer so far: its blocks grow, new ones follow."""
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for index, part in enumerate(content if isinstance(content, list) else ()):
            before = self._answer[index] if index < len(self._answer) else None
            made = self._part(part if isinstance(part, dict) else {}, before)
            if index < len(self._answer):
                _take_over(self._answer[index], made)
                continue
            self._answer.append(made)
            self.blocks.append(made)

    def end_answer(self, message: Mapping[str, Any], entry_id: str | None = None) -> None:
        """Complete the answer, and add a notice if it failed."""
        self.update_answer(message)
        self._name_answer(entry_id)
        for block in self._answer:
            if block.kind == "thinking" and block.status == "running":
                block.change(status="done")
        reason, error = message.get("stopReason"), as_text(message.get("errorMessage"))
        if reason == "error":
            self._add(Block("error", error or "The model failed without a reason"), entry_id)
        elif reason == "aborted":
            self._add(Block("notice", "Stopped"), entry_id)
        elif reason == "length":
            self._add(Block("notice", "Cut off: the answer reached its limit"), entry_id)
        if reason in ("error", "aborted"):
            for block in self._answer:
                if block.kind == "tool" and block.status == "running":
                    block.change(status="stopped")

    def note_saved(self, message: Mapping[str, Any], entry_id: str) -> None:
        """Give the blocks of a message that was just saved the id of its entry."""
        match message.get("role"):
            case "assistant":
                self._name_answer(entry_id)
            case "user":
                for block in reversed(self.blocks):
                    if block.kind == "user":
                        block.entry_id = block.entry_id or entry_id
                        return
            case _:
                pass

    def _name_answer(self, entry_id: str | None) -> None:
        for block in self._answer:
            block.entry_id = entry_id

    def _part(self, part: Mapping[str, Any], before: Block | None) -> Block:
        """Make or update the block of a part of the answer; ``before`` is its block so far."""
        match part.get("type"):
            case "text":
                return Block("answer", as_text(part.get("text")))
            case "thinking":
                return Block("thinking", as_text(part.get("thinking")), status="running")
            case "toolCall":
                return self._call(part, before)
            case "image":
                return Block("image", describe_image(part))
            case other:
                return Block("notice", f"({as_text(other) or 'unknown'} block)")

    # -- tools -----------------------------------------------------------------------------------

    def _call(self, part: Mapping[str, Any], before: Block | None) -> Block:
        """Return the block of a call: the streaming one at this place, or a new one.

        Never that of an earlier call with the same id, which has its own result.
        """
        name, call_id = as_text(part.get("name")) or "tool", as_text(part.get("id"))
        known = before
        if known is None or known.kind != "tool" or known.call_id != call_id:
            known = Block("tool", title=name, status="running", call_id=call_id)
            self._calls.setdefault(call_id, []).append(known)
        arguments = part.get("arguments")
        about, size = describe_call(name, arguments), describe_size(name, arguments)
        written = (
            as_text(arguments.get("content")) if size and isinstance(arguments, Mapping) else ""
        )
        if (about, size, written) != (known.about, known.size, known.written):
            known.change(about=about, size=size, written=written)
        return known

    def update_tool(self, call_id: str, partial: str) -> None:
        """Show what a running tool has printed so far."""
        block = self._waiting(call_id)
        if block is not None:
            block.change(text=partial)

    def end_tool(self, call_id: str, result: Mapping[str, Any]) -> None:
        """Add a tool's result to its call; without a call it becomes a block of its own."""
        diff = diff_of(result)
        is_failed = result.get("isError") is True
        shown: dict[str, Any] = {
            "text": diff if diff and not is_failed else text_of(result.get("content"), "\n"),
            "is_diff": bool(diff) and not is_failed,
            "status": "failed" if is_failed else "done",
            "images": _images(result.get("content")),
        }
        block = self._waiting(call_id)
        if block is None:
            ended = self._calls.setdefault(call_id, [])
            if any(all(getattr(one, n) == v for n, v in shown.items()) for one in ended):
                return  # the event came twice
            if not ended:
                self._lone_results.add(call_id)
            block = Block("tool", title=as_text(result.get("toolName")) or "tool", call_id=call_id)
            ended.append(block)
            self.blocks.append(block)
        outcome = describe_result(result)
        block.change(outcome=outcome if is_failed else block.size or outcome, **shown)

    def _waiting(self, call_id: str) -> Block | None:
        """Find the call for the next result of this id: a running one, else the latest."""
        open_calls = [one for one in self._calls.get(call_id, ()) if not _has_ended(one)]
        running = [one for one in open_calls if one.status == "running"]
        return running[0] if running else open_calls[-1] if open_calls else None

    def has_result_of(self, call_id: str) -> bool:
        """Whether this part holds the result of a call that came before it."""
        return call_id in self._lone_results

    def stop_waiting(self, later: Conversation | None = None) -> None:
        """Mark calls without a result as not running; ``later`` may hold some of the results.

        A session keeps calls without results where it was killed or left for another branch.
        """
        for call_id, calls in self._calls.items():
            for block in calls:
                if block.status == "running" and later is not None and later.has_result_of(call_id):
                    block.change(status="done")
                _give_up(block)

    # -- the rest --------------------------------------------------------------------------------

    def add_notice(self, text: str, *, is_error: bool = False) -> Block:
        """Add a notice of the program, which is not saved in the session."""
        return self._add(Block("error" if is_error else "notice", text), None)

    def add_start_page(self, text: str) -> Block:
        """Add the page that an empty session begins with, which is not saved either."""
        return self._add(Block("start", text), None)

    def begin_command(self, command: str, *, is_excluded: bool) -> Block:
        """Add the block of a command that the user runs."""
        block = Block("command", "", command, status="running", is_excluded=is_excluded)
        return self._add(block, None)

    def _add(self, block: Block, entry_id: str | None) -> Block:
        block.entry_id = entry_id
        self.blocks.append(block)
        return block


def _has_ended(block: Block) -> bool:
    """Whether a call has its result."""
    return block.status in ("done", "failed")


def _give_up(block: Block) -> None:
    """Mark a running tool as stopped; a late result overrides this."""
    if block.kind == "tool" and block.status == "running":
        block.change(status="stopped", outcome="no result")


def _take_over(old: Block, new: Block) -> None:
    """Turn the streaming block ``old`` into ``new``, keeping its identity."""
    if old is new:
        return
    if (old.kind, old.text, old.title) != (new.kind, new.text, new.title):
        old.change(kind=new.kind, text=new.text, title=new.title)


def _command(message: Mapping[str, Any]) -> Block:
    code = message.get("exitCode")
    outcome = ""
    status: Status = "done"
    if message.get("cancelled") is True:
        outcome, status = "stopped", "stopped"
    elif isinstance(code, int) and not isinstance(code, bool) and code:
        outcome, status = f"exit {code}", "failed"
    if message.get("truncated") is True:
        outcome = f"{outcome}, cut" if outcome else "cut"
    return Block(
        "command",
        as_text(message.get("output")),
        as_text(message.get("command")),
        outcome=outcome,
        status=status,
        is_excluded=message.get("excludeFromContext") is True,
    )


def _compaction(data: Mapping[str, Any]) -> Block:
    before = data.get("tokensBefore")
    size = f"{before:,} tokens" if isinstance(before, int) and before > 0 else ""
    short = as_text(data.get("shortSummary"))
    return Block("compaction", as_text(data.get("summary")), short, outcome=size)


def _state(kind: str, data: WireEntry) -> tuple[str, str] | None:
    """Return name and value of a setting; None for other entries."""
    match kind:
        case "model_change":
            change = read_model_change(data)
            if change is None:
                return None
            role = "" if change[0] == "default" else f" ({change[0]})"
            return f"Model{role}", change[1]
        case "thinking_level_change":
            return "Thinking", as_text(data.get("thinkingLevel")) or "off"
        case "mode_change":
            return "Mode", as_text(data.get("mode")) or "none"
        case _:
            return None


def _images(content: object) -> tuple[str, ...]:
    blocks = content if isinstance(content, list) else []
    return tuple(
        describe_image(block)
        for block in blocks
        if isinstance(block, dict) and block.get("type") == "image"
    )
