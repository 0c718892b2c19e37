"""Sessions whose records each hold whole turns: one description serves everything.

Most agents write records that can be read one by one: a prompt, an answer with its calls of tools,
an output. For such an agent a subclass of ``TurnAgent`` says only where the sessions are, and which
turns a record holds (``turns``). Listing, usage, index, search, ``show`` and import all follow from
these turns: ``Scan`` counts them, ``importers.turns`` makes entries of them.

A record that says something about the session (its id, project, name) changes the ``Head``. What a
record holds beyond that becomes a note, which an import keeps as a ``custom`` entry.

Records may form a tree: a turn that follows another than the one before it names that one's record
in ``after``.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from sessiontree.discovery.adapters.base import AgentAdapter
from sessiontree.discovery.adapters.lines import read_lines
from sessiontree.discovery.adapters.records import (
    WireRecord,
    fingerprint,
    get_count,
    make_usage,
    read_record,
    read_time,
    spell_time,
)
from sessiontree.discovery.catalogue.answers import Answer, Answers, Reading, make_key, twin_of
from sessiontree.discovery.catalogue.leaves import Leaf, Status
from sessiontree.discovery.catalogue.summary import Summary
from sessiontree.discovery.texts import SPOKEN_ROLES, SaidText, join_strings
from sessiontree.storage.base import SessionStorage, SessionStorageReader

Role = Literal[
    "user",
    "assistant",
    "toolResult",
    "bashExecution",
    "context",
    "compaction",
    "usage",  # what calls used that left no answer of their own
    "note",
    "mark",  # nothing but a place, which others may follow
    "rewind",
]
MESSAGES = frozenset(("user", "assistant", "toolResult", "bashExecution"))
"""The roles that an import makes messages of, and a listing counts."""
ROOT = ""
"""The value of ``after`` for a turn that begins a new thread."""
_STATUS: Mapping[str, Status] = {
    "stop": "complete",
    "length": "complete",
    "error": "error",
    "aborted": "aborted",
}
_MOST_DOLLARS = 1e12
_ODD = "odd record"
# What reading a field of the wrong type may raise; a record that does is kept as it is.
_SURPRISES = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)


class Turn(msgspec.Struct, kw_only=True, gc=False):
    """The contribution of one record, or of one part of it, to a conversation.

    ``blocks`` are pi's: ``text``, ``thinking``, ``image``, ``toolCall``.
    """

    role: Role
    id: str = ""
    """The record's own id, the same for all turns of one record; empty if it has none."""
    time: object = None
    blocks: list[WireRecord] = []
    model: str | None = None
    """``provider/model`` that gave this answer."""
    usage: WireRecord | None = None
    """The usage of an answer, a compaction or a ``usage``; made by ``usage_of``."""
    stop: str = "stop"
    error: str | None = None
    call_id: str = ""
    name: str = ""
    """The tool of a result; the kind of a note or a context."""
    is_error: bool = False
    data: object = None
    """The content of a note; a result's details; a command's ``command`` and ``output``."""
    after: str | None = None
    """The id of the record that it follows; without one, it follows the turn before it.

    For ``rewind``: the record that goes, with all after it.
    """
    kept: str | None = None
    """For a compaction: the first record that the model still sees; without one, it sees none."""
    is_shown: bool = False

    @property
    def text(self) -> str:
        """The text of the turn."""
        return " ".join(block["text"] for block in self.blocks if block["type"] == "text")


class Head(msgspec.Struct):
    """The facts that a session states about itself."""

    id: str | None = None
    cwd: str | None = None
    title: str | None = None
    title_source: str | None = None
    started: object = None
    parent: str | None = None
    owner: str | None = None
    """The session that this one is a part of."""


class TurnAgent(AgentAdapter):
    """An agent whose records hold whole turns.

    Required beside ``name``, ``title``, ``find`` and ``is_session``: ``turns``.
    """

    converter = "sessiontree.importers.turns:convert_session_of"
    can_read_on = False

    def head(self, path: str) -> Head:
        """The facts that a session's path states."""
        return Head(id=os.path.basename(path).rpartition(".")[0] or os.path.basename(path))

    def take_head(self, record: WireRecord, head: Head) -> None:
        """Note what a record says about the session."""

    @abstractmethod
    def turns(self, record: WireRecord) -> Iterator[Turn]:
        """Yield what one record adds to the conversation, in order. May raise on odd values."""

    def find_parts(self, path: str, head: Head, storage: SessionStorage) -> Sequence[str]:
        """Find the sessions of subagents that belong to one; an import takes them along."""
        del path, head, storage
        return ()

    # -- what follows from these ---------------------------------------------------------------

    def read(
        self, reader: SessionStorageReader, path: str, size: int, known: Reading | None
    ) -> Reading:
        del known
        scan = Scan(self, path)
        for line, offset in read_lines(reader, 0, size):
            scan.take(line, offset)
        reading = scan.finish()
        reading.summary.end = size
        reading.summary.has_final_newline = size == 0 or reader.read_at(size - 1, 1) == b"\n"
        return reading

    def texts_of_line(self, line: bytes, offset: int, *, include_tools: bool) -> Iterator[SaidText]:
        record = read_record(line)
        for turn in safe_turns(self, record) if record is not None else ():
            time_ms = read_time(turn.time)
            if include_tools:
                for block in turn.blocks:
                    if block["type"] == "toolCall":
                        called = join_strings([block["name"], block["arguments"]])
                        yield SaidText(turn.id, "toolCall", time_ms, called, offset)
                if turn.role == "bashExecution":
                    yield SaidText(turn.id, turn.role, time_ms, join_strings(turn.data), offset)
            if turn.role in SPOKEN_ROLES or (include_tools and turn.role == "toolResult"):
                text = turn.text
                if text:
                    yield SaidText(turn.id, turn.role, time_ms, text, offset)


def safe_turns(agent: TurnAgent, record: WireRecord) -> list[Turn]:
    """The turns of a record; one that can't be read is a note as a whole."""
    try:
        return list(agent.turns(record))
    except _SURPRISES:
        return [Turn(role="note", name=_ODD, data=record)]


def safe_head(agent: TurnAgent, record: WireRecord, head: Head) -> None:
    """Note what a record says about the session, unless it is odd."""
    try:
        agent.take_head(record, head)
    except _SURPRISES:
        return


class Scan:
    """Count the messages that an import would make, and add up what was paid."""

    def __init__(self, agent: TurnAgent, path: str) -> None:
        self._agent = agent
        self._head = agent.head(path)
        self._path = path
        self._answers = Answers()
        self._summary = Summary()
        self._began_ms: int | None = None
        self._leaf_before: dict[str, Leaf | None] = {}
        """The leaf before each record, for those that are taken back."""
        self._leaf_at: dict[str, Leaf | None] = {}

    def take(self, line: bytes, offset: int) -> None:
        """Add one line."""
        record = read_record(line)
        if record is None:
            self._summary.skipped_count += bool(line.strip(b" \t\r\0"))
            return
        safe_head(self._agent, record, self._head)
        for turn in safe_turns(self._agent, record):
            self._take_turn(turn, offset)

    def finish(self) -> Reading:
        """Return what was found, when all lines were taken."""
        summary, head = self._summary, self._head
        summary.session_id = head.id or os.path.basename(self._path)
        summary.cwd = head.cwd or ""
        summary.parent_session = head.parent
        summary.owner = head.owner
        summary.header_title = head.title
        began_ms = read_time(head.started)
        began_ms = began_ms if began_ms is not None else self._began_ms
        summary.timestamp = spell_time(began_ms) if began_ms is not None else None
        return Reading(summary, self._answers)

    def _take_turn(self, turn: Turn, offset: int) -> None:
        summary = self._summary
        time_ms = read_time(turn.time)
        if self._began_ms is None:
            self._began_ms = time_ms
        self._go_to(turn)
        if turn.role in MESSAGES:
            self._take_message(turn, time_ms)
            summary.leaf = Leaf(turn.id, self._status(turn), offset)
        if turn.id:
            self._leaf_at[turn.id] = summary.leaf
        if turn.role in ("assistant", "compaction", "usage"):
            self._take_usage(turn, time_ms)

    def _go_to(self, turn: Turn) -> None:
        """Go to the place that a turn follows."""
        summary = self._summary
        if turn.role == "rewind":
            summary.leaf = self._leaf_before.get(turn.after or "", summary.leaf)
            return
        if turn.after is not None:
            root = None if turn.after == ROOT else summary.leaf
            summary.leaf = self._leaf_at.get(turn.after, root)
        if turn.id:
            self._leaf_before.setdefault(turn.id, summary.leaf)

    def _take_message(self, turn: Turn, time_ms: int | None) -> None:
        summary = self._summary
        summary.message_count += 1
        if time_ms is not None:
            summary.last_message_ms = max(time_ms, summary.last_message_ms or 0)
        if summary.first is None:
            # A fork copies messages under new ids, with their times.
            summary.first = str(make_key(time_ms, turn.text or turn.id))
        summary.last = turn.id or None
        if turn.role == "user" and summary.first_message is None:
            text = turn.text
            summary.first_message = text if text.strip() else None

    def _status(self, turn: Turn) -> Status:
        if turn.role != "assistant":
            return "interrupted"
        return _STATUS.get(turn.stop, "interrupted")

    def _take_usage(self, turn: Turn, time_ms: int | None) -> None:
        usage = turn.usage
        if usage is None:
            return
        counts = (usage["input"], usage["output"], usage["cacheRead"])
        cost = usage["cost"]["total"]
        if not (any(counts) or usage["cacheWrite"] or cost):
            return
        self._answers.rows.append(
            Answer(
                0,
                (twin_of(time_ms, *counts),),
                time_ms,
                self._answers.model_no(turn.model or "unknown"),
                *counts,
                usage["cacheWrite"],
                cost,
                usage.get("reasoning", 0),
                is_answer=turn.role == "assistant",
            )
        )


# -- what adapters build turns of ------------------------------------------------------------------


def text_block(text: str) -> WireRecord:
    return {"type": "text", "text": text}


def thinking_block(text: str, signature: object = None) -> WireRecord:
    made = {"type": "thinking", "thinking": text}
    return {**made, "thinkingSignature": signature} if isinstance(signature, str) else made


def image_block(data: str, mime_type: str) -> WireRecord:
    return {"type": "image", "data": data, "mimeType": mime_type}


def call_block(call_id: object, name: object, arguments: object) -> WireRecord:
    """A call of a tool; arguments other than an object are put into one."""
    held = arguments if isinstance(arguments, dict) else {"input": arguments}
    return {
        "type": "toolCall",
        "id": call_id if isinstance(call_id, str) and call_id else fingerprint(arguments),
        "name": name if isinstance(name, str) and name else "unknown",
        "arguments": {} if arguments is None else held,
    }


def data_url_block(url: object, mime_type: object) -> WireRecord | None:
    """The image in a ``data:`` URL; None for anything else."""
    if not (isinstance(url, str) and isinstance(mime_type, str) and mime_type.startswith("image/")):
        return None
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return image_block(data, mime_type)


def spell_model(provider: object, model: object) -> str | None:
    """``provider/model``; None without a model."""
    if not (isinstance(model, str) and model):
        return None
    return f"{provider if isinstance(provider, str) and provider else 'unknown'}/{model}"


def usage_of(
    values: Mapping[str, Any],
    *,
    input_key: str,
    output_key: str,
    read_key: str = "",
    write_key: str = "",
    reasoning_key: str = "",
    cost: object = 0.0,
    input_holds_cache: bool = False,
    output_holds_reasoning: bool = True,
) -> WireRecord:
    """Make a message's usage of an agent's counts."""
    read, write = get_count(values, read_key), get_count(values, write_key)
    given = get_count(values, input_key)
    thought = get_count(values, reasoning_key)
    made = make_usage(
        max(0, given - read - write) if input_holds_cache else given,
        get_count(values, output_key) + (0 if output_holds_reasoning else thought),
        read,
        write,
        _dollars(cost),
    )
    return {**made, "reasoning": thought} if thought else made


def _dollars(cost: object) -> float:
    if isinstance(cost, bool) or not isinstance(cost, (int, float)):
        return 0.0
    return float(cost) if 0 <= cost < _MOST_DOLLARS else 0.0
