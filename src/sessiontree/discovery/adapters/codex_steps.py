"""Gather a rollout's lines into the steps of the conversation: prompts, answers, outputs.

One pass over the lines, without making ids, so that a listing counts messages exactly as an import
does.

**Token counts.** Each count reports the usage of one request to the model. Depending on the version
it comes before the items of the answer, after them, or after the outputs of its calls, and Codex
repeats it whenever another part of the status line changes. Therefore a count with the running
total of the count before it is a repetition. Any other belongs to the last answer if that has none
yet, else to the next one. An answer with a count is complete: what follows is another request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from sessiontree.discovery.adapters import codex_items as items
from sessiontree.discovery.adapters.codex_events import find_untold
from sessiontree.discovery.adapters.codex_items import RolloutLine, ending_of
from sessiontree.discovery.adapters.records import (
    WireRecord,
    get_count,
    get_object,
    get_text,
)

_SCREEN = frozenset(
    (
        "user_message",
        "agent_message",
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "agent_reasoning_section_break",
        "context_compacted",
        "web_search_end",
    )
)
_LIFECYCLE = frozenset(
    (
        "task_started",
        "task_complete",
        "turn_started",
        "turn_complete",
        "exec_command_begin",
        "mcp_tool_call_begin",
        "patch_apply_begin",
        "web_search_begin",
        "item_started",
        "session_configured",
    )
)


class Prompt(msgspec.Struct):
    """A message to the model, typed by the user or written by Codex."""

    line: RolloutLine
    item: WireRecord
    typed: list[dict[str, Any]]
    context: list[dict[str, Any]]
    left_over: list[Any]


class Answer(msgspec.Struct):
    """The items of one answer, and the notes recorded between them."""

    line: RolloutLine
    parts: list[WireRecord] = msgspec.field(default_factory=list)
    blocks: list[dict[str, Any]] = msgspec.field(default_factory=list)
    searches: list[tuple[WireRecord, dict[str, Any]]] = msgspec.field(default_factory=list)
    notes: list[Note] = msgspec.field(default_factory=list)
    usage: dict[str, Any] | None = None
    running: int = 0
    """The session's tokens up to this answer, which a fork keeps."""
    reasoning: int = 0
    model: str | None = None
    effort: str | None = None
    was_aborted: bool = False


class Output(msgspec.Struct):
    """The output of a tool."""

    line: RolloutLine
    item: WireRecord


class Note(msgspec.Struct):
    """A record without a counterpart."""

    line: RolloutLine
    kind: str
    data: WireRecord


class Compaction(msgspec.Struct):
    """A summary in place of what came before it, and how many tokens that had."""

    line: RolloutLine
    tokens: int


class RollBack(msgspec.Struct):
    """The removal of the last turns."""

    line: RolloutLine


class Meta(msgspec.Struct):
    """The file's metadata."""

    line: RolloutLine


Step = Prompt | Answer | Output | Note | Compaction | RollBack | Meta


class Gatherer:
    """Gather the steps of a rollout."""

    def __init__(self, lines: Sequence[RolloutLine], provider: str, inherited: int = 0) -> None:
        """``inherited`` is how many of the first lines are another session's, which has counted
        the tokens of their answers."""
        self.steps: list[Step] = []
        self.title: str | None = None
        self.left_out: dict[str, int] = {}
        self._lines = lines
        self._provider = provider
        self._inherited = inherited
        self._untold = find_untold(lines)
        self._calls: set[str] = set()
        self._search_events = _search_events(lines)
        self._searches = 0
        self._answer: Answer | None = None
        self._last_answer: Answer | None = None
        self._is_abortable = False
        self._model: str | None = None
        self._effort: str | None = None
        self._has_meta = False
        self._counts = _Counts()

    def gather(self) -> list[Step]:
        """Gather all lines in one pass."""
        for index, line in enumerate(self._lines):
            self._counts.is_inherited = index < self._inherited
            self._take(index, line)
        self._end_answer()
        return self.steps

    def _take(self, index: int, line: RolloutLine) -> None:
        match line.kind:
            case "response_item":
                self._item(line, line.payload)
            case "event_msg":
                self._event(index, line)
            case "turn_context":
                self._model = get_text(line.payload, "model") or self._model
                self._effort = get_text(line.payload, "effort") or self._effort
            case "compacted":
                self._end_answer()
                self.steps.append(Compaction(line, self._counts.tokens))
            case "session_meta" if not self._has_meta:
                self._has_meta = True
                self.steps.append(Meta(line))
            case "token_usage_record":
                self._count(None, get_object(line.payload, "usage"))
            case _:
                self._note(line, line.kind, line.payload or line.record)

    # -- items -----------------------------------------------------------------------------

    def _item(self, line: RolloutLine, item: WireRecord) -> None:
        kind = get_text(item, "type") or "unknown"
        if kind == "message" and item.get("role") != "assistant":
            self._end_answer()
            self._prompt(line, item)
        elif kind in items.OUTPUTS:
            self._end_answer()
            self._is_abortable = False
            self.steps.append(Output(line, item))
        elif not self._part(line, kind, item):
            self._note(line, kind, item)

    def _prompt(self, line: RolloutLine, item: WireRecord) -> None:
        blocks, left_over = items.convert_content(item.get("content"))
        context = []
        if item.get("role") == "user":
            context = [b for b in blocks if b["type"] == "text" and items.is_context(b["text"])]
        typed = [block for block in blocks if block not in context]
        self._is_abortable = False
        self.steps.append(Prompt(line, item, typed, context, left_over))

    def _part(self, line: RolloutLine, kind: str, item: WireRecord) -> bool:
        """Add an item to the model's answer; False if it can't be part of a message."""
        blocks: list[dict[str, Any]] = []
        left_over: list[Any] = []
        if kind == "message":
            blocks, left_over = items.convert_content(item.get("content"))
        elif kind == "reasoning":
            made = items.convert_reasoning(item, self._provider)
            blocks = [made] if made is not None else []
        elif kind in items.CALLS:
            call = items.convert_call(item)
            if call is None:
                return False
            self._calls.add(call["id"])
            blocks = [call]
        elif kind == items.WEB_SEARCH:
            blocks = [self._search(item)]
        else:
            return False
        if blocks:
            answer = self._begin_answer(line)
            answer.parts.append(item)
            answer.blocks += blocks
            if kind == items.WEB_SEARCH:
                answer.searches.append((item, blocks[0]))
        if left_over or not blocks:
            self._note(line, f"{kind} item", item)
        return True

    def _search(self, item: WireRecord) -> dict[str, Any]:
        self._searches += 1
        known = self._search_events.get(items.search_text(item))
        call_id = get_text(item, "id") or (known.pop(0) if known else None)
        return items.convert_search(item, call_id or f"web_search_{self._searches}")

    def _begin_answer(self, line: RolloutLine) -> Answer:
        if self._answer is None:
            counts = self._counts
            self._answer = Answer(line, running=counts.running, reasoning=counts.reasoning)
            self._answer.usage = counts.take_waiting()
            self._is_abortable = True
        return self._answer

    def _end_answer(self) -> None:
        """The answer is complete."""
        if self._answer is not None:
            self._answer.model, self._answer.effort = self._model, self._effort
            self.steps.append(self._answer)
            self._last_answer, self._answer = self._answer, None

    # -- everything else -------------------------------------------------------------------

    def _note(self, line: RolloutLine, kind: str, data: WireRecord) -> None:
        """Add a note here, or after an unfinished answer so as not to split it."""
        note = Note(line, kind, data)
        (self.steps if self._answer is None else self._answer.notes).append(note)

    def _event(self, index: int, line: RolloutLine) -> None:
        event = line.payload
        kind = get_text(event, "type") or "unknown"
        if index in self._untold:
            self._item(line, self._untold[index])
        elif kind == "token_count":
            info = get_object(event, "info")
            self._count(get_object(info, "total_token_usage"), get_object(info, "last_token_usage"))
        elif kind == "thread_rolled_back":
            self._end_answer()
            self.steps.append(RollBack(line))
        elif kind == "thread_name_updated":
            self.title = get_text(event, "thread_name") or self.title
            self._leave_out("titles")
        elif kind in _SCREEN or self._is_shown_elsewhere(event, kind):
            self._leave_out("screen copies")
        elif kind in _LIFECYCLE:
            self._leave_out("turn events")
        else:
            if kind == "turn_aborted":
                self._abort()
            self._note(line, kind, event)

    def _leave_out(self, what: str) -> None:
        self.left_out[what] = self.left_out.get(what, 0) + 1

    def _is_shown_elsewhere(self, event: WireRecord, kind: str) -> bool:
        if kind == "item_completed" and items.as_item(event) is not None:
            return True
        ending = ending_of(event)
        return ending is not None and ending[0] in self._calls

    def _count(self, total: WireRecord | None, last: WireRecord) -> None:
        self._leave_out("token counts")
        answer = self._answer or self._last_answer
        is_waited_for = answer is not None and answer.usage is None
        if not self._counts.is_new(total, last, is_waited_for):
            return
        usage = self._counts.read(last, total)
        if answer is not None and answer.usage is None:
            answer.usage = usage
            answer.running, answer.reasoning = self._counts.running, self._counts.reasoning
        else:
            self._counts.waiting = usage
        is_abortable = self._is_abortable
        self._end_answer()
        self._is_abortable = is_abortable

    def _abort(self) -> None:
        self._end_answer()
        if self._is_abortable and self._last_answer is not None:
            self._last_answer.was_aborted = True
        self._is_abortable = False


class _Counts:
    """The token counts of a rollout: tells new ones from repetitions; holds one for an answer."""

    def __init__(self) -> None:
        self.tokens = 0
        self.running = 0
        self.reasoning = 0
        self.waiting: dict[str, Any] | None = None
        self.is_inherited = False
        self._total: WireRecord | None = None
        self._last: WireRecord | None = None

    def is_new(self, total: WireRecord | None, last: WireRecord, is_waited_for: bool) -> bool:
        """Whether this count is not a repetition."""
        if not last:
            return False
        if not total:
            is_repeated = last == self._last and not is_waited_for
            self._last = last
            return not is_repeated
        before, self._total, self._last = self._total, total, last
        if total == before:
            return False
        # The first count of a session that continues another may repeat the other's last.
        return before is not None or is_waited_for or _amount(total) <= _amount(last)

    def read(self, last: WireRecord, total: WireRecord | None) -> dict[str, Any]:
        """Return the usage in a count; none for an inherited answer."""
        usage = items.read_usage(last)
        self.running = _amount(total) if total else 0
        self.reasoning = min(get_count(last, "reasoning_output_tokens"), usage["output"])
        self.tokens = usage["totalTokens"]
        return items.read_usage({}) if self.is_inherited else usage

    def take_waiting(self) -> dict[str, Any] | None:
        """Take the count that came before its answer."""
        waiting, self.waiting = self.waiting, None
        return waiting


def _amount(usage: WireRecord) -> int:
    return int(items.read_usage(usage)["totalTokens"])


def _search_events(lines: Sequence[RolloutLine]) -> dict[str, list[str]]:
    """Map search terms to the ids of web searches: the items often have no id."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.kind == "event_msg" and line.payload.get("type") == "web_search_end":
            call_id = get_text(line.payload, "call_id")
            item = items.as_item(line.payload)
            if call_id is not None and item is not None:
                found.setdefault(items.search_text(item), []).append(call_id)
    return found


def count_messages(steps: Sequence[Step]) -> int:
    """Count the messages that an import of these steps makes."""
    return sum(map(_count_of, steps))


def _count_of(step: Step) -> int:
    match step:
        case Prompt():
            shells = sum(1 for each in step.context if items.shell_command(each["text"]))
            return shells + (1 if step.typed and step.item.get("role") == "user" else 0)
        case Answer():
            return 1 + len(step.searches)
        case Output():
            return 1 if get_text(step.item, "call_id") is not None else 0
    return 0


def typed_prompts(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the text of each prompt that the user typed."""
    for step in steps:
        if isinstance(step, Prompt) and step.item.get("role") == "user":
            text = "\n".join(block["text"] for block in step.typed if block["type"] == "text")
            if text.strip():
                yield text


def find_cwd(steps: Sequence[Step]) -> str | None:
    """Return the working folder in the model's context, for files that name none elsewhere."""
    texts = (block["text"] for step in steps if isinstance(step, Prompt) for block in step.context)
    return next(filter(None, map(items.context_cwd, texts)), None)
