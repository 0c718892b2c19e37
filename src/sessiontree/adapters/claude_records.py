"""Convert the records of a Claude Code transcript, one by one, in the order they arrive.

The importer (``importers.claude_code``) converts a whole file: it sees every part of an answer
before it writes one. A session store gets records as they are written, so each record becomes its
entry at once, and keeps it. What makes that readable:

- An entry's id derives from the record's ``uuid``, so a record that comes twice is found.
- The records of one answer share ``message.id``. Each is a message of its own, and the answer's
  tool results follow its last part, whatever their ``parentUuid`` says (there, each result hangs
  on the part with its own call, which would put the others on another branch).
- Records without a ``uuid`` (titles, snapshots) stay where they were written, and the conversation
  goes on below them.
- Parts of an answer repeat its token counts; an entry counts what it adds to the part before.
- A subagent's records form a thread of their own, below a root that names the subagent.

The record itself is packed into the entry (see ``verbatim``), beside what this module notes:

    {"type": "message", "id": "<uuid>", "parentId": …, "message": {…},
     "native": {"claude-code": <the record>},
     "claudeCode": {"at": <when it was stored, in ms>, "path": "subagents/agent-1", …}}
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sessiontree.adapters.verbatim import NATIVE, pack, unpack
from sessiontree.discovery.adapters import claude_content as content
from sessiontree.discovery.adapters.records import (
    WireRecord,
    get_count,
    get_object,
    get_text,
    read_time,
    spell_time,
)
from sessiontree.model.ids import sha256_hex
from sessiontree.model.messages import text_or_none

FIELD = "claudeCode"
AGENT = "claude-code"
DELETED = f"{AGENT}.deleted"
SUMMARY = f"{AGENT}.sdk-summary"

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PARENT_KEYS = ("parentUuid", "logicalParentUuid")
_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)

Wire = dict[str, Any]


def _hash(text: str) -> str:
    return sha256_hex(text.encode("utf-8", "surrogatepass"))[:24]


@dataclass(slots=True)
class _Thread:
    """The main conversation, or a subagent's."""

    path: str | None = None
    generation: int = 0
    """The number of times that the thread was deleted. Its entries still exist, under their ids."""
    records: int = 0
    ids: set[str] = field(default_factory=set)
    root: str | None = None
    tip: str | None = None
    model: str | None = None
    boundary: WireRecord = field(default_factory=dict)
    """The data of the latest compaction's boundary."""
    after: dict[str | None, str] = field(default_factory=dict)
    """From an entry to one that was inserted behind it: what follows the one follows the other."""
    answer_of: dict[str, str] = field(default_factory=dict)
    """From an entry that belongs to an answer, or to the results of its calls, to the answer."""
    first_of: dict[str, str] = field(default_factory=dict)
    calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    """From a tool call to its answer and the tool's name."""

    def id_of(self, uuid: str) -> str:
        """The entry id for a record's uuid: the same record always has the same one."""
        name = uuid if _UUID.fullmatch(uuid) else f"{AGENT}-{_hash(uuid)}"
        if self.path is None:
            return name
        return f"{name}.{_hash(f'{self.generation} {self.path}')}"

    def end_of(self, entry_id: str | None) -> str | None:
        """The entry that a child of this one follows."""
        end = entry_id
        while end in self.after:
            end = self.after[end]
        if end is not None and end != entry_id:
            self.after[entry_id] = end
        return end


class Threads:
    """The ends of one session's threads: learned from its entries, old and new alike."""

    def __init__(self) -> None:
        self.seen = 0
        """The number of the session's entries that were learned."""
        self.is_ahead = False
        """Whether entries are known here that are not written yet."""
        self.written_ms = 0
        """The time of the last write to the main conversation."""
        self.summary: Wire = {}
        self._threads: dict[str | None, _Thread] = {}
        self._usage: dict[str, dict[str, int]] = {}
        self._notes = 0

    @property
    def tip(self) -> str | None:
        """The end of the main conversation."""
        return self._thread(None).tip

    @property
    def paths(self) -> list[str | None]:
        """The threads that have records; None is the main conversation."""
        return [path for path, thread in self._threads.items() if thread.records]

    def has(self, uuid: str, path: str | None) -> bool:
        """Whether a record with this uuid is in the thread."""
        thread = self._thread(path)
        return thread.id_of(uuid) in thread.ids

    def title_in(self, records: Iterable[WireRecord], *, is_named: bool) -> str | None:
        """The title that these records give the session; a made up one only if it has no name."""
        chosen = made_up = None
        for record in records:
            match record.get("type"):
                case "custom-title" | "agent-name":
                    name = get_text(record, "customTitle") or get_text(record, "agentName")
                    chosen = name or chosen
                case "ai-title":
                    made_up = get_text(record, "aiTitle") or made_up
                # old versions also wrote summaries of other sessions
                case "summary" if self.has(get_text(record, "leafUuid") or "", None):
                    made_up = get_text(record, "summary") or made_up
        return chosen or (None if is_named else made_up)

    def _thread(self, path: str | None) -> _Thread:
        thread = self._threads.get(path)
        if thread is None:
            thread = self._threads[path] = _Thread(path)
        return thread

    # -- learning --------------------------------------------------------------------------

    def learn(self, entry: Wire) -> None:
        """Learn an entry of the session."""
        kept = entry.get(FIELD)
        if not isinstance(kept, dict):
            return
        path = thread_of(kept)
        thread = self._thread(path)
        entry_id = entry["id"]
        if kept.get("isInserted") is True:
            thread.after.setdefault(entry.get("parentId"), entry_id)
        thread.tip = entry_id
        if kept.get("isRoot") is True:
            thread.root = entry_id
        elif kept.get("isSummary") is True:
            self.summary = get_object(entry, "data")
        elif (gone := get_text(kept, "deleted")) is not None:
            self._threads[gone] = _Thread(gone, self._thread(gone).generation + 1)
        elif kept.get("isPart") is not True:
            thread.records += 1
            thread.ids.add(entry_id)
            if path is None:
                self.written_ms = max(self.written_ms, get_count(kept, "at"))
        self._learn_answer(thread, kept, entry)
        model = get_text(get_object(entry, "message"), "model")
        if model != content.SYNTHETIC_MODEL:
            thread.model = model or thread.model
        if "boundary" in kept:
            thread.boundary = get_object(kept, "boundary")

    def _learn_answer(self, thread: _Thread, kept: Wire, entry: Wire) -> None:
        counts = get_object(kept, "counts")
        if (of := get_text(counts, "of")) is not None:
            known = self._usage.setdefault(of, dict.fromkeys(_COUNTS, 0))
            for key in _COUNTS:
                known[key] = max(known[key], get_count(counts, key))
        answer = get_text(kept, "answer")
        if answer is None:
            return
        thread.answer_of[entry["id"]] = answer
        thread.first_of.setdefault(answer, entry["id"])
        blocks = get_object(entry, "message").get("content")
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict) and block.get("type") == "toolCall":
                call_id = get_text(block, "id")
                if call_id is not None:
                    thread.calls[call_id] = (answer, get_text(block, "name") or "unknown")

    # -- making ----------------------------------------------------------------------------

    def make(self, record: WireRecord, path: str | None, now_ms: int) -> list[Wire]:
        """The entries for a record, in the order in which they follow one another; learned."""
        made: list[Wire] = []
        thread = self._thread(path)
        if path is not None and thread.root is None:
            made.append(_root(path, thread.id_of(""), now_ms))
            self.learn(made[0])
        for entry in _Maker(self, thread, record, now_ms).entries():
            self.learn(entry)
            made.append(entry)
        return made

    def note(self, custom_type: str, data: Wire | None, **kept: Any) -> Wire:
        """An entry that only programs read, behind the main conversation; learned."""
        entry: Wire = {"type": "custom", "customType": custom_type}
        if data is not None:
            entry["data"] = data
        entry["id"] = self.unused_id()
        entry["parentId"] = self.tip
        entry[FIELD] = {"isPart": True, "isInserted": True, **kept}
        self.learn(entry)
        return entry

    def unused_id(self) -> str:
        """An id for an entry without a uuid, which no other entry of the session has."""
        self._notes += 1
        return f"{AGENT}.{self.seen}.{self._notes}"

    def unseen_usage(self, answer: str, counts: WireRecord) -> dict[str, int]:
        """The difference between these counts and those of the answer's parts before."""
        known = self._usage.get(answer, {})
        return {key: max(0, get_count(counts, key) - known.get(key, 0)) for key in _COUNTS}


def thread_of(kept: Wire) -> str | None:
    """The thread that an entry's record belongs to; None is the main conversation."""
    return text_or_none(kept.get("path"))


def record_of(entry: Wire) -> Any:
    """The record that an entry was made of. Raises UnpackError, KeyError."""
    return unpack(entry[NATIVE][AGENT], _readable(entry))


def _readable(entry: Wire) -> Any:
    """The parts of an entry that may hold texts of its record."""
    match entry["type"]:
        case "message":
            return entry.get("message")
        case "custom_message":
            return {"content": entry.get("content")}
        case "compaction":
            return {"content": entry.get("summary")}
    return None


def _root(path: str, entry_id: str, now_ms: int) -> Wire:
    """The entry below which a subagent's conversation stands."""
    agent_id = path.rpartition("/")[2].removeprefix("agent-")
    return {
        "type": "custom",
        "customType": f"{AGENT}.sidechain",
        "id": entry_id,
        "parentId": None,
        "timestamp": spell_time(now_ms),
        "data": {"agentId": agent_id, "path": path},
        FIELD: {"path": path, "isRoot": True},
    }


class _Maker:
    """Makes the entries of one record."""

    def __init__(self, threads: Threads, thread: _Thread, record: WireRecord, now_ms: int) -> None:
        self._threads = threads
        self._thread = thread
        self._record = record
        self._now_ms = now_ms
        self._answer: str | None = None
        self._is_inserted = False
        self._is_boundary = False
        self._before: list[Wire] = []
        self._behind: list[Wire] = []
        self._counts: Wire = {}

    def entries(self) -> list[Wire]:
        record, thread = self._record, self._thread
        uuid = get_text(record, "uuid")
        main = self._convert() if uuid is not None else self._kept()
        place = self._place(uuid)
        base = thread.id_of(uuid) if uuid is not None else self._threads.unused_id()
        time_ms = read_time(record.get("timestamp"))
        time_ms = self._now_ms if time_ms is None else time_ms
        made: list[Wire] = []
        for index, part in enumerate((*self._before, main, *self._behind)):
            entry: Wire = {**part, "parentId": place, "timestamp": spell_time(time_ms)}
            entry["id"] = base if part is main else f"{base}.{index}"
            if "message" in entry:
                entry["message"] = {**entry["message"], "timestamp": time_ms}
            if entry.get("firstKeptEntryId") == "":
                entry["firstKeptEntryId"] = entry["id"]
            entry[FIELD] = self._kept_fields(part is main, index)
            if part is main:
                entry[NATIVE] = {AGENT: pack(record, _readable(entry))}
            made.append(entry)
            place = entry["id"]
        return made

    def _kept_fields(self, is_main: bool, index: int) -> Wire:
        kept: Wire = {"at": self._now_ms} if is_main else {"isPart": True}
        if self._thread.path is not None:
            kept["path"] = self._thread.path
        if self._answer is not None:
            kept["answer"] = self._answer
        if self._is_inserted or index:
            kept["isInserted"] = True
        if is_main and self._counts:
            kept["counts"] = self._counts
        if is_main and self._is_boundary:
            kept["boundary"] = get_object(self._record, "compactMetadata")
        return kept

    def _place(self, uuid: str | None) -> str | None:
        """The entry that this record's first entry follows."""
        thread, record = self._thread, self._record
        if uuid is None or not any(key in record for key in _PARENT_KEYS):
            self._is_inserted = True  # a note on the conversation, where it was written
            return thread.tip
        if self._answer is not None and self._answer in thread.first_of:
            self._is_inserted = True
            return thread.end_of(thread.first_of[self._answer])
        parents = [parent for key in _PARENT_KEYS if (parent := get_text(record, key))]
        for parent in parents:
            parent_id = thread.id_of(parent)
            if parent_id in thread.ids:
                return thread.end_of(parent_id)
        # a missing parent: one connected conversation is worth more than two halves
        return thread.tip if parents else thread.end_of(thread.root)

    # -- bodies ----------------------------------------------------------------------------

    def _convert(self) -> Wire:
        record = self._record
        match record.get("type"):
            case "user":
                return self._user()
            case "assistant":
                return self._assistant()
            case "system" if record.get("subtype") == "local_command":
                text = get_text(record, "content")
                return self._command(text) if text is not None else self._kept()
            case "system" if record.get("subtype") == "compact_boundary":
                # what a compaction keeps in sight is not written again: the conversation goes on
                # from there, and from here on behind the summary
                self._is_inserted = self._is_boundary = True
            case "attachment":
                attachment = get_object(record, "attachment")
                if content.is_queued_prompt(attachment):
                    return self._prompt(attachment.get("prompt")) or self._kept()
        return self._kept()

    def _kept(self) -> Wire:
        """The record itself, as an entry that only programs read."""
        kind = get_text(self._record, "type") or "unknown"
        return {"type": "custom", "customType": f"{AGENT}.{kind}"}

    def _user(self) -> Wire:
        body = get_object(self._record, "message").get("content")
        if self._record.get("isCompactSummary") is True:
            return self._compaction(content.plain_text(body)) or self._kept()
        results = content.tool_results(body)
        if not results:
            return self._prompt(body) or self._kept()
        messages = [self._result(block) for block in results]
        prompt = self._prompt(body)
        self._behind = [*messages[1:], *self._before, *([prompt] if prompt else [])]
        self._before = []
        return messages[0]

    def _result(self, block: WireRecord) -> Wire:
        call_id = block["tool_use_id"]
        answer, name = self._thread.calls.get(call_id, (None, "unknown"))
        self._answer = self._answer or answer
        message: Wire = {
            "role": "toolResult",
            "toolCallId": call_id,
            "toolName": name,
            "content": content.convert_tool_result(block.get("content")).blocks,
            "isError": block.get("is_error") is True,
        }
        return {"type": "message", "message": message}

    def _prompt(self, body: object) -> Wire | None:
        converted = content.convert_prompt(body)
        if not converted.blocks:
            return None
        text = content.plain_text(body)
        if self._record.get("isMeta") is True:
            said = body if isinstance(body, str) else converted.blocks
            return _custom_message("meta", said, is_shown=False)
        command = content.bash_input(text)
        if command is not None:
            return _custom_message("command", f"! {command}", is_shown=True)
        output = content.bash_output(text)
        if output is not None:
            return _custom_message("command", output, is_shown=True)
        if content.is_command_markup(text):
            return self._command(text)
        around, typed = content.split_prompt(converted.blocks)
        if not around:
            said = body if isinstance(body, str) else converted.blocks
            return {"type": "message", "message": {"role": "user", "content": said}}
        hidden = _custom_message("context", around, is_shown=False)
        if not typed:
            return hidden
        self._before = [hidden]
        return {"type": "message", "message": {"role": "user", "content": typed}}

    def _command(self, text: str) -> Wire:
        shown = content.typed_command(text) or content.command_output(text) or text
        return _custom_message("command", shown, is_shown=True)

    def _compaction(self, summary: str) -> Wire | None:
        """Make a compaction: later entries see the summary and what it keeps; ``""`` is the entry's
        own id."""
        if not summary:
            return None
        self._is_inserted = True
        thread = self._thread
        head = get_text(get_object(thread.boundary, "preservedSegment"), "headUuid")
        first_kept = thread.id_of(head) if head is not None else ""
        return {
            "type": "compaction",
            "summary": summary,
            "firstKeptEntryId": first_kept if first_kept in thread.ids else "",
            "tokensBefore": get_count(thread.boundary, "preTokens"),
        }

    def _assistant(self) -> Wire:
        record = self._record
        body = get_object(record, "message")
        if "content" not in body:
            return self._kept()
        answer = self._answer_id(body)
        model = get_text(body, "model") or content.SYNTHETIC_MODEL
        if model == content.SYNTHETIC_MODEL:  # Claude Code made it up: an error, an interruption
            model = self._thread.model or model
        provider = content.find_provider(model)
        counts = get_object(body, "usage")
        if answer is not None:
            if self._continues(answer):
                self._answer = answer
            self._counts = {"of": answer, **{key: get_count(counts, key) for key in _COUNTS}}
            counts = self._threads.unseen_usage(answer, counts)
        message: Wire = {
            "role": "assistant",
            "content": content.convert_reply(body.get("content"), provider).blocks,
            "api": content.API,
            "provider": provider,
            "model": model,
            "usage": content.read_usage(counts, record.get("costUSD")),
            "stopReason": content.find_stop_reason(
                body.get("stop_reason"), bool(content.tool_calls(body.get("content")))
            ),
        }
        if record.get("isApiErrorMessage") is True:
            message["stopReason"] = "error"
            message["errorMessage"] = content.plain_text(body.get("content"))
        return {"type": "message", "message": message}

    def _answer_id(self, body: WireRecord) -> str | None:
        """The answer that a record is part of; None if its provider gives answers no ids.

        A gateway may give every answer the same id: then the request tells them apart.
        """
        message_id = get_text(body, "id")
        if message_id is None:
            return None
        request = get_text(self._record, "requestId")
        return f"{message_id} {request}" if request is not None else message_id

    def _continues(self, answer: str) -> bool:
        """Whether the record begins or continues this answer.

        A copy of history repeats an answer below other records: it keeps its own place there.
        """
        thread = self._thread
        if answer not in thread.first_of:
            return True
        parent = get_text(self._record, "parentUuid")
        parent_id = thread.id_of(parent) if parent is not None else ""
        return parent_id not in thread.ids or thread.answer_of.get(parent_id) == answer


def _custom_message(name: str, said: object, *, is_shown: bool) -> Wire:
    return {
        "type": "custom_message",
        "customType": f"{AGENT}.{name}",
        "content": said,
        "display": is_shown,
    }
