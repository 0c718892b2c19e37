"""Group the records of a Claude Code thread before converting them.

Claude Code writes records in the order in which they were finished, not in the order of the
conversation, and writes some of them twice. The plan takes three steps, none of which makes
entries:

1. Give each record a time, and sort parents before their children.
2. Group the parts of one answer, the results of its calls, a compaction's summary, and a shell
   command's output.
3. Find copies. Rewinding and resuming may write history again under new uuids, but a copied answer
   keeps the provider's ``message.id``. Match each copied answer with its original, then walk up
   from both and match their ancestors as long as their content is equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sessiontree.discovery.adapters import claude_content as content
from sessiontree.discovery.adapters.records import (
    WireRecord,
    get_count,
    get_object,
    get_text,
    read_time,
)

_MOST_COPIES = 50
"""The most answers of one id to compare: more than a real file has, and few enough for a hostile
one."""


@dataclass(slots=True)
class Line:
    """A record, with its time and position in the file.

    ``scope`` is the uuid before it in the file, which identifies a record without one.
    """

    record: WireRecord
    kind: str
    uuid: str | None
    parent: str | None
    time_ms: int
    scope: str


@dataclass(slots=True)
class Answer:
    """The records of one answer of the model, and the results of its calls."""

    parts: list[Line] = field(default_factory=list)
    reach: set[str] = field(default_factory=set)
    calls: dict[str, str] = field(default_factory=dict)
    results: list[Line] = field(default_factory=list)
    result_of: dict[str, Line] = field(default_factory=dict)
    was_interrupted: bool = False


class Spending:
    """The usage of each answer, shared by all threads of a session so that none counts twice.

    The provider's id identifies an answer. Its parts repeat the counts, the early
    ones with fewer output tokens than were paid for.
    """

    def __init__(self) -> None:
        self._best: dict[str, WireRecord] = {}
        self._requests: dict[str, str] = {}
        self._taken: set[str] = set()

    def read(self, records: Iterable[WireRecord]) -> None:
        """Record the counts of all answers."""
        for record in records:
            key = self._key(record)
            usage = get_object(get_object(record, "message"), "usage")
            if key is None or not usage:
                continue
            best = self._best.get(key)
            if best is None or _output(usage) >= _output(best):
                self._best[key] = usage

    def take(self, records: Sequence[WireRecord]) -> WireRecord | None:
        """Take the counts of the answer in these records; None if an earlier copy took them."""
        key = next((key for record in records if (key := self._key(record))), None)
        if key is None:
            return max(
                (get_object(get_object(record, "message"), "usage") for record in records),
                key=_output,
                default={},
            )
        if key in self._taken:
            return None
        self._taken.add(key)
        return self._best.get(key, {})

    def _key(self, record: WireRecord) -> str | None:
        message_id = get_text(get_object(record, "message"), "id")
        if record.get("type") != "assistant" or message_id is None:
            return None
        # A gateway may give every answer the same id; then the request id tells them apart.
        request = get_text(record, "requestId")
        first = self._requests.setdefault(message_id, request or "")
        return message_id if request is None or request == first else f"{message_id}\0{request}"


def _output(usage: WireRecord) -> int:
    return get_count(usage, "output_tokens")


def read_lines(records: Iterable[WireRecord], fallback_ms: int) -> tuple[list[Line], int]:
    """Return the records as lines in file order, and the number of duplicates left out.

    A record without a time gets that of the record before it, else of the first one that has one.
    """
    lines: list[Line] = []
    seen: set[str] = set()
    scope, repeated = "", 0
    now: int | None = None
    for record in records:
        uuid = get_text(record, "uuid")
        if uuid is not None and uuid in seen:
            repeated += 1
            continue
        own = read_time(record.get("timestamp"))
        if own is not None and now is None:
            for line in lines:
                line.time_ms = own
        now = own if own is not None else now
        parent = get_text(record, "parentUuid") or get_text(record, "logicalParentUuid")
        kind = get_text(record, "type") or "unknown"
        lines.append(Line(record, kind, uuid, parent, fallback_ms if now is None else now, scope))
        if uuid is not None:
            seen.add(uuid)
            scope = uuid
    return lines, repeated


def parents_first(lines: Sequence[Line]) -> Iterator[Line]:
    """Sort the lines in file order, except that each parent precedes its children."""
    there = {line.uuid for line in lines if line.uuid is not None}
    done: set[str | None] = set()
    waiting: dict[str, list[Line]] = {}

    def release(first: Line) -> Iterator[Line]:
        pending = [first]
        while pending:
            line = pending.pop()
            if line.uuid is not None:
                if line.uuid in done:
                    continue
                done.add(line.uuid)
                pending += reversed(waiting.pop(line.uuid, ()))
            yield line

    for line in lines:
        if line.uuid is not None and line.parent in there and line.parent not in done:
            waiting.setdefault(line.parent or "", []).append(line)
        else:
            yield from release(line)
    for line in lines:  # what is left hangs on itself, around some corners
        if line.uuid is not None and line.uuid not in done:
            yield from release(line)


class ThreadPlan:
    """The lines of a thread, grouped by entry."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = list(parents_first(lines))
        self.answer_of: dict[str, Answer] = {}
        """Every record of an answer, and every record that follows it within its turn."""
        self.tool_names: dict[str, str] = {}
        self.summary_of: dict[str, WireRecord] = {}
        """The summary that belongs to a compaction's boundary."""
        self.output_of: dict[str, WireRecord] = {}
        """The output of the shell command in a prompt."""
        self.absorbed: set[str] = set()
        """Records that another record repeats."""
        self.original_of: dict[str, str] = {}
        """The first record that says what a copy under another uuid says."""
        self._by_uuid = {line.uuid: line for line in self.lines if line.uuid is not None}
        self._above: dict[str, Line | None] = {}
        self._answers: dict[str, list[Answer]] = {}
        self._answer_of_call: dict[str, Answer] = {}
        self._boundary: str | None = None
        self._commands: set[str] = set()
        for line in self.lines:
            if line.uuid is not None:
                self._plan(line, line.uuid)

    def has(self, uuid: str) -> bool:
        """Whether the thread has a record with this uuid."""
        return uuid in self._by_uuid

    def _plan(self, line: Line, uuid: str) -> None:
        record = line.record
        body = get_object(record, "message").get("content")
        if line.kind == "assistant":
            self._plan_answer(line, uuid, body)
            return
        if line.kind == "system" and record.get("subtype") == "compact_boundary":
            self._boundary = uuid
            return
        if line.kind == "user":
            if record.get("isCompactSummary") is True:
                self._plan_summary(record, uuid)
                return
            self._plan_shell(record, uuid, line.parent, body)
        self._follow(line, uuid, body)

    def _plan_answer(self, line: Line, uuid: str, body: object) -> None:
        message_id = get_text(get_object(line.record, "message"), "id")
        known = self._answers.setdefault(message_id, []) if message_id is not None else []
        answer = next((each for each in reversed(known) if self._continues(line, each)), None)
        if answer is None:
            original = _find_part(known, body)
            if original is not None:
                self._match(line, original)
                return
            answer = Answer()
            if len(known) < _MOST_COPIES:
                known.append(answer)
        calls = content.tool_calls(body)
        answer.parts.append(line)
        answer.reach.add(uuid)
        answer.calls |= calls
        self.tool_names |= calls
        for call_id in calls:
            self._answer_of_call.setdefault(call_id, answer)
        self.answer_of[uuid] = answer

    def _continues(self, line: Line, answer: Answer) -> bool:
        """Whether a record continues an answer: its parent is the answer, or not in this thread."""
        parent = self._canonical(line.parent)
        if parent is None:
            return False
        return parent in answer.reach or parent not in self._by_uuid

    def _follow(self, line: Line, uuid: str, body: object) -> None:
        """Assign a record whose parent is an answer to that turn, unless it is a new prompt.

        The result of a call belongs to the answer that made the call, whatever its parent.
        """
        answer = self.answer_of.get(self._canonical(line.parent) or "")
        if line.kind != "user":
            if answer is not None:
                self._join(answer, uuid)
            return
        if answer is not None and content.has_interruption(body):
            answer.was_interrupted = True
        results = {block["tool_use_id"] for block in content.tool_results(body)}
        if not results:
            return
        answer = answer or self._answer_of_call.get(min(results))
        if answer is None or not results <= answer.calls.keys():
            return
        if results.isdisjoint(answer.result_of):
            answer.results.append(line)
            answer.result_of |= dict.fromkeys(results, line)
            self._join(answer, uuid)
            return
        first = answer.result_of.get(min(results))
        is_beside = self._canonical(line.parent) in answer.reach
        if first is not None and is_beside and _says_the_same(line, first):
            self.original_of[uuid] = first.uuid or ""

    def _join(self, answer: Answer, uuid: str) -> None:
        answer.reach.add(uuid)
        self.answer_of[uuid] = answer

    def _match(self, copy: Line, original: Line) -> None:
        """Match a copied answer, and what it follows, with the original and what that follows."""
        above: Line | None = copy
        other: Line | None = original
        while above is not None and other is not None and above is not other:
            if above.uuid in self.original_of or not _says_the_same(above, other):
                return
            self.original_of[above.uuid or ""] = other.uuid or ""
            above, other = self._said_above(above), self._said_above(other)

    def _said_above(self, line: Line) -> Line | None:
        """Find the prompt, result or answer that a line follows, caching each path upwards."""
        way: list[str] = []
        at = self._by_uuid.get(line.parent or "")
        while at is not None and at.kind not in ("user", "assistant"):
            uuid = at.uuid or ""
            if uuid in self._above:
                at = self._above[uuid]
                break
            self._above[uuid] = None  # a circle ends here
            way.append(uuid)
            at = self._by_uuid.get(at.parent or "")
        self._above |= dict.fromkeys(way, at)
        return at

    def _canonical(self, uuid: str | None) -> str | None:
        return self.original_of.get(uuid, uuid) if uuid is not None else None

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


def _find_part(answers: Sequence[Answer], body: object) -> Line | None:
    """Find the part with this content among these answers."""
    for answer in answers:
        for part in answer.parts[:_MOST_COPIES]:
            if get_object(part.record, "message").get("content") == body:
                return part
    return None


def _says_the_same(one: Line, other: Line) -> bool:
    if one.kind != other.kind or one.kind not in ("user", "assistant"):
        return False
    first, second = get_object(one.record, "message"), get_object(other.record, "message")
    if first.get("content") != second.get("content"):
        return False
    # An id from the provider proves equality; an empty prompt proves nothing.
    return first.get("id") == second.get("id") and bool(first.get("content"))
