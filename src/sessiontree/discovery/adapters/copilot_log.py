"""Sort the events of a Copilot CLI session: one list, each event where it belongs.

Subagents write their events between those of the main conversation (``agentId``, in older versions
only ``parentToolCallId``). So each event that does not follow the one before it gets ``$after``,
the event that it follows: the last one of its own agent, or the answer that called the subagent.

What an answer used is written elsewhere, and that has changed between versions:

- 1.0.102 writes a ``session.usage_record`` before each answer.
- Older versions add up in ``session.shutdown``. The sums of 1.0.40 are those of one run of the
  program; 1.0.80 continues those of the run before. Which it was shows in the number of calls.
- Where neither was written, an answer still tells how many tokens it wrote (``outputTokens``).

So an answer gets ``$usage``, and what belongs to no answer becomes a ``$usage`` event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sessiontree.discovery.adapters.records import (
    WireRecord,
    get_count,
    get_list,
    get_object,
    get_text,
)

MAIN = ""
"""The thread of the main conversation; others are named by their agent."""
_SILENT = frozenset(
    (
        "assistant.turn_start",
        "assistant.turn_end",
        "tool.execution_start",
        "hook.start",
        "hook.end",
        "permission.requested",
        "permission.completed",
        "session.usage_checkpoint",
        "session.compaction_start",
    )
)
"""Events that say how the work was done, or repeat what others say."""
_COUNTS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")


class EventLog:
    """Play a session's events in order."""

    def __init__(self, events: list[WireRecord]) -> None:
        self._events = events
        self._thread = MAIN
        self._last: dict[str, str] = {}
        """The last event of each thread."""
        self._calls: dict[str, str] = {}
        """The answer that made each call."""
        self._callers: dict[str, str] = {}
        """The call that started each subagent."""
        self._models: dict[str, str] = {}
        self._reasoning: dict[str, list[str]] = {}
        self._paid: dict[str, WireRecord] = {}
        """The record of a call that waits for its answer."""
        self._assets: dict[str | None, WireRecord] = {}
        self._typed: dict[str, object] = {}
        """The commands that the user ran, by their calls."""
        self._has_records_from = next(
            (at for at, event in enumerate(events) if _is(event, "session.usage_record")),
            len(events),
        )
        self._totals = _Totals(events[: self._has_records_from])

    def records(self) -> Iterator[WireRecord]:
        """Yield the events that say something, with what they lack."""
        for at, event in enumerate(self._events):
            kind, data = get_text(event, "type") or "", get_object(event, "data")
            thread = thread_of(event)
            if kind == "session.usage_record":
                yield from self._flush(thread)
                self._paid[thread] = event
                continue
            self._note(kind, data, thread)
            if kind not in _SILENT:
                yield self._place(self._complete(at, event, kind, data, thread), thread)
            if kind == "session.shutdown":
                yield from self._spend(at, event)
        for thread in list(self._paid):
            yield from self._flush(thread)
        if self._thread != MAIN:
            yield {"type": "$end", "$after": self._last.get(MAIN, MAIN)}

    def _note(self, kind: str, data: WireRecord, thread: str) -> None:
        """Remember what later events need."""
        call_id = get_text(data, "toolCallId")
        if kind in ("session.start", "session.resume", "session.model_change"):
            model = get_text(data, "selectedModel") or get_text(data, "newModel")
            if model is not None:
                self._models[thread] = model
        elif kind == "subagent.started" and call_id is not None:
            self._callers.setdefault(thread, call_id)
        elif kind == "assistant.reasoning":
            said = get_text(data, "content")
            if said is not None:
                self._reasoning.setdefault(thread, []).append(said)
        elif kind == "session.binary_asset":
            self._assets[get_text(data, "assetId")] = data
        elif kind == "tool.user_requested" and call_id is not None:
            self._typed[call_id] = get_object(data, "arguments").get("command")

    def _complete(
        self, at: int, event: WireRecord, kind: str, data: WireRecord, thread: str
    ) -> WireRecord:
        """Add to an event what other events say about it."""
        added: WireRecord = {}
        if kind == "assistant.message":
            added["$model"] = get_text(data, "model") or self._models.get(thread)
            paid = self._paid.pop(thread, None)
            added["$usage"] = _used(paid) if paid else self._totals.left_out(at, data)
            reasoning = self._reasoning.pop(thread, [])
            if reasoning and get_text(data, "reasoningText") is None:
                added["$reasoning"] = "\n\n".join(reasoning)
        elif kind == "tool.execution_complete" and data.get("isUserRequested") is True:
            added["$command"] = self._typed.get(get_text(data, "toolCallId") or "")
        elif kind == "user.message":
            held = [
                self._assets[name]
                for each in get_list(data, "attachments")
                if isinstance(each, dict) and (name := get_text(each, "assetId")) in self._assets
            ]
            if held:
                added["$assets"] = held
        return {**event, **{key: value for key, value in added.items() if value}}

    def _place(self, event: WireRecord, thread: str) -> WireRecord:
        """Say what an event follows, unless it is the one before it."""
        name = get_text(event, "id")
        if thread != self._thread:
            self._thread = thread
            event = {**event, "$after": self._last.get(thread, self._beginning(event, thread))}
        if name is not None:
            self._last[thread] = name
            for call in get_list(get_object(event, "data"), "toolRequests"):
                called = get_text(call, "toolCallId") if isinstance(call, dict) else None
                if called is not None:
                    self._calls[called] = name
        return event

    def _beginning(self, event: WireRecord, thread: str) -> str:
        """The answer that called a subagent."""
        if thread == MAIN:
            return MAIN
        caller = get_text(get_object(event, "data"), "parentToolCallId")
        call_id = self._callers.get(thread) or caller or thread
        return self._calls.get(call_id) or self._last.get(MAIN, MAIN)

    def _flush(self, thread: str) -> Iterator[WireRecord]:
        """Yield the usage of a call that left no answer."""
        paid = self._paid.pop(thread, None)
        if paid:
            used = _used(paid)
            model = get_text(used, "model") or self._models.get(thread)
            yield self._place({**paid, "type": "$usage", "$model": model, "$usage": used}, thread)

    def _spend(self, at: int, event: WireRecord) -> Iterator[WireRecord]:
        for model, usage in self._totals.of(at):
            name = f"{get_text(event, 'id') or ''} {model}"
            made = {"type": "$usage", "id": name, "timestamp": event.get("timestamp")}
            yield {**made, "$model": model, "$usage": usage}


class _Totals:
    """The usage by the sums that each run of the program ends with, until there are records of each
    call."""

    def __init__(self, events: list[WireRecord]) -> None:
        self._added: dict[int, list[tuple[str, WireRecord]]] = {}
        self._last = -1
        before: Mapping[str, WireRecord] = {}
        answers = 0
        for at, event in enumerate(events):
            answers += _is(event, "assistant.message")
            if not _is(event, "session.shutdown"):
                continue
            metrics = get_object(get_object(event, "data"), "modelMetrics")
            now = {name: each for name, each in metrics.items() if isinstance(each, dict)}
            if not now:
                continue
            goes_on = _goes_on(before, now, answers)
            self._added[at] = [
                (name, _difference(each, before.get(name, {}) if goes_on else {}))
                for name, each in now.items()
            ]
            before, answers, self._last = now, 0, at
        self._end = len(events)

    def of(self, at: int) -> list[tuple[str, WireRecord]]:
        """The usage by model until the event at ``at``, since the one before it."""
        return self._added.get(at, [])

    def left_out(self, at: int, data: WireRecord) -> WireRecord | None:
        """The usage that an answer itself tells, if it is in no sum."""
        written = get_count(data, "outputTokens")
        return {"outputTokens": written} if self._last < at < self._end and written else None


def thread_of(event: WireRecord) -> str:
    """The thread of an event: a subagent's, or the main conversation's."""
    return (
        get_text(event, "agentId")
        or get_text(get_object(event, "data"), "parentToolCallId")
        or MAIN
    )


def _used(event: WireRecord) -> WireRecord:
    return get_object(get_object(event, "data"), "usage")


def _is(event: WireRecord, kind: str) -> bool:
    return event.get("type") == kind


def _goes_on(before: Mapping[str, WireRecord], now: Mapping[str, WireRecord], answers: int) -> bool:
    """Whether these sums hold those before them, by the number of calls since."""
    for name, each in before.items():
        usage, earlier = get_object(now.get(name, {}), "usage"), get_object(each, "usage")
        if any(get_count(usage, key) < get_count(earlier, key) for key in _COUNTS):
            return False
    earlier_calls, calls = _calls_of(before), _calls_of(now)
    return bool(before) and abs(calls - earlier_calls - answers) < abs(calls - answers)


def _calls_of(metrics: Mapping[str, WireRecord]) -> int:
    return sum(get_count(get_object(each, "requests"), "count") for each in metrics.values())


def _difference(now: WireRecord, before: WireRecord) -> WireRecord:
    usage, earlier = get_object(now, "usage"), get_object(before, "usage")
    return {key: max(0, get_count(usage, key) - get_count(earlier, key)) for key in _COUNTS}
