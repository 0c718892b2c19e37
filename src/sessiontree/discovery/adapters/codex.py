"""Codex: ``~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl``, read where it lies.

``codex_steps`` gathers the steps of the conversation as an import does, here from lines without
their large fields. An answer's parts, its token count and the copies on the screen lie apart in
the file, so a rollout that has grown is summarized whole; its texts are read from the old end.

A fork copies the lines of its original with new times. Its token counts keep the running totals,
and by these the copied answers are recognized.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from sessiontree.discovery.adapters import codex_items as items
from sessiontree.discovery.adapters import codex_steps as steps
from sessiontree.discovery.adapters import places
from sessiontree.discovery.adapters.base import (
    AgentAdapter,
    GetSummaries,
    Places,
    StrPath,
    scan_folders,
)
from sessiontree.discovery.adapters.codex_items import RolloutLine
from sessiontree.discovery.adapters.codex_steps import Gatherer, Step
from sessiontree.discovery.adapters.lines import read_lines
from sessiontree.discovery.adapters.records import (
    get_object,
    get_text,
    read_record,
    read_time,
    spell_time,
)
from sessiontree.discovery.catalogue.answers import Answer, Answers, Reading, make_key, twin_of
from sessiontree.discovery.catalogue.leaves import Leaf, Status
from sessiontree.discovery.catalogue.summary import Summary
from sessiontree.discovery.texts import SaidText, join_strings
from sessiontree.storage.base import SessionStorageReader
from sessiontree.storage.regular import open_for_reading

_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_MAX_ANCESTORS = 50
_PAUSE_MS = 100
"""Copying pauses no longer than this between two lines; no model answers as fast."""


class Codex(AgentAdapter):
    """Sessions of Codex: every rollout, archived ones included."""

    name = "codex"
    title = "Codex"
    converter = "sessiontree.importers.foreign:convert_codex_files"
    can_read_on = False

    def find(self, home: StrPath | None, summaries: GetSummaries) -> Places:
        del summaries
        found = Places()
        root = places.codex_home(os.fspath(home) if home is not None else None)
        for folder in ("sessions", "archived_sessions"):
            for base, files in scan_folders(os.path.join(root, folder), places.SUFFIX):
                if isinstance(files, OSError):
                    found.unreadable.append((base, files.strerror or str(files)))
                    continue
                start = os.path.join(base, "rollout-")
                rollouts = [stat for stat in files if stat.path.startswith(start)]
                if rollouts:
                    found.folders[base] = rollouts
        found.titles = places.read_thread_names(root)
        return found

    def is_session(self, path: str, records: Sequence[dict[str, Any]]) -> bool:
        for record in records:
            # A tuple, not a set: the file's ``type`` may be an unhashable value.
            if record.get("type") in _TYPES and isinstance(record.get("payload"), dict):
                return True
        is_rollout = os.path.basename(path).startswith("rollout-")
        return is_rollout and any("id" in each or "role" in each for each in records[:5])

    def read(
        self, reader: SessionStorageReader, path: str, size: int, known: Reading | None
    ) -> Reading:
        del known
        lines = _Lines()
        for line, _ in read_lines(reader, 0, size):
            lines.take(line)
        return _finish(reader, path, size, lines)

    def read_with_texts(
        self, reader: SessionStorageReader, path: str, size: int
    ) -> Generator[SaidText, None, Reading]:
        lines = _Lines()
        for line, offset in read_lines(reader, 0, size):
            yield from lines.take_with_texts(line, offset)
        return _finish(reader, path, size, lines)

    def texts_of_line(self, line: bytes, offset: int, *, include_tools: bool) -> Iterator[SaidText]:
        return _texts_of_line(line, offset, include_tools)

    def drop_repeated(self, texts: Iterator[SaidText]) -> Iterator[SaidText]:
        return _drop_copies(texts)

    def resume_command(self, path: str, session_id: str) -> list[str] | None:
        del path
        return ["codex", "resume", session_id]


class _Payload(msgspec.Struct, gc=False):
    type: Any = None
    id: Any = None
    call_id: Any = None
    name: Any = None


class _Line(msgspec.Struct, gc=False):
    type: Any = None
    timestamp: Any = None
    payload: _Payload | None = None


class _WholePayload(_Payload, gc=False):
    """Also what a call of a tool says, and what the tool printed."""

    arguments: Any = None
    input: Any = None
    action: Any = None
    output: Any = None


class _WholeLine(_Line, gc=False):
    payload: _WholePayload | None = None


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_whole = msgspec.json.Decoder(_WholeLine).decode

# Most bytes of a rollout are such; a summary needs only their type and ids.
_BULKY = items.CALLS | items.OUTPUTS


class _Lines:
    """The lines of a rollout without their large fields."""

    def __init__(self) -> None:
        self.lines: list[RolloutLine] = []
        self.skipped = 0

    def take(self, line: bytes) -> None:
        """Add one line."""
        try:
            fields = _decode_line(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            fields = _Line()
        if not self._take_bulky(fields):
            self._take_record(line)

    def take_with_texts(self, line: bytes, offset: int) -> Iterator[SaidText]:
        """Add one line, and return what it says."""
        fields = _read_whole(line)
        if self._take_bulky(fields):
            return _texts_of_bulky(fields, offset)
        read = self._take_record(line)
        return _texts_of_read(read, offset, include_tools=True) if read is not None else iter(())

    def _take_bulky(self, fields: _Line) -> bool:
        if not _is_bulky(fields):
            return False
        light = _without_none(fields.payload, _Payload.__struct_fields__)
        self.lines.append(RolloutLine("response_item", light, fields.timestamp, {}))
        return True

    def _take_record(self, line: bytes) -> RolloutLine | None:
        record = read_record(line)
        if not record:
            self.skipped += bool(line.strip(b" \t\r\0"))
            return None
        read = items.read_line(record)
        self.lines.append(read)
        return read


def _is_bulky(fields: _Line) -> bool:
    if fields.payload is None or fields.type != "response_item":
        return False
    kind = fields.payload.type
    return isinstance(kind, str) and kind in _BULKY


def _read_whole(line: bytes) -> _WholeLine:
    """The fields of a line; without any where ``read_record`` has to read it."""
    try:
        return _decode_whole(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _WholeLine()


def _without_none(payload: _Payload | None, names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(payload, name)) is not None}


def _finish(reader: SessionStorageReader, path: str, size: int, lines: _Lines) -> Reading:
    reading = _read(path, lines)
    reading.summary.end = size
    reading.summary.has_final_newline = size == 0 or reader.read_at(size - 1, 1) == b"\n"
    return reading


def _read(path: str, lines: _Lines) -> Reading:
    rollout = lines.lines
    metas = [line for line in rollout if line.kind == "session_meta"]
    meta = metas[0].payload if metas else {}
    gatherer = Gatherer(rollout, get_text(meta, "model_provider") or "openai")
    done = gatherer.gather()
    stamps = chain((meta.get("timestamp"),), (line.timestamp for line in rollout))
    began_ms = next((time for time in map(read_time, stamps) if time is not None), None)
    cwds = [get_text(line.payload, "cwd") for line in rollout if line.kind == "turn_context"]
    summary = Summary(
        session_id=get_text(meta, "id") or places.session_id_of(path) or os.path.basename(path),
        cwd=get_text(meta, "cwd") or next(filter(None, cwds), None) or steps.find_cwd(done) or "",
        timestamp=spell_time(began_ms) if began_ms is not None else None,
        parent_session=_parent(meta),
        header_title=gatherer.title,
        message_count=steps.count_messages(done),
        last_message_ms=_last_said(done),
        first_message=next(steps.typed_prompts(done), None),
        skipped_count=lines.skipped,
        leaf=_find_leaf(done),
        origin=places.read_origin(meta.get("converted_from"), "session_id"),
    )
    base = get_object(meta, "history_base")
    if base:
        with contextlib.suppress(OSError):
            _add_history(summary, path, base, rollout, get_text(meta, "model_provider"))
    answers = _find_answers(done, rollout, metas)
    summary.first = _parent(meta) or summary.session_id
    summary.last = str(answers.rows[-1].twins[-1]) if answers.rows else None
    return Reading(summary, answers)


def _parent(meta: dict[str, Any]) -> str | None:
    spawned = get_object(get_object(get_object(meta, "source"), "subagent"), "thread_spawn")
    return (
        get_text(meta, "forked_from_id")
        or get_text(meta, "parent_thread_id")
        or get_text(spawned, "parent_thread_id")
        or get_text(get_object(meta, "history_base"), "thread_id")
    )


def _add_history(
    summary: Summary,
    path: str,
    base: dict[str, Any],
    own: list[RolloutLine],
    provider: str | None,
) -> None:
    """Count the history that a rollout only refers to: it comes first. Raises OSError."""
    home = places.codex_home_of(path)
    seen = [path]
    before: list[RolloutLine] = []
    while base and home is not None and len(seen) <= _MAX_ANCESTORS:
        found = places.find_rollout(home, get_text(base, "thread_id") or "", seen)
        if found is None:
            break
        seen.append(found)
        lines = _Lines()
        end = base.get("end_byte_offset")
        with open_for_reading(found) as file:
            for line in file.read(end if isinstance(end, int) and end >= 0 else -1).split(b"\n"):
                if line:
                    lines.take(line)
        before = lines.lines[1:] + before
        base = get_object(lines.lines[0].payload, "history_base") if lines.lines else {}
    done = Gatherer([*own[:1], *before, *own[1:]], provider or "openai").gather()
    summary.message_count = steps.count_messages(done)
    summary.first_message = next(steps.typed_prompts(done), None)


def _last_said(done: Sequence[Step]) -> int | None:
    for step in reversed(done):
        if isinstance(step, (steps.Prompt, steps.Answer, steps.Output)):
            time_ms = read_time(step.line.timestamp)
            if time_ms is not None:
                return time_ms
    return None


def _find_leaf(done: Sequence[Step]) -> Leaf | None:
    for step in reversed(done):
        status: Status | None = None
        match step:
            case steps.Answer():
                is_waiting = (
                    any(block["type"] == "toolCall" for block in step.blocks) and not step.searches
                )
                status = "aborted" if step.was_aborted else None
                status = status or ("interrupted" if is_waiting else "complete")
            case steps.Output():
                status = "interrupted"
            case steps.Prompt() if step.typed and step.item.get("role") == "user":
                status = "interrupted"
        if status is not None:
            return Leaf("", status, 0)
    return None


def _find_answers(
    done: Sequence[Step], rollout: Sequence[RolloutLine], metas: Sequence[RolloutLine]
) -> Answers:
    answers = Answers()
    copied = {id(line) for line in rollout[: _count_burst(rollout)]} if _is_fork(metas) else set()
    provider = (get_text(metas[0].payload, "model_provider") if metas else None) or "openai"
    for step in done:
        if not isinstance(step, steps.Answer):
            continue
        usage = step.usage or items.read_usage({})
        time_ms = read_time(step.line.timestamp)
        counts = (usage["input"], usage["output"], usage["cacheRead"])
        twins = (twin_of(time_ms, *counts), make_key("codex", *counts, step.running))
        answers.rows.append(
            Answer(
                0,
                twins,
                time_ms,
                answers.model_no(f"{provider}/{step.model or 'unknown'}"),
                usage["input"],
                usage["output"],
                usage["cacheRead"],
                usage["cacheWrite"],
                reasoning=step.reasoning,
                is_inherited=id(step.line) in copied,
            )
        )
    return answers


def _is_fork(metas: Sequence[RolloutLine]) -> bool:
    """Whether a rollout may begin with a copy of another one's lines."""
    if not metas:
        return False
    own = get_text(metas[0].payload, "id")
    others = (get_text(line.payload, "id") for line in metas[1:20])
    is_after = any(each is not None and each != own for each in others)
    return is_after or get_text(metas[0].payload, "forked_from_id") is not None


def _count_burst(rollout: Sequence[RolloutLine]) -> int:
    """Count the first lines that were written at once."""
    count, before = 1, read_time(rollout[0].timestamp) if rollout else None
    for line in rollout[1:]:
        after = read_time(line.timestamp)
        if before is None or after is None or not 0 <= after - before < _PAUSE_MS:
            break
        count, before = count + 1, after
    return count


# -- texts -----------------------------------------------------------------------------------------

_SHOWN = "shown"
"""The id of a text that an event shows; as a rule an item says the same."""
_NEAR = 64


class _Spoken(msgspec.Struct, gc=False):
    type: Any = None
    role: Any = None


class _SpokenLine(msgspec.Struct, gc=False):
    type: Any = None
    payload: _Spoken | None = None
    role: Any = None


_decode_spoken = msgspec.json.Decoder(_SpokenLine).decode
_SHOWING = frozenset(("user_message", "agent_message", "item_completed", "web_search_end"))


def _texts_of_line(line: bytes, offset: int, include_tools: bool) -> Iterator[SaidText]:
    if include_tools:
        fields = _read_whole(line)
        if _is_bulky(fields):
            return _texts_of_bulky(fields, offset)
    elif _is_silent(line):
        return iter(())
    record = read_record(line)
    if not record:
        return iter(())
    return _texts_of_read(items.read_line(record), offset, include_tools)


def _is_silent(line: bytes) -> bool:
    """Whether a line certainly has nothing that a user or the model said."""
    try:
        fields = _decode_spoken(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    kind = fields.payload.type if fields.payload is not None else fields.type
    return kind != "message" and not (isinstance(kind, str) and kind in _SHOWING)


def _texts_of_bulky(fields: _WholeLine, offset: int) -> Iterator[SaidText]:
    item = _without_none(fields.payload, _WholePayload.__struct_fields__)
    return _texts_of_response(item, "", read_time(fields.timestamp), offset, include_tools=True)


def _texts_of_read(read: RolloutLine, offset: int, include_tools: bool) -> Iterator[SaidText]:
    item: dict[str, Any] | None = read.payload if read.kind == "response_item" else None
    name = ""
    if read.kind == "event_msg":
        item, name = items.as_item(read.payload), _SHOWN
    if item is None:
        return iter(())
    return _texts_of_response(item, name, read_time(read.timestamp), offset, include_tools)


def _texts_of_response(
    item: dict[str, Any], name: str, time_ms: int | None, offset: int, include_tools: bool
) -> Iterator[SaidText]:
    for role, text in _texts_of_item(item, include_tools):
        yield SaidText(name, role, time_ms, text, offset)


def _texts_of_item(item: dict[str, Any], include_tools: bool) -> Iterator[tuple[str, str]]:
    kind, role = item.get("type"), item.get("role")
    if kind == "message" and isinstance(role, str) and role in ("user", "assistant"):
        blocks, _ = items.convert_content(item.get("content"))
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        if role == "user":
            for text in texts if include_tools else ():
                shell = items.shell_command(text) if items.is_context(text) else None
                if shell is not None:
                    yield "bashExecution", f"{shell['command']}\n{shell['output']}"
            texts = [text for text in texts if not items.is_context(text)]
        if texts:
            yield role, " ".join(texts)
    elif not include_tools or not isinstance(kind, str):
        return
    elif kind in items.CALLS:
        call = items.convert_call(item)
        if call is not None:
            yield "toolCall", join_strings([call["name"], call["arguments"]])
    elif kind in items.OUTPUTS:
        blocks, _, _ = items.convert_output(item)
        yield "toolResult", " ".join(b["text"] for b in blocks if b["type"] == "text")
    elif kind == items.WEB_SEARCH:
        yield "toolCall", f"web_search\n{items.search_text(item)}"


def _drop_copies(texts: Iterator[SaidText]) -> Iterator[SaidText]:
    """Leave out what an event shows of an item near it, before or after."""
    items_said: list[tuple[str, str]] = []
    waiting: list[SaidText] = []
    for said in texts:
        key = (said.role, said.text)
        if said.entry_id == _SHOWN:
            if key not in items_said:
                waiting.append(said)
                if len(waiting) > _NEAR:
                    yield _unnamed(waiting.pop(0))
            continue
        if said.role in ("user", "assistant"):
            items_said.append(key)
            del items_said[:-_NEAR]
            waiting = [each for each in waiting if (each.role, each.text) != key]
        yield said
    yield from map(_unnamed, waiting)


def _unnamed(said: SaidText) -> SaidText:
    return msgspec.structs.replace(said, entry_id="")
