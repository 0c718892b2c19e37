"""Convert the steps of a Codex conversation to entries; ``codex`` describes the mapping."""

from __future__ import annotations

from typing import Any

from sessiontree.discovery.adapters import codex_items as items
from sessiontree.discovery.adapters.codex_items import RolloutLine, find_endings, has_failed
from sessiontree.discovery.adapters.codex_steps import (
    Answer,
    Compaction,
    Meta,
    Note,
    Output,
    Prompt,
    RollBack,
    Step,
)
from sessiontree.discovery.adapters.records import Fingerprints, WireRecord, get_list, get_text
from sessiontree.importers.transcript import TranscriptBuilder
from sessiontree.model import codec

_EFFORTS = frozenset(("minimal", "low", "medium", "high", "xhigh"))

# Fields that later versions of Codex add to, or remove from, items written before.
_UNSTABLE = frozenset(
    ("id", "status", "phase", "internal_chat_message_metadata_passthrough", "shown_by")
)


class RolloutWriter:
    """Add the entries of a rollout step by step."""

    def __init__(self, builder: TranscriptBuilder, provider: str, lines: list[RolloutLine]) -> None:
        self.tail: str | None = None
        self.cwd: str | None = None
        self._builder = builder
        self._provider = provider
        self._names = Fingerprints()
        self._said = ""
        self._turns: list[str | None] = []
        self._tool_names: dict[str, str] = {}
        self._endings = find_endings(lines)

    def write(self, steps: list[Step]) -> None:
        for step in steps:
            self._builder.take_time(step.line.timestamp)
            self._write(step)

    def _write(self, step: Step) -> None:
        match step:
            case Prompt():
                self._prompt(step)
            case Answer():
                self._answer(step)
            case Output():
                self._output(step.item)
            case Note():
                self._note(step)
            case Compaction():
                self._compaction(step)
            case RollBack():
                self._roll_back(step.line.payload)
            case Meta():
                fields = {"customType": "codex.session_meta", "data": step.line.payload}
                name = self._names.name(step.line.payload.get("id"))
                self.tail = self._builder.add("custom", (name,), self.tail, fields)

    def _name(self, item: WireRecord) -> str:
        """Name an item by its content and how often that occurred before."""
        kept = {key: value for key, value in item.items() if key not in _UNSTABLE}
        self._said = self._names.name(kept)
        return self._said

    def _note(self, note: Note) -> None:
        # Count notes from the last message on: Codex drops and repeats them.
        kept = {key: value for key, value in note.data.items() if key not in _UNSTABLE}
        name = self._names.name(kept, self._said)
        self.tail = self._builder.keep((name, self._said), self.tail, note.kind, note.data)

    def _prompt(self, prompt: Prompt) -> None:
        """Add a message to the model, typed by the user or written by Codex."""
        name = self._name(prompt.item)
        role = prompt.item.get("role")
        if role == "user":
            self._context(name, prompt.context)
            if prompt.typed:
                self._turns.append(self.tail)
                message = {"role": "user", "content": prompt.typed}
                self.tail = self._builder.add_message((name,), self.tail, message)
        elif prompt.typed:
            shown = role if role in ("developer", "system") else "context"
            self.tail = self._builder.add_custom_message(
                (name,), self.tail, str(shown), prompt.typed, False
            )
        if prompt.left_over or not (prompt.typed or prompt.context):
            self.tail = self._builder.keep((name,), self.tail, "message item", prompt.item)

    def _context(self, name: str, blocks: list[dict[str, Any]]) -> None:
        for index, block in enumerate(blocks):
            self.cwd = self.cwd or items.context_cwd(block["text"])
            shell = items.shell_command(block["text"])
            source = (name, f"context {index}")
            if shell is not None:
                self.tail = self._builder.add_message(source, self.tail, shell)
            else:
                self.tail = self._builder.add_custom_message(
                    source, self.tail, "context", [block], False
                )

    def _output(self, item: WireRecord) -> None:
        name = self._name(item)
        call_id = get_text(item, "call_id")
        if call_id is None:
            self.tail = self._builder.keep((name,), self.tail, f"{item['type']} item", item)
            return
        blocks, left_over, is_error = items.convert_output(item)
        ending = self._endings.get(call_id)
        message: dict[str, Any] = {
            "role": "toolResult",
            "toolCallId": call_id,
            "toolName": self._tool_names.get(call_id, "unknown"),
            "content": blocks,
            "isError": has_failed(ending) if is_error is None else is_error,
        }
        if ending is not None:
            message["details"] = ending
        self.tail = self._builder.add_message((name,), self.tail, message)
        if left_over:
            self.tail = self._builder.keep((name, "rest"), self.tail, "output blocks", left_over)

    def _answer(self, answer: Answer) -> None:
        first = [self._name(part) for part in answer.parts][:1]
        self._said = first[0]
        place = self.tail
        if answer.model is not None:
            spelled = f"{self._provider}/{answer.model}"
            place = self._builder.switch_model(first, place, spelled)
        if answer.effort in _EFFORTS or answer.effort == "none":
            level = "off" if answer.effort == "none" else str(answer.effort)
            place = self._builder.switch_thinking(first, place, level)
        calls = [block for block in answer.blocks if block["type"] == "toolCall"]
        self._tool_names |= {call["id"]: call["name"] for call in calls}
        # A web search needs no result: it is over when the answer is.
        is_waiting = len(calls) > len(answer.searches)
        message = {
            "role": "assistant",
            "content": answer.blocks,
            "api": items.API,
            "provider": self._provider,
            "model": answer.model or "unknown",
            "usage": answer.usage or items.read_usage({}),
            "stopReason": "aborted" if answer.was_aborted else "toolUse" if is_waiting else "stop",
        }
        self.tail = self._builder.add_message(first, place, message)
        for index, (_, call) in enumerate(answer.searches):
            self._found(first[0], index, call)
        for note in answer.notes:
            self._builder.take_time(note.line.timestamp)
            self._note(note)

    def _found(self, name: str, index: int, call: dict[str, Any]) -> None:
        """Add the result of a web search, which Codex seldom records."""
        ending = self._endings.get(call["id"])
        results = get_list(ending or {}, "results")
        text = codec.encode(results).decode() if results else "[The results were not recorded.]"
        message: dict[str, Any] = {
            "role": "toolResult",
            "toolCallId": call["id"],
            "toolName": call["name"],
            "content": [{"type": "text", "text": text}],
            "isError": False,
        }
        self.tail = self._builder.add_message((name, f"search {index}"), self.tail, message)

    def _roll_back(self, event: WireRecord) -> None:
        count = event.get("num_turns")
        if not isinstance(count, int) or count <= 0 or not self._turns:
            return
        if count > len(self._turns):
            self._builder.report.note("a rollback goes further back than the file")
        self.tail = self._turns[max(0, len(self._turns) - count)]
        del self._turns[max(0, len(self._turns) - count) :]

    def _compaction(self, step: Compaction) -> None:
        payload = step.line.payload
        summary = get_text(payload, "message")
        if summary is None:
            self._builder.report.note(
                "a compaction has a summary that only its provider can read; nothing is hidden here"
            )
            self._note(Note(step.line, "compacted", payload))
            return
        name = self._name({"message": summary})
        history = get_list(payload, "replacement_history")
        added = self._builder.add(
            "compaction",
            (name,),
            self.tail,
            {
                "summary": summary,
                "firstKeptEntryId": "",
                "tokensBefore": step.tokens,
                "details": {"replacementHistory": len(history)},
            },
        )
        # It names itself as the first entry kept: none before it stays in context.
        self._builder.by_id[added]["firstKeptEntryId"] = added
        self.tail = added
        retained = _retained_prompts(history, summary)
        if retained:
            self.tail = self._builder.add_custom_message(
                (name, "retained"), self.tail, "retained", retained, False
            )


def _retained_prompts(history: list[Any], summary: str) -> list[dict[str, Any]]:
    """Return the user's prompts that a compaction keeps verbatim, without the summary."""
    retained = []
    for item in history:
        if not isinstance(item, dict) or item.get("role") != "user":
            continue
        for block in items.convert_content(item.get("content"))[0]:
            if block["type"] == "text" and (
                items.is_context(block["text"]) or summary in block["text"]
            ):
                continue
            retained.append(block)
    return retained
