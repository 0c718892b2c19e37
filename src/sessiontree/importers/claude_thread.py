"""Convert one thread of a Claude Code transcript, a tree of records, to entries.

A thread is the main conversation or one subagent's. ``ThreadPlan`` has grouped its records (parts
of an answer, copies); the converter passes over them once, parents first, and keeps two maps:

- ``_entry_of``: from each record's uuid to the entry that it became. A group is converted with its
  first record, and its other records are then in this map already.
- ``_after``: from an entry to one that was inserted after it. ``_end_of`` follows these links.

Two rules place an entry. Its parent is the entry that the record's parent became; and if something
was inserted after that (a note, a tool result, a compaction), the last of the inserted entries is
the parent. A record with a missing parent, after a torn line or a rewrite, follows the entry before
it: one connected conversation is worth more than two halves.

A compaction is the hard case. ``compact_boundary`` starts a new root in the file, but the records
it preserves are not written again and the conversation continues from the last of them. So its
entry goes after the last preserved record, and later children of that record follow the compaction.

Entry ids derive from the first record of each group. An answer that has grown since the last import
therefore is the same entry with more content.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from sessiontree.discovery.adapters import claude_content as content
from sessiontree.discovery.adapters.records import (
    Fingerprints,
    WireRecord,
    get_count,
    get_list,
    get_object,
    get_text,
)
from sessiontree.importers.claude_plan import Answer, Line, Spending, ThreadPlan, read_lines
from sessiontree.importers.transcript import TranscriptBuilder


class ThreadConverter:
    """Add one thread's entries to a transcript."""

    def __init__(
        self,
        builder: TranscriptBuilder,
        records: Sequence[WireRecord],
        spending: Spending,
        *,
        base: str | None = None,
        elsewhere: Container[str] = (),
        fallback_ms: int = 0,
    ) -> None:
        """``base`` is the entry that the thread follows; ``elsewhere`` holds the uuids of the
        records of the session's other threads."""
        self.leaf_id: str | None = base
        self.entry_of_call: dict[str, str] = {}
        self.first_command: str | None = None
        self.has_prompt = False
        self._builder = builder
        self._spending = spending
        self._elsewhere = elsewhere
        lines, repeated = read_lines(records, fallback_ms)
        if repeated:
            builder.report.left_out["repeated records"] += repeated
        self._plan = ThreadPlan(lines)
        self._names = Fingerprints()
        self._entry_of: dict[str, str] = {}
        self._answers: dict[int, str] = {}
        self._after: dict[str | None, str] = {} if base is None else {None: base}

    def has_record(self, uuid: object) -> bool:
        """Whether the thread has a record with this uuid."""
        return isinstance(uuid, str) and self._plan.has(uuid)

    def convert(self) -> None:
        """Convert all records in one pass, parents first."""
        for line in self._plan.lines:
            self._convert(line)

    def _convert(self, line: Line) -> None:
        self._builder.set_time(line.time_ms)
        if line.uuid is None:
            self._note(line)
            return
        if line.uuid in self._entry_of:
            return  # converted with an earlier record of its group
        original = self._entry_of.get(self._plan.original_of.get(line.uuid, ""))
        if original is not None:
            self._entry_of[line.uuid] = original
            self.leaf_id = self._end_of(original)
            self._builder.report.left_out["repeated records"] += 1
            return
        convert: Callable[[WireRecord, str], None] = {
            "user": self._user,
            "assistant": self._assistant,
            "system": self._system,
            "attachment": self._attachment,
        }.get(line.kind, self._keep)
        convert(line.record, line.uuid)

    # -- places ----------------------------------------------------------------------------

    def _end_of(self, entry_id: str | None) -> str | None:
        """Return the entry that a child of ``entry_id`` must follow.

        Links lead from older to newer entries, so the search ends; it shortens the path for
        the next search.
        """
        end = entry_id
        while end in self._after:
            end = self._after[end]
        if end is not None and end != entry_id:
            self._after[entry_id] = end
        return end

    def _is_placed(self, record: WireRecord) -> bool:
        """Whether the record names a parent that became an entry of the thread."""
        return any(get_text(record, key) in self._entry_of for key in _PARENT_KEYS)

    def _place(self, record: WireRecord) -> str | None:
        """Return the parent of the record's entry."""
        uuid = get_text(record, "uuid") or ""
        answer = self._plan.answer_of.get(uuid)
        if answer is not None and id(answer) in self._answers:
            return self._end_of(self._answers[id(answer)])
        for key in _PARENT_KEYS:
            parent = get_text(record, key)
            if parent is not None and parent in self._entry_of:
                return self._end_of(self._entry_of[parent])
        parent = get_text(record, "parentUuid")
        if parent is None:
            return self._end_of(None)
        # The parent is missing (a torn line, a rewrite): the record before is the best guess,
        # and one connected conversation is worth more than two halves.
        if parent not in self._elsewhere and not self._plan.has(parent):
            self._builder.report.note("some records hang on records that are not in the file")
        return self.leaf_id if self.leaf_id is not None else self._end_of(None)

    def _set(self, uuid: str, entry_id: str) -> None:
        """Record that the record became this entry, and make it the thread's leaf."""
        answer = self._plan.answer_of.get(uuid)
        first = self._answers.get(id(answer)) if answer is not None else None
        if first is not None and first != entry_id:
            # Children of any record of the answer follow its last entry.
            self._entry_of[uuid] = first
            self._after.setdefault(self._builder.by_id[entry_id]["parentId"], entry_id)
        else:
            self._entry_of[uuid] = entry_id
        self.leaf_id = entry_id

    # -- records ---------------------------------------------------------------------------

    def _note(self, line: Line) -> None:
        """Keep a record without a parent where it was written, as the thread's leaf."""
        record, kind = line.record, line.kind
        if kind in _TITLE_TYPES or (kind == "summary" and self.has_record(record.get("leafUuid"))):
            self._builder.report.left_out["titles"] += 1
            return
        parent = self.leaf_id if self.leaf_id is not None else self._end_of(None)
        name = self._names.name(record, line.scope)
        added = self._builder.keep((name, line.scope), parent, kind, record)
        self._after.setdefault(parent, added)
        self.leaf_id = added

    def _keep(self, record: WireRecord, uuid: str) -> None:
        kind = get_text(record, "type") or "unknown"
        place = self._place(record)
        self._set(uuid, self._builder.keep((uuid,), place, kind, record, is_place=True))

    def _system(self, record: WireRecord, uuid: str) -> None:
        if record.get("subtype") == "compact_boundary":
            self._compaction(record, uuid, self._plan.summary_of.get(uuid))
            return
        text = get_text(record, "content")
        if record.get("subtype") == "local_command" and text is not None:
            self._set(uuid, self._command(uuid, self._place(record), text))
            return
        self._keep(record, uuid)

    def _command(self, uuid: str, place: str | None, text: str) -> str:
        """Add a slash command as the user typed it, or its output."""
        typed = content.typed_command(text)
        self.first_command = self.first_command or typed
        shown = typed or content.command_output(text) or text
        details = {"markup": text} if shown != text else None
        return self._builder.add_custom_message((uuid,), place, "command", shown, True, details)

    def _compaction(self, record: WireRecord, uuid: str, summary: WireRecord | None) -> None:
        """Add a compaction from a boundary and its summary, if the summary has text."""
        text = content.plain_text(get_object(summary or {}, "message").get("content"))
        if not text:
            self._builder.report.note("a compaction without a summary hides nothing here")
            self._keep(record, uuid)
            return
        parent = self._place(record)
        if not self._is_placed(record) and self.leaf_id is not None:
            parent = self.leaf_id
        metadata = get_object(record, "compactMetadata")
        added = self._builder.add(
            "compaction",
            (uuid,),
            parent,
            {
                "summary": text,
                "firstKeptEntryId": "",
                "tokensBefore": get_count(metadata, "preTokens"),
                "details": metadata,
            },
        )
        self._set(uuid, added)
        if summary is not None and get_text(summary, "uuid"):
            self._entry_of[summary["uuid"]] = added
        segment = get_object(metadata, "preservedSegment")
        head = self._entry_of.get(get_text(segment, "headUuid") or "")
        tail = self._entry_of.get(get_text(segment, "tailUuid") or "")
        # A compaction that keeps nothing names itself: no entry before it stays in context.
        self._builder.by_id[added]["firstKeptEntryId"] = added
        if head is not None and self._is_above(head, parent):
            self._builder.by_id[added]["firstKeptEntryId"] = head
            end = self._end_of(tail)
            if tail is not None and end is not None and self._is_above(end, parent):
                # Preserved records are not written again: the conversation continues
                # from the last of them, so the compaction is inserted after that one.
                self._after[end] = added

    def _is_above(self, entry_id: str, at: str | None) -> bool:
        """Whether an entry is on the path from the root to ``at``."""
        while at is not None and at != entry_id:
            at = self._builder.by_id[at]["parentId"]
        return at is not None

    def _attachment(self, record: WireRecord, uuid: str) -> None:
        attachment = get_object(record, "attachment")
        is_queued = content.is_queued_prompt(attachment)
        # A prompt typed while the model was working is recorded only here.
        if not is_queued or not self._prompt(record, uuid, attachment.get("prompt")):
            self._keep(record, uuid)

    def _user(self, record: WireRecord, uuid: str) -> None:
        body = get_object(record, "message").get("content")
        if record.get("isCompactSummary") is True:
            if uuid in self._plan.absorbed:
                self._keep(record, uuid)
            else:
                self._compaction(record, uuid, record)
            return
        results = content.tool_results(body)
        if results:
            self._results(record, uuid, results)
        if not self._prompt(record, uuid, body) and not results:
            self._keep(record, uuid)

    def _results(self, record: WireRecord, uuid: str, results: list[WireRecord]) -> None:
        details = record.get("toolUseResult")
        for index, block in enumerate(results):
            call_id = block["tool_use_id"]
            converted = content.convert_tool_result(block.get("content"))
            message: dict[str, Any] = {
                "role": "toolResult",
                "toolCallId": call_id,
                "toolName": self._plan.tool_names.get(call_id, "unknown"),
                "content": converted.blocks,
                "isError": block.get("is_error") is True,
            }
            if details is not None and len(results) == 1:
                message["details"] = details
            name = f"{uuid}:{index}"
            place = self._place(record) if index == 0 else self.leaf_id
            self._set(uuid, self._builder.add_message((name,), place, message))
            self._left_over(name, uuid, converted.left_over)

    def _prompt(self, record: WireRecord, uuid: str, body: object) -> bool:
        """Add a user's text and images by their kind; False if there are none."""
        converted = content.convert_prompt(body)
        if not converted.blocks and not converted.left_over:
            return False
        place = self.leaf_id if uuid in self._entry_of else self._place(record)
        text = content.plain_text(body)
        command = content.bash_input(text)
        if not converted.blocks:
            pass
        elif command is not None:
            self._shell(uuid, place, command)
        elif record.get("isMeta") is True:
            said = _content(body, converted)
            self._set(uuid, self._builder.add_custom_message((uuid,), place, "meta", said, False))
        elif content.is_command_markup(text):
            self._set(uuid, self._command(uuid, place, text))
        else:
            self._typed(record, uuid, place, body, converted)
        self._left_over(uuid, uuid, converted.left_over, place)
        return True

    def _typed(
        self,
        record: WireRecord,
        uuid: str,
        place: str | None,
        body: object,
        converted: content.Content,
    ) -> None:
        """Add what the user typed, after a hidden entry with what Claude Code put around it."""
        around, typed = content.split_prompt(converted.blocks)
        if around:
            added = self._builder.add_custom_message(
                (uuid, "context"), place, "context", around, False
            )
            if not typed:
                self._set(uuid, added)
                return
            place = added
        level = content.thinking_level(record)
        if level is not None:
            place = self._builder.switch_thinking((uuid,), place, level)
        self.has_prompt = True
        said = typed if around else _content(body, converted)
        message = {"role": "user", "content": said}
        self._set(uuid, self._builder.add_message((uuid,), place, message))

    def _shell(self, uuid: str, place: str | None, command: str) -> None:
        printed = self._plan.output_of.get(uuid)
        output = content.plain_text(get_object(printed or {}, "message").get("content"))
        message = {
            "role": "bashExecution",
            "command": command,
            "output": content.bash_output(output) or "",
            "cancelled": False,
            "truncated": False,
        }
        other = get_text(printed or {}, "uuid")
        added = self._builder.add_message((uuid,), place, message)
        self._set(uuid, added)
        if other is not None:
            self._entry_of[other] = added

    def _assistant(self, record: WireRecord, uuid: str) -> None:
        answer = self._plan.answer_of.get(uuid)
        # A copy without its original is an answer of its own.
        parts = [part.record for part in answer.parts] if answer is not None else [record]
        names = [part["uuid"] for part in parts]
        bodies = [get_object(part, "message") for part in parts]
        if not any("content" in body for body in bodies):
            self._keep(record, uuid)
            return
        model, place = self._model(bodies, names, self._place(record))
        provider = content.find_provider(model)
        converted = content.Content()
        for body in bodies:
            made = content.convert_reply(body.get("content"), provider)
            converted.blocks += made.blocks
            converted.left_over += made.left_over
        usage = self._spending.take(parts)
        cost = record.get("costUSD") if usage is not None else None
        message: dict[str, Any] = {
            "role": "assistant",
            "content": converted.blocks,
            "api": content.API,
            "provider": provider,
            "model": model,
            "usage": content.read_usage(usage or {}, cost),
            "stopReason": _stop_reason(bodies, answer),
        }
        if any(part.get("isApiErrorMessage") is True for part in parts):
            message["stopReason"] = "error"
            message["errorMessage"] = content.plain_text(bodies[0].get("content"))
        added = self._builder.add_message(names[:1], place, message)
        for name in names:
            self._entry_of[name] = added
        self.leaf_id = added
        if answer is not None:
            self._answers[id(answer)] = added
            self.entry_of_call |= dict.fromkeys(answer.calls, added)
        self._left_over(names[0], uuid, converted.left_over)
        # Results go right after the calls, wherever they are in the file: the rest follows them.
        for line in answer.results if answer is not None else ():
            self._convert(line)

    def _model(
        self, bodies: list[WireRecord], names: list[str], place: str | None
    ) -> tuple[str, str | None]:
        """Return the answer's model; a message that Claude Code made up gets the one before."""
        model = next((name for body in bodies if (name := get_text(body, "model"))), None)
        if model is not None and model != content.SYNTHETIC_MODEL:
            spelled = f"{content.find_provider(model)}/{model}"
            return model, self._builder.switch_model((names[0],), place, spelled)
        before = self._builder.model_at(place)
        if before is not None:
            return before.partition("/")[2], place
        return model or content.SYNTHETIC_MODEL, place

    def _left_over(self, name: str, uuid: str, blocks: list[Any], place: str | None = None) -> None:
        """Add an entry with the blocks that have no counterpart, after their message."""
        if not blocks:
            return
        for block in blocks:
            kind = get_text(block, "type") if isinstance(block, dict) else None
            self._builder.report.kept[f"{kind or 'unknown'} block"] += 1
        fields = {"customType": "claude-code.blocks", "data": {"uuid": uuid, "blocks": blocks}}
        parent = self.leaf_id if uuid in self._entry_of else place
        added = self._builder.add("custom", (name, "blocks"), parent, fields)
        if uuid in self._entry_of:
            self._after.setdefault(parent, added)
            self.leaf_id = added
        else:
            self._set(uuid, added)


_PARENT_KEYS = ("parentUuid", "logicalParentUuid")
_TITLE_TYPES = frozenset(("custom-title", "ai-title", "agent-name"))


def _content(body: object, converted: content.Content) -> object:
    return body if isinstance(body, str) else converted.blocks


def _stop_reason(bodies: list[WireRecord], answer: Answer | None) -> str:
    said = next((reason for body in reversed(bodies) if (reason := body.get("stop_reason"))), None)
    if said is None and answer is not None and answer.was_interrupted:
        return "aborted"
    has_calls = any(
        isinstance(block, dict) and block.get("type") == "tool_use"
        for body in bodies
        for block in get_list(body, "content")
    )
    return content.find_stop_reason(said, has_calls)
