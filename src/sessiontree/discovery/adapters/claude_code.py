"""Claude Code: ``~/.claude/projects/<project>/<session>.jsonl``, read where it lies.

``docs/importing.md`` describes the format, ``importers.claude_code`` converts it. A listing and the
index need less: each line on its own, and which records and answers came before. Those are the
reading's state, so that a growing transcript is read from its old end.

One answer of the model is several records with one ``message.id``; each repeats the token counts,
the early ones with fewer output tokens than were paid for. Resuming and forking copy records, with
their ids, into another file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import msgspec

from sessiontree.discovery.adapters import claude_content, places
from sessiontree.discovery.adapters.base import (
    AgentAdapter,
    GetSummaries,
    Places,
    StrPath,
    find_files_below,
    scan_folders,
    stat_files,
)
from sessiontree.discovery.adapters.lines import read_lines
from sessiontree.discovery.adapters.records import (
    get_count,
    get_object,
    get_text,
    read_record,
    read_records,
    read_time,
    spell_time,
)
from sessiontree.discovery.catalogue.answers import Answer, Answers, Reading, make_key, twin_of
from sessiontree.discovery.catalogue.leaves import Leaf, Status
from sessiontree.discovery.catalogue.summary import Summary
from sessiontree.discovery.texts import SaidText, join_strings
from sessiontree.model import codec
from sessiontree.storage.base import FileStat, SessionStorageReader
from sessiontree.storage.regular import open_for_reading

_TITLE_KEYS = {"custom-title": "customTitle", "agent-name": "agentName", "ai-title": "aiTitle"}
_TITLE_RANKS = {"custom-title": 3, "agent-name": 2, "ai-title": 1}
_STATUS: dict[object, Status] = {"stop": "complete", "error": "error"}
_RETENTION_DAYS = 30.0
_INPUTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_KEYS = frozenset(("sessionId", "parentUuid", "leafUuid", "uuid", "isSidechain"))


class ClaudeCode(AgentAdapter):
    """Sessions of Claude Code; transcripts of subagents are parts of their session."""

    name = "claude-code"
    title = "Claude Code"
    converter = "sessiontree.importers.foreign:convert_claude_files"

    def find(self, home: StrPath | None, summaries: GetSummaries) -> Places:
        found = Places()
        beside: list[tuple[FileStat, set[str]]] = []
        root = places.claude_projects_dir(os.fspath(home) if home is not None else None)
        for project in places.list_folders(root):
            folders: list[str] = []
            try:
                files = stat_files(project, places.SUFFIX, folders)
            except OSError as error:
                found.unreadable.append((project, error.strerror or str(error)))
                continue
            found.folders[project] = files
            start, end = len(project) + 1, -len(places.SUFFIX)
            ids: set[str] = set()
            for stat in files:
                name = stat.path[start:end]
                if name.startswith(places.SUBAGENT):
                    beside.append((stat, ids))
                else:
                    ids.add(name)
            for folder in sorted(folders):
                owner = os.path.basename(folder)
                subagents = os.path.join(folder, "subagents")
                for base, inside in scan_folders(subagents, places.SUFFIX):
                    if isinstance(inside, OSError):
                        found.unreadable.append((base, inside.strerror or str(inside)))
                        continue
                    chains = [each for each in inside if _is_chain(each)]
                    if chains:
                        found.folders[base] = chains
                    if owner in ids:
                        main = os.path.join(project, owner + places.SUFFIX)
                        found.parts.update((stat.path, main) for stat in chains)
        known = summaries([stat for stat, _ in beside]) if beside else {}
        for stat, ids in beside:  # older versions keep a subagent's file beside its session's
            summary = known.get(stat.path)
            if summary is not None and summary.owner in ids:
                main = os.path.join(os.path.dirname(stat.path), summary.owner + places.SUFFIX)
                found.parts[stat.path] = main
        return found

    def belongings(self, found: Places) -> dict[str, list[FileStat]]:
        made: dict[str, list[FileStat]] = {}
        gone_or_parts = found.parts.keys() | found.kept
        mains = {
            stat.path.removesuffix(places.SUFFIX): stat.path
            for stat in found.files()
            if stat.path not in gone_or_parts
        }
        for project in {os.path.dirname(base) for base in mains}:
            for folder in places.list_folders(project):
                inside = find_files_below(folder) if folder in mains else []
                extra = [stat for stat in inside if stat.path not in found.parts]
                if extra:
                    made[mains[folder]] = extra
        return made

    def retention_days(self, home: StrPath | None = None) -> float | None:
        root = places.claude_projects_dir(os.fspath(home) if home is not None else None)
        days: object = None
        for name in ("settings.json", "settings.local.json"):
            with contextlib.suppress(OSError):
                with open_for_reading(os.path.join(os.path.dirname(root), name)) as file:
                    records = read_records(file.read().replace(b"\n", b" ")).records
                days = records[0].get("cleanupPeriodDays", days) if records else days
        if isinstance(days, bool) or not isinstance(days, (int, float)) or days < 0:
            return _RETENTION_DAYS
        return float(days)

    def is_session(self, path: str, records: Sequence[dict[str, Any]]) -> bool:
        del path
        # Qwen Code's records have the same ids, but hold Google's parts; Gemini CLI's, no such ids.
        others = ("systemPayload", "projectHash")
        return any(record.keys() & _KEYS for record in records) and not any(
            "parts" in get_object(record, "message") or any(key in record for key in others)
            for record in records
        )

    def read(
        self, reader: SessionStorageReader, path: str, size: int, known: Reading | None
    ) -> Reading:
        scan = _Scan(path, known)
        for line, offset in read_lines(reader, scan.summary.end, size):
            scan.take(line, offset)
        return scan.finish(reader, size)

    def texts_of_line(self, line: bytes, offset: int, *, include_tools: bool) -> Iterator[SaidText]:
        return _texts_of_line(line, offset, include_tools)

    def read_with_texts(
        self, reader: SessionStorageReader, path: str, size: int
    ) -> Generator[SaidText, None, Reading]:
        scan = _Scan(path, None)
        for line, offset in read_lines(reader, 0, size):
            try:
                fields = _decode_whole(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                scan.take(line, offset)
                yield from _texts_of_line(line, offset, include_tools=True)
                continue
            scan.take_fields(fields, line, offset)
            yield from _texts_of_fields(fields, line, offset, include_tools=True)
        return scan.finish(reader, size)

    def resume_command(self, path: str, session_id: str) -> list[str] | None:
        if places.is_subagent(path):
            return None
        return ["claude", "--resume", session_id]


class _Block(msgspec.Struct, gc=False):
    type: Any = None
    text: Any = None


class _Message(msgspec.Struct, gc=False):
    id: Any = None
    model: Any = None
    stop_reason: Any = None
    usage: Any = None
    content: str | list[_Block] | msgspec.UnsetType | None = msgspec.UNSET


class _Line(msgspec.Struct, gc=False):
    type: Any = None
    uuid: Any = None
    timestamp: Any = None
    isSidechain: Any = None  # noqa: N815 - the key in the file
    isMeta: Any = None  # noqa: N815
    isCompactSummary: Any = None  # noqa: N815
    isApiErrorMessage: Any = None  # noqa: N815
    requestId: Any = None  # noqa: N815
    costUSD: Any = None  # noqa: N815
    sessionId: Any = None  # noqa: N815
    cwd: Any = None
    convertedFrom: Any = None  # noqa: N815
    message: _Message | None = None


class _State(msgspec.Struct, array_like=True):
    """The facts about earlier lines that a scan needs."""

    uuids: set[str] = msgspec.field(default_factory=set)
    answers: set[str] = msgspec.field(default_factory=set)
    paid: dict[str, int] = msgspec.field(default_factory=dict)
    """The rows of paid answers, by their ids."""
    requests: dict[str, str] = msgspec.field(default_factory=dict)
    title_rank: int = -1
    summaries: list[tuple[str, str]] = msgspec.field(default_factory=list)
    command: str | None = None


_decode_line = msgspec.json.Decoder(_Line).decode
_pack_state = msgspec.msgpack.Encoder().encode
_unpack_state = msgspec.msgpack.Decoder(_State).decode


def _encode_state(state: _State) -> bytes:
    try:
        return _pack_state(state)
    except UnicodeEncodeError:  # half an emoji in an id; JSON can spell it, msgpack can not
        return codec.encode(msgspec.to_builtins(state))


def _decode_state(data: bytes) -> _State:
    return msgspec.convert(codec.decode(data), _State) if data[:1] == b"[" else _unpack_state(data)


class _Scan:
    """Count the messages that an import would make, add up what was paid, and look for names."""

    def __init__(self, path: str, known: Reading | None) -> None:
        self._path = path
        self._is_subagent = places.is_subagent(path)
        self._answers = known.answers if known is not None and known.answers else Answers()
        self._state = _decode_state(known.state) if known is not None else _State()
        self.summary = msgspec.structs.replace(known.summary) if known is not None else Summary()

    def take(self, line: bytes, offset: int) -> None:
        """Add one line."""
        try:
            fields = _decode_line(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # An odd or damaged line: read it as an import does.
            record = _decode(line)
            if not record:
                self.summary.skipped_count += bool(line.strip(b" \t\r\0"))
                return
            fields = _from_record(record)
        self.take_fields(fields, line, offset)

    def take_fields(self, fields: _Line, line: bytes, offset: int) -> None:
        """Add one line that is decoded already."""
        kind = fields.type
        if kind == "summary" or (isinstance(kind, str) and kind in _TITLE_KEYS):
            self._take_title(kind, _decode(line))
        uuid = fields.uuid
        is_first = True
        if isinstance(uuid, str):
            is_first = uuid not in self._state.uuids
            self._state.uuids.add(uuid)
        message = fields.message
        if kind == "assistant" and message is not None and is_first:
            self._take_paid(fields, message)
        if not is_first or (fields.isSidechain is True and not self._is_subagent):
            return
        if kind in ("user", "assistant"):
            self._take_place(fields)
            if message is not None and fields.isCompactSummary is not True:
                if kind == "assistant":
                    self._take_answer(fields, message, offset)
                else:
                    self._take_prompt(fields, message, line, offset)
        elif kind == "attachment":
            self._take_attachment(line, offset)

    def finish(self, reader: SessionStorageReader, size: int) -> Reading:
        """Return what was found, when all lines were taken."""
        summary, state = self.summary, self._state
        summary.end = size
        summary.has_final_newline = size == 0 or reader.read_at(size - 1, 1) == b"\n"
        if state.title_rank < 0:
            # Old versions also wrote summaries of other sessions into a file.
            titles = (title for leaf, title in reversed(state.summaries) if leaf in state.uuids)
            summary.header_title = next(titles, None)
        if summary.header_title is None and self._is_subagent:
            summary.header_title = get_text(places.meta_of_sidechain(self._path), "description")
        summary.first_message = summary.first_message or state.command
        self._name(summary)
        for row in self._answers.rows:
            row.twins = (twin_of(row.time_ms, row.input, row.output, row.cache_read),)
        return Reading(summary, self._answers, _encode_state(state))

    def _name(self, summary: Summary) -> None:
        """Name the session: after its file, and a subagent's after its session, too."""
        inside = summary.session_id
        if self._is_subagent:
            summary.owner = summary.owner or inside or places.session_folder(self._path)
            summary.session_id = places.subagent_id(self._path, summary.owner)
            return
        own = places.session_id_of(self._path)
        if inside is not None and own is not None and inside != own:
            summary.parent_session = summary.parent_session or inside
        summary.session_id = own or inside or os.path.basename(self._path)

    def _take_place(self, fields: _Line) -> None:
        summary = self.summary
        if not summary.cwd and isinstance(fields.cwd, str):
            summary.cwd = fields.cwd
        if summary.session_id is None and isinstance(fields.sessionId, str):
            summary.session_id = fields.sessionId or None
        if summary.origin is None:
            summary.origin = places.read_origin(fields.convertedFrom, "sessionId")
        time_ms = read_time(fields.timestamp)
        if time_ms is not None:
            if summary.timestamp is None:
                summary.timestamp = spell_time(time_ms)
            summary.last_message_ms = max(time_ms, summary.last_message_ms or 0)
        if isinstance(fields.uuid, str):
            summary.first = summary.first or fields.uuid
            summary.last = fields.uuid

    def _take_answer(self, fields: _Line, message: _Message, offset: int) -> None:
        if message.content is msgspec.UNSET:
            return
        answer = message.id if isinstance(message.id, str) else fields.uuid
        if isinstance(answer, str):
            self.summary.message_count += answer not in self._state.answers
            self._state.answers.add(answer)
        has_calls = isinstance(message.content, list) and any(
            block.type == "tool_use" for block in message.content
        )
        reason = claude_content.find_stop_reason(message.stop_reason, has_calls)
        if fields.isApiErrorMessage is True:
            reason = "error"
        self._note_leaf(fields, _STATUS.get(reason, "interrupted"), offset)

    def _take_paid(self, fields: _Line, message: _Message) -> None:
        """Count an answer's tokens once; of its parts, the one with the most output is right."""
        usage = message.usage
        if not isinstance(usage, dict) or not usage:
            return
        state, rows = self._state, self._answers.rows
        model = message.model if isinstance(message.model, str) else "unknown"
        request = None
        at = None
        local = None
        if isinstance(message.id, str) and message.id:
            request = fields.requestId if isinstance(fields.requestId, str) else None
            first = state.requests.setdefault(message.id, request or "")
            # A gateway may give every answer the same id; then the request's tells them apart.
            is_same = request is None or request == first
            local = message.id if is_same else f"{message.id}\0{request}"
            at = state.paid.get(local)
        output = get_count(usage, "output_tokens")
        if at is not None and output < rows[at].output:
            return
        entered, *cached = (get_count(usage, name) for name in _INPUTS)
        if model == claude_content.SYNTHETIC_MODEL and not (entered or output or any(cached)):
            return
        if at is None:
            spelled = f"{claude_content.find_provider(model)}/{model}"
            key = 0
            if local is not None and (request or local.startswith("msg_")):
                key = make_key("claude", message.id, request or "")
            row = Answer(key, (), read_time(fields.timestamp), 0, 0, -1, 0, 0)
            row.model = self._answers.model_no(spelled)
            rows.append(row)
            if local is not None:
                state.paid[local] = len(rows) - 1
        else:
            row = rows[at]
        row.input, row.output = entered, output
        row.cache_read, row.cache_write = cached
        lasting = get_count(get_object(usage, "cache_creation"), "ephemeral_1h_input_tokens")
        row.cache_write_1h = min(lasting, row.cache_write)
        row.cost = claude_content.read_dollars(fields.costUSD)

    def _take_prompt(self, fields: _Line, message: _Message, line: bytes, offset: int) -> None:
        content = message.content
        if isinstance(content, list):
            results = sum(1 for block in content if block.type == "tool_result")
            self.summary.message_count += results
            if results:
                self._note_leaf(fields, "interrupted", offset)
            if results == len(content):
                return
            body: object = [{"type": b.type, "text": b.text} for b in content if b.type == "text"]
            if any(block.type not in ("text", "tool_result") for block in content):
                body = get_object(_decode(line), "message").get("content")
            if claude_content.has_interruption(body):
                self._note_leaf(fields, "aborted", offset)
                if results == 0:
                    self._take_text(fields, body, offset, is_interruption=True)
                return
        else:
            body = content if isinstance(content, str) else None
            if not body:
                return
            if body.startswith(claude_content.INTERRUPTED):
                self._take_text(fields, body, offset, is_interruption=True)
                self._note_leaf(fields, "aborted", offset)
                return
        if fields.isMeta is not True:
            self._take_text(fields, body, offset)

    def _take_text(
        self, fields: _Line, body: object, offset: int, *, is_interruption: bool = False
    ) -> None:
        text = claude_content.plain_text(body)
        if claude_content.is_command_markup(text):
            state = self._state
            state.command = state.command or claude_content.typed_command(text)
            return
        if claude_content.bash_output(text) is not None:
            return
        _, typed = claude_content.split_prompt(claude_content.convert_prompt(body).blocks)
        if not typed:
            return
        self.summary.message_count += 1
        if not is_interruption:
            self._note_leaf(fields, "interrupted", offset)
        said = "\n".join(block["text"] for block in typed if block["type"] == "text")
        if self.summary.first_message is None and said.strip():
            self.summary.first_message = claude_content.bash_input(said) or said

    def _take_attachment(self, line: bytes, offset: int) -> None:
        record = _decode(line)
        attachment = get_object(record, "attachment")
        if claude_content.is_queued_prompt(attachment):
            self._take_text(_from_record(record), attachment.get("prompt"), offset)

    def _take_title(self, kind: str, record: dict[str, Any]) -> None:
        state = self._state
        if kind == "summary":
            title, leaf = get_text(record, "summary"), record.get("leafUuid")
            if title is not None and isinstance(leaf, str):
                state.summaries.append((leaf, title))
            return
        title = get_text(record, _TITLE_KEYS[kind])
        if title is not None and _TITLE_RANKS[kind] >= state.title_rank:
            state.title_rank = _TITLE_RANKS[kind]
            self.summary.header_title = title

    def _note_leaf(self, fields: _Line, status: Status, offset: int) -> None:
        self.summary.leaf = Leaf(
            fields.uuid if isinstance(fields.uuid, str) else "", status, offset
        )


def _is_chain(stat: FileStat) -> bool:
    return places.is_subagent(stat.path)


def _from_record(record: dict[str, Any]) -> _Line:
    """The fields of a record that only the tolerant parser could read."""
    fields = _Line(*(record.get(key) for key in _Line.__struct_fields__[:-1]))
    message = record.get("message")
    if isinstance(message, dict):
        content = message.get("content") if "content" in message else msgspec.UNSET
        if isinstance(content, list):
            content = [
                _Block(block.get("type"), block.get("text"))
                if isinstance(block, dict)
                else _Block("text", block)
                for block in content
            ]
        elif not isinstance(content, str) and content is not msgspec.UNSET:
            content = None
        fields.message = _Message(
            message.get("id"),
            message.get("model"),
            message.get("stop_reason"),
            message.get("usage"),
            content,
        )
    return fields


def _decode(line: bytes) -> dict[str, Any]:
    """The record in a line, as an import reads it; empty if there is none."""
    return read_record(line) or {}


# -- texts -----------------------------------------------------------------------------------------


class _SpokenLine(msgspec.Struct, gc=False):
    type: Any = None
    uuid: Any = None
    timestamp: Any = None
    isMeta: Any = None  # noqa: N815
    isCompactSummary: Any = None  # noqa: N815
    message: _Message | None = None


class _ToolBlock(_Block, gc=False):
    name: Any = None
    input: Any = None
    content: Any = None


class _ToolMessage(msgspec.Struct, gc=False):
    content: str | list[_ToolBlock] | None = None


class _ToolLine(msgspec.Struct, gc=False):
    type: Any = None
    uuid: Any = None
    timestamp: Any = None
    isMeta: Any = None  # noqa: N815
    isCompactSummary: Any = None  # noqa: N815
    message: _ToolMessage | None = None


class _WholeMessage(_Message, gc=False):
    content: str | list[_ToolBlock] | msgspec.UnsetType | None = msgspec.UNSET  # type: ignore[assignment]


class _WholeLine(_Line, gc=False):
    """A line's fields for listings and for the index."""

    message: _WholeMessage | None = None


_decode_spoken = msgspec.json.Decoder(_SpokenLine).decode
_decode_tools = msgspec.json.Decoder(_ToolLine).decode
_decode_whole = msgspec.json.Decoder(_WholeLine).decode


def _texts_of_line(line: bytes, offset: int, include_tools: bool) -> Iterator[SaidText]:
    try:
        fields = _decode_tools(line) if include_tools else _decode_spoken(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _texts_of_record(_decode(line), offset, include_tools)
    return _texts_of_fields(fields, line, offset, include_tools)


def _texts_of_fields(
    fields: Any, line: bytes, offset: int, include_tools: bool
) -> Iterator[SaidText]:
    kind = fields.type
    if kind == "assistant" and fields.message is not None:
        return _texts_of_answer(fields, offset)
    content = fields.message.content if fields.message is not None else None
    if kind == "user" and fields.isCompactSummary is not True and _is_simple(content):
        return _texts_of_prompt(fields, content, offset, include_tools)
    if kind not in ("user", "attachment"):
        return iter(())
    return _texts_of_record(_decode(line), offset, include_tools)


def _is_simple(content: object) -> bool:
    """Whether a user's content holds only texts and results."""
    if isinstance(content, list):
        return all(block.type in ("text", "tool_result") for block in content)
    return isinstance(content, str)


def _texts_of_answer(fields: Any, offset: int) -> Iterator[SaidText]:
    uuid = fields.uuid if isinstance(fields.uuid, str) else ""
    time_ms = read_time(fields.timestamp)
    content = fields.message.content
    if isinstance(content, str):
        yield SaidText(uuid, "assistant", time_ms, content, offset)
        return
    if not isinstance(content, list):
        return
    said = [block.text for block in content if block.type == "text" and isinstance(block.text, str)]
    for block in content:
        if isinstance(block, _ToolBlock) and block.type == "tool_use":
            called = join_strings([block.name, block.input])
            yield SaidText(uuid, "toolCall", time_ms, called, offset)
    if said:
        yield SaidText(uuid, "assistant", time_ms, " ".join(said), offset)


def _texts_of_prompt(
    fields: Any, content: Any, offset: int, include_tools: bool
) -> Iterator[SaidText]:
    uuid = fields.uuid if isinstance(fields.uuid, str) else ""
    time_ms = read_time(fields.timestamp)
    body: object = content
    if isinstance(content, list):
        for block in content:
            if isinstance(block, _ToolBlock) and block.type == "tool_result":
                printed = claude_content.plain_text(block.content)
                yield SaidText(uuid, "toolResult", time_ms, printed, offset)
        body = [
            {"type": "text", "text": block.text}
            for block in content
            if block.type == "text" and isinstance(block.text, str)
        ]
    if fields.isMeta is not True and body:
        yield from _said_by_user(uuid, time_ms, body, offset, include_tools)


def _texts_of_record(
    record: dict[str, Any], offset: int, include_tools: bool
) -> Iterator[SaidText]:
    """As ``_texts_of_line``, for a line that takes the tolerant parser, or holds more."""
    kind = record.get("type")
    uuid = get_text(record, "uuid") or ""
    time_ms = read_time(record.get("timestamp"))
    if kind == "attachment":
        attachment = get_object(record, "attachment")
        if claude_content.is_queued_prompt(attachment):
            yield from _said_by_user(uuid, time_ms, attachment.get("prompt"), offset, include_tools)
        return
    body = get_object(record, "message").get("content")
    if kind == "assistant":
        made = claude_content.convert_reply(body, "")
        for block in made.blocks:
            if include_tools and block["type"] == "toolCall":
                called = join_strings([block["name"], block["arguments"]])
                yield SaidText(uuid, "toolCall", time_ms, called, offset)
        said = " ".join(block["text"] for block in made.blocks if block["type"] == "text")
        yield SaidText(uuid, "assistant", time_ms, said, offset)
    elif kind == "user" and record.get("isCompactSummary") is not True:
        for block in claude_content.tool_results(body) if include_tools else ():
            printed = claude_content.plain_text(block.get("content"))
            yield SaidText(uuid, "toolResult", time_ms, printed, offset)
        if record.get("isMeta") is not True:
            yield from _said_by_user(uuid, time_ms, body, offset, include_tools)


def _said_by_user(
    uuid: str, time_ms: int | None, body: object, offset: int, include_tools: bool
) -> Iterator[SaidText]:
    text = claude_content.plain_text(body)
    if not text or claude_content.is_command_markup(text):
        return
    command = claude_content.bash_input(text)
    shell = command if command is not None else claude_content.bash_output(text)
    if shell is not None:
        if include_tools:
            yield SaidText(uuid, "bashExecution", time_ms, shell, offset)
        return
    _, typed = claude_content.split_prompt(claude_content.convert_prompt(body).blocks)
    said = " ".join(block["text"] for block in typed if block["type"] == "text")
    if said:
        yield SaidText(uuid, "user", time_ms, said, offset)
