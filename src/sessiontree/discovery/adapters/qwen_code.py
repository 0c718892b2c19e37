"""Qwen Code: ``~/.qwen/projects/<project>/chats/<session>.jsonl``, read where it lies.

Records form a tree by ``uuid`` and ``parentUuid``: going back makes a branch. ``message`` is what
the model was sent or answered, in Google's parts; ``systemPayload`` what only Qwen Code needs.
Subagents write beside it, ``subagents/<session>/agent-*.jsonl``; they are parts of their session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from sessiontree.discovery.adapters.base import GetSummaries, Places, StrPath, stat_files
from sessiontree.discovery.adapters.google_parts import (
    model_of,
    read_parts,
    read_usage,
    result_turns,
)
from sessiontree.discovery.adapters.places import SUFFIX, list_folders
from sessiontree.discovery.adapters.records import (
    WireRecord,
    get_count,
    get_list,
    get_object,
    get_text,
)
from sessiontree.discovery.adapters.turns import ROOT, Head, Turn, TurnAgent, text_block
from sessiontree.storage.base import SessionStorage

_SESSION_FILE = re.compile(r"[0-9a-fA-F-]{32,36}\.jsonl")
_TYPES = ("user", "assistant", "tool_result", "system")
_UNTYPED = frozenset(("cron", "notification", "goal_runtime"))
"""Messages in the user's role that the user did not type."""


class QwenCode(TurnAgent):
    """Sessions of Qwen Code, archived ones included."""

    name = "qwen-code"
    title = "Qwen Code"

    def find(self, home: StrPath | None, summaries: GetSummaries) -> Places:
        del summaries
        found = Places()
        for project in list_folders(os.path.join(_base(home), "projects")):
            mains: dict[str, str] = {}
            for chats in ("chats", os.path.join("chats", "archive")):
                folder = os.path.join(project, chats)
                try:
                    files = stat_files(folder, SUFFIX)
                except OSError as error:
                    found.unreadable.append((folder, error.strerror or str(error)))
                    continue
                files = [each for each in files if _is_session_file(each.path)]
                if files:
                    found.folders[folder] = files
                mains |= {os.path.basename(each.path)[: -len(SUFFIX)]: each.path for each in files}
            for folder in list_folders(os.path.join(project, "subagents")):
                agents = [each for each in stat_files(folder, SUFFIX) if _is_agent(each.path)]
                main = mains.get(os.path.basename(folder))
                if agents:
                    found.folders[folder] = agents
                if main is not None:
                    found.parts.update((each.path, main) for each in agents)
        return found

    def is_session(self, path: str, records: Sequence[dict[str, Any]]) -> bool:
        del path
        return any(_is_record(record) for record in records)

    def head(self, path: str) -> Head:
        name = os.path.basename(path).removesuffix(SUFFIX)
        if not _is_agent(path):
            return Head(id=name)
        owner = os.path.basename(os.path.dirname(path))
        return Head(id=f"{name.removeprefix('agent-')}@{owner}", owner=owner)

    def take_head(self, record: WireRecord, head: Head) -> None:
        head.cwd = head.cwd or get_text(record, "cwd")
        if head.started is None:
            head.started = record.get("timestamp")
        copied = get_text(get_object(record, "forkedFrom"), "sessionId")
        head.parent = head.parent or copied
        payload = get_object(record, "systemPayload")
        match record.get("subtype"):
            case "custom_title":
                is_auto = payload.get("titleSource") == "auto"
                if not (is_auto and head.title_source == "user"):
                    head.title = get_text(payload, "customTitle")
                    head.title_source = "auto" if is_auto else "user"
            case "parent_session":
                head.parent = head.parent or get_text(payload, "parentSessionId")

    def turns(self, record: WireRecord) -> Iterator[Turn]:
        name, time = get_text(record, "uuid") or "", record.get("timestamp")
        parent = record.get("parentUuid", 0)
        after = ROOT if parent is None else parent if isinstance(parent, str) else None
        made = [*self._turns(record, name, time)] or [Turn(role="mark", id=name, time=time)]
        made[0].after = after
        yield from made

    def _turns(self, record: WireRecord, name: str, time: object) -> Iterator[Turn]:
        kind, subtype = record.get("type"), get_text(record, "subtype")
        parts = read_parts(get_object(record, "message").get("parts"))
        if kind == "system" or kind not in _TYPES:
            yield from _system(record, name, time)
            return
        if kind == "assistant":
            has_calls = bool(parts.call_ids)
            yield Turn(
                role="assistant",
                id=name,
                time=time,
                blocks=parts.blocks,
                model=model_of(record.get("model"), "qwen"),
                usage=read_usage(get_object(record, "usageMetadata")),
                stop="toolUse" if has_calls else "stop",
            )
        elif kind == "user":
            yield from _prompt(record, parts.blocks, subtype, name, time)
        told = get_object(record, "toolCallResult")
        status = get_text(told, "status")
        yield from result_turns(
            parts.results,
            name=name,
            time=time,
            is_error=status in ("error", "cancelled") if status is not None else None,
            details={"display": told["resultDisplay"]} if told.get("resultDisplay") else None,
        )
        if parts.unknown:
            yield Turn(role="note", id=name, time=time, name="parts", data=parts.unknown)

    def find_parts(self, path: str, head: Head, storage: SessionStorage) -> Sequence[str]:
        del head, storage
        if _is_agent(path):
            return ()
        name = os.path.basename(path).removesuffix(SUFFIX)
        folder = os.path.dirname(path)
        if os.path.basename(folder) == "archive":
            folder = os.path.dirname(folder)
        below = os.path.join(os.path.dirname(folder), "subagents", name)
        try:
            found = stat_files(below, SUFFIX)
        except OSError:
            return ()
        return sorted(each.path for each in found if _is_agent(each.path))

    def resume_command(self, path: str, session_id: str) -> list[str] | None:
        return None if _is_agent(path) else ["qwen", "--resume", session_id]


def _base(home: StrPath | None) -> str:
    if home is not None:
        return os.path.join(os.fspath(home), ".qwen")
    given = os.environ.get("QWEN_RUNTIME_DIR") or os.environ.get("QWEN_HOME")
    return os.path.expanduser(given) if given else os.path.expanduser("~/.qwen")


def _is_session_file(path: str) -> bool:
    return _SESSION_FILE.fullmatch(os.path.basename(path)) is not None


def _is_agent(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith("agent-") and name.endswith(SUFFIX)


def _is_record(record: WireRecord) -> bool:
    """Claude Code has the same ids, but another ``message``."""
    if not isinstance(record.get("uuid"), str) or record.get("type") not in _TYPES:
        return False
    has_parts = isinstance(get_object(record, "message").get("parts"), list)
    return has_parts or (record.get("type") == "system" and "systemPayload" in record)


def _prompt(
    record: WireRecord, blocks: list[WireRecord], subtype: str | None, name: str, time: object
) -> Iterator[Turn]:
    """What the user typed, after what hooks added to it; or what only has the user's role."""
    if subtype in _UNTYPED:
        yield Turn(role="context", id=name, time=time, name=str(subtype), blocks=blocks)
        return
    payload = get_object(record, "systemPayload")
    typed, added = get_text(payload, "displayText"), get_text(payload, "hookContext")
    if added is not None:
        yield Turn(
            role="context", id=name, time=time, name="hook_context", blocks=[text_block(added)]
        )
    if typed is not None:
        images = [block for block in blocks if block["type"] == "image"]
        blocks = [text_block(typed), *images]
    if blocks:
        yield Turn(role="user", id=name, time=time, blocks=blocks)


def _system(record: WireRecord, name: str, time: object) -> Iterator[Turn]:
    subtype = get_text(record, "subtype") or get_text(record, "type") or "record"
    payload = get_object(record, "systemPayload")
    match subtype:
        case "custom_title" | "parent_session" | "rewind":
            return
        case "chat_compression":
            yield from _compression(payload, name, time)
        case "slash_command" if payload.get("phase") == "invocation":
            typed = [text_block(get_text(payload, "rawCommand") or "")]
            yield Turn(
                role="context", id=name, time=time, name="command", blocks=typed, is_shown=True
            )
        case _:
            yield Turn(role="note", id=name, time=time, name=subtype, data=record)


def _compression(payload: WireRecord, name: str, time: object) -> Iterator[Turn]:
    """A summary in place of the history, and the prompts that it keeps."""
    history = [
        (content.get("role"), read_parts(content.get("parts")).blocks)
        for content in get_list(payload, "compressedHistory")
        if isinstance(content, dict)
    ]
    if not history:
        yield Turn(role="note", id=name, time=time, name="chat_compression", data=payload)
        return
    tokens = get_count(get_object(payload, "info"), "originalTokenCount")
    yield Turn(role="compaction", id=name, time=time, blocks=history[0][1], data=tokens)
    kept = [
        block
        for role, blocks in history[1:]
        for block in blocks
        if role == "user" and block["type"] == "text"
    ]
    if kept:
        yield Turn(role="context", id=name, time=time, name="retained", blocks=kept)
