"""GitHub Copilot CLI: ``~/.copilot/session-state/<session>/events.jsonl``.

Checked with what versions 1.0.40, 1.0.80 and 1.0.102 write, and with the events that the Copilot
SDK 1.0.14 describes; versions before 0.0.380 wrote ``session-state/<session>.jsonl``. Their
predecessor's ``history-session-state`` is not read.

Each line is an event: ``user.message``, ``assistant.message`` with its calls, the result of one
(``tool.execution_complete``). ``copilot_log`` sorts out whose an event is, and what was used.
``workspace.yaml`` beside it holds the session's name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from sessiontree.discovery.adapters.base import (
    GetSummaries,
    Places,
    StrPath,
    find_files_below,
    stat_files,
)
from sessiontree.discovery.adapters.copilot_log import MAIN, EventLog, thread_of
from sessiontree.discovery.adapters.places import SUFFIX, list_folders, read_file
from sessiontree.discovery.adapters.records import (
    WireRecord,
    get_list,
    get_object,
    get_text,
    read_records,
)
from sessiontree.discovery.adapters.rows import spell_lines
from sessiontree.discovery.adapters.turns import (
    Head,
    Turn,
    TurnAgent,
    call_block,
    image_block,
    spell_model,
    text_block,
    thinking_block,
    usage_of,
)
from sessiontree.discovery.catalogue.answers import make_key
from sessiontree.model import codec
from sessiontree.storage.base import UNKNOWN_SIZE, FileStat, SessionStorage, SessionStorageReader

_EVENTS = "events.jsonl"
_NAMES = "workspace.yaml"
_MOST_NAMES_BYTES = 1 << 16
_PROVIDER = "github-copilot"
_LOCK = ".lock"
_ADDED = ("skill-", "agent-", "system", "command-")
"""Origins of messages that the user did not type."""


class CopilotCli(TurnAgent):
    """Sessions of GitHub Copilot CLI."""

    name = "copilot-cli"
    title = "GitHub Copilot CLI"
    is_interpreted = True

    def find(self, home: StrPath | None, summaries: GetSummaries) -> Places:
        del summaries
        found = Places()
        base = os.path.join(_base(home), "session-state")
        for folder in (base, *list_folders(base)):
            try:
                files = stat_files(folder, SUFFIX)
            except OSError as error:
                found.unreadable.append((folder, error.strerror or str(error)))
                continue
            if folder != base:
                files = [each for each in files if os.path.basename(each.path) == _EVENTS]
            if files:
                found.folders[folder] = [_with_names(each, UNKNOWN_SIZE) for each in files]
        return found

    def is_session(self, path: str, records: Sequence[dict[str, Any]]) -> bool:
        del path
        return any(
            record.get("type") == "session.start"
            and isinstance(get_object(record, "data").get("copilotVersion"), str)
            for record in records
        )

    def open_verbatim(self, path: str, storage: SessionStorage) -> SessionStorageReader:
        return _NamedReader(storage.open_reader(path))

    def interpret(self, path: str, reader: SessionStorageReader) -> SessionStorageReader:
        del path
        return spell_lines(reader, lambda data: EventLog(read_records(data).records).records())

    def belongings(self, found: Places) -> dict[str, list[FileStat]]:
        made = {}
        for folder, files in found.folders.items():
            if os.path.basename(files[0].path) == _EVENTS:
                beside = find_files_below(folder)
                made[files[0].path] = [
                    each
                    for each in beside
                    if each.path != files[0].path and not each.path.endswith(_LOCK)
                ]
        return made

    def head(self, path: str) -> Head:
        folder, name = os.path.split(path)
        if name != _EVENTS:
            return Head(id=name.removesuffix(SUFFIX))
        names = _read_names(os.path.join(folder, _NAMES))
        return Head(
            id=os.path.basename(folder),
            cwd=names.get("cwd"),
            title=names.get("name"),
            title_source="user" if names.get("user_named") == "true" else "auto",
        )

    def take_head(self, record: WireRecord, head: Head) -> None:
        if record.get("type") == "session.start":
            data = get_object(record, "data")
            head.id = get_text(data, "sessionId") or head.id
            head.cwd = get_text(get_object(data, "context"), "cwd") or head.cwd
            head.started = data.get("startTime")
            head.parent = get_text(data, "detachedFromSpawningParentSessionId")

    def turns(self, record: WireRecord) -> Iterator[Turn]:
        name, time = get_text(record, "id") or "", record.get("timestamp")
        made = [*self._turns(record, name, time)] or [Turn(role="mark", id=name, time=time)]
        after = record.get("$after")
        if isinstance(after, str):
            made[0].after = after
        yield from made

    def _turns(self, record: WireRecord, name: str, time: object) -> Iterator[Turn]:
        data = get_object(record, "data")
        match record.get("type"):
            case "session.start" | "assistant.reasoning" | "session.shutdown" | "$end":
                return
            case "tool.user_requested" | "session.resume" | "session.binary_asset":
                return
            case "user.message":
                yield from _prompt(record, data, name, time)
            case "assistant.message":
                yield from _answer(record, data, name, time)
            case "tool.execution_complete":
                yield from _result(record, data, name, time)
            case "session.compaction_complete" if data.get("success") is True:
                yield _compaction(data, name, time)
            case "session.context_cleared":
                yield Turn(role="compaction", id=name, time=time, blocks=[text_block("Cleared.")])
            case "session.error":
                error = get_text(data, "message") or "error"
                yield Turn(role="assistant", id=name, time=time, stop="error", error=error)
            case "skill.invoked" | "system.notification" as kind:
                said = [text_block(get_text(data, "content") or "")]
                yield Turn(role="context", id=name, time=time, name=kind, blocks=said)
            case "$usage":
                yield Turn(
                    role="usage",
                    id=name,
                    time=time,
                    name="calls",
                    model=spell_model(_PROVIDER, record.get("$model")),
                    usage=_usage(record),
                )
            case kind:
                known = kind if isinstance(kind, str) and kind else "record"
                written = {key: value for key, value in record.items() if key[:1] != "$"}
                yield Turn(role="note", id=name, time=time, name=known, data=written)

    def resume_command(self, path: str, session_id: str) -> list[str] | None:
        del path
        return ["copilot", f"--resume={session_id}"]


# -- where they are --------------------------------------------------------------------------------


def _base(home: StrPath | None) -> str:
    given = os.environ.get("COPILOT_HOME") if home is None else None
    return given or os.path.join(home or os.path.expanduser("~"), ".copilot")


def _with_names(stat: FileStat, size: int) -> FileStat:
    """Make a stat that also changes when the session gets another name."""
    version = stat.inode
    if os.path.basename(stat.path) == _EVENTS:
        try:
            names = os.stat(os.path.join(os.path.dirname(stat.path), _NAMES))
            version = make_key(stat.inode, names.st_mtime_ns, names.st_size)
        except OSError:
            pass
    return msgspec.structs.replace(stat, size=size, inode=version)


class _NamedReader:
    """A session's file, with a stat that depends on its name, too."""

    def __init__(self, reader: SessionStorageReader) -> None:
        self._reader = reader
        self.read_at = reader.read_at
        self.close = reader.close

    def stat(self) -> FileStat:
        """The file's stat now."""
        stat = self._reader.stat()
        return _with_names(stat, stat.size)


_FIELD = re.compile(r"^([a-z_]+):[ \t]*(.*)$")


def _read_names(path: str) -> dict[str, str]:
    """The fields of a ``workspace.yaml``: plain, quoted, or a block of lines."""
    try:
        text = read_file(path, _MOST_NAMES_BYTES).decode("utf-8", "replace")
    except OSError:
        return {}
    found: dict[str, str] = {}
    block = ""
    for line in text.splitlines():
        field = _FIELD.match(line)
        if field is not None:
            block = field[1] if field[2][:1] in ("|", ">") else ""
            found[field[1]] = "" if block else _unquote(field[2].strip())
        elif block and line[:1] in (" ", "\t"):
            found[block] = f"{found[block]} {line.strip()}".strip()
    return {key: value for key, value in found.items() if value}


def _unquote(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) > 1 and value[0] == value[-1] == '"':
        try:
            return str(codec.decode(value.encode()))
        except ValueError:
            return value[1:-1]
    return value


# -- what an event says ----------------------------------------------------------------------------


def _prompt(record: WireRecord, data: WireRecord, name: str, time: object) -> Iterator[Turn]:
    """What the user typed, or what only has the user's role."""
    source = get_text(data, "source") or ""
    said = get_text(data, "content")
    blocks = [text_block(said)] if said is not None else []
    is_added = thread_of(record) == MAIN and source.startswith(_ADDED)
    if is_added or data.get("isAutopilotContinuation") is True:
        yield Turn(role="context", id=name, time=time, name=source or "autopilot", blocks=blocks)
        return
    others = []
    for each in (*get_list(data, "attachments"), *get_list(record, "$assets")):
        held = each if isinstance(each, dict) else {}
        image = _image(held)
        if image is not None:
            blocks.append(image)
        elif "assetId" not in held:
            others.append(each)
    if others:
        yield Turn(role="note", id=name, time=time, name="attachments", data=others)
    if blocks:
        yield Turn(role="user", id=name, time=time, blocks=blocks)


def _answer(record: WireRecord, data: WireRecord, name: str, time: object) -> Iterator[Turn]:
    blocks: list[WireRecord] = []
    thought = get_text(data, "reasoningText") or get_text(record, "$reasoning")
    if thought is not None:
        blocks.append(thinking_block(thought))
    said = get_text(data, "content")
    if said is not None:
        blocks.append(text_block(said))
    calls = [each for each in get_list(data, "toolRequests") if isinstance(each, dict)]
    for call in calls:
        arguments = call.get("arguments")
        blocks.append(call_block(call.get("toolCallId"), call.get("name"), _decode(arguments)))
    yield Turn(
        role="assistant",
        id=name,
        time=time,
        blocks=blocks,
        model=spell_model(_PROVIDER, record.get("$model")),
        usage=_usage(record),
        stop="toolUse" if calls else "stop",
    )


def _result(record: WireRecord, data: WireRecord, name: str, time: object) -> Iterator[Turn]:
    result, error = get_object(data, "result"), get_object(data, "error")
    printed = get_text(result, "content") or get_text(data, "result") or get_text(error, "message")
    command = get_text(record, "$command")
    if command is not None:
        ran: WireRecord = {"command": command, "output": printed or ""}
        ran["exitCode"] = get_object(data, "shellExecution").get("exitCode")
        yield Turn(role="bashExecution", id=name, time=time, data=ran)
        return
    images = [
        image
        for each in (*get_list(result, "contents"), *get_list(result, "binaryResultsForLlm"))
        if (image := _image(each if isinstance(each, dict) else {})) is not None
    ]
    shown = get_text(result, "detailedContent")
    yield Turn(
        role="toolResult",
        id=name,
        time=time,
        blocks=[text_block(printed or ""), *images],
        call_id=get_text(data, "toolCallId") or "",
        is_error=data.get("success") is False,
        data={"display": shown} if shown is not None and shown != printed else None,
    )


def _compaction(data: WireRecord, name: str, time: object) -> Turn:
    tokens = data.get("preCompactionTokens")
    return Turn(
        role="compaction",
        id=name,
        time=time,
        blocks=[text_block(get_text(data, "summaryContent") or "")],
        data=tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else None,
    )


def _image(held: WireRecord) -> WireRecord | None:
    data, kind = get_text(held, "data"), get_text(held, "mimeType") or ""
    return image_block(data, kind) if data is not None and kind.startswith("image/") else None


def _decode(arguments: object) -> object:
    """A call's arguments; older versions wrote them as a text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return codec.decode(arguments.encode("utf-8", "surrogatepass"))
    except ValueError:
        return arguments


def _usage(record: WireRecord) -> WireRecord | None:
    usage = get_object(record, "$usage")
    if not usage:
        return None
    return usage_of(
        usage,
        input_key="inputTokens",
        output_key="outputTokens",
        read_key="cacheReadTokens",
        write_key="cacheWriteTokens",
        reasoning_key="reasoningTokens",
        input_holds_cache=True,
    )
