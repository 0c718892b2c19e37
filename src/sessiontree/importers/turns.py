"""Convert the turns of a session (``discovery.adapters.turns``) to a Transcript.

One conversion for every agent that is described by its turns. A turn's entry stands under the one
before it, or under the record that it names. Subagents' sessions become separate roots in the same
session, each below a ``custom`` entry that says which session it was.
"""

from __future__ import annotations

import os
from typing import Any

from sessiontree.discovery.adapters.records import (
    Fingerprints,
    RecordList,
    get_text,
    make_usage,
    read_records,
    read_time,
)
from sessiontree.discovery.adapters.turns import (
    MESSAGES,
    ROOT,
    Head,
    Turn,
    TurnAgent,
    safe_head,
    safe_turns,
)
from sessiontree.errors import PersistenceError
from sessiontree.importers.foreign import SourceFiles
from sessiontree.importers.transcript import Transcript, TranscriptBuilder
from sessiontree.storage.file import FileSessionStorage

_MOST_PARTS = 500
_APIS = {
    "anthropic": "anthropic-messages",
    "openai": "openai-responses",
    "google": "google-generative-ai",
}
_NO_USAGE = make_usage(0, 0, 0, 0)


def convert_session_of(path: str, records: RecordList, files: SourceFiles) -> Transcript:
    """Convert the session at ``path``, and the sessions of its subagents with it."""
    agent = files.adapter
    assert isinstance(agent, TurnAgent)
    head, turns = _read(agent, path, records)
    times = [read_time(head.started), *(read_time(turn.time) for _, turn in turns)]
    found_ms = next((time for time in times if time is not None), None)
    started_ms = found_ms if found_ms is not None else files.modified_ms
    identity = head.id or os.path.basename(path)
    builder = TranscriptBuilder(agent.name, identity, started_ms)
    builder.report.skipped = list(records.skipped)
    builder.report.records = len(records.records)
    writer = TurnWriter(builder)
    writer.write(turns)
    leaf_id = writer.tail
    for part in list(agent.find_parts(path, head, FileSessionStorage()))[:_MOST_PARTS]:
        _add_part(builder, agent, part, files)
    return Transcript(
        agent.name,
        identity,
        started_ms,
        is_dated=found_ms is not None,
        cwd=head.cwd,
        title=head.title,
        title_source=head.title_source if head.title is not None else None,
        parent_session=head.parent,
        entries=builder.entries,
        leaf_id=leaf_id,
        report=builder.report,
    )


def _read(agent: TurnAgent, path: str, records: RecordList) -> tuple[Head, list[tuple[str, Turn]]]:
    """The head of a session and its turns, each with a name of its own."""
    head = agent.head(path)
    names = Fingerprints()
    turns: list[tuple[str, Turn]] = []
    for record in records.records:
        safe_head(agent, record, head)
        name = ""
        for at, turn in enumerate(safe_turns(agent, record)):
            name = turn.id or name or names.name(record)
            turns.append((f"{name} {at}" if at else name, turn))
    return head, turns


def _add_part(builder: TranscriptBuilder, agent: TurnAgent, path: str, files: SourceFiles) -> None:
    where = os.path.basename(path)
    try:
        found = read_records(files.read(path, agent))
    except PersistenceError as error:
        builder.report.skipped.append((0, f"{where}: {error.reason}"))
        return
    builder.report.skipped += [(line, f"{where}: {reason}") for line, reason in found.skipped]
    head, turns = _read(agent, path, found)
    name = head.id or where
    if turns:
        builder.take_time(turns[0][1].time)
    data = {"session": name, "title": head.title}
    root = builder.add(
        "custom", (name, "sidechain"), None, {"customType": f"{agent.name}.sidechain", "data": data}
    )
    TurnWriter(builder, root, f"{name} ").write(turns)


class TurnWriter:
    """Add the entries of one thread, or of one subagent's."""

    def __init__(
        self, builder: TranscriptBuilder, root: str | None = None, scope: str = ""
    ) -> None:
        self.tail = root
        self._root = root
        self._scope = scope
        self._builder = builder
        self._places: dict[str, str | None] = {}
        """The last entry of each record."""
        self._before: dict[str, str | None] = {}
        """The entry before the first one of each record."""
        self._first: dict[str, str] = {}
        """The first entry of each record."""
        self._tools: dict[str, str] = {}

    def write(self, turns: list[tuple[str, Turn]]) -> None:
        for name, turn in turns:
            self._write((self._scope + name,), turn)

    def _write(self, source: tuple[str, ...], turn: Turn) -> None:
        if turn.role == "rewind":
            if turn.after is not None and turn.after in self._before:
                self.tail = self._before[turn.after]
            return
        self._builder.take_time(turn.time)
        if turn.after is not None:
            self.tail = (
                self._root if turn.after == ROOT else self._places.get(turn.after, self.tail)
            )
        if turn.id:
            self._before.setdefault(turn.id, self.tail)
        if turn.role != "mark":
            count = len(self._builder.entries)
            self.tail = self._add(source, turn)
            if turn.id:
                self._first.setdefault(turn.id, self._builder.entries[count]["id"])
        if turn.id:
            self._places[turn.id] = self.tail

    def _add(self, source: tuple[str, ...], turn: Turn) -> str:
        """Add the entry of a turn."""
        builder = self._builder
        if turn.role == "note":
            return builder.keep(source, self.tail, turn.name, turn.data)
        if turn.role == "context":
            return builder.add_custom_message(
                source, self.tail, turn.name, turn.blocks, turn.is_shown
            )
        if turn.role == "compaction":
            return self._compact(source, turn)
        if turn.role == "usage":
            return self._spend(source, turn)
        assert turn.role in MESSAGES
        if turn.role == "assistant":
            return self._answer(source, turn)
        return builder.add_message(source, self.tail, self._message(turn))

    def _message(self, turn: Turn) -> dict[str, Any]:
        if turn.role == "bashExecution":
            data = turn.data if isinstance(turn.data, dict) else {}
            return {
                "role": "bashExecution",
                "command": get_text(data, "command") or "",
                "output": get_text(data, "output") or "",
                "exitCode": data.get("exitCode") if isinstance(data.get("exitCode"), int) else None,
                "cancelled": False,
                "truncated": False,
            }
        if turn.role == "user":
            return {"role": "user", "content": turn.blocks}
        made: dict[str, Any] = {
            "role": "toolResult",
            "toolCallId": turn.call_id,
            "toolName": turn.name or self._tools.get(turn.call_id, "unknown"),
            "content": turn.blocks,
            "isError": turn.is_error,
        }
        if turn.data is not None:
            made["details"] = turn.data
        return made

    def _answer(self, source: tuple[str, ...], turn: Turn) -> str:
        place = self.tail
        if turn.model is not None:
            place = self._builder.switch_model(source, place, turn.model)
        for block in turn.blocks:
            if block["type"] == "toolCall":
                self._tools[block["id"]] = block["name"]
        provider, _, model = (turn.model or "unknown/unknown").partition("/")
        message: dict[str, Any] = {
            "role": "assistant",
            "content": turn.blocks,
            "api": _APIS.get(provider, "openai-completions"),
            "provider": provider,
            "model": model,
            "usage": turn.usage or _NO_USAGE,
            "stopReason": turn.stop,
        }
        if turn.error is not None:
            message["errorMessage"] = turn.error
        return self._builder.add_message(source, place, message)

    def _spend(self, source: tuple[str, ...], turn: Turn) -> str:
        provider, _, model = (turn.model or "unknown/unknown").partition("/")
        fields = {"kind": turn.name, "provider": provider, "model": model}
        return self._builder.add(
            "usage", source, self.tail, {**fields, "usage": turn.usage or _NO_USAGE}
        )

    def _compact(self, source: tuple[str, ...], turn: Turn) -> str:
        fields: dict[str, Any] = {"summary": turn.text, "firstKeptEntryId": "", "tokensBefore": 0}
        if isinstance(turn.data, int):
            fields["tokensBefore"] = turn.data
        if turn.usage is not None:
            fields["usage"] = turn.usage
        added = self._builder.add("compaction", source, self.tail, fields)
        # Itself as the first entry kept: none before it stays in context.
        self._builder.by_id[added]["firstKeptEntryId"] = self._first.get(turn.kept or "", added)
        return added
