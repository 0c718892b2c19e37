"""One pass over a Codex rollout: items gathered into messages, events read for what only they know.

What the format is, and what becomes of it, is told in ``codex``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sessiontree.importers import codex_items as items
from sessiontree.importers.codex_lines import RolloutLine, ending_of, find_endings, has_failed
from sessiontree.importers.records import (
    Fingerprints,
    WireRecord,
    get_list,
    get_object,
    get_text,
)
from sessiontree.importers.transcript import TranscriptBuilder

_SCREEN = frozenset(
    (
        "user_message",
        "agent_message",
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "agent_reasoning_section_break",
        "context_compacted",
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
_EFFORTS = frozenset(("minimal", "low", "medium", "high", "xhigh"))

# Fields that a later version of Codex adds to, or takes from, an item it has written before.
_UNSTABLE = frozenset(("id", "status", "phase", "internal_chat_message_metadata_passthrough"))


@dataclass(slots=True)
class _Answer:
    """The items of one answer, while they come in."""

    timestamp: object
    names: list[str] = field(default_factory=list)
    blocks: list[dict[str, Any]] = field(default_factory=list)
    notes: list[tuple[str, str, WireRecord]] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    was_aborted: bool = False


class RolloutConverter:
    """Goes through a rollout once and adds its entries."""

    def __init__(self, builder: TranscriptBuilder, provider: str, lines: list[RolloutLine]) -> None:
        self.tail: str | None = None
        self.title: str | None = None
        self.cwd: str | None = None
        self._builder = builder
        self._provider = provider
        self._lines = lines
        self._names = Fingerprints()
        self._answer: _Answer | None = None
        self._last_answer: dict[str, Any] | None = None
        self._has_usage = True
        self._tokens = 0
        self._turns: list[str | None] = []
        self._tool_names: dict[str, str] = {}
        self._model: str | None = None
        self._effort: str | None = None
        self._has_meta = False
        self._has_items = any(
            line.kind == "response_item" and line.payload.get("type") == "message" for line in lines
        )
        self._endings = find_endings(lines)

    def convert(self) -> None:
        for line in self._lines:
            self._convert(line)
        self._end_answer()

    def _convert(self, line: RolloutLine) -> None:
        match line.kind:
            case "response_item":
                self._item(line, line.payload)
            case "event_msg":
                self._event(line)
            case "turn_context":
                self._model = get_text(line.payload, "model") or self._model
                self._effort = get_text(line.payload, "effort") or self._effort
            case "compacted":
                self._compacted(line)
            case "session_meta" if not self._has_meta:
                self._has_meta = True
                self._builder.tell_time(line.timestamp)
                fields = {"customType": "codex.session_meta", "data": line.payload}
                name = self._names.name(line.payload.get("id"))
                self.tail = self._builder.add("custom", (name,), self.tail, fields)
            case "token_usage_record":
                self._usage(get_object(line.payload, "usage"))
                self._builder.report.left_out["token counts"] += 1
            case _:
                self._keep(line, line.kind, line.payload or line.record)

    # -- items -----------------------------------------------------------------------------

    def _name(self, item: WireRecord, scope: str = "") -> str:
        kept = {key: value for key, value in item.items() if key not in _UNSTABLE}
        return self._names.name(kept, scope)

    def _item(self, line: RolloutLine, item: WireRecord) -> None:
        kind = get_text(item, "type") or "unknown"
        if kind == "message" and item.get("role") != "assistant":
            self._end_answer()
            self._builder.tell_time(line.timestamp)
            self._prompt(item)
        elif kind in items.OUTPUTS:
            self._end_answer()
            self._builder.tell_time(line.timestamp)
            self._output(item)
        elif not self._part(line, kind, item):
            self._keep(line, kind, item)

    def _part(self, line: RolloutLine, kind: str, item: WireRecord) -> bool:
        """An item of the model's answer; False if it cannot be a part of a message."""
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
            self._tool_names[call["id"]] = call["name"]
            blocks = [call]
        else:
            return False
        name = self._name(item)
        if blocks:
            self._answer = self._answer or _Answer(line.timestamp)
            self._answer.names.append(name)
            self._answer.blocks += blocks
        if left_over or not blocks:
            self._note(line, name, f"{kind} item", item)
        return True

    def _prompt(self, item: WireRecord) -> None:
        """A message to the model: typed by the user, or put there by Codex."""
        name = self._name(item)
        blocks, left_over = items.convert_content(item.get("content"))
        role = item.get("role")
        if role != "user":
            shown = role if role in ("developer", "system") else "context"
            if blocks:
                self.tail = self._builder.add_custom_message(
                    (name,), self.tail, str(shown), blocks, False
                )
        else:
            context = [b for b in blocks if b["type"] == "text" and items.is_context(b["text"])]
            typed = [block for block in blocks if block not in context]
            self._context(name, context)
            if typed:
                self._turns.append(self.tail)
                message = {"role": "user", "content": typed}
                self.tail = self._builder.add_message((name,), self.tail, message)
        if left_over or not blocks:
            self.tail = self._builder.keep((name,), self.tail, "message item", item)

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

    def _end_answer(self) -> None:
        """The answer is complete: it becomes a message, and what came with it follows."""
        answer = self._answer
        if answer is None:
            return
        self._answer = None
        self._builder.tell_time(answer.timestamp)
        place = self.tail
        if self._model is not None:
            spelled = f"{self._provider}/{self._model}"
            place = self._builder.switch_model(answer.names[:1], place, spelled)
        if self._effort in _EFFORTS or self._effort == "none":
            level = "off" if self._effort == "none" else str(self._effort)
            place = self._builder.switch_thinking(answer.names[:1], place, level)
        has_calls = any(block["type"] == "toolCall" for block in answer.blocks)
        stop = "aborted" if answer.was_aborted else "toolUse" if has_calls else "stop"
        message = {
            "role": "assistant",
            "content": answer.blocks,
            "api": items.API,
            "provider": self._provider,
            "model": self._model or "unknown",
            "usage": answer.usage or items.read_usage({}),
            "stopReason": stop,
        }
        self.tail = self._builder.add_message(answer.names, place, message)
        self._last_answer = self._builder.by_id[self.tail]["message"]
        self._has_usage = answer.usage is not None
        for name, kind, item in answer.notes:
            self.tail = self._builder.keep((name,), self.tail, kind, item)

    # -- everything else -------------------------------------------------------------------

    def _note(self, line: RolloutLine, name: str, kind: str, data: WireRecord) -> None:
        """Kept here, or after the answer that is coming in: it must not cut that in two."""
        if self._answer is not None:
            self._answer.notes.append((name, kind, data))
            return
        self._builder.tell_time(line.timestamp)
        self.tail = self._builder.keep((name,), self.tail, kind, data)

    def _keep(self, line: RolloutLine, kind: str, data: WireRecord) -> None:
        self._note(line, self._name(data, self._builder.anchor_of(self.tail)), kind, data)

    def _event(self, line: RolloutLine) -> None:
        event = line.payload
        kind = get_text(event, "type") or "unknown"
        shown = None if self._has_items else items.as_item(event)
        left_out = self._builder.report.left_out
        if shown is not None:
            self._item(line, shown)
        elif kind == "token_count":
            self._usage(get_object(get_object(event, "info"), "last_token_usage"))
            left_out["token counts"] += 1
        elif kind == "thread_rolled_back":
            self._roll_back(event)
        elif kind == "thread_name_updated":
            self.title = get_text(event, "thread_name") or self.title
            left_out["titles"] += 1
        elif kind in _SCREEN or self._is_shown_elsewhere(event, kind):
            left_out["screen copies"] += 1
        elif kind in _LIFECYCLE:
            left_out["turn events"] += 1
        else:
            if kind == "turn_aborted":
                self._abort()
            self._keep(line, kind, event)

    def _is_shown_elsewhere(self, event: WireRecord, kind: str) -> bool:
        if kind == "item_completed" and items.as_item(event) is not None:
            return True
        ending = ending_of(event)
        return ending is not None and ending[0] in self._tool_names

    def _usage(self, counts: WireRecord) -> None:
        """Token counts come after the answer they are for, and are repeated now and then."""
        if not counts:
            return
        usage = items.read_usage(counts)
        self._tokens = usage["totalTokens"]
        if self._answer is not None:
            self._answer.usage = usage
        elif self._last_answer is not None and not self._has_usage:
            self._last_answer["usage"] = usage
            self._has_usage = True

    def _abort(self) -> None:
        if self._answer is not None:
            self._answer.was_aborted = True
            self._end_answer()

    def _roll_back(self, event: WireRecord) -> None:
        self._end_answer()
        count = event.get("num_turns")
        if not isinstance(count, int) or count <= 0 or not self._turns:
            return
        if count > len(self._turns):
            self._builder.report.note("a rollback goes further back than the file")
        self.tail = self._turns[max(0, len(self._turns) - count)]
        del self._turns[max(0, len(self._turns) - count) :]

    def _compacted(self, line: RolloutLine) -> None:
        self._end_answer()
        self._builder.tell_time(line.timestamp)
        payload = line.payload
        summary = get_text(payload, "message")
        if summary is None:
            self._builder.report.note(
                "a compaction has a summary that only its provider can read; nothing is hidden here"
            )
            self._keep(line, "compacted", payload)
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
                "tokensBefore": self._tokens,
                "details": {"replacementHistory": len(history)},
            },
        )
        # It names itself: no entry before it is in context.
        self._builder.by_id[added]["firstKeptEntryId"] = added
        self.tail = added
        retained = _retained_prompts(history, summary)
        if retained:
            self.tail = self._builder.add_custom_message(
                (name, "retained"), self.tail, "retained", retained, False
            )


def _retained_prompts(history: list[Any], summary: str) -> list[dict[str, Any]]:
    """The user's prompts that a compaction keeps word for word, without the summary itself."""
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
