"""Gemini CLI: ``~/.gemini/tmp/<project>/chats/session-*.jsonl``, or ``.json`` of older versions.

The file is a log of changes: a message is written again whenever something is added to it,
``$rewindTo`` takes messages back, and ``$set`` replaces fields of the session, at times all of its
messages. So ``interpret`` returns not these lines but their result: every message once, in its last
form and in the order of its first, with the rewinds and compressions between them.

The folder's name says little of the project: ``.project_root`` in it does, or ``projects.json``.
Subagents write to ``chats/<session>/``; they are parts of their session.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

from sessiontree.discovery.adapters.base import GetSummaries, Places, StrPath, stat_files
from sessiontree.discovery.adapters.google_parts import (
    Parts,
    model_of,
    read_parts,
    result_turns,
)
from sessiontree.discovery.adapters.places import list_folders
from sessiontree.discovery.adapters.records import (
    WireRecord,
    get_count,
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
    text_block,
    thinking_block,
    usage_of,
)
from sessiontree.model import codec
from sessiontree.storage.base import UNKNOWN_SIZE, FileStat, SessionStorage, SessionStorageReader
from sessiontree.storage.regular import open_for_reading

_SUFFIXES = (".jsonl", ".json")
_HEAD_KEYS = frozenset(
    ("sessionId", "projectHash", "startTime", "lastUpdated", "kind", "summary", "messages")
)
_SAID = ("user", "gemini", "info", "error", "warning")
_CONTEXT = ("<session_context>", "<hook_context>")
_MOST_ROOT_BYTES = 1 << 16
_MOST_REGISTRY_BYTES = 1 << 22


class GeminiCli(TurnAgent):
    """Sessions of Gemini CLI."""

    name = "gemini-cli"
    title = "Gemini CLI"
    is_interpreted = True

    def find(self, home: StrPath | None, summaries: GetSummaries) -> Places:
        del summaries
        found = Places()
        for project in list_folders(os.path.join(_base(home), "tmp")):
            chats = os.path.join(project, "chats")
            try:
                mains = _list_sessions(chats)
                folders = list_folders(chats) if mains else []
            except OSError as error:
                found.unreadable.append((chats, error.strerror or str(error)))
                continue
            if mains:
                found.folders[chats] = mains
            for folder in folders:
                parts = [_unsized(each) for each in stat_files(folder, ".jsonl")]
                main = _main_of(os.path.basename(folder), mains)
                if parts:
                    found.folders[folder] = parts
                if main is not None:
                    found.parts.update((each.path, main) for each in parts)
        return found

    def is_session(self, path: str, records: Sequence[dict[str, Any]]) -> bool:
        del path
        return any(_is_head(record) for record in records)

    def is_document(self, path: str, head: bytes) -> bool:
        is_json = path.endswith(".json")
        return is_json and b'"projectHash"' in head and b'"sessionId"' in head

    def interpret(self, path: str, reader: SessionStorageReader) -> SessionStorageReader:
        return spell_lines(reader, lambda data: _Log(path, data).records())

    def head(self, path: str) -> Head:
        chats, owner = os.path.dirname(path), None
        if os.path.basename(chats) != "chats":
            owner = os.path.basename(chats)
            chats = os.path.dirname(chats)
        name = os.path.basename(path).rpartition(".")[0]
        return Head(id=name, cwd=_project_of(os.path.dirname(chats)), owner=owner)

    def take_head(self, record: WireRecord, head: Head) -> None:
        if record.get("$type") != "session":
            return
        head.id = get_text(record, "sessionId") or head.id
        head.title = get_text(record, "summary")
        head.title_source = "auto"
        head.started = record.get("startTime")
        folders = get_list(record, "directories")
        if head.cwd is None and folders and isinstance(folders[0], str):
            head.cwd = folders[0]

    def turns(self, record: WireRecord) -> Iterator[Turn]:
        match record.get("$type"):
            case "session":
                more = {k: v for k, v in record.items() if k not in _HEAD_KEYS and k != "$type"}
                if more:
                    yield Turn(role="note", name="session", data=more)
            case "rewind":
                yield Turn(role="rewind", after=get_text(record, "to"))
            case "compression":
                blocks = [
                    block
                    for each in get_list(record, "messages")
                    for block in read_parts(each.get("content")).blocks
                    if block["type"] == "text"
                ]
                yield Turn(
                    role="compaction",
                    id=get_text(record, "id") or "",
                    time=record.get("timestamp"),
                    blocks=blocks,
                    kept=get_text(record, "kept"),
                )
            case _:
                yield from _message(record)

    def find_parts(self, path: str, head: Head, storage: SessionStorage) -> Sequence[str]:
        del storage
        if head.owner is not None or head.id is None or os.path.basename(head.id) != head.id:
            return ()
        try:
            found = stat_files(os.path.join(os.path.dirname(path), head.id), ".jsonl")
        except OSError:
            return ()
        return sorted(each.path for each in found)

    def resume_command(self, path: str, session_id: str) -> list[str] | None:
        is_part = os.path.basename(os.path.dirname(path)) != "chats"
        return None if is_part else ["gemini", "--resume", session_id]


# -- where they are --------------------------------------------------------------------------------


def _base(home: StrPath | None) -> str:
    given = os.environ.get("GEMINI_CLI_HOME") if home is None else os.fspath(home)
    return os.path.join(given or os.path.expanduser("~"), ".gemini")


def _list_sessions(chats: str) -> list[FileStat]:
    """A folder's sessions; of a session in both formats, the newer one continues the other."""
    found = {
        each.path: each
        for suffix in _SUFFIXES
        for each in stat_files(chats, suffix)
        if os.path.basename(each.path).startswith("session-")
    }
    return [_unsized(each) for each in found.values() if each.path + "l" not in found]


def _unsized(stat: FileStat) -> FileStat:
    return msgspec.structs.replace(stat, size=UNKNOWN_SIZE)


def _main_of(session_id: str, mains: list[FileStat]) -> str | None:
    """The file of a session: its name ends with the first eight characters of the id."""
    end = f"-{session_id[:8]}"
    names = ((each.path, os.path.basename(each.path).rpartition(".")[0]) for each in mains)
    return next((path for path, name in names if name.endswith(end)), None)


def _project_of(folder: str) -> str | None:
    """The project of a folder below ``tmp``."""
    root = _read_small(os.path.join(folder, ".project_root"), _MOST_ROOT_BYTES)
    if root is not None and root.strip():
        return root.decode("utf-8", "replace").strip()
    registry = os.path.join(os.path.dirname(os.path.dirname(folder)), "projects.json")
    try:
        mtime_ns = os.stat(registry).st_mtime_ns
    except OSError:
        return None
    return _registered(registry, mtime_ns).get(os.path.basename(folder))


@lru_cache(maxsize=8)
def _registered(registry: str, mtime_ns: int) -> dict[str, str]:
    """Projects by the names of their folders: of today, and hashes as older versions made."""
    del mtime_ns
    data = _read_small(registry, _MOST_REGISTRY_BYTES)
    try:
        projects = get_object(codec.decode(data or b"{}"), "projects")
    except (ValueError, AttributeError):
        return {}
    found = {}
    for path, name in projects.items():
        found[hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()] = path
        if isinstance(name, str):
            found[name] = path
    return found


def _read_small(path: str, most: int) -> bytes | None:
    try:
        with open_for_reading(path) as file:
            return file.read(most)
    except OSError:
        return None


# -- the result of the log -------------------------------------------------------------------------


def _is_head(record: WireRecord) -> bool:
    return isinstance(record.get("sessionId"), str) and isinstance(record.get("projectHash"), str)


class _Log:
    """Play a log of changes; the result is a list of messages, rewinds and compressions."""

    def __init__(self, path: str, data: bytes) -> None:
        self._session: WireRecord = {}
        self._steps: list[WireRecord] = []
        self._at: dict[str, int] = {}
        """The step of each message."""
        self._now: dict[str, None] = {}
        """The ids of the messages in the conversation as it is, in order."""
        for record in self._read(path, data):
            self._take(record)

    def records(self) -> Iterator[WireRecord]:
        """The records that result from the log; the session's fields first."""
        yield {**self._session, "$type": "session"}
        yield from self._steps

    def _read(self, path: str, data: bytes) -> list[WireRecord]:
        if path.endswith(".json"):
            try:
                whole = codec.decode(data)
            except ValueError:
                whole = None
            if isinstance(whole, dict):
                return [whole]
        return read_records(data).records

    def _take(self, record: WireRecord) -> None:
        changed = record.get("$set")
        if isinstance(record.get("$rewindTo"), str):
            self._rewind(record["$rewindTo"])
        elif isinstance(record.get("id"), str):
            self._put(record)
        elif isinstance(changed, dict) or _is_head(record):
            fields = changed if isinstance(changed, dict) else record
            messages = fields.get("messages")
            self._session |= {k: v for k, v in fields.items() if k != "messages"}
            if isinstance(messages, list):
                self._replace([each for each in messages if isinstance(each, dict)])
        else:
            self._steps.append(record)

    def _put(self, message: WireRecord) -> None:
        name = message["id"]
        if name in self._at:
            self._steps[self._at[name]] = message
            if name in self._now:
                return
        else:
            self._at[name] = len(self._steps)
            self._steps.append(message)
        self._now[name] = None

    def _rewind(self, name: str) -> None:
        if name not in self._now:
            return
        self._steps.append({"$type": "rewind", "to": name})
        while self._now.popitem()[0] != name:
            pass

    def _replace(self, messages: list[WireRecord]) -> None:
        """Take a new list of all messages; those that were shortened in it stay as they were."""
        named = [each for each in messages if isinstance(each.get("id"), str)]
        ids = [each["id"] for each in named]
        now = iter(self._now)
        if self._now and ids == list(islice(now, len(ids))):
            dropped = next(now, None)
            if dropped is not None:
                self._rewind(dropped)
            return
        known = next((at for at, name in enumerate(ids) if name in self._at), len(ids))
        if self._now and known:
            self._steps.append(
                {
                    "$type": "compression",
                    "id": named[0]["id"],
                    "timestamp": named[0].get("timestamp"),
                    "messages": named[:known],
                    "kept": ids[known] if known < len(ids) else None,
                }
            )
            self._now = {}
            named = named[known:]
        for each in named:
            if each["id"] not in self._at:
                self._put(each)
            elif each["id"] not in self._now:
                self._now[each["id"]] = None


# -- what a message says ---------------------------------------------------------------------------


def _message(record: WireRecord) -> Iterator[Turn]:
    kind, name, time = record.get("type"), get_text(record, "id") or "", record.get("timestamp")
    parts = read_parts(record.get("content"))
    if kind == "user":
        yield from _prompt(parts, name, time)
    elif kind == "gemini":
        yield from _answer(record, parts, name, time)
    else:
        yield Turn(
            role="note", id=name, time=time, name=kind if kind in _SAID else "record", data=record
        )
    if parts.unknown:
        yield Turn(role="note", id=name, time=time, name="parts", data=parts.unknown)


def _prompt(parts: Parts, name: str, time: object) -> Iterator[Turn]:
    typed: list[WireRecord] = []
    for block in parts.blocks:
        if block["type"] == "text" and block["text"].lstrip().startswith(_CONTEXT):
            yield Turn(role="context", id=name, time=time, name="context", blocks=[block])
        else:
            typed.append(block)
    if typed:
        yield Turn(role="user", id=name, time=time, blocks=typed)
    yield from result_turns(parts.results, name=name, time=time, is_error=None, details=None)


def _answer(record: WireRecord, parts: Parts, name: str, time: object) -> Iterator[Turn]:
    thoughts = [
        thinking_block("\n".join(filter(None, map(each.get, ("subject", "description")))))
        for each in get_list(record, "thoughts")
        if isinstance(each, dict)
    ]
    calls = [each for each in get_list(record, "toolCalls") if isinstance(each, dict)]
    blocks = [
        *thoughts,
        *parts.blocks,
        *(
            call_block(call.get("id"), call.get("name"), call.get("args"))
            for call in calls
            if call.get("id") not in parts.call_ids
        ),
    ]
    has_calls = any(block["type"] == "toolCall" for block in blocks)
    yield Turn(
        role="assistant",
        id=name,
        time=time,
        blocks=blocks,
        model=model_of(record.get("model"), "google"),
        usage=_usage(get_object(record, "tokens")),
        stop="toolUse" if has_calls else "stop",
    )
    for call in calls:
        yield from _result(call, name)


def _result(call: WireRecord, name: str) -> Iterator[Turn]:
    if call.get("result") is None:
        return
    found = read_parts(call["result"])
    display = call.get("resultDisplay")
    answers = [each for each in found.results if each.get("id") in (None, call.get("id"))]
    texts = [block for block in found.blocks if block["type"] in ("text", "image")]
    made = result_turns(
        answers or [{"response": {"output": ""}}],
        name=name,
        time=call.get("timestamp"),
        is_error=call.get("status") in ("error", "cancelled"),
        details={"display": display} if display else None,
    )
    turn = next(made)
    turn.call_id = get_text(call, "id") or turn.call_id
    turn.name = get_text(call, "name") or turn.name
    turn.blocks = [block for block in [*turn.blocks, *texts] if block.get("text") != ""]
    turn.blocks = turn.blocks or [text_block("")]
    yield turn


def _usage(tokens: WireRecord) -> WireRecord | None:
    if not tokens:
        return None
    asked = get_count(tokens, "input") + get_count(tokens, "tool")
    return usage_of(
        {**tokens, "input": asked},
        input_key="input",
        output_key="output",
        read_key="cached",
        reasoning_key="thoughts",
        input_holds_cache=True,
        output_holds_reasoning=False,
    )
