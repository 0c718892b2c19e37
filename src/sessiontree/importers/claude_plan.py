"""Which records of a Claude Code thread belong together, found before any is converted.

The parts of one answer, the results and notes that follow it, a compaction and its summary, a shell
command and its output. Decides nothing about entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sessiontree.importers import claude_content as content
from sessiontree.importers.records import WireRecord, get_object, get_text


@dataclass(slots=True)
class Answer:
    """The records of one answer of the model, and those that hang on it before the next."""

    parts: list[WireRecord] = field(default_factory=list)
    reach: set[str] = field(default_factory=set)
    calls: dict[str, str] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    was_interrupted: bool = False


class ThreadPlan:
    """Which records of a thread make one entry together."""

    def __init__(self, records: Sequence[WireRecord]) -> None:
        self.answer_of: dict[str, Answer] = {}
        """Every record of an answer, and every record that follows it within its turn."""
        self.tool_names: dict[str, str] = {}
        self.summary_of: dict[str, WireRecord] = {}
        """The summary that belongs to a compaction's boundary."""
        self.output_of: dict[str, WireRecord] = {}
        """What the shell command in a prompt printed."""
        self.absorbed: set[str] = set()
        """Records that are told by another one."""
        self._open: dict[str, Answer] = {}
        self._boundary: str | None = None
        self._commands: set[str] = set()
        seen: set[str] = set()
        for record in records:
            uuid = get_text(record, "uuid")
            if uuid is not None and uuid not in seen:
                seen.add(uuid)
                self._plan(record, uuid, get_text(record, "parentUuid"))

    def _plan(self, record: WireRecord, uuid: str, parent: str | None) -> None:
        kind = record.get("type")
        body = get_object(record, "message").get("content")
        if kind == "assistant":
            self._plan_answer(record, uuid, parent, body)
            return
        if kind == "system" and record.get("subtype") == "compact_boundary":
            self._boundary = uuid
            return
        if kind == "user":
            if record.get("isCompactSummary") is True:
                self._plan_summary(record, uuid)
                return
            self._plan_shell(record, uuid, parent, body)
        answer = self.answer_of.get(parent or "")
        if answer is not None:
            self._follow(answer, kind, uuid, body)

    def _plan_answer(self, record: WireRecord, uuid: str, parent: str | None, body: object) -> None:
        message_id = get_text(get_object(record, "message"), "id")
        answer = self._open.get(message_id) if message_id is not None else None
        if answer is None or parent not in answer.reach:
            answer = Answer()
            if message_id is not None:
                self._open[message_id] = answer
        calls = content.tool_calls(body)
        answer.parts.append(record)
        answer.reach.add(uuid)
        answer.calls |= calls
        self.tool_names |= calls
        self.answer_of[uuid] = answer

    def _follow(self, answer: Answer, kind: object, uuid: str, body: object) -> None:
        """A record that hangs on an answer follows it in one line, unless it is a new prompt."""
        if kind == "user":
            if content.has_interruption(body):
                answer.was_interrupted = True
            results = {block["tool_use_id"] for block in content.tool_results(body)}
            if not results or not results <= answer.calls.keys() - answer.answered:
                return
            answer.answered |= results
        elif kind not in ("progress", "attachment"):
            return
        answer.reach.add(uuid)
        self.answer_of[uuid] = answer

    def _plan_summary(self, record: WireRecord, uuid: str) -> None:
        if self._boundary is not None:
            self.summary_of[self._boundary] = record
            self.absorbed.add(uuid)
            self._boundary = None

    def _plan_shell(self, record: WireRecord, uuid: str, parent: str | None, body: object) -> None:
        text = content.plain_text(body)
        if content.bash_input(text) is not None:
            self._commands.add(uuid)
        elif parent in self._commands and content.bash_output(text) is not None:
            self.output_of[parent] = record
            self._commands.discard(parent)
            self.absorbed.add(uuid)
